//! What Perfetto's trace processor makes of scheduler events: a model of the rules in
//! `src/trace_processor/importers/common/thread_state_tracker.cc`.

use std::collections::{BTreeMap, BTreeSet};

/// An event of ftrace, in the order of time.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Switch { prev: u64, prev_state: u64, next: u64 },
    Waking { wakee: u64, waker: u64, in_interrupt: bool },
    NewTask { child: u64 },
    Free { tid: u64 },
}

/// A row of the table `thread_state`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slice {
    pub tid: u64,
    pub start: u64,
    pub end: u64,
    pub state: State,
    /// Who woke it, and whether an interrupt did.
    pub woken: Option<(u64, bool)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    Running,
    /// `R`: woken.
    Runnable,
    /// `R+`.
    Preempted,
    /// `S`, `D` and so on, by the kernel's bits.
    Sleeping(u64),
    /// `R` of a thread that was just created.
    Created,
}

/// What a model of the whole trace gives.
#[derive(Default)]
pub struct States {
    pub slices: BTreeSet<Slice>,
    /// Rows of `spurious_sched_wakeup`: time and thread.
    pub spurious: BTreeSet<(u64, u64)>,
}

struct Open {
    start: u64,
    state: State,
    woken: Option<(u64, bool)>,
}

/// `TASK_REPORT`'s bits: none for a thread that can run. The one above them means preempted.
const PREEMPTED: u64 = 0x100;
/// `EXIT_DEAD` and `EXIT_ZOMBIE`: states of nothing that runs again.
const DEAD: u64 = 0x10 | 0x20;

/// The states of all threads but the idle one; open ones end at `end`.
pub fn states(events: impl IntoIterator<Item = (u64, Event)>, end: u64) -> States {
    let mut open: BTreeMap<u64, Open> = BTreeMap::new();
    let mut states = States::default();
    // Closes a thread's state and opens its next one. The idle thread has none.
    let mut set = |open: &mut BTreeMap<u64, Open>, time, tid, next: Option<Open>| {
        let before = match next {
            _ if tid == 0 => None,
            Some(next) => open.insert(tid, next),
            None => open.remove(&tid),
        };
        if let Some(Open { start, state, woken }) = before.filter(|before| before.start < time)
            && !matches!(state, State::Sleeping(bits) if bits & DEAD != 0)
        {
            states.slices.insert(Slice { tid, start, end: time, state, woken });
        }
    };
    for (time, event) in events {
        let begin = |state, woken| Some(Open { start: time, state, woken });
        match event {
            Event::Switch { prev, prev_state, next } => {
                let left = match prev_state {
                    0 => State::Runnable,
                    bits if bits & PREEMPTED != 0 => State::Preempted,
                    bits => State::Sleeping(bits),
                };
                // What leaves a CPU without having come on one was missed: no end is known of its
                // last state.
                if open.get(&prev).is_some_and(|open| open.state != State::Running) {
                    open.remove(&prev);
                }
                set(&mut open, time, prev, begin(left, None));
                set(&mut open, time, next, begin(State::Running, None));
            }
            Event::Waking { wakee, waker, in_interrupt } => match open.get(&wakee) {
                Some(Open { state: State::Running | State::Runnable | State::Created, .. }) => {
                    states.spurious.insert((time, wakee));
                }
                _ => {
                    let woken = begin(State::Runnable, Some((waker, in_interrupt)));
                    set(&mut open, time, wakee, woken);
                }
            },
            Event::NewTask { child } => set(&mut open, time, child, begin(State::Created, None)),
            Event::Free { tid } => set(&mut open, time, tid, None),
        }
    }
    let left: Vec<u64> = open.keys().copied().collect();
    left.into_iter().for_each(|tid| set(&mut open, end, tid, None));
    states
}
