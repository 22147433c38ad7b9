//! Waits of watched threads: the kernel's part compares them with the thresholds
//! ([`Watcher`](crate::bpf::Watcher)). Waits that do not end are listed by it, when asked.

use super::group;
use super::hit::{Hit, Reporter, Trouble};
use super::what::{Target, Watched};
use crate::bpf::{MAX_WATCHES, Seen, WatchWords, Watcher, about};
use crate::sys;
use crate::terminal::Terminal;
use rustc_hash::FxHashMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use unhitch_model::{Time, units};

/// How often waits that go on are looked for, at most and at least: otherwise as often as
/// the shortest threshold.
const LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Maximum number of waits that go on and are reported at a look, of each watch.
const MAX_HITS: usize = 16;

/// Watches for waits. Each watch has the number of its trigger, and whether it is about event loops.
pub(super) fn source(
    watched: &[(usize, bool, &Watched)],
    ended: UnixStream,
    reporter: Reporter,
    trouble: Trouble,
    reported: Arc<Mutex<Reported>>,
    watch: &dyn Fn(&[WatchWords]) -> Result<Watcher, String>,
) -> Result<Box<dyn FnOnce() + Send>, String> {
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
    let mut watching = Watching { watches, watcher, reported, trouble };
    Ok(Box::new(move || watching.run(&ended, &reporter)))
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
    reported: Arc<Mutex<Reported>>,
    trouble: Trouble,
}

/// A wait: the number of the trigger that it is about, the thread, and since when.
type Wait = (usize, u32, u64);

/// Waits that were reported while they went on. They stay known when the watches are armed again.
#[derive(Default)]
pub(super) struct Reported {
    /// At which look each was listed last.
    listed_at: FxHashMap<Wait, u64>,
    look: u64,
}

impl Reported {
    /// Which of all waits that go on are new. One that is no longer among them is remembered until
    /// the next look: its end may be told in between.
    fn new_among(&mut self, listed: impl Iterator<Item = (Wait, Seen)>) -> Vec<Seen> {
        self.look += 1;
        let mut is_new = |wait| self.listed_at.insert(wait, self.look).is_none();
        let new = listed.filter_map(|(wait, seen)| is_new(wait).then_some(seen)).collect();
        self.listed_at.retain(|_, look| *look + 1 >= self.look);
        new
    }

    /// Whether it was reported before it ended, now.
    fn take(&mut self, ended: &Wait) -> bool {
        self.listed_at.remove(ended).is_some()
    }
}

impl Watching {
    fn run(&mut self, ended: &UnixStream, reporter: &Reporter) {
        let shortest = self.watches.iter().map(|watch| watch.watched.threshold).min();
        let look = shortest.unwrap_or_default().clamp(LOOK.0, LOOK.1);
        let look = i32::try_from(look.as_millis()).unwrap_or(i32::MAX);
        loop {
            let ready = match sys::poll(&[ended.as_fd(), self.watcher.as_fd()], look) {
                Ok(ready) => ready,
                Err(error) => return self.trouble.tell(Some(format!("it ended: {error}"))),
            };
            if ready.first().is_none_or(|ended| ended.readable || ended.hung_up) {
                return;
            }
            while let Some(seen) = self.watcher.next() {
                let Some(watch) = self.watches.get(seen.watch) else { continue };
                if !self.reported().take(&watch.wait(&seen)) && watch.is_about(&seen) {
                    reporter.report(watch.hit(&seen, false));
                }
            }
            self.report_unended(reporter);
        }
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports waits that go on and are long enough already. If they cannot be listed now, they are
    /// the next time, or once they have ended.
    fn report_unended(&mut self, reporter: &Reporter) {
        let listed = self.watcher.unended();
        let unseen = |error| format!("waits are seen only once they have ended: {error}");
        self.trouble.tell(listed.as_ref().err().map(unseen));
        let Ok(listed) = listed else { return };
        let wait = |seen: Seen| Some((self.watches.get(seen.watch)?.wait(&seen), seen));
        let new = self.reported().new_among(listed.into_iter().filter_map(wait));
        for (number, watch) in self.watches.iter().enumerate() {
            let of_watch = new.iter().filter(|seen| seen.watch == number);
            for hit in watch.hits(&of_watch.collect::<Vec<_>>()) {
                reporter.report(hit);
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

    fn wait(&self, seen: &Seen) -> Wait {
        (self.trigger, seen.tid, seen.from)
    }

    /// What is reported of waits that go on. *Why not each*: it costs files of `/proc`, and many that
    /// begin at once have the same cause.
    fn hits(&self, new: &[&Seen]) -> Vec<Hit> {
        let mut rest = new.iter();
        let about = rest.by_ref().filter(|seen| self.is_about(seen));
        let mut hits: Vec<Hit> = about.take(MAX_HITS).map(|seen| self.hit(seen, true)).collect();
        if let Some(first) = hits.first_mut() {
            first.unreported += rest.len() as u64;
        }
        hits
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

    /// Above 4,096 waits, all of them were reported again at each look.
    #[test]
    fn regression_many_waits_are_reported_once_and_forgotten_when_they_end() {
        let wait = |tid| Seen { tid, from: 5, ..Seen::default() };
        let any = watch(false, Target::Anyone);
        let listed = || (1..=9000).map(|tid| (any.wait(&wait(tid)), wait(tid)));
        let mut reported = Reported::default();
        let new = reported.new_among(listed());
        assert_eq!(new.len(), 9000);
        let hits = any.hits(&new.iter().collect::<Vec<_>>());
        assert_eq!((hits.len(), hits[0].unreported), (MAX_HITS, 9000 - MAX_HITS as u64));
        assert_eq!(reported.new_among(listed()), []);
        // They have ended: one is told of before the next look.
        reported.new_among(std::iter::empty());
        assert!(reported.take(&any.wait(&wait(7))));
        reported.new_among(std::iter::empty());
        assert!(!reported.take(&any.wait(&wait(8))) && reported.listed_at.is_empty());
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
