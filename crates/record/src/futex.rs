//! Which threads wait on which futexes at the time of a save, and who owns the locks, if known.
//!
//! `/proc/P/task/T/syscall` (proc(5)) contains the address of the futex word. In a
//! `pthread_mutex_t`, glibc keeps the lock word at 0, the owner's tid at 8, the number of users at
//! 12 and the kind at 16 (nptl/bits/struct_mutex.h). A PI futex, and a robust mutex, hold the owner's tid
//! in the word itself (futex(2)). But a futex word can belong to anything (a condition variable, a Rust mutex),
//! and a wrong owner is worse than none: an owner is accepted only if all these fields are
//! plausible and it is a live thread of the same process.

use crate::memory::Memory;
use crate::procfs::LiveProcess;
use std::fs;
use unhitch_model::Time;

/// A thread asleep in a futex wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FutexWaiter {
    pub(crate) time: Time,
    pub(crate) tid: u32,
    pub(crate) word_avma: u64,
    pub(crate) owner_tid: Option<u32>,
}

/// The futex call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    word_avma: u64,
    operation: u64,
    expected: u32,
}

/// The futex waits of one process.
pub(crate) fn waits(process: &LiveProcess) -> Vec<FutexWaiter> {
    let mut memory = None;
    let mut waits = Vec::new();
    for thread in process.threads.iter().filter(|thread| thread.state == b'S') {
        let path = format!("/proc/{}/task/{}/syscall", process.pid, thread.tid);
        let Some(call) = fs::read_to_string(path).ok().and_then(|line| parse_call(&line)) else {
            continue;
        };
        let memory = memory.get_or_insert_with(|| Memory::open(process.pid));
        let mut mutex = [0; MUTEX_LEN];
        let read =
            memory.as_ref().is_ok_and(|memory| memory.read(&mut mutex, call.word_avma).is_ok());
        let lives =
            |tid: u32| process.threads.iter().any(|other| other.tid == tid) && tid != thread.tid;
        let owner_tid = if read { owner(call, &mutex).filter(|&tid| lives(tid)) } else { None };
        waits.push(FutexWaiter {
            time: crate::sys::monotonic_now(),
            tid: thread.tid,
            word_avma: call.word_avma,
            owner_tid,
        });
    }
    waits
}

/// Parses `number arg0 arg1 … sp pc`; `None` for any other system call, and for a running thread.
fn parse_call(line: &str) -> Option<Call> {
    let mut fields = line.split_ascii_whitespace();
    if fields.next()?.parse::<i64>().ok()? != libc::SYS_futex {
        return None;
    }
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (word_avma, operation, expected) = (argument()?, argument()?, argument()?);
    Some(Call {
        word_avma,
        operation: operation
            & !u64::from((libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u32),
        expected: expected as u32,
    })
}

/// The part of a glibc mutex that we read, in bytes.
const MUTEX_LEN: usize = 20;

/// The owner recorded in the lock at the waiter's futex word.
fn owner(call: Call, mutex: &[u8; MUTEX_LEN]) -> Option<u32> {
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_LOCK_PI: u64 = 6;
    const FUTEX_WAIT_BITSET: u64 = 9;
    const FUTEX_LOCK_PI2: u64 = 13;
    /// The lock word of a glibc mutex that is locked and has waiters.
    const CONTENDED: u32 = 2;
    /// All type, protocol and elision bits of a glibc mutex's kind field.
    const KIND_MASK: u32 = 0x3ff;
    const KIND_ROBUST: u32 = 0x10;
    let word =
        |index: usize| u32::from_le_bytes(std::array::from_fn(|byte| mutex[4 * index + byte]));
    let (lock, owner, users, kind) = (word(0), word(2), word(3), word(4));
    match call.operation {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => Some(lock & libc::FUTEX_TID_MASK),
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            let is_held = match call.expected & libc::FUTEX_WAITERS != 0 {
                true => kind & KIND_ROBUST != 0 && lock & libc::FUTEX_TID_MASK == owner,
                false => call.expected == CONTENDED && lock == CONTENDED,
            };
            (is_held && users > 0 && kind & !KIND_MASK == 0).then_some(owner)
        }
        _ => None,
    }
    .filter(|&tid| tid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutex(lock: u32, owner: u32, users: u32, kind: u32) -> [u8; 20] {
        let mut bytes = [0; 20];
        for (index, word) in [lock, 0, owner, users, kind].into_iter().enumerate() {
            bytes[4 * index..4 * index + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_syscall_line() {
        let number = libc::SYS_futex;
        let line = format!("{number} 0x7ffd0010 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f00\n");
        assert_eq!(
            parse_call(&line),
            Some(Call { word_avma: 0x7ffd_0010, operation: 0, expected: 2 })
        );
        let bitset = format!("{number} 0x7ffd0010 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f00\n");
        assert_eq!(parse_call(&bitset).map(|call| call.operation), Some(9));
        assert_eq!(parse_call("running\n"), None);
        assert_eq!(parse_call("-1 0x7ffd 0x7f00\n"), None);
        assert_eq!(parse_call(&format!("{number} 0x7ffd0010")), None);
    }

    #[test]
    fn only_a_mutex_has_an_owner() {
        let wait = Call { word_avma: 0x10, operation: 0, expected: 2 };
        assert_eq!(owner(wait, &mutex(2, 77, 1, 0)), Some(77));
        assert_eq!(owner(wait, &mutex(2, 0, 1, 0)), None, "just released");
        assert_eq!(owner(wait, &mutex(1, 77, 1, 0)), None, "not waited for");
        assert_eq!(owner(wait, &mutex(2, 77, 0, 0)), None, "no users");
        assert_eq!(owner(wait, &mutex(2, 77, 1, 0xdead_0000)), None, "no kind");
        assert_eq!(
            owner(Call { expected: 0, ..wait }, &mutex(2, 77, 1, 0)),
            None,
            "a condition variable"
        );
        assert_eq!(
            owner(Call { operation: 6, ..wait }, &mutex(0x8000_004d, 0, 0, 0)),
            Some(77),
            "priority inheritance"
        );
        let robust = Call { expected: 0x8000_004d, ..wait };
        assert_eq!(owner(robust, &mutex(0x8000_004d, 77, 1, 0x10)), Some(77), "robust");
        assert_eq!(owner(robust, &mutex(0x8000_004d, 77, 1, 0)), None, "a value of another kind");
        assert_eq!(owner(robust, &mutex(0x8000_004e, 77, 1, 0x10)), None, "just taken");
    }
}
