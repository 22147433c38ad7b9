//! What is computed on first use, by whichever thread asks first while many work side by side.

use crate::scene::Scene;
use TaskState::{Runnable, Sleeping};
use rayon::prelude::*;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use unhitch_analysis::explain::explain;
use unhitch_analysis::table::{Name, Query, Table, Words};
use unhitch_analysis::{Analysis, Rules};
use unhitch_model::{StackId, TaskState, ThreadId, Trace, WakeFlags};

const MS: u64 = 1_000;
/// Long after it has ended, however busy the machine is.
const NEVER: Duration = Duration::from_secs(600);

/// Each of 300 threads waits a few times, in functions of its own, for a lock that the one before it
/// releases.
fn crowd(turns: u64) -> (Trace, Vec<ThreadId>) {
    let mut scene = Scene::default();
    let threads: Vec<ThreadId> =
        (0..300).map(|number| scene.thread(100 + number, 100 + number, "worker")).collect();
    let release = scene.stack(&["main", "unlock", "|", "futex_wake", "try_to_wake_up"]);
    for (number, pair) in (0..).zip(threads.windows(2)) {
        let [before, thread] = [pair[0], pair[1]];
        for turn in 0..turns {
            let function = format!("work_{number}_{turn}");
            let wait = scene.stack(&[
                "main",
                &function,
                "pthread_mutex_lock",
                "|",
                "futex_wait",
                "schedule",
            ]);
            let at = 10 * MS + 600 * MS * turn + number * 200;
            scene.switch(at, 0, thread, Sleeping, ThreadId::IDLE, wait);
            scene.wake(at + 500 * MS, 1, before, thread, WakeFlags::default(), release);
            scene.switch(at + 500 * MS, 0, ThreadId::IDLE, Runnable, thread, StackId::EMPTY);
            scene.switch(at + 500 * MS + 50, 0, thread, Runnable, ThreadId::IDLE, StackId::EMPTY);
        }
    }
    (scene.finish(2, (turns * 600 + 100) * MS), threads)
}

/// Runs `work` on four threads that take up each other's work, many times, with indices of which nothing
/// is computed yet.
fn on_four_threads(
    times: usize,
    turns: u64,
    work: impl Fn(&Analysis<'_>, &[ThreadId]) + Send + Sync + 'static,
) {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let (trace, threads) = crowd(turns);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().expect("threads");
        for _ in 0..times {
            let analysis = Analysis::new(&trace, &Rules::default());
            pool.install(|| work(&analysis, &threads));
        }
        let _ = done.send(());
    });
    is_done.recv_timeout(NEVER).expect("it ends");
}

/// A thread that computed such an index with the help of others took up more work while it waited for them,
/// asked for the same index there, and waited for itself.
#[test]
fn regression_the_releasers_of_locks_are_computed_while_many_threads_explain() {
    on_four_threads(500, 2, |analysis, threads| {
        let window = analysis.timeline.window();
        threads[..10].par_iter().with_max_len(1).for_each(|&thread| {
            explain(analysis, thread, window);
        });
    });
}

#[test]
fn regression_equal_stacks_are_found_while_many_threads_fill_a_table() {
    on_four_threads(20, 240, |analysis, _| {
        let filter = Some("wait stack ~ work_7");
        let query = Query::new(Name::Waits, Words { filter, ..Words::default() }).expect("a query");
        Table::new(analysis, &query, analysis.timeline.window(), usize::MAX);
    });
}
