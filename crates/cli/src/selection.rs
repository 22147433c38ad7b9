//! The part of a trace that the user selects: threads by name or number, and a window by times
//! relative to the trace's origin.

use crate::args::WindowArgs;
use anyhow::bail;
use std::time::Duration;
use unhitch_model::{ThreadId, Trace, Window, visible};

/// The threads that `name` selects: a tid, all threads of a pid, or all threads with that thread or
/// process name; main threads first.
pub fn victims(trace: &Trace, name: &str) -> anyhow::Result<Vec<ThreadId>> {
    let number = name.parse::<u32>().ok();
    // The name as recorded, or as printed.
    let is_name = |known: &str| known == name || visible(known) == visible(name);
    let named = |id: ThreadId| {
        trace.threads.get(id).names.iter().any(|(_, known)| is_name(trace.name(*known)))
    };
    let is_tid = number.is_some_and(|tid| !trace.threads.incarnations(tid).is_empty());
    let matching = trace.threads.iter().filter(|&(id, thread)| {
        let process = trace.threads.process_of(id);
        // A pid is also the tid of the main thread; it selects the whole process.
        number == Some(process.pid)
            || (is_tid && number == Some(thread.tid))
            || named(id)
            || named(process.leader)
    });
    let mut ids: Vec<ThreadId> = matching.map(|(id, _)| id).filter(|id| !id.is_idle()).collect();
    ids.sort_by_key(|&id| trace.threads.process_of(id).leader != id);
    if ids.is_empty() {
        bail!("no thread or process in this trace is called {name:?}");
    }
    Ok(ids)
}

/// The part of `whole` between two times relative to the trace's origin; all of it if neither is
/// given.
pub fn window(args: WindowArgs, trace: &Trace, whole: Window) -> anyhow::Result<Window> {
    let origin = trace.origin();
    let at = |offset: Duration| origin.plus(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX));
    let wanted = Window::new(args.from.map_or(whole.start, at), args.to.map_or(whole.end, at))
        .intersect(whole);
    if wanted.is_empty() && !args.is_everything() {
        let [from, to] = [whole.start, whole.end].map(|time| time.since(origin) as f64 / 1e9);
        bail!("there is nothing in this time range: the trace covers {from:.3} s to {to:.3} s");
    }
    Ok(wanted)
}
