//! Groups of threads of one name, none of which accounts for much, shown as one.
//!
//! *Why:* a hundred workers that run for 7 ms each keep others from a CPU for 0.7 s, and neither
//! the one of them that ran longest nor a bystander is the reason.

use super::sentence::{Span, Subject};
use super::units;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{NameId, ThreadId, Time, Trace};

/// Minimum threads of a group; fewer are shown one by one.
const MIN_MEMBERS: usize = 4;

/// One thread, or several of one name, with their time. The thread may be the idle one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadGroup {
    /// The member with the most time.
    pub thread: ThreadId,
    /// The name that all members have; none for a single thread.
    pub shared_name: Option<NameId>,
    /// Number of members.
    pub members: usize,
    /// Time of all members, nanoseconds.
    pub ns: u64,
}

impl ThreadGroup {
    /// `rustc 4711`, or `98 threads named lab-worker`.
    pub fn name(&self, trace: &Trace, at: Time) -> Span {
        match self.shared_name {
            Some(name) => Span::new(
                format!(
                    "{} named {}",
                    units::plural(self.members as u64, "thread"),
                    trace.name(name)
                ),
                Subject::ThreadGroup(self.thread),
            ),
            None => Span::new(units::thread(trace, self.thread, at), Subject::Thread(self.thread)),
        }
    }
}

/// The threads of `times`, most time first. Threads that have the same name at `at` form a group
/// where none of them has half of the group's time.
pub(crate) fn thread_groups(
    trace: &Trace,
    at: Time,
    times: impl IntoIterator<Item = (ThreadId, u64)>,
) -> Vec<ThreadGroup> {
    let mut by_name: FxHashMap<NameId, Vec<(ThreadId, u64)>> = FxHashMap::default();
    for (thread, ns) in times {
        by_name.entry(trace.threads.name_at(thread, at)).or_default().push((thread, ns));
    }
    let mut list = Vec::new();
    for (name, mut members) in by_name {
        members.sort_by_key(|&(thread, ns)| (Reverse(ns), thread));
        let ns = members.iter().map(|(_, ns)| ns).sum();
        match members[..] {
            [(thread, most), ..] if members.len() >= MIN_MEMBERS && most < ns / 2 => {
                list.push(ThreadGroup {
                    thread,
                    shared_name: Some(name),
                    members: members.len(),
                    ns,
                });
            }
            _ => list.extend(members.into_iter().map(|(thread, ns)| ThreadGroup {
                thread,
                shared_name: None,
                members: 1,
                ns,
            })),
        }
    }
    list.sort_by_key(|group| (Reverse(group.ns), group.thread));
    list
}
