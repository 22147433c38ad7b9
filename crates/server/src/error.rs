//! What can go wrong between the page and the server. A request gets a status, a sentence and a
//! hint.
//!
//! *Why no paths:* a request must not learn where on the machine the traces are.

use crate::Unreadable;
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
        /// What was sent, shortened.
        found: String,
        /// What is accepted.
        expected: String,
    },
    /// A table's query, a filter or a search expression cannot be used.
    #[error("{0}")]
    Query(String),
    /// A filter expression is wrong at some place.
    #[error("where: found {found}, expected {expected}")]
    Filter {
        /// What was found there.
        found: String,
        /// What was expected.
        expected: String,
        /// Where, in UTF-16 units of the expression, as browsers count.
        at: usize,
    },
    /// No token, or a wrong one.
    #[error("this server answers only requests with its token")]
    Token,
    /// `Host` or `Origin` is not this server's.
    #[error("the request's {0} is not this server's")]
    Foreign(&'static str),
    /// A request that changes something has no `Origin`.
    #[error("the Origin header is missing")]
    NoOrigin,
    /// It does not exist.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// A trace of that name exists.
    #[error("a trace of that name already exists")]
    Taken,
    /// The server shows one file, not a folder.
    #[error("this server shows one file, not a folder")]
    Single,
    /// Only a `.hitch` file can store it.
    #[error("{0}")]
    Refused(&'static str),
    /// An upload is too large.
    #[error("the file is larger than {limit}")]
    TooLarge {
        /// The maximum size.
        limit: String,
    },
    /// A file is not a trace.
    #[error("{0}")]
    NoTrace(String),
    /// A file is not a report of a fleet.
    #[error("this is no report of a fleet (`unhitch fleet report DIR --json`): {0}")]
    NoReport(String),
    /// A trace cannot be read.
    #[error("{}", .0.why())]
    Unreadable(Unreadable),
    /// The trace is not ready yet, and the request cannot wait any longer.
    #[error("the trace is still being read")]
    NotReady,
    /// The page is gone, or has asked for something else.
    #[error("the request was cancelled")]
    Cancelled,
    /// A bug in the server; the trace stays open.
    #[error("the server failed to answer this request")]
    Broken,
    /// A file or socket.
    #[error("{what}")]
    Io {
        /// What failed.
        what: &'static str,
        /// Why.
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
            Self::Parameter { .. } | Self::Query(_) | Self::Filter { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Foreign(_) | Self::NoOrigin => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Taken | Self::Single | Self::Refused(_) => StatusCode::CONFLICT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoTrace(_) | Self::NoReport(_) | Self::Unreadable(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::NotReady | Self::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken | Self::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Token => "Open the address that `unhitch view` printed, including the token.",
            Self::Foreign(_) => {
                "Open the address that `unhitch view` printed, in this machine's browser."
            }
            Self::NoOrigin => "Send the Origin header, or the token as `Authorization: Bearer`.",
            Self::NotFound("trace") => {
                "It may have been renamed, moved or deleted. The list shows what is there."
            }
            Self::Taken => "Choose another name. The server never overwrites a file.",
            Self::Single => "Start `unhitch view` with a folder.",
            Self::TooLarge { .. } => {
                "Copy the file into the folder yourself. Files in the folder may have any size."
            }
            Self::NoTrace(_) => {
                "A trace is a NAME.hitch of `unhitch`, a perf.data file, a Windows .etl file, zipped or not, or \
                 one of Perfetto, trace-cmd or LTTng."
            }
            Self::Unreadable(why) => why.hint(),
            Self::NotReady => "Try again in a moment. `status` shows the progress.",
            Self::Broken => "Please report this bug, with what `unhitch view` printed.",
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
        let mut body = json!({ "error": format!("{self}{cause}"), "hint": self.hint() });
        if let Self::Filter { at, .. } = &self {
            body["at"] = json!(at);
        }
        let body = Json(body);
        let mut response = (self.status(), body).into_response();
        if matches!(self, Self::NotReady) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
