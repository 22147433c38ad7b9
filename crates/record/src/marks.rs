//! The marks that were sent to the recorder, until they are older than its rings.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use unhitch_formats::container::{Mark, MarkFile};
use unhitch_model::{InputMarks, Time, Window};

/// Maximum number of marks that are kept.
const MAX_MARKS: usize = 16_384;
/// Maximum number of one user other than the owner, who could otherwise push out all others.
const MAX_MARKS_OF_USER: usize = 8_192;
/// A sender's time that is older than this is not believed.
const MAX_AGE_NS: u64 = 60_000_000_000;

/// Whether a recorder that takes `input` may take a mark.
fn allows(input: InputMarks, mark: &Mark) -> bool {
    match mark.mode.as_deref() {
        None => true,
        Some("full") => input == InputMarks::Full,
        Some(_) => input >= InputMarks::Private,
    }
}

/// Who sent marks, and when they arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
    /// The owner of the recorder has no limit of its own.
    pub(crate) is_owner: bool,
    pub(crate) now: Time,
}

/// What became of marks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Taken {
    pub(crate) taken: usize,
    pub(crate) refused: usize,
    pub(crate) reason: Option<String>,
}

/// The marks, in the order in which they arrived.
#[derive(Default)]
pub(crate) struct Marks {
    kept: VecDeque<Mark>,
    of: FxHashMap<u32, usize>,
    /// Refused since the last trace, because there were too many.
    refused: u64,
}

impl Marks {
    /// Adds the marks of one request that `input` allows, at most `limit` of them.
    pub(crate) fn add(
        &mut self,
        sender: Sender,
        marks: Vec<Mark>,
        input: InputMarks,
        limit: usize,
    ) -> Taken {
        let mut result = Taken::default();
        for mark in marks {
            if !allows(input, &mark) {
                result.refused += 1;
                let allowed = input.name();
                result
                    .reason
                    .get_or_insert_with(|| format!("marks.input of this recorder is {allowed}"));
            } else if result.taken == limit {
                result.refused += 1;
                self.refused += 1;
                result.reason.get_or_insert_with(|| "too many marks at once".to_owned());
            } else {
                self.push(sender, mark);
                result.taken += 1;
            }
        }
        result
    }

    /// Adds marks of the machine's own input devices, which are the recorder's own.
    pub(crate) fn add_own(&mut self, marks: Vec<Mark>) {
        let (uid, pid) = (crate::sys::effective_uid(), std::process::id());
        for mark in marks {
            let now = Time::from_nanos(mark.time_ns);
            self.push(Sender { uid, pid, is_owner: true, now }, mark);
        }
    }

    fn push(&mut self, sender: Sender, mark: Mark) {
        let now = sender.now.nanos();
        let believed = (now.saturating_sub(MAX_AGE_NS)..=now).contains(&mark.time_ns);
        let mark = Mark {
            time_ns: if believed && mark.time_ns > 0 { mark.time_ns } else { now },
            received_ns: now,
            uid: sender.uid,
            sender: sender.pid,
            ..mark
        };
        let own = self.of.entry(sender.uid).or_default();
        *own += 1;
        if !sender.is_owner && *own > MAX_MARKS_OF_USER {
            // Half of them at once, so that each costs little.
            let mut surplus = *own / 2;
            *own -= surplus;
            self.kept.retain(|old| {
                let drop = old.uid == sender.uid && surplus > 0;
                surplus -= usize::from(drop);
                !drop
            });
        }
        if self.kept.len() == MAX_MARKS {
            self.drop_oldest();
        }
        self.kept.push_back(mark);
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.kept.pop_front() else { return };
        if let Some(own) = self.of.get_mut(&oldest.uid) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.of.remove(&oldest.uid);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Forgets what arrived before `begin`.
    pub(crate) fn forget_before(&mut self, begin: Time) {
        self.retain(|mark| mark.received_ns >= begin.nanos());
    }

    /// Forgets what a recorder may not have that takes `input` of agents and `devices` of the
    /// machine's own devices.
    pub(crate) fn forget_forbidden(&mut self, input: InputMarks, devices: InputMarks) {
        let own = std::process::id();
        self.retain(|mark| allows(if mark.sender == own { devices } else { input }, mark));
    }

    fn retain(&mut self, is_kept: impl Fn(&Mark) -> bool) {
        self.kept.retain(is_kept);
        self.of.clear();
        for mark in &self.kept {
            *self.of.entry(mark.uid).or_default() += 1;
        }
    }

    /// The marks inside the window of a trace; older ones are forgotten. The recorder takes `input`,
    /// and its agents say that they send what `sent` has.
    pub(crate) fn of_trace(
        &mut self,
        window: Window,
        input: InputMarks,
        sent: impl Iterator<Item = InputMarks>,
    ) -> MarkFile {
        self.forget_before(window.start);
        let inside = |mark: &&Mark| window.contains(Time::from_nanos(mark.time_ns));
        let marks: Vec<Mark> = self.kept.iter().filter(inside).cloned().collect();
        let refused = std::mem::take(&mut self.refused);
        let modes = marks.iter().filter_map(|mark| InputMarks::of_name(mark.mode.as_deref()?));
        // The configuration may have changed since a mark was taken. What is not taken is not held.
        let holds = sent.filter(|sent| *sent <= input).chain(modes).max();
        let holds = holds.unwrap_or(InputMarks::Off).name().to_owned();
        MarkFile { version: 1, input: input.name().to_owned(), holds, refused, marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(time_ns: u64) -> Mark {
        Mark { time_ns, kind: "note".into(), text: Some("a".into()), ..Mark::default() }
    }

    fn sender(uid: u32, seconds: u64) -> Sender {
        let now = Time::from_nanos(seconds * 1_000_000_000);
        Sender { uid, pid: 7, is_owner: uid == 0, now }
    }

    fn of_trace(marks: &mut Marks, window: Window) -> MarkFile {
        marks.of_trace(window, InputMarks::Off, std::iter::empty())
    }

    #[test]
    fn a_trace_says_which_input_it_holds() {
        use InputMarks::{Full, Off, Private};
        let all = Window::new(Time::ZERO, Time::from_nanos(u64::MAX));
        let holds = |marks: &mut Marks, input, sent: &[InputMarks]| {
            marks.of_trace(all, input, sent.iter().copied()).holds
        };
        let mut marks = Marks::default();
        for (input, sent, expected) in [
            (Full, &[][..], "off"),
            (Off, &[Private, Full], "off"),
            (Private, &[Off, Private], "private"),
            (Private, &[Full], "off"),
            (Full, &[Full, Off], "full"),
        ] {
            assert_eq!(holds(&mut marks, input, sent), expected, "{input:?} {sent:?}");
        }
        // Whoever sent a mark may have left since.
        let key = Mark { kind: "key".into(), mode: Some("full".into()), ..note(0) };
        marks.add(sender(7, 1), vec![key], Full, 99);
        assert_eq!(holds(&mut marks, Private, &[Private]), "full");
    }

    #[test]
    fn a_time_that_cannot_be_is_replaced_by_that_of_arrival() {
        let mut marks = Marks::default();
        let now = 100_000_000_000;
        let times = [0, now, now + 1, now - 1, now - MAX_AGE_NS, now - MAX_AGE_NS - 1];
        let sent = times.iter().map(|time| note(*time)).collect();
        marks.add(sender(0, 100), sent, InputMarks::Off, 99);
        let all = Window::new(Time::ZERO, Time::from_nanos(u64::MAX));
        let kept = of_trace(&mut marks, all).marks;
        let kept: Vec<u64> = kept.iter().map(|mark| mark.time_ns).collect();
        assert_eq!(kept, [now, now, now, now - 1, now - MAX_AGE_NS, now]);
    }

    #[test]
    fn input_is_taken_as_far_as_it_is_allowed() {
        let input = |mode: &str| Mark { kind: "key".into(), mode: Some(mode.into()), ..note(0) };
        for (allowed, taken) in
            [(InputMarks::Off, 1), (InputMarks::Private, 2), (InputMarks::Full, 3)]
        {
            let mut marks = Marks::default();
            let sent = vec![note(0), input("private"), input("full")];
            let result = marks.add(sender(7, 1), sent, allowed, 99);
            assert_eq!((result.taken, result.refused), (taken, 3 - taken));
            assert_eq!(result.reason.is_some(), taken < 3);
        }
    }

    #[test]
    fn a_user_cannot_push_out_the_marks_of_others() {
        let mut marks = Marks::default();
        let whole = Window::new(Time::ZERO, Time::from_nanos(u64::MAX));
        marks.add(sender(8, 1), vec![note(0)], InputMarks::Off, 1);
        for _ in 0..1000 {
            let result = marks.add(sender(7, 2), vec![note(0); 100], InputMarks::Off, 99);
            assert_eq!((result.taken, result.refused), (99, 1));
        }
        let file = of_trace(&mut marks, whole);
        assert!(file.marks.len() <= MAX_MARKS_OF_USER + 1 && file.marks[0].uid == 8);
        assert_eq!((file.refused, of_trace(&mut marks, whole).refused), (1000, 0));
        // The owner's are bounded, too.
        marks.add(sender(0, 3), vec![note(0); 3 * MAX_MARKS], InputMarks::Off, usize::MAX);
        assert_eq!(marks.kept.len(), MAX_MARKS);
        assert_eq!(marks.of.values().sum::<usize>(), MAX_MARKS);
        let later = Window::new(Time::from_nanos(4_000_000_000), Time::from_nanos(u64::MAX));
        assert!(of_trace(&mut marks, later).marks.is_empty() && marks.of.is_empty());
    }

    #[test]
    fn regression_what_no_trace_may_hold_is_forgotten() {
        use InputMarks::{Full, Off, Private};
        let input = |mode: &str| Mark { kind: "key".into(), mode: Some(mode.into()), ..note(1) };
        let mut marks = Marks::default();
        marks.add(sender(7, 1), vec![note(1), input("private"), input("full")], Full, 99);
        marks.add_own(vec![input("private"), input("full")]);
        let mut left = |input, devices| {
            marks.forget_forbidden(input, devices);
            assert_eq!(marks.of.values().sum::<usize>(), marks.kept.len());
            marks.kept.len()
        };
        let settings =
            [(Full, Full), (Full, Private), (Private, Private), (Private, Off), (Off, Off)];
        assert_eq!(settings.map(|(input, devices)| left(input, devices)), [5, 4, 3, 2, 1]);
        marks.forget_before(Time::from_nanos(1_000_000_000));
        assert_eq!(marks.kept.len(), 1);
        marks.forget_before(Time::from_nanos(1_000_000_001));
        assert!(marks.is_empty() && marks.of.is_empty());
    }
}
