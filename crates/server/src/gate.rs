//! Access control: only the browser of the person at this machine may send requests, from this
//! server's own page.
//!
//! Any program and any web page on this machine can reach a port on loopback. So every request must
//! carry the token (a cookie, or a bearer token), must address this server by a loopback name
//! (otherwise a foreign name made to resolve here could read everything: DNS rebinding), and must
//! not come from another page. *Why the token does not stay in the address:* addresses end up in
//! histories and screenshots. It becomes a cookie that scripts cannot read and other sites' links
//! do not send.

use crate::{Error, page};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use unhitch_model::units::hex;

/// The page may load its own files and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What a request must prove to be admitted.
pub(crate) struct Gate {
    port: u16,
    token: String,
}

impl Gate {
    /// A gate with a new token.
    pub fn new(port: u16) -> Result<Self, Error> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|error| Error::Io {
            what: "random numbers",
            source: std::io::Error::other(error.to_string()),
        })?;
        Ok(Self { port, token: hex(&random) })
    }

    /// The address to open.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    fn is_own_authority(&self, authority: &str) -> bool {
        authority.rsplit_once(':').is_some_and(|(host, port)| {
            (host == "127.0.0.1" || host.eq_ignore_ascii_case("localhost"))
                && port.parse() == Ok(self.port)
        })
    }

    fn check_sender(&self, request: &Request) -> Result<(), Error> {
        let headers = request.headers();
        let mut hosts = headers.get_all(header::HOST).iter();
        let (host, second) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next());
        let in_uri = request
            .uri()
            .authority()
            .is_none_or(|authority| self.is_own_authority(authority.as_str()));
        if !host.is_some_and(|host| self.is_own_authority(host)) || second.is_some() || !in_uri {
            return Err(Error::Foreign("Host"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            if !own.is_some_and(|authority| self.is_own_authority(authority)) {
                return Err(Error::Foreign("Origin"));
            }
        }
        // Newer browsers send these headers even without an Origin. They show that another page
        // embeds ours, or fetches from it.
        let header_text = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
        };
        let foreign = matches!(header_text("sec-fetch-site"), "cross-site" | "same-site");
        let navigates = header_text("sec-fetch-mode") == "navigate"
            && header_text("sec-fetch-dest") == "document";
        if foreign
            && !(navigates
                && request.method() == Method::GET
                && !request.uri().path().starts_with("/api/"))
        {
            return Err(Error::Foreign("Origin"));
        }
        Ok(())
    }

    /// Whether the headers carry the token, and whether as a bearer token, as programs send it.
    fn token_in(&self, headers: &HeaderMap) -> (bool, bool) {
        let text = |name| {
            headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok())
        };
        let bearer = text(header::AUTHORIZATION)
            .any(|value| value.strip_prefix("Bearer ").is_some_and(|token| self.is_token(token)));
        let name = self.cookie_name();
        let mut cookies = text(header::COOKIE)
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='));
        (bearer || cookies.any(|(key, value)| key == name && self.is_token(value)), bearer)
    }

    /// Compares in constant time: it must not depend on how much of the token is right.
    fn is_token(&self, token: &str) -> bool {
        let differences =
            self.token.bytes().zip(token.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
        token.len() == self.token.len() && differences == 0
    }

    /// All ports of a host share cookies, so the port is in the name.
    fn cookie_name(&self) -> String {
        format!("unhitch-{}", self.port)
    }
}

/// Passes a request on to the routes, or refuses it. Adds the headers that restrict what a browser
/// does with the answer.
pub(crate) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match admit(&gate, &request) {
        Ok(Admitted::In) => next.run(request).await,
        Ok(Admitted::WithToken(response)) => response,
        Err(Error::Token) if !is_api => closing(page::stranger()),
        Err(error) => closing(error.into_response()),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// A refused request closes its connection.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

enum Admitted {
    In,
    WithToken(Response),
}

fn admit(gate: &Gate, request: &Request) -> Result<Admitted, Error> {
    gate.check_sender(request)?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_api = request.uri().path().starts_with("/api/");
    if is_read && !is_api {
        let mut parts = request.uri().query().unwrap_or_default().split('&');
        if let Some(token) = parts.clone().find_map(|part| part.strip_prefix("token=")) {
            if !gate.is_token(token) {
                return Err(Error::Token);
            }
            let rest: Vec<&str> = parts
                .by_ref()
                .filter(|part| !part.is_empty() && !part.starts_with("token="))
                .collect();
            let path = request.uri().path().trim_start_matches('/');
            let to = format!("/{path}{}{}", if rest.is_empty() { "" } else { "?" }, rest.join("&"));
            let mut response = page::onward(&to);
            let cookie =
                format!("{}={}; Path=/; HttpOnly; SameSite=Strict", gate.cookie_name(), gate.token);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            return Ok(Admitted::WithToken(response));
        }
    }
    let (known, is_program) = gate.token_in(request.headers());
    match () {
        () if !known => Err(Error::Token),
        () if !is_read && !is_program && !request.headers().contains_key(header::ORIGIN) => {
            Err(Error::NoOrigin)
        }
        () => Ok(Admitted::In),
    }
}
