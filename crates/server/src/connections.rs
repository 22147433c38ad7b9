//! Connections, bounded in number and in patience.
//!
//! Every program of this machine reaches a port on loopback. Without the token it is answered 401 and no more, but it has a connection
//! first: *why not `axum::serve`*, which keeps any number of them for as long as their requests have no end.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// So many connections are answered at one time; others wait in the kernel. A browser keeps six.
pub(crate) const MOST_CONNECTIONS: usize = 128;
/// A request's head comes within this time after the last answer, or the connection is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The head of a request is no longer.
const LONGEST_HEAD: usize = 64 << 10;

/// Answers for as long as the program runs.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD);
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((socket, _)) = listener.accept().await else {
            // Too many open files, or whoever came has left.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let connection = http.serve_connection(TokioIo::new(socket), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            // What goes wrong concerns the one at the other end.
            let _ = connection.await;
            drop(place);
        });
    }
}
