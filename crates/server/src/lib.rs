//! The server of Unhitch's page: HTTP on loopback, for one person, about the traces of one folder.
//!
//! The page gets one screen of data at a time. Traces stay here, each owned by a thread of its own
//! ([`opened`]) that reads it, builds its lanes, answers, and searches for its stalls last, so that
//! there is something to see at once. [`background`] judges the rest of the folder. [`gate`] decides which requests are admitted,
//! [`trace_folder`] which files there are. `docs/page-protocol.md` specifies the routes.

mod app;
mod background;
mod connections;
mod error;
mod fleet;
mod gate;
mod loaded;
mod opened;
mod page;
mod params;
#[cfg(target_os = "linux")]
mod peer;
mod questions;
mod report;
mod routes;
mod tools;
mod trace_folder;
mod unreadable;
mod verdict;

pub use error::Error;
pub use report::report;
pub use tools::{Listing, ListingQuestion, Open, Tools};
pub use unreadable::Unreadable;

use app::App;
use fleet::Fleet;
use gate::Gate;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use trace_folder::TraceFolder;

/// Default maximum size of an upload: 4 GiB.
pub const UPLOAD_LIMIT_BYTES: u64 = 4 << 30;

/// What to serve.
pub struct Config {
    /// A trace or a folder.
    pub path: PathBuf,
    /// The report over a fleet to show above the folder's traces.
    pub fleet: Option<PathBuf>,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// Maximum size of an upload, bytes.
    pub upload_limit_bytes: u64,
    /// What the server cannot do itself.
    pub tools: Tools,
}

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
}

impl Server {
    /// Takes a port on 127.0.0.1 and on no other address.
    ///
    /// # Errors
    /// When there is no such trace or folder, no such report, or the port is taken.
    pub fn bind(config: Config) -> Result<Self, Error> {
        let folder = TraceFolder::new(&config.path)?;
        let fleet = config.fleet.as_deref().map(Fleet::new).transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port))
            .map_err(Error::io("listening on 127.0.0.1"))?;
        let port = listener.local_addr().map_err(Error::io("listening on 127.0.0.1"))?.port();
        let app =
            App::new(folder, fleet, Gate::new(port)?, config.tools, config.upload_limit_bytes);
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
        if let Some(name) = self.app.folder.single() {
            // It is read while the browser starts. If that fails, the page asks again, and says why.
            let _ = self.app.opened(name);
        }
        // One thread is enough for the network: the traces' own threads do what takes time.
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
