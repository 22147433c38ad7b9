//! The page's files, embedded when the program was built; without them, a small page that says how
//! to build it.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use unhitch_model::visible_lines;

/// Name and content of every file of `ui/dist`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

const INDEX: &str = "index.html";

const UNBUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Unhitch</title>\
<h1>The page was not built</h1>\
<p>This <code>unhitch</code> was built without its page. To build it, you need Node.js:</p>\
<pre>cd ui\nnpm ci\nnpm run build\ncd ..\ncargo build --release --package unhitch</pre>\
<p>Until then <code>unhitch why</code>, <code>unhitch table</code> and <code>unhitch report</code> show the same in the terminal, \
and the page's routes answer: <code>docs/page-protocol.md</code> lists them.</p></html>";

const STRANGER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Unhitch</title>\
<h1>No access</h1><p>Open the address that <code>unhitch view</code> printed on its first line. Its token changes with every start.</p></html>";

/// Whether the page was built in.
pub(crate) fn is_built() -> bool {
    FILES.iter().any(|(name, _)| *name == INDEX)
}

/// A file of the page. Every other path gets the page itself, which interprets the path.
pub(crate) async fn file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let found = FILES.iter().find(|(name, _)| *name == path);
    // A missing asset is an error, not a view of the page.
    let looks_like_file = path.starts_with("assets/");
    match found.or_else(|| FILES.iter().find(|(name, _)| *name == INDEX && !looks_like_file)) {
        Some(&(name, content)) => {
            let cache = if name.starts_with("assets/") {
                "public, max-age=31536000, immutable"
            } else {
                "no-cache"
            };
            let headers = [(header::CONTENT_TYPE, kind(name)), (header::CACHE_CONTROL, cache)];
            (headers, content).into_response()
        }
        None if looks_like_file || path == "favicon.ico" => StatusCode::NOT_FOUND.into_response(),
        None => Html(UNBUILT).into_response(),
    }
}

/// The answer to a request without the token.
pub(crate) fn stranger() -> Response {
    (StatusCode::UNAUTHORIZED, Html(STRANGER)).into_response()
}

/// Forwards to `to`, a path of ours. *Why not a redirect:* after a click on another site's link (a
/// chat, a web mailer), browsers treat the redirect as that site's request and do not send the
/// cookie that was just set.
pub(crate) fn onward(to: &str) -> Response {
    let to = escape(to);
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={to}\">\
         <title>Unhitch</title><p><a href=\"{to}\">Continue to the page</a></p></html>"
    );
    let mut response = Html(html).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Escapes text for HTML, including attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in visible_lines(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json" | "webmanifest") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
