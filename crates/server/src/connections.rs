//! Connections, limited in number and in time.
//!
//! Every program on this machine can connect to a port on loopback. Without the token it only gets
//! a 401, but it holds a connection until then. *Why not `axum::serve`:* it keeps any number of
//! connections, each until its request ends. Here other users have a few slots of their own, and
//! slow connections make room, so that neither locks out the person whose page it is.

#[cfg(target_os = "linux")]
use crate::peer::is_stranger;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep;

/// Maximum connections of our user and root. A browser keeps six.
const MAX_OURS: usize = 112;
/// Maximum connections of other and of unknown users.
const MAX_STRANGERS: usize = 16;
/// Maximum time from the last answer to the end of the next request's head; then the connection is
/// closed.
const MAX_HEAD_WAIT: Duration = Duration::from_secs(10);
/// Maximum length of a request's head, bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Answers for as long as the program runs.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(MAX_HEAD_WAIT).max_buf_size(MAX_HEAD_BYTES);
    let (mut ours, mut strangers) = (Slots::new(MAX_OURS), Slots::new(MAX_STRANGERS));
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Too many open files, or the client is gone already.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let slots = if is_stranger(&socket) { &mut strangers } else { &mut ours };
        if slots.make_room() {
            slots.taken.push(Connection::answer(&http, socket, router.clone()));
        }
        // Let connections that have sent a request register it before the next one comes, for which
        // a connection without a request may have to go.
        yield_now().await;
    }
}

/// Elsewhere the user at the other end is not known, and all count as ours.
#[cfg(not(target_os = "linux"))]
fn is_stranger(_: &TcpStream) -> bool {
    false
}

/// Connections that share a maximum.
struct Slots {
    /// The oldest first.
    taken: Vec<Connection>,
    max: usize,
}

impl Slots {
    fn new(max: usize) -> Self {
        Self { taken: Vec::new(), max }
    }

    /// Whether there is room for one more connection. The oldest one that has not sent a request
    /// yet is closed for it.
    fn make_room(&mut self) -> bool {
        self.taken.retain(|connection| !connection.task.is_finished());
        if self.taken.len() < self.max {
            return true;
        }
        let slow = self
            .taken
            .iter()
            .position(|connection| !connection.has_request.load(Ordering::Relaxed));
        slow.map(|at| self.taken.remove(at).task.abort()).is_some()
    }
}

/// A connection that is being served.
struct Connection {
    /// Whether the whole head of a request has come.
    has_request: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Connection {
    fn answer(http: &http1::Builder, socket: TcpStream, router: Router) -> Self {
        let has_request = Arc::new(AtomicBool::new(false));
        let (seen, router) = (Arc::clone(&has_request), TowerToHyperService::new(router));
        let service = service_fn(move |request| {
            seen.store(true, Ordering::Relaxed);
            router.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(socket), service);
        // Errors of the connection concern only the client.
        let task = tokio::spawn(async { drop(connection.await) }).abort_handle();
        Self { has_request, task }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_without_a_request_makes_room() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(take_slots());
    }

    async fn take_slots() {
        let mut slots = Slots::new(3);
        for has_request in [true, false, false] {
            assert!(slots.make_room());
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            slots
                .taken
                .push(Connection { has_request: Arc::new(AtomicBool::new(has_request)), task });
        }
        let tasks: Vec<AbortHandle> =
            slots.taken.iter().map(|connection| connection.task.clone()).collect();
        let finished = async || {
            yield_now().await;
            tasks.iter().map(AbortHandle::is_finished).collect::<Vec<bool>>()
        };
        assert!(slots.make_room());
        assert_eq!(finished().await, [false, true, false]);
        // A connection with a request keeps its slot when there is no room.
        slots.taken[1].has_request.store(true, Ordering::Relaxed);
        slots.max = 2;
        assert!(!slots.make_room());
        assert_eq!(finished().await, [false, true, false]);
        // A finished connection frees its slot.
        tasks[0].abort();
        yield_now().await;
        assert!(slots.make_room());
    }
}
