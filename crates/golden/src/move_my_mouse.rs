//! "I can't move my mouse": one lock of the window system, saturated by processes that end.
//!
//! The processes of a build exit faster than one CPU can clean up their windows under one lock. The
//! lock passes from owner to waiter without a pause, hundreds of microseconds at a time. Threads
//! that draw or read input are in the same queue.

mod script;
mod window_system;

use crate::golden::Golden;
use crate::machine::{Action, IDLE, Machine, Thread};
use script::{
    CHAIN_LEN, CPUS, END_NS, HANG_FROM_NS, HANG_NS, HANG_UNTIL_NS, INSIDE, SAMPLES_INSIDE,
    START_NS, WAITED_NS,
};
use std::collections::{BTreeMap, BTreeSet};
use window_system::Storm;

/// The figures that an answer about [`move_my_mouse()`] must have.
#[derive(Clone, PartialEq, Debug)]
pub struct MouseFigures {
    /// CPUs of the machine.
    pub cpus: usize,
    /// When the UI thread was woken, nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// From then until it waited for its next message.
    pub hang_ns: u64,
    /// Process and thread that hung.
    pub victim: (u32, u32),
    /// Its longest wait for the lock, from switch-out to wake-up.
    pub longest_wait_ns: u64,
    /// Its waker from that wait, the waker of that thread, and so on: name and thread.
    pub chain: Vec<(String, u32)>,
    /// Time from each link's wake-up to the wake-up that it issued. The chain ends with the wake-up
    /// of the last link.
    pub link_ns: Vec<u64>,
    /// Wake-ups with `NtGdiCloseProcess` on the wake stack.
    pub wakes: u64,
    /// The waits that these ended, from switch-out to wake-up.
    pub waited_ns: u64,
    /// Threads that issued these wake-ups.
    pub wakers: u64,
    /// How long each thread owned the lock in sum, by thread id: from the wake-up that gave it the
    /// lock to the one by which it handed the lock off.
    pub held_ns: BTreeMap<u32, u64>,
    /// CPU samples inside `NtGdiCloseProcess`, one per millisecond and CPU.
    pub samples_inside: u64,
    /// Processes that ended.
    pub ended: u64,
    /// CPU time of all threads during the hang.
    pub busy_ns: u64,
}

impl MouseFigures {
    /// Mean number of threads in the queue.
    pub fn mean_waiting(&self) -> f64 {
        self.waited_ns as f64 / self.hang_ns as f64
    }

    /// The idle share of all CPUs' time, 0.0 to 1.0.
    pub fn idle_share(&self) -> f64 {
        1.0 - self.busy_ns as f64 / (self.hang_ns * self.cpus as u64) as f64
    }
}

/// The trace.
pub fn move_my_mouse() -> Golden<MouseFigures> {
    // How long the threads wait depends on how soon they come back. A first run shows by how much
    // to delay that.
    let (_, first) = record(0, 0);
    let too_long = first
        .waited_ns
        .checked_sub(WAITED_NS)
        .expect("more wait than wanted, as long as they come back at once");
    let (mut machine, storm) = record(too_long / first.returns, too_long % first.returns);
    machine.sample_inside(INSIDE, SAMPLES_INSIDE);
    let figures = count(&machine, &storm);
    let notes = "Synthetic, after \u{201c}24-core CPU and I can\u{2019}t move my mouse\u{201d}. \
                 The pointer froze again and again while the build ran.";
    let events = machine.finish();
    Golden::new(machine, events, notes, figures)
}

fn record(delay_ns: u64, longer: u64) -> (Machine, Storm) {
    let mut machine = Machine::new(CPUS, START_NS, END_NS, 1_000_000);
    let storm = window_system::record(&mut machine, delay_ns, longer);
    (machine, storm)
}

fn count(machine: &Machine, storm: &Storm) -> MouseFigures {
    let mut figures = MouseFigures {
        cpus: CPUS,
        start_ns: HANG_FROM_NS,
        hang_ns: HANG_NS,
        victim: (machine.tasks[storm.taskmgr.0].pid, machine.tasks[storm.taskmgr.0].tid),
        longest_wait_ns: 0,
        chain: Vec::new(),
        link_ns: Vec::new(),
        wakes: 0,
        waited_ns: 0,
        wakers: 0,
        held_ns: BTreeMap::new(),
        samples_inside: 0,
        ended: machine.exits.len() as u64,
        busy_ns: machine.busy_ns(HANG_FROM_NS, HANG_UNTIL_NS),
    };
    let mut left = BTreeMap::new();
    // The wakers of each thread, with the time.
    let mut woken = BTreeMap::<Thread, Vec<(u64, Thread)>>::new();
    let mut longest = (0, IDLE);
    let mut wakers = BTreeSet::new();
    for event in machine.finish() {
        match event.action {
            Action::Switch { prev, .. } => {
                left.insert(prev, event.time);
            }
            Action::Waking { waker, wakee, stack, .. } => {
                let waited = event.time - left.get(&wakee).copied().unwrap_or(event.time);
                if machine.code.is_inside(stack, "LeaveCrit") {
                    let since = woken
                        .get(&waker)
                        .and_then(|wakes| wakes.last())
                        .map_or(HANG_FROM_NS, |(time, _)| *time);
                    *figures.held_ns.entry(machine.tasks[waker.0].tid).or_default() +=
                        event.time - since;
                }
                woken.entry(wakee).or_default().push((event.time, waker));
                if machine.code.is_inside(stack, INSIDE) {
                    wakers.insert(waker);
                    figures.wakes += 1;
                    figures.waited_ns += waited;
                }
                if wakee == storm.taskmgr
                    && (HANG_FROM_NS + 1..HANG_UNTIL_NS).contains(&event.time)
                    && waited > figures.longest_wait_ns
                {
                    (figures.longest_wait_ns, longest) = (waited, (event.time, waker));
                }
            }
            Action::Sample { stack, .. } => {
                figures.samples_inside += u64::from(machine.code.is_inside(stack, INSIDE))
            }
            Action::Note { .. } => {}
        }
    }
    figures.wakers = wakers.len() as u64;
    let (mut time, mut waker) = longest;
    for _ in 0..CHAIN_LEN {
        let task = &machine.tasks[waker.0];
        figures.chain.push((task.comm.clone(), task.tid));
        let before = woken[&waker]
            .iter()
            .rev()
            .find(|(at, _)| *at < time)
            .copied()
            .expect("a link was woken by the next");
        figures.link_ns.push(time - before.0);
        (time, waker) = before;
    }
    figures
}
