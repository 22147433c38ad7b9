//! Perfetto's `.pftrace`: <https://perfetto.dev/docs/reference/trace-packet-proto>.
//!
//! The scheduler's events are ftrace's (`ftrace.rs`), so that trace processor makes thread states
//! of them as of its own recordings. Stacks are `StackSample`s, a source each for CPU samples,
//! waits and wake-ups (`stacks.rs`). Stalls and their chains are track events with flows to the
//! wake-ups (`answers.rs`). What Perfetto has no field for is told by one event of our own
//! (`recording.rs`). Packets are written as they come; what is kept is which names were
//! written already.

mod answers;
mod fields;
mod ftrace;
mod interned;
mod packets;
mod recording;
mod stacks;
mod tasks;

use crate::job::{Job, Progress};
use crate::report::{Report, details};
use packets::Packets;
use std::io::{self, Write};
use unhitch_model::units::count;
use unhitch_model::{Policy, Recorded, System, Thread};

/// Writes a trace.
///
/// # Errors
/// Those of `out`.
pub(crate) fn export(
    job: &Job<'_>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<Report> {
    let trace = job.analysis.trace;
    let mut packets = Packets::new(out);
    packets.head(trace, job)?;
    recording::write(job, &mut packets)?;
    tasks::write_first(trace, job.selection, &mut packets)?;
    let events = ftrace::write(trace, job.selection, &mut packets, progress)?;
    let stacks = stacks::write(job, &mut packets, progress)?;
    let stalls = answers::write(job, &mut packets)?;
    let mut report = Report::default();
    report.held(&[
        (events.switches, "context switch", "context switches"),
        (events.wakings, "wake-up", "wake-ups"),
        (stacks.cpu, "CPU sample", "CPU samples"),
        (stacks.waits, "wait stack", "wait stacks"),
        (stacks.wakes, "wake stack", "wake stacks"),
        (stalls, "stall", "stalls"),
    ]);
    report.needs(trace, Recorded::Switches, "context switches: there are no thread states");
    report.needs(trace, Recorded::Wakings, "wake-ups: it is not known who woke whom");
    report.without_stack(stacks.stackless, stacks.stackless_ns, "wait");
    let lost = trace.lost_events();
    if lost > 0 {
        report.note(format!("{} events are lost: see the track \"lost events\"", count(lost)));
    }
    if job.selection.threads.is_some() {
        report.note(
            "only the switches of the selected threads are in the file: other threads seem to run \
             on until the next one",
        );
    }
    let contentions = trace.contentions.range(job.selection.window).len() as u64;
    let is_ranked = |thread: &Thread| {
        thread.policy.is_some_and(|policy| policy != Policy::Other)
            || thread.nice.is_some_and(|nice| nice != 0)
    };
    let ranked = trace
        .threads
        .iter()
        .filter(|&(id, thread)| !id.is_idle() && job.selection.has(&[id]) && is_ranked(thread));
    let ranked = ranked.count() as u64;
    let earlier = trace.earlier_waits.iter().filter(|wait| job.selection.has(&[wait.thread]));
    let earlier = earlier.count() as u64;
    let mut no_place = vec![
        (contentions, "lock event", "lock events"),
        (stacks.cpu_without_stack, "CPU sample without a stack", "CPU samples without a stack"),
        (stacks.cpu_idle, "sample of an idle CPU", "samples of idle CPUs"),
        (ranked, "scheduling policy of a thread", "scheduling policies of threads"),
        (earlier, "wait that began before the recording", "waits that began before the recording"),
    ];
    no_place.extend(details(trace));
    report.no_place("Perfetto", &no_place);
    if trace.meta.system == System::Windows {
        report.note("Windows' states and priorities are translated to those of Linux");
    }
    Ok(report)
}
