//! The part of a trace that the user selects: threads by name or number, and a window by times
//! relative to the trace's origin.

use crate::args::WindowArgs;
use anyhow::bail;
use std::time::Duration;
use unhitch_model::{ThreadId, Trace, Window};

/// The threads that `name` selects, see [`Trace::threads_called`].
pub fn victims(trace: &Trace, name: &str) -> anyhow::Result<Vec<ThreadId>> {
    let ids = trace.threads_called(name);
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
