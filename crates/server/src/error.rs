//! What can go wrong between the page and the server, and how it is told: a status, a sentence, a
//! hint.
//!
//! *Why paths are not in it:* what a request is told must not say where on the machine the traces
//! lie.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::io;
use unhitch_analysis::Cancelled;

/// Why a request, or the server, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter cannot be used.
    #[error("{parameter}: found `{found}`, expected {expected}")]
    Parameter {
        /// Its name.
        parameter: &'static str,
        /// What was sent, cut when long.
        found: String,
        /// What could have been.
        expected: String,
    },
    /// A table's query, a filter or a search expression cannot be used.
    #[error("{0}")]
    Query(String),
    /// No token, or a wrong one.
    #[error("this server answers only to who has its address")]
    Token,
    /// `Host` or `Origin` is not this server's.
    #[error("{0} is not this server's")]
    Foreign(&'static str),
    /// A request that changes something does not say where it comes from.
    #[error("no Origin")]
    NoOrigin,
    /// There is no such thing.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// A trace of that name is there already.
    #[error("there is a trace of that name already")]
    Taken,
    /// The server shows one file, not a folder.
    #[error("one file is shown here, not a folder")]
    Single,
    /// Only a container has a place for it.
    #[error("{0}")]
    Refused(&'static str),
    /// An upload is too large.
    #[error("the file is larger than {limit}")]
    TooLarge {
        /// The most that is taken.
        limit: String,
    },
    /// A file is no trace, or too damaged.
    #[error("{0}")]
    Unreadable(String),
    /// It takes longer than a request may.
    #[error("the trace is still being read")]
    NotReady,
    /// The page has gone away or asked for something else.
    #[error("nobody waits for this any more")]
    Cancelled,
    /// A defect of ours; the trace stays open.
    #[error("this question could not be answered")]
    Broken,
    /// A file or socket.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// Wraps an input or output error.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Parameter { .. } | Self::Query(_) => StatusCode::BAD_REQUEST,
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Foreign(_) | Self::NoOrigin => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Taken | Self::Single | Self::Refused(_) => StatusCode::CONFLICT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unreadable(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotReady | Self::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken | Self::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Token => "Open the address that `unhitch view` printed, with its token.",
            Self::Foreign(_) => {
                "Open the address that `unhitch view` printed, in this machine's browser."
            }
            Self::NoOrigin => "Send the Origin header, or the token as `Authorization: Bearer`.",
            Self::Taken => "Choose another name; nothing is ever overwritten.",
            Self::Single => "Start `unhitch view` with a folder.",
            Self::TooLarge { .. } => {
                "Put the file into the folder yourself; files that are there are opened at any size."
            }
            Self::Unreadable(_) => {
                "A trace is a NAME.hitch of `unhitch`, a perf.data file, or an .etl file of Windows, zipped or not."
            }
            Self::NotReady => "Ask again in a moment; `status` says how far it is.",
            Self::Broken => "Please report it; `unhitch view` printed what happened.",
            _ => "",
        }
    }
}

impl From<Cancelled> for Error {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let cause =
            std::error::Error::source(&self).map_or_else(String::new, |cause| format!(": {cause}"));
        let body = Json(json!({ "error": format!("{self}{cause}"), "hint": self.hint() }));
        let mut response = (self.status(), body).into_response();
        if matches!(self, Self::NotReady) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
