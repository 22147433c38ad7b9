//! A difference in words.

use super::compare::{ChainDiff, Diff, PartDiff, StallDiff, WaitDiff};
use super::facts::Facts;
use super::path::{Edge, End};
use super::ranks::Ranks;
use super::summary::StallSummary;
use crate::What;
use std::fmt::Write;
use unhitch_model::units::{count, duration, percent, plural};

/// Lines of a partition that are shown; the rest is one line.
const MAX_PARTS: usize = 8;
/// Waits that are shown.
const MAX_WAITS: usize = 8;
/// Stalls that are shown, by victim and pattern.
const MAX_STALLS: usize = 6;

/// A difference in words, the verdict first.
pub fn text(diff: &Diff) -> String {
    let mut out = String::new();
    let lacking = lacking(diff, &mut out);
    if !lacking || diff.stall.before.is_some() || diff.stall.after.is_some() {
        headline(diff, !lacking, &mut out);
    }
    comparable(diff, &mut out);
    noise(diff, &mut out);
    let stall = &diff.stall;
    if stall.before.is_some() || stall.after.is_some() {
        cause(stall, &mut out);
        partition(stall, &mut out);
        chain(&stall.chain, stall, &mut out);
    }
    stalls(diff, &mut out);
    if !lacking {
        waits(diff, &mut out);
    }
    out
}

/// Says that a side holds no context switches, and how to record them.
fn lacking(diff: &Diff, out: &mut String) -> bool {
    let of = |side: &'_ [Facts]| side.iter().find_map(|facts| facts.lacks_switches().cloned());
    let (side, lack) = match (of(&diff.before), of(&diff.after)) {
        (Some(lack), Some(_)) => ("before and after", lack),
        (Some(lack), None) => ("before", lack),
        (None, Some(lack)) => ("after", lack),
        (None, None) => return false,
    };
    let _ = writeln!(
        out,
        "NOT RECORDED  {side}: {}. Waits, and stalls of them, are not compared.\n{}",
        lack.why, lack.advice
    );
    true
}

/// `−12.0 ms`, `+3 ns`.
fn signed(ns: i64) -> String {
    let sign = if ns < 0 { '−' } else { '+' };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

fn headline(diff: &Diff, is_whole: bool, out: &mut String) {
    let stall = &diff.stall;
    if diff.is_noise {
        let _ = write!(out, "NO DIFFERENCE ABOVE NOISE");
    } else if !is_whole {
        let _ = write!(out, "REPORTED");
    } else {
        let _ = write!(out, "DIFFERENCE");
    }
    let _ = match (&stall.before, &stall.after) {
        (None, None) => write!(out, "  No stall, before or after."),
        (Some(before), None) => write!(
            out,
            "  {} {} for {} before. After, there is nothing like it.",
            before.victim,
            hung(before),
            duration(before.duration_ns)
        ),
        (None, Some(after)) => write!(
            out,
            "  No stall before. After, {} {} for {}.",
            after.victim,
            hung(after),
            duration(after.duration_ns)
        ),
        (Some(before), Some(after)) => {
            let less = if stall.difference_ns < 0 { "less" } else { "more" };
            let share = match diff.proportionate && stall.length_differs {
                true => format!(
                    " ({})",
                    percent(stall.difference_ns.unsigned_abs(), before.duration_ns)
                ),
                false => String::new(),
            };
            let difference = duration(stall.difference_ns.unsigned_abs());
            let hung_after = match before.is_stall == after.is_stall {
                true => String::new(),
                false => format!("{} ", hung(after)),
            };
            write!(
                out,
                "  {} {} for {} before, and {hung_after}for {} after: {difference} {less}{share}.",
                before.victim,
                hung(before),
                duration(before.duration_ns),
                duration(after.duration_ns),
            )
        }
    };
    out.push('\n');
}

const fn hung(stall: &StallSummary) -> &'static str {
    if stall.is_stall { "hung" } else { "waited at most" }
}

fn comparable(diff: &Diff, out: &mut String) {
    let side = |facts: &[Facts]| {
        let covered: u64 = facts.iter().map(|facts| facts.covered_ns).sum();
        let files = match facts {
            [one] => one.file.clone(),
            several => plural(several.len() as u64, "recording"),
        };
        format!("{files} ({})", duration(covered))
    };
    let _ = writeln!(out, "BEFORE  {}\nAFTER   {}", side(&diff.before), side(&diff.after));
    if diff.incomparable.is_empty() {
        let _ = writeln!(
            out,
            "COMPARABLE  the same machine, kernel and number of CPUs; the same was recorded"
        );
    }
    for line in &diff.incomparable {
        let _ = writeln!(out, "CAUTION  {line}");
    }
}

fn noise(diff: &Diff, out: &mut String) {
    let _ = match diff.stall.ranks {
        Some(Ranks { p, separate }) => {
            let how = if separate { "do not overlap" } else { "overlap" };
            writeln!(
                out,
                "NOISE  the lengths of {} and {} stalls {how}: by chance, ranks differ so much with \
                 a probability of {p:.3} (Mann-Whitney; up to {} counts as a difference)",
                diff.before.len(),
                diff.after.len(),
                Ranks::MAX_P
            )
        }
        None => writeln!(
            out,
            "NOISE  not measured: that takes {} or more recordings on each side, and at most {} in all. \
             What is less than a quarter, 10 ms of a stall, or 20 ms of waits per second, is taken for \
             noise",
            Ranks::MIN,
            Ranks::MAX
        ),
    };
}

fn cause(stall: &StallDiff, out: &mut String) {
    let verdict = |of: &StallSummary| {
        let who = of.culprit.as_ref().map(|who| format!(" by {who}")).unwrap_or_default();
        let function = match of.function.as_str() {
            "" => String::new(),
            function => format!(" in {function}"),
        };
        format!("{}{who}{function} ({})", of.pattern, of.evidence)
    };
    let _ = match (&stall.before, &stall.after) {
        (Some(before), Some(after)) if verdict(before) == verdict(after) => {
            writeln!(out, "CAUSE  the same: {}", verdict(before))
        }
        (Some(before), Some(after)) => {
            writeln!(out, "CAUSE  before: {}\n       after:  {}", verdict(before), verdict(after))
        }
        (Some(one), None) | (None, Some(one)) => writeln!(out, "CAUSE  {}", verdict(one)),
        (None, None) => Ok(()),
    };
}

fn partition(stall: &StallDiff, out: &mut String) {
    let _ = writeln!(
        out,
        "\nWhere the difference of that stall is; the lines sum to {} exactly:",
        signed(stall.difference_ns)
    );
    let _ = writeln!(out, "{:>12} {:>12} {:>12}", "before", "after", "difference");
    let line = |before: u64, after: u64, difference: i64, words: &str, out: &mut String| {
        let _ = writeln!(
            out,
            "{:>12} {:>12} {:>12}  {words}",
            duration(before),
            duration(after),
            signed(difference)
        );
    };
    let (shown, rest) = stall.partition.split_at(stall.partition.len().min(MAX_PARTS));
    for part in shown {
        line(part.before_ns, part.after_ns, part.difference_ns, &words(part, stall), out);
    }
    if !rest.is_empty() {
        let sum = |of: fn(&PartDiff) -> u64| rest.iter().map(of).sum();
        let difference = rest.iter().map(|part| part.difference_ns).sum();
        let words = format!("{} more", rest.len());
        line(sum(|part| part.before_ns), sum(|part| part.after_ns), difference, &words, out);
    }
}

fn words(part: &PartDiff, stall: &StallDiff) -> String {
    let Some(who) = &part.who else { return part.kind.words().to_owned() };
    if who.process == "nobody" {
        return part.kind.words_of_idle().to_owned();
    }
    // What the culprit did is the answer.
    let culprit = [&stall.before, &stall.after].into_iter().flatten().find(|of| {
        part.kind != What::WaitedForCpu
            && of.culprit.as_ref() == Some(who)
            && !of.function.is_empty()
    });
    match culprit {
        Some(of) => format!("{} {who}, in {}", part.kind.words(), of.function),
        None => format!("{} {who}", part.kind.words()),
    }
}

/// The responsible function of a stack.
fn place(function: &str) -> &str {
    if function.is_empty() { "an unknown function" } else { function }
}

fn chain(chain: &ChainDiff, stall: &StallDiff, out: &mut String) {
    if stall.before.is_none() || stall.after.is_none() {
        return;
    }
    let end = |end: &Option<End>| match end {
        None => "nothing".to_owned(),
        Some(End { who, cause, function, .. }) if function.is_empty() => format!("{who} {cause}"),
        Some(End { who, cause, function, .. }) => format!("{who} {cause} in {function}"),
    };
    let edge = |edge: &Option<Edge>, last: &Option<End>| match edge {
        None => format!("the chain ends: {}", end(last)),
        Some(edge) => format!(
            "{} waits ({}) in {}\n          for {}, which ends it in {}",
            edge.waiter,
            edge.class.replace('_', " "),
            place(&edge.wait_in),
            edge.waker,
            place(&edge.wake_in)
        ),
    };
    let (before, after) = (&chain.ends.0, &chain.ends.1);
    let _ = match chain.differs.as_slice() {
        [] => writeln!(
            out,
            "\nThe chain is the same, {}, and leads to the same: {}.",
            plural(chain.same as u64, "edge"),
            end(after)
        ),
        ["end"] => writeln!(
            out,
            "\nThe chain is the same, {}, but leads to something else:\n  before  {}\n  after   {}",
            plural(chain.same as u64, "edge"),
            end(before),
            end(after)
        ),
        differs => writeln!(
            out,
            "\nThe chains differ from edge {} on ({}):\n  before  {}\n  after   {}",
            chain.same + 1,
            differs.join(", "),
            edge(&chain.before, before),
            edge(&chain.after, after)
        ),
    };
}

fn stalls(diff: &Diff, out: &mut String) {
    if diff.stalls.is_empty() {
        return;
    }
    out.push_str("\nStalls whose number differs:\n");
    for line in diff.stalls.iter().take(MAX_STALLS) {
        let side = |(number, ns): (u64, u64)| match number {
            0 => "none".to_owned(),
            _ => format!("{} of {} in all", count(number), duration(ns)),
        };
        let _ = writeln!(
            out,
            "  {} ({}): {} before, {} after",
            line.victim,
            line.pattern,
            side(line.before),
            side(line.after)
        );
    }
    if diff.stalls.len() > MAX_STALLS {
        let _ = writeln!(out, "  … and {} more kinds", diff.stalls.len() - MAX_STALLS);
    }
}

fn waits(diff: &Diff, out: &mut String) {
    let differ: Vec<&WaitDiff> = diff.waits.iter().filter(|waits| waits.differs).collect();
    if differ.is_empty() {
        out.push_str("\nNo wait for a lock, a disk or memory differs by more than noise.\n");
        return;
    }
    out.push_str("\nWaits that differ, per second of recording:\n");
    for waits in differ.iter().take(MAX_WAITS) {
        let key = &waits.waits;
        let waker = match &key.waker {
            Some(waker) => format!(" for {waker}"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "  {:<4} {:>10}  {} waits ({}) in {}{waker}",
            waits.change,
            signed(waits.difference_ns),
            key.waiter,
            key.class.replace('_', " "),
            place(&key.wait_in)
        );
        let (before, after) = (&waits.before, &waits.after);
        let split = match waits.change {
            "new" | "gone" => String::new(),
            _ => format!(
                "; {} because of their number, {} because of their length",
                signed(waits.more_often_ns),
                signed(waits.longer_ns)
            ),
        };
        let _ = writeln!(
            out,
            "       {:.1} → {:.1} waits, median {} → {}, longest {} → {}{split}",
            before.per_second,
            after.per_second,
            duration(before.p50_ns),
            duration(after.p50_ns),
            duration(before.max_ns),
            duration(after.max_ns)
        );
    }
    if differ.len() > MAX_WAITS {
        let _ = writeln!(out, "  … and {} more (--json has all)", differ.len() - MAX_WAITS);
    }
}
