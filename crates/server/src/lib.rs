//! The page of Unhitch, and what it asks for: HTTP on loopback, for one person, about the traces of
//! one folder.
//!
//! The page gets one screen of data at a time; traces stay here, each owned by a thread of its own
//! ([`opened`]) that reads it, builds its lanes, answers, and looks for its stalls last, so that
//! there is something to see at once. Who may ask is the business of [`gate`]; which files there
//! are, of [`shelf`]. The routes are specified in `docs/page-protocol.md`.

mod connections;
mod error;
mod gate;
mod loaded;
mod opened;
mod page;
mod params;
#[cfg(target_os = "linux")]
mod peer;
mod report;
mod routes;
mod shelf;

pub use error::Error;
pub use report::report;

use gate::Gate;
use routes::App;
use serde_json::Value;
use shelf::Shelf;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unhitch_analysis::Rules;
use unhitch_model::Trace;

/// Larger uploads are refused, unless told otherwise: 4 GiB.
pub const UPLOAD_LIMIT_BYTES: u64 = 4 << 30;

/// Reads a trace and names its frames; or says why not.
pub type Open = dyn Fn(&Path) -> Result<Trace, String> + Send + Sync;
/// Says on which instructions of a function the samples are, as `unhitch hot --json` does; or why
/// it cannot.
pub type Listing = dyn Fn(&Trace, &ListingQuestion<'_>) -> Result<Value, String> + Send + Sync;

/// What the server needs done that takes more than analysis: reading files, names and machine code.
pub struct Tools {
    /// Reads a trace.
    pub open: Box<Open>,
    /// Lists a function's instructions.
    pub listing: Box<Listing>,
    /// What stacks mean.
    pub rules: Rules,
}

/// Which instructions are listed, with which samples.
#[derive(Clone, Copy, Debug)]
pub struct ListingQuestion<'a> {
    /// The function, as `unhitch hot --function` has it.
    pub function: &'a str,
    /// The samples that are looked at, as indices of the trace's.
    pub samples: &'a [usize],
}

/// What to serve.
pub struct Config {
    /// A trace or a folder.
    pub path: PathBuf,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// The largest upload, bytes.
    pub upload_limit_bytes: u64,
    /// What the server cannot do itself.
    pub tools: Tools,
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
}

impl Server {
    /// Takes a port on 127.0.0.1, and on nothing else.
    ///
    /// # Errors
    /// When there is no such trace or folder, or the port is taken.
    pub fn bind(config: Config) -> Result<Self, Error> {
        let shelf = Shelf::new(&config.path)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port))
            .map_err(Error::io("listening on 127.0.0.1"))?;
        let port = listener.local_addr().map_err(Error::io("listening on 127.0.0.1"))?.port();
        let app = App::new(shelf, Gate::new(port)?, config.tools, config.upload_limit_bytes);
        Ok(Self { listener, app: Arc::new(app) })
    }

    /// The address to open, with the token.
    pub fn address(&self) -> String {
        self.app.gate.address()
    }

    /// Whether the page itself is built in; without it only the routes answer.
    pub fn has_page() -> bool {
        page::is_built()
    }

    /// Answers for as long as the program runs.
    ///
    /// # Errors
    /// When the socket breaks.
    pub fn run(self) -> Result<(), Error> {
        self.listener.set_nonblocking(true).map_err(Error::io("the socket"))?;
        // One thread for the network: what takes time is done by the traces' own threads.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("the runtime"))?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)
                .map_err(Error::io("the socket"))?;
            connections::serve(listener, routes::router(self.app)).await;
            Ok(())
        })
    }
}
