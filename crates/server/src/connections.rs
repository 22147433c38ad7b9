//! Connections, bounded in number and in patience.
//!
//! Every program of this machine reaches a port on loopback. Without the token it is answered 401
//! and no more, but it has a connection first: *why not `axum::serve`*, which keeps any number of
//! them for as long as their requests have no end. Other users have few places of their own, and
//! whoever is slow makes room: neither keeps out the person whose page it is.

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

/// So many connections of our user and root are answered at one time. A browser keeps six.
const MOST_OF_OURS: usize = 112;
/// So many of others, and of who knows whom.
const MOST_OF_STRANGERS: usize = 16;
/// A request's head comes within this time after the last answer, or the connection is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The head of a request is no longer.
const LONGEST_HEAD: usize = 64 << 10;

/// Answers for as long as the program runs.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD);
    let (mut ours, mut strangers) = (Places::new(MOST_OF_OURS), Places::new(MOST_OF_STRANGERS));
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Too many open files, or whoever came has left.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let places = if is_stranger(&socket) { &mut strangers } else { &mut ours };
        if places.make_room() {
            places.taken.push(Connection::answer(&http, socket, router.clone()));
        }
        // Who has sent a request is heard before the next one comes, for whom he might have to go.
        yield_now().await;
    }
}

/// Elsewhere nobody is told from others.
#[cfg(not(target_os = "linux"))]
fn is_stranger(_: &TcpStream) -> bool {
    false
}

/// Connections that share a bound.
struct Places {
    /// The oldest first.
    taken: Vec<Connection>,
    most: usize,
}

impl Places {
    fn new(most: usize) -> Self {
        Self { taken: Vec::new(), most }
    }

    /// Whether there is a place for one more: for it goes the oldest connection that has not made a
    /// request yet.
    fn make_room(&mut self) -> bool {
        self.taken.retain(|connection| !connection.task.is_finished());
        if self.taken.len() < self.most {
            return true;
        }
        let slow =
            self.taken.iter().position(|connection| !connection.has_asked.load(Ordering::Relaxed));
        slow.map(|place| self.taken.remove(place).task.abort()).is_some()
    }
}

/// Somebody who is being answered.
struct Connection {
    /// Whether a whole head of a request has come.
    has_asked: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Connection {
    fn answer(http: &http1::Builder, socket: TcpStream, router: Router) -> Self {
        let has_asked = Arc::new(AtomicBool::new(false));
        let (asks, router) = (Arc::clone(&has_asked), TowerToHyperService::new(router));
        let service = service_fn(move |request| {
            asks.store(true, Ordering::Relaxed);
            router.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(socket), service);
        // What goes wrong concerns the one at the other end.
        let task = tokio::spawn(async { drop(connection.await) }).abort_handle();
        Self { has_asked, task }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_asked_for_nothing_makes_room_the_oldest_first() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(take_places());
    }

    async fn take_places() {
        let mut places = Places::new(3);
        for has_asked in [true, false, false] {
            assert!(places.make_room());
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            places.taken.push(Connection { has_asked: Arc::new(AtomicBool::new(has_asked)), task });
        }
        let tasks: Vec<AbortHandle> =
            places.taken.iter().map(|connection| connection.task.clone()).collect();
        let finished = async || {
            yield_now().await;
            tasks.iter().map(AbortHandle::is_finished).collect::<Vec<bool>>()
        };
        assert!(places.make_room());
        assert_eq!(finished().await, [false, true, false]);
        // There is room now; who asks keeps his place when it is taken.
        places.taken[1].has_asked.store(true, Ordering::Relaxed);
        places.most = 2;
        assert!(!places.make_room());
        assert_eq!(finished().await, [false, true, false]);
        // Who has gone has left his place.
        tasks[0].abort();
        yield_now().await;
        assert!(places.make_room());
    }
}
