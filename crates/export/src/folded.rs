//! Folded stacks, a line each: `thread;outermost;…;innermost nanoseconds`. `flamegraph.pl`,
//! inferno, speedscope and Perfetto draw them.
//!
//! With wakers, a line continues as in bcc's `offwaketime`: behind `--` comes the waker's stack,
//! innermost function first, and then the waker's name.

use crate::frames::Frames;
use crate::job::{Job, Of, Progress};
use crate::report::{Report, details};
use crate::weighed::{Key, Weighed};
use std::io::{self, Write};
use unhitch_model::{NameId, Recorded, StackId};

/// Writes a file.
///
/// # Errors
/// Those of `out`.
pub(crate) fn export(
    job: &Job<'_>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<Report> {
    let trace = job.analysis.trace;
    let frames = Frames::new(trace);
    let weighed = Weighed::new(job, progress);
    let stacks = weighed.sorted();
    let mut line = Line { job, frames: &frames, text: String::new() };
    for (key, weight) in &stacks {
        line.fill(key);
        writeln!(out, "{} {}", line.text, weight.ns)?;
    }
    let mut report = Report::default();
    let (one, many) = match job.of {
        Of::Waits | Of::WaitsAndWakes => ("wait", "waits"),
        Of::Wakes => ("wake-up", "wake-ups"),
        Of::Cpu => ("CPU sample", "CPU samples"),
    };
    report.held(&[(weighed.all.count, one, many), (stacks.len() as u64, "line", "lines")]);
    needs(job, &mut report);
    report.without_stack(weighed.stackless.count, weighed.stackless.ns, one);
    report.note("left out when it was: folded stacks have no time, no threads' states, no stalls");
    report.no_place("a folded stack", &details(trace));
    Ok(report)
}

/// States that what the file is about was not recorded.
pub(crate) fn needs(job: &Job<'_>, report: &mut Report) {
    let trace = job.analysis.trace;
    match job.of {
        Of::Waits => report.needs(trace, Recorded::Switches, "context switches, so no waits"),
        Of::WaitsAndWakes => {
            report.needs(trace, Recorded::Switches, "context switches, so no waits");
            report.needs(trace, Recorded::Wakings, "wake-ups, so no wakers");
        }
        Of::Wakes => report.needs(trace, Recorded::Wakings, "wake-ups"),
        Of::Cpu => report.needs(trace, Recorded::Samples, "CPU samples"),
    }
}

/// A line under construction.
struct Line<'f> {
    job: &'f Job<'f>,
    frames: &'f Frames<'f>,
    text: String,
}

impl Line<'_> {
    fn fill(&mut self, key: &Key) {
        self.text.clear();
        self.thread(key.thread);
        self.stack(key.stack, true);
        if self.job.of == Of::WaitsAndWakes {
            self.part("--");
            self.stack(key.other_stack, false);
            match key.other {
                Some(waker) => self.thread(waker),
                None => self.part("[interrupt or unknown]"),
            }
        }
    }

    fn thread(&mut self, name: NameId) {
        match self.job.analysis.trace.name(name) {
            "" => self.part("?"),
            name => self.part(name),
        }
    }

    fn stack(&mut self, stack: StackId, outermost_first: bool) {
        let frames = self.frames;
        let mut put = |function| self.part(&frames.name(function));
        match outermost_first {
            true => frames.of_stack(stack).rev().for_each(&mut put),
            false => frames.of_stack(stack).for_each(&mut put),
        }
    }

    /// Adds a part. What separates parts, or lines, is no part of a name here.
    fn part(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push(';');
        }
        self.text.extend(name.chars().map(|c| match c {
            ';' => ':',
            c if unhitch_model::is_control(c) => '?',
            c => c,
        }));
    }
}
