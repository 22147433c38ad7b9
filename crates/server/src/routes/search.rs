//! Finds threads, processes and functions by name.

use super::view::thread_lane;
use crate::Error;
use crate::loaded::{Loaded, pid};
use crate::params::{Params, wrong};
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unhitch_analysis::Cancel;
use unhitch_model::{FrameId, StackId, Time};

/// Maximum length of an expression, bytes.
const MAX_QUERY_BYTES: usize = 400;
/// Maximum size of a compiled regular expression, bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// Names or stacks between two checks for cancellation.
const STRIDE: usize = 4096;

/// What to search for.
enum Wanted {
    /// In lower case.
    Text(String),
    Regex(Regex),
}

impl Wanted {
    fn new(params: &Params) -> Result<Self, Error> {
        let text = params.text("q")?;
        if text.len() > MAX_QUERY_BYTES {
            return Err(wrong(
                "q",
                "a very long text",
                &format!("at most {MAX_QUERY_BYTES} bytes"),
            ));
        }
        if !params.flag("regex")? {
            return Ok(Self::Text(text.to_lowercase()));
        }
        let regex = RegexBuilder::new(text).size_limit(MAX_REGEX_BYTES).build();
        regex
            .map(Self::Regex)
            .map_err(|error| wrong("q", text, &format!("a regular expression: {error}")))
    }

    fn is_in(&self, name: &str) -> bool {
        match self {
            Self::Text(text) => name.to_lowercase().contains(text),
            Self::Regex(regex) => regex.is_match(name),
        }
    }

    /// An integer is also searched for as an id.
    fn is_id(&self, id: u32) -> bool {
        matches!(self, Self::Text(text) if text.parse() == Ok(id))
    }
}

/// `GET search`
pub(super) fn search(
    loaded: &Loaded<'_>,
    params: &Params,
    cancel: &Cancel,
) -> Result<Value, Error> {
    let (trace, wanted) = (loaded.trace, Wanted::new(params)?);
    let limit = params.number("limit", 100, 1..=10_000)?;
    let kinds: Vec<&str> =
        params.get("in").unwrap_or("threads,processes,functions").split(',').collect();
    if let Some(other) =
        kinds.iter().find(|kind| !["threads", "processes", "functions"].contains(kind))
    {
        return Err(wrong("in", other, "threads, processes, functions"));
    }
    let asked = |kind: &str| kinds.contains(&kind);
    let mut threads = Vec::new();
    if asked("threads") {
        for (id, thread) in trace.threads.iter().skip(1) {
            let is_named = thread.names.iter().any(|(_, name)| wanted.is_in(trace.name(*name)));
            if is_named || wanted.is_id(thread.tid) {
                threads.push(
                    json!({ "who": loaded.who(id, loaded.window().end), "lane": thread_lane(id) }),
                );
            }
        }
        cancel.check()?;
    }
    let mut processes = Vec::new();
    if asked("processes") {
        for (id, process) in trace.threads.processes().skip(1) {
            let (name, line) =
                (trace.thread_name(process.leader, Time::MAX), trace.name(process.command_line));
            if wanted.is_in(name) || wanted.is_in(line) || wanted.is_id(process.pid) {
                processes.push(json!({ "process": id.0, "pid": pid(process), "name": name, "command_line": line }));
            }
        }
        cancel.check()?;
    }
    let functions =
        if asked("functions") { functions(loaded, &wanted, cancel)? } else { Vec::new() };
    let total = json!({ "threads": threads.len(), "processes": processes.len(), "functions": functions.len() });
    let first = |list: Vec<Value>| list.into_iter().take(limit).collect::<Vec<_>>();
    Ok(
        json!({ "total": total, "threads": first(threads), "processes": first(processes), "functions": first(functions) }),
    )
}

/// The functions whose names match, those on the most stacks first.
fn functions(loaded: &Loaded<'_>, wanted: &Wanted, cancel: &Cancel) -> Result<Vec<Value>, Error> {
    let (trace, uses) = (loaded.trace, loaded.stack_uses());
    // The matching names of each frame. Each name is compared only once.
    let mut known: BTreeMap<u32, bool> = BTreeMap::new();
    let mut found: BTreeMap<(&str, &str), [u64; 3]> = BTreeMap::new();
    let mut names_of: Vec<Vec<(&str, &str)>> = Vec::with_capacity(trace.stacks.frames().len());
    for (index, frame) in trace.stacks.frames().iter().enumerate() {
        if index % STRIDE == 0 {
            cancel.check()?;
        }
        let module = trace.modules.get(frame.module).map_or("", |module| trace.name(module.path));
        let symbols = trace.symbols.get(FrameId(index as u32)).iter().map(|symbol| symbol.function);
        let hits = symbols
            .filter(|name| *known.entry(name.0).or_insert_with(|| wanted.is_in(trace.name(*name))));
        names_of.push(hits.map(|name| (trace.name(name), module)).collect());
    }
    for id in 0..trace.stacks.len() {
        if id % STRIDE == 0 {
            cancel.check()?;
        }
        let Some(used) = uses.get(id).filter(|used| used.iter().any(|used| *used)) else {
            continue;
        };
        let frames = trace.stacks.frames_of(StackId(id as u32)).iter();
        let mut names: Vec<(&str, &str)> =
            frames.filter_map(|frame| names_of.get(frame.index())).flatten().copied().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let counts = found.entry(name).or_default();
            counts.iter_mut().zip(used).for_each(|(count, used)| *count += u64::from(*used));
        }
    }
    let mut list: Vec<_> = found.into_iter().collect();
    list.sort_by_key(|(name, counts)| (std::cmp::Reverse(counts.iter().sum::<u64>()), *name));
    let value = |((name, module), [waits, wakes, samples]): ((&str, &str), [u64; 3])| json!({ "name": name, "module": module, "waits": waits, "wakes": wakes, "samples": samples });
    Ok(list.into_iter().map(value).collect())
}
