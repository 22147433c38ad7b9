//! Who holds the file locks that threads wait for at the save: the kernel says so in `/proc/locks`.

use super::sleepers::Sleeper;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, Read};

/// Maximum bytes read of `/proc/locks`, some 20,000 locks: any user can take as many as they like.
const MAX_BYTES: u64 = 1 << 20;

/// Notes the holder of its lock for each sleeper in flock(2) or fcntl(2).
pub(super) fn add_owners(sleepers: &mut [Sleeper]) -> io::Result<()> {
    let waits = |sleeper: &Sleeper| {
        sleeper.owner() == 0
            && [libc::SYS_flock, libc::SYS_fcntl].contains(&i64::from(sleeper.syscall()))
    };
    if !sleepers.iter().any(waits) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    File::open("/proc/locks")?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let holders = holders(&String::from_utf8_lossy(&bytes));
    for sleeper in sleepers.iter_mut().filter(|sleeper| waits(sleeper)) {
        if let Some(Some(holder)) = holders.get(&sleeper.pid) {
            sleeper.set_owner(*holder);
        }
    }
    Ok(())
}

/// The holder of the lock that each process waits for, by pid; none where it waits for locks of
/// several holders. A lock is one line, and who waits for it follows in lines with an arrow:
///
/// ```text
/// 1: FLOCK  ADVISORY  WRITE 812 fe:00:1310722 0 EOF
/// 1: -> FLOCK  ADVISORY  WRITE 813 fe:00:1310722 0 EOF
/// ```
fn holders(text: &str) -> FxHashMap<u32, Option<u32>> {
    let mut holders = FxHashMap::default();
    let mut holder = None;
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1).peekable();
        let is_waiter = words.next_if_eq(&"->").is_some();
        // -1 for a lock that belongs to an open file and not to a process.
        let pid = words.nth(3).and_then(|pid| pid.parse::<u32>().ok()).filter(|pid| *pid > 0);
        match (is_waiter, pid) {
            (false, pid) => holder = pid,
            (true, Some(waiter)) => {
                let known = holders.entry(waiter).or_insert(holder);
                *known = known.filter(|known| holder == Some(*known));
            }
            (true, None) => {}
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_has_the_holder_of_its_lock() {
        let text = "\
1: FLOCK  ADVISORY  WRITE 812 fe:00:1310722 0 EOF
1: -> FLOCK  ADVISORY  WRITE 813 fe:00:1310722 0 EOF
1:     -> FLOCK  ADVISORY  READ 814 fe:00:1310722 0 EOF
2: OFDLCK ADVISORY  WRITE -1 fe:00:1310723 0 EOF
2: -> OFDLCK ADVISORY  WRITE -1 fe:00:1310723 0 EOF
2: -> POSIX  ADVISORY  WRITE 815 fe:00:1310723 0 EOF
3: POSIX  ADVISORY  WRITE 816 fe:00:1310724 0 127
3: -> POSIX  ADVISORY  WRITE 817 fe:00:1310724 0 127
4: POSIX  ADVISORY  WRITE 818 fe:00:1310725 0 127
4: -> POSIX  ADVISORY  WRITE 817 fe:00:1310725 0 127
5: LEASE  ACTIVE    READ 820 fe:00:1310726 0 EOF
cut";
        let mut found: Vec<(u32, Option<u32>)> = holders(text).into_iter().collect();
        found.sort_unstable();
        let expected = [(813, Some(812)), (814, Some(812)), (815, None), (817, None)];
        assert_eq!(found, expected, "815: a lock without a process; 817: two holders");
    }
}
