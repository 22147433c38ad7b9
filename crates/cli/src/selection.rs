//! Which part of a trace a user means: threads by name or number, a window by times from its
//! origin.

use crate::args::WindowArgs;
use anyhow::bail;
use std::time::Duration;
use unhitch_model::{ThreadId, Trace, Window, visible};

/// The threads that a user's word means: a tid, all threads of a pid, or all with that thread or
/// process name; of a process its main thread first.
pub fn victims(trace: &Trace, name: &str) -> anyhow::Result<Vec<ThreadId>> {
    let number = name.parse::<u32>().ok();
    // As it is, or as it is shown.
    let is_name = |known: &str| known == name || visible(known) == visible(name);
    let named = |id: ThreadId| {
        trace.threads.get(id).names.iter().any(|(_, known)| is_name(trace.name(*known)))
    };
    let is_tid = number.is_some_and(|tid| !trace.threads.incarnations(tid).is_empty());
    let matching = trace.threads.iter().filter(|&(id, thread)| {
        let process = trace.threads.process_of(id);
        // A process's id is also its leader's: it means the process.
        number == Some(process.pid)
            || (is_tid && number == Some(thread.tid))
            || named(id)
            || named(process.leader)
    });
    let mut ids: Vec<ThreadId> = matching.map(|(id, _)| id).filter(|id| !id.is_idle()).collect();
    ids.sort_by_key(|&id| trace.threads.process_of(id).leader != id);
    if ids.is_empty() {
        bail!("no thread or process of this trace is called {name:?}");
    }
    Ok(ids)
}

/// The part of `whole` between two times counted from the trace's origin; all of it where neither
/// is given.
pub fn window(args: WindowArgs, trace: &Trace, whole: Window) -> anyhow::Result<Window> {
    let origin = trace.origin();
    let at = |offset: Duration| origin.plus(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX));
    let wanted = Window::new(args.from.map_or(whole.start, at), args.to.map_or(whole.end, at))
        .intersect(whole);
    if wanted.is_empty() && !args.is_everything() {
        let [from, to] = [whole.start, whole.end].map(|time| time.since(origin) as f64 / 1e9);
        bail!(
            "the trace holds nothing between --from and --to: it goes from {from:.3} s to {to:.3} s"
        );
    }
    Ok(wanted)
}
