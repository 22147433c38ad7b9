//! Threads of one name, none of which had much, told as one: *crowds*.
//!
//! *Why:* a hundred workers that run for 7 ms each keep others from a CPU for 0.7 s, and the one
//! longest run among them, or a bystander's, is not the reason.

use crate::answer::units;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{NameId, ThreadId, Time, Trace};

/// With fewer members it is no crowd.
const SMALLEST_CROWD: usize = 4;

/// One thread, the idle one included, or several of one name, with a time that is theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Party {
    /// The member that had most.
    pub thread: ThreadId,
    /// The name that all of a crowd's members have; none for a single thread.
    pub crowd: Option<NameId>,
    /// How many they are.
    pub members: usize,
    /// The time of all together, nanoseconds.
    pub ns: u64,
}

impl Party {
    /// `rustc 4711`, or `98 threads named lab-worker`.
    pub fn name(&self, trace: &Trace, at: Time) -> String {
        match self.crowd {
            Some(name) => format!(
                "{} named {}",
                units::plural(self.members as u64, "thread"),
                trace.name(name)
            ),
            None => units::thread(trace, self.thread, at),
        }
    }
}

/// The threads of `times` with their names as of `at`, those of one name together where none of
/// them has half of their time; most first.
pub(crate) fn parties(
    trace: &Trace,
    at: Time,
    times: impl IntoIterator<Item = (ThreadId, u64)>,
) -> Vec<Party> {
    let mut by_name: FxHashMap<NameId, Vec<(ThreadId, u64)>> = FxHashMap::default();
    for (thread, ns) in times {
        by_name.entry(trace.threads.name_at(thread, at)).or_default().push((thread, ns));
    }
    let mut list = Vec::new();
    for (name, mut members) in by_name {
        members.sort_by_key(|&(thread, ns)| (Reverse(ns), thread));
        let ns = members.iter().map(|(_, ns)| ns).sum();
        match members[..] {
            [(thread, most), ..] if members.len() >= SMALLEST_CROWD && most < ns / 2 => {
                list.push(Party { thread, crowd: Some(name), members: members.len(), ns });
            }
            _ => list.extend(members.into_iter().map(|(thread, ns)| Party {
                thread,
                crowd: None,
                members: 1,
                ns,
            })),
        }
    }
    list.sort_by_key(|party| (Reverse(party.ns), party.thread));
    list
}
