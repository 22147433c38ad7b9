//! Waits of watched threads: the kernel's part compares them with the thresholds
//! ([`Watcher`](crate::bpf::Watcher)). Waits that do not end are listed by it, when asked.

use super::group;
use super::hit::{Hit, Reporter};
use super::what::{Target, Watched};
use crate::bpf::{MAX_WATCHES, Seen, WatchWords, Watcher, about};
use crate::sys;
use crate::terminal::Terminal;
use rustc_hash::FxHashSet;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use unhitch_model::{Time, units};

/// How often waits that go on are looked for, at most and at least: otherwise as often as
/// the shortest threshold.
const LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Maximum number of waits that were reported and have not ended.
const MAX_REPORTED: usize = 4096;

/// Watches for waits; `None` without anything to watch. Each has the number of its trigger, and
/// whether it is about event loops.
pub(super) fn source(
    watched: &[(usize, bool, &Watched)],
    ended: UnixStream,
    reporter: Reporter,
    watch: &dyn Fn(&[WatchWords]) -> Result<Watcher, String>,
) -> Result<Option<Box<dyn FnOnce() + Send>>, String> {
    if watched.is_empty() {
        return Ok(None);
    }
    if watched.len() > MAX_WATCHES {
        return Err(format!("at most {MAX_WATCHES} triggers can watch threads"));
    }
    let watches: Vec<Watch> = (watched.iter())
        .map(|(trigger, loops, watched)| Watch {
            trigger: *trigger,
            loops: *loops,
            watched: (*watched).clone(),
        })
        .collect();
    let words = watches.iter().map(Watch::words).collect::<Result<Vec<_>, _>>()?;
    let watcher = watch(&words)?;
    let mut watching = Watching { watches, watcher, reported: FxHashSet::default() };
    Ok(Some(Box::new(move || watching.run(&ended, &reporter))))
}

struct Watch {
    trigger: usize,
    loops: bool,
    watched: Watched,
}

impl Watch {
    fn threshold_ns(&self) -> u64 {
        u64::try_from(self.watched.threshold.as_nanos()).unwrap_or(u64::MAX)
    }

    fn words(&self) -> Result<WatchWords, String> {
        let (mut group, mut user, mut pid, mut name) = (0, 0, 0, [0; 16]);
        let mut flags = match &self.watched.target {
            Target::Thread(text) => {
                name = name_bytes(text);
                about::THREAD
            }
            Target::Process(text) => {
                name = name_bytes(text);
                about::PROCESS
            }
            Target::Pid(number) => {
                pid = *number;
                about::PID
            }
            Target::ControlGroup(path) => {
                group = group::number(path)?;
                about::GROUP
            }
            Target::User(uid) => {
                user = *uid;
                about::USER
            }
            Target::Anyone => about::ANYONE,
        };
        for (flag, is_set) in [
            (about::LOOPS, self.loops),
            (about::ALL_THREADS, self.watched.all_threads),
            (about::IDLE_WAITS, self.watched.idle_waits),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let half = |from: usize| {
            name[from..from + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let ids = u64::from(user) | u64::from(pid) << 32;
        Ok([self.threshold_ns(), group, ids, u64::from(flags), half(0), half(8), 0, 0])
    }
}

/// A name as the kernel has it: cut to 15 bytes.
fn name_bytes(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let len = text.len().min(15);
    name[..len].copy_from_slice(&text.as_bytes()[..len]);
    name
}

/// The watches at work.
struct Watching {
    watches: Vec<Watch>,
    watcher: Watcher,
    /// What was reported already: by which watch, a thread, and since when.
    reported: FxHashSet<(usize, u32, u64)>,
}

impl Watching {
    fn run(&mut self, ended: &UnixStream, reporter: &Reporter) {
        let shortest = self.watches.iter().map(|watch| watch.watched.threshold).min();
        let look = shortest.unwrap_or_default().clamp(LOOK.0, LOOK.1);
        let look = i32::try_from(look.as_millis()).unwrap_or(i32::MAX);
        loop {
            let Ok(ready) = sys::poll(&[ended.as_fd(), self.watcher.as_fd()], look) else { return };
            if ready.first().is_none_or(|ended| ended.readable || ended.hung_up) {
                return;
            }
            while let Some(seen) = self.watcher.next() {
                // It was reported while it went on.
                if !self.reported.remove(&(seen.watch, seen.tid, seen.from))
                    && let Some(watch) = self.watches.get(seen.watch)
                    && watch.is_about(&seen)
                {
                    reporter.report(watch.hit(&seen, false));
                }
            }
            self.report_unended(reporter);
        }
    }

    /// Reports waits that go on and are long enough already. If they cannot be listed now, they are
    /// the next time, or once they have ended.
    fn report_unended(&mut self, reporter: &Reporter) {
        if self.reported.len() > MAX_REPORTED {
            self.reported.clear();
        }
        for seen in self.watcher.unended().unwrap_or_default() {
            let Some(watch) = self.watches.get(seen.watch) else { continue };
            if !watch.is_about(&seen) {
                continue;
            }
            if self.reported.insert((seen.watch, seen.tid, seen.from)) {
                reporter.report(watch.hit(&seen, true));
            }
        }
    }
}

impl Watch {
    /// False for shells, unless they are meant: their loop stays away for as long as what was typed into
    /// them runs.
    fn is_about(&self, seen: &Seen) -> bool {
        let is_meant = !matches!(self.watched.target, Target::User(_) | Target::Anyone);
        let is_shell = || Terminal::of(seen.pid).is_some_and(|one| one.is_led_by(seen.pid));
        !self.loops || is_meant || !is_shell()
    }

    fn hit(&self, seen: &Seen, goes_on: bool) -> Hit {
        let who = who(seen.pid, seen.tid);
        let time = units::duration(seen.to.saturating_sub(seen.from));
        let text = match (self.loops, goes_on) {
            (false, false) => format!("{who} waited {time}"),
            (false, true) => format!("{who} has been waiting for {time}"),
            (true, false) => format!("the event loop of {who} stayed away for {time}"),
            (true, true) => format!("the event loop of {who} has been away for {time}"),
        };
        Hit {
            trigger: self.trigger,
            text,
            pid: Some(seen.pid),
            tid: Some(seen.tid),
            seen: Some((Time::from_nanos(seen.from), Time::from_nanos(seen.to))),
            unreported: seen.held,
        }
    }
}

/// `render (tid 12) of editor (pid 10)`, as they are called now.
fn who(pid: u32, tid: u32) -> String {
    let name = |path: String| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let process = name(format!("/proc/{pid}/comm"));
    if pid == tid {
        return format!("{process} (pid {pid})");
    }
    let thread = name(format!("/proc/{pid}/task/{tid}/comm"));
    format!("{thread} (tid {tid}) of {process} (pid {pid})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(loops: bool, target: Target) -> Watch {
        let watched = Watched {
            threshold: Duration::from_millis(200),
            target,
            all_threads: false,
            idle_waits: false,
        };
        Watch { trigger: 3, loops, watched }
    }

    #[test]
    fn a_watch_is_what_the_program_reads() {
        let words =
            watch(true, Target::Process("a name of many bytes".to_owned())).words().unwrap();
        assert_eq!((words[0], words[3]), (200_000_000, u64::from(about::LOOPS | about::PROCESS)));
        let name: Vec<u8> = words[4..6].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(&name, b"a name of many \0");
        let words = watch(false, Target::Pid(7)).words().unwrap();
        assert_eq!((words[2], words[3]), (7 << 32, u64::from(about::PID)));
        assert!(watch(false, Target::ControlGroup("no/such".to_owned())).words().is_err());
    }
}
