//! `unhitch why`: what hung, and who caused it.

use crate::args::WhyArgs;
use crate::{Done, load, print};
use anyhow::{Context, bail};
use std::path::Path;
use std::time::Duration;
use unhitch_analysis::Analysis;
use unhitch_analysis::answer::{self, Why};
use unhitch_analysis::stalls::Query;
use unhitch_model::{ThreadId, Time, Trace, Window};

const TOP_TEXT: usize = 1;
const TOP_JSON: usize = 10;

/// Answers for a trace file.
pub fn why(args: &WhyArgs) -> anyhow::Result<Done> {
    let rules = load::rules(args.rules.as_deref())?;
    let trace = load::trace(&args.trace)?;
    let analysis = Analysis::new(&trace, &rules);
    let query = Query {
        victims: args.victim.as_deref().map_or(Ok(Vec::new()), |name| victims(&trace, name))?,
        window: window(args.from, args.to, analysis.timeline.window())?,
    };
    let stalls = analysis.stalls(&query);
    print(&match args.json {
        true => {
            serde_json::to_string(&Why::new(&analysis, &args.trace.display().to_string(), &stalls, args.top.unwrap_or(TOP_JSON)))? + "\n"
        }
        false => answer::text(&analysis, &stalls, args.top.unwrap_or(TOP_TEXT)),
    })?;
    if let (Some(path), Some(stall)) = (&args.svg, stalls.first()) {
        std::fs::write(path, answer::svg(&analysis, stall)).with_context(|| path.display().to_string())?;
    }
    Ok(if stalls.is_empty() { Done::NoStall } else { Done::Yes })
}

/// Answers for a trace just recorded, as text or JSON.
pub fn answer_for(path: &Path, json: bool) -> anyhow::Result<Done> {
    why(&WhyArgs { trace: path.to_path_buf(), victim: None, from: None, to: None, top: None, json, svg: None, rules: None })
}

/// The threads that a user's word means: a tid, all threads of a pid, or all with that thread or process name.
pub fn victims(trace: &Trace, name: &str) -> anyhow::Result<Vec<ThreadId>> {
    let number = name.parse::<u32>().ok();
    let named = |id: ThreadId| trace.threads.get(id).names.iter().any(|(_, known)| trace.name(*known) == name);
    let is_tid = number.is_some_and(|tid| !trace.threads.incarnations(tid).is_empty());
    let matching = trace.threads.iter().filter(|&(id, thread)| {
        let process = trace.threads.process_of(id);
        // A process's id is also its leader's: it means the process.
        number == Some(process.pid) || (is_tid && number == Some(thread.tid)) || named(id) || named(process.leader)
    });
    let ids: Vec<ThreadId> = matching.map(|(id, _)| id).filter(|id| !id.is_idle()).collect();
    if ids.is_empty() {
        bail!("no thread or process of this trace is called {name:?}");
    }
    Ok(ids)
}

/// The window between two times counted from the start of `whole`; none when neither is given.
pub fn window(from: Option<Duration>, to: Option<Duration>, whole: Window) -> anyhow::Result<Option<Window>> {
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    let at = |offset: Duration| whole.start.plus(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX));
    let wanted = Window::new(from.map_or(whole.start, at), to.map_or(whole.end, at).min(Time::MAX)).intersect(whole);
    if wanted.is_empty() {
        bail!("the trace holds nothing between --from and --to: it is {:.3} s long", whole.duration_ns() as f64 / 1e9);
    }
    Ok(Some(wanted))
}
