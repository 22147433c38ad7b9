//! Storms: waits too short and too many to keep one by one are summed, and nothing of them is lost.

use crate::scene::Scene;
use unhitch_analysis::explain::{explain, partition};
use unhitch_analysis::{Analysis, Cause, Explanation, Rules, Share, What};
use unhitch_model::{StackId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};

/// Round trips of the storm: two threads on one CPU that hand each other a byte.
const TRIPS: u64 = 200_000;
/// How long each thread has the CPU, microseconds.
const ASK_US: u64 = 2;
const REPLY_US: u64 = 3;

struct Storm {
    trace: Trace,
    client: ThreadId,
    server: ThreadId,
}

/// A client that asks a server again and again, each time in `wait`.
fn storm(wait: &[&str]) -> Storm {
    let mut scene = Scene::default();
    let client = scene.thread(100, 100, "client");
    let server = scene.thread(200, 200, "server");
    let (in_reply, in_read) = (scene.stack(wait), scene.stack(&["main", "|", "pipe_read"]));
    let wake = scene.stack(&["main", "|", "pipe_write"]);
    let asleep = TaskState::Sleeping;
    scene.switch(0, 0, ThreadId::IDLE, TaskState::Runnable, client, StackId::EMPTY);
    for trip in 0..TRIPS {
        let asks = trip * (ASK_US + REPLY_US) + ASK_US;
        scene.wake(asks - 1, 0, client, server, WakeFlags::default(), wake);
        scene.switch(asks, 0, client, asleep, server, in_reply);
        scene.wake(asks + REPLY_US - 1, 0, server, client, WakeFlags::default(), wake);
        scene.switch(asks + REPLY_US, 0, server, asleep, client, in_read);
    }
    let end = TRIPS * (ASK_US + REPLY_US);
    Storm { trace: scene.finish(1, end + 10), client, server }
}

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

fn explained(analysis: &Analysis<'_>, client: ThreadId, window: Window) -> Explanation {
    let explanation = explain(analysis, client, window);
    let mut end = explanation.window.start;
    for piece in &explanation.pieces {
        assert_eq!(piece.window.start, end, "gap before {piece:?}");
        end = piece.window.end;
        let inside =
            |hop: &unhitch_analysis::Hop| hop.window.intersect(piece.window) == piece.window;
        let hop = piece.hop.map(|hop| &explanation.hops[hop as usize]);
        assert!(hop.is_none_or(inside), "{piece:?} is not behind {hop:?}");
    }
    assert_eq!(end, explanation.window.end);
    explanation
}

fn ns_of(shares: &[Share], what: What, who: ThreadId) -> u64 {
    let of = |share: &&Share| (share.what, share.who) == (what, Some(who));
    shares.iter().filter(of).map(|share| share.ns).sum()
}

#[test]
fn a_storm_is_summed_exactly() {
    let Storm { trace, client, server } = storm(&["main", "|", "pipe_read"]);
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let trips = TRIPS / 2;
    let window = Window::new(us(0), us(trips * (ASK_US + REPLY_US)));
    let explanation = explained(&analysis, client, window);
    let most = explanation.pieces.len().max(explanation.hops.len());
    assert!(most < 50_000, "{most} pieces or hops");
    let pieces: u64 = explanation.pieces.iter().map(|piece| u64::from(piece.count())).sum();
    let waits: u64 = explanation.hops.iter().map(|hop| u64::from(hop.waits)).sum();
    assert_eq!(waits, trips, "each wait for the server is followed");
    assert!(pieces >= 3 * trips, "{pieces} pieces of {trips} round trips");
    // The client is ready to run from a microsecond before the server leaves the CPU to it.
    let shares = partition(&analysis, &explanation);
    assert_eq!(ns_of(&shares, What::Ran, client), trips * ASK_US * 1000);
    assert_eq!(ns_of(&shares, What::Ipc, server), trips * (REPLY_US - 1) * 1000);
    assert_eq!(ns_of(&shares, What::WaitedForCpu, server), trips * 1000, "{shares:?}");
}

#[test]
fn a_short_time_keeps_each_wait() {
    let Storm { trace, client, .. } = storm(&["main", "|", "pipe_read"]);
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let explanation = explained(&analysis, client, Window::new(us(1000), us(51_000)));
    assert!(explanation.pieces.iter().all(|piece| piece.burst.is_none()));
    assert_eq!(explanation.hops.len() as u64, 50_000 / (ASK_US + REPLY_US));
}

#[test]
fn waits_for_a_lock_stay_in_order() {
    let Storm { trace, client, .. } = storm(&["main", "pthread_mutex_lock", "|", "futex_wait"]);
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let explanation = explained(&analysis, client, analysis.timeline.window());
    assert!(explanation.pieces.iter().all(|piece| piece.burst.is_none()));
    assert!(explanation.pieces.iter().any(|piece| piece.cause == Cause::Ran));
}
