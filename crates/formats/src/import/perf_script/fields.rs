//! The details of the scheduler's events, as the kernel or a plugin of perf prints them.

use crate::import::builder::Task;
use unhitch_model::TaskState;

/// A context switch.
#[derive(Clone, Copy)]
pub(super) struct SwitchText<'a> {
    pub prev: Task<'a>,
    pub state: TaskState,
    pub next: Task<'a>,
}

/// `prev_comm=A prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=B next_pid=2 next_prio=120`, or
/// `A:1 [120] S ==> B:2 [120]`.
pub(super) fn switch(text: &str) -> Option<SwitchText<'_>> {
    if let Some((prev, next)) = text.split_once(" ==> next_comm=") {
        let prev = prev.strip_prefix("prev_comm=")?;
        let state = value(prev, " prev_state=")?;
        let prev = named_task(prev, " prev_pid=", " prev_prio=")?;
        let next = named_task(next, " next_pid=", " next_prio=")?;
        return Some(SwitchText { prev, state: task_state(state), next });
    }
    let (prev, next) = text.split_once(" ==> ")?;
    let (prev, state) = prev.rsplit_once(' ')?;
    Some(SwitchText {
        prev: short_task(prev)?.0,
        state: task_state(state),
        next: short_task(next)?.0,
    })
}

/// `comm=A pid=1 prio=120 target_cpu=001`, or `A:1 [120] CPU:001`. The thread, and where it goes.
pub(super) fn waking(text: &str) -> Option<(Task<'_>, Option<u16>)> {
    if let Some(text) = text.strip_prefix("comm=") {
        let task = named_task(text, " pid=", " prio=")?;
        return Some((task, value(text, " target_cpu=").and_then(|cpu| cpu.parse().ok())));
    }
    let (task, rest) = short_task(text)?;
    let cpu = rest.split_once("CPU:").and_then(|(_, cpu)| cpu.trim().parse().ok());
    Some((task, cpu))
}

/// What follows `key`, up to the next blank. The last one counts: names may contain anything.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.rsplit_once(key)?;
    rest.split_whitespace().next()
}

/// The same as a number.
pub(super) fn number(text: &str, key: &str) -> Option<u32> {
    value(text, key)?.parse().ok()
}

fn named_task<'a>(text: &'a str, pid: &str, prio: &str) -> Option<Task<'a>> {
    let (comm, _) = text.rsplit_once(pid)?;
    let prio = value(text, prio).and_then(|prio| prio.parse().ok()).unwrap_or(0);
    Some(Task { tid: number(text, pid)?, prio, comm: comm.as_bytes() })
}

/// `A:1 [120]`, and what follows.
fn short_task(text: &str) -> Option<(Task<'_>, &str)> {
    let (task, rest) = text.rsplit_once('[')?;
    let (prio, rest) = rest.split_once(']')?;
    let (comm, tid) = task.trim_end().rsplit_once(':')?;
    let task = Task { tid: tid.parse().ok()?, prio: prio.parse().ok()?, comm: comm.as_bytes() };
    Some((task, rest))
}

/// The letters of a state: `S`, `R+`, `D|W`.
fn task_state(letters: &str) -> TaskState {
    match letters.as_bytes().first() {
        Some(b'S') => TaskState::Sleeping,
        Some(b'D') => TaskState::DiskSleep,
        Some(b'I') => TaskState::Idle,
        Some(b'T') => TaskState::Stopped,
        Some(b't') => TaskState::Traced,
        Some(b'P') => TaskState::Parked,
        Some(b'X' | b'Z' | b'x') => TaskState::Dead,
        // A plugin of old versions has other letters for what is new: W for I, K for a fatal wait.
        Some(b'W') => TaskState::Idle,
        Some(b'K') => TaskState::DiskSleep,
        _ if letters.contains('+') => TaskState::Preempted,
        _ => TaskState::Runnable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_print_a_switch_are_read() {
        let long = "prev_comm=a b prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=c ==> d \
                    next_pid=2 next_prio=98";
        let short = "a b:1 [120] R+ ==> c:2 [98]";
        for (text, next_name) in [(long, &b"c ==> d"[..]), (short, b"c")] {
            let SwitchText { prev, state, next } = switch(text).unwrap();
            assert_eq!((prev.tid, prev.prio, prev.comm), (1, 120, &b"a b"[..]), "{text}");
            assert_eq!((next.tid, next.prio, next.comm), (2, 98, next_name), "{text}");
            assert_eq!(state, TaskState::Preempted);
        }
        assert!(switch("a ==> b").is_none() && switch("").is_none());
    }

    #[test]
    fn both_ways_to_print_a_wake_up_are_read() {
        for text in
            ["comm=a pid=x pid=7 prio=120 target_cpu=003", "a pid=x:7 [120] success=1 CPU:003"]
        {
            let (task, cpu) = waking(text).unwrap();
            assert_eq!((task.tid, task.comm, cpu), (7, &b"a pid=x"[..], Some(3)), "{text}");
        }
        assert!(waking("comm=a").is_none() && waking("nothing").is_none());
    }
}
