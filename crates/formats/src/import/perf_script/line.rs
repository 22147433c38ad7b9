//! The line that begins an event: `COMM PID/TID [CPU] TIME: PERIOD EVENT: DETAILS`.

/// The parts of such a line. Only the name, the thread, the time and the event are always there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head<'a> {
    pub comm: &'a str,
    pub pid: Option<u32>,
    pub tid: u32,
    pub cpu: Option<u16>,
    pub time: u64,
    pub event: &'a str,
    pub details: &'a str,
}

impl<'a> Head<'a> {
    /// Reads a line; `None` if it begins no event.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut time = None;
        // A thread may be called anything, also like a time.
        for (at, colon) in line.match_indices(':').take(64) {
            let before = line.get(..at)?;
            let from =
                before.rsplit_once(char::is_whitespace).map_or(0, |(_, word)| at - word.len());
            if let Some(nanos) = seconds(&line[from..at])
                && let Some(ids) = Ids::parse(line[..from].trim_end())
            {
                time = Some((nanos, ids, &line[at + colon.len()..]));
                break;
            }
        }
        let (time, ids, rest) = time?;
        let (event, details) = event(rest)?;
        let Ids { comm, pid, tid, cpu } = ids;
        Some(Self { comm, pid, tid, cpu, time, event, details })
    }
}

/// Who, and on which CPU.
struct Ids<'a> {
    comm: &'a str,
    pid: Option<u32>,
    tid: u32,
    cpu: Option<u16>,
}

impl<'a> Ids<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut text = text;
        let mut cpu = None;
        // Flags of the tracer may follow the CPU.
        for _ in 0..2 {
            let (rest, last) = text.rsplit_once(char::is_whitespace)?;
            if let Some(number) = last.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                cpu = Some(number.parse().ok()?);
                text = rest.trim_end();
                break;
            }
            let is_flags = last.len() <= 6
                && last.contains('.')
                && last.chars().all(|it| it == '.' || it.is_ascii_alphanumeric());
            if !is_flags {
                break;
            }
            text = rest.trim_end();
        }
        let (comm, ids) = text.rsplit_once(char::is_whitespace)?;
        let (pid, tid) = match ids.split_once('/') {
            Some((pid, tid)) => (Some(pid.parse().ok()?), tid.parse().ok()?),
            // perf prints -1 for the idle thread in some places.
            None => (None, ids.parse().ok().or((ids == "-1").then_some(0))?),
        };
        Some(Self { comm: comm.trim(), pid, tid, cpu })
    }
}

/// `12345.678901`, or with nine digits, in nanoseconds.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let scale = match part.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let part = part.parse::<u64>().ok()? * scale;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

/// The event's name without its modifiers, and what follows.
fn event(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.trim_start();
    let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    // The period comes before the name.
    let rest = match rest[digits..].strip_prefix(' ') {
        Some(after) if digits > 0 => after.trim_start(),
        _ => rest,
    };
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, details) = rest.split_at(end);
    if let Some(record) = name.strip_prefix("PERF_RECORD_") {
        return (!record.is_empty()).then_some((name, details.trim()));
    }
    let name = name.strip_suffix(':')?;
    (!name.is_empty()).then_some((name, details.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_all_kinds_are_read() {
        let cases = [
            (
                "swapper     0 [001]  2029.123456: sched:sched_switch: prev_comm=a",
                (
                    "swapper",
                    None,
                    0,
                    Some(1),
                    2_029_123_456_000,
                    "sched:sched_switch",
                    "prev_comm=a",
                ),
            ),
            (
                "Web Content 12/34 [000] d..2. 5.000000001:     250000 cpu-clock:ppp: ",
                ("Web Content", Some(12), 34, Some(0), 5_000_000_001, "cpu-clock:ppp", ""),
            ),
            (
                ":12 12 1.000000: cycles:  55d0 main (/bin/a)",
                (":12", None, 12, None, 1_000_000_000, "cycles", "55d0 main (/bin/a)"),
            ),
            (
                "a 1.000000: 7 [000] 2.000000: x:y: z",
                ("a 1.000000:", None, 7, Some(0), 2_000_000_000, "x:y", "z"),
            ),
        ];
        for (line, (comm, pid, tid, cpu, time, event, details)) in cases {
            let expected = Head { comm, pid, tid, cpu, time, event, details };
            assert_eq!(Head::parse(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_lines_begin_no_event() {
        for line in [
            "",
            "\tffffffff81 f+0x1 (a)",
            "a: b",
            "x 1 [000] 1.0: e:",
            "x 1 [000] 1.000000:",
            "1.000000: e: x",
            "é 99999999999 [0] 1.000000: e: x",
        ] {
            assert_eq!(Head::parse(line), None, "{line}");
        }
    }

    #[test]
    fn regression_a_blank_may_be_longer_than_a_byte() {
        let line = "a\u{a0}12 [001]\u{85}1.000000: cycles: ";
        let head = Head::parse(line).unwrap();
        assert_eq!((head.comm, head.tid, head.time), ("a", 12, 1_000_000_000));
        assert_eq!(Head::parse("\u{a0}:\u{1}1"), None);
    }
}
