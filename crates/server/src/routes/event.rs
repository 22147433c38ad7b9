//! Single events and stacks, as they were recorded.

use super::slice::wake_of;
use crate::Error;
use crate::loaded::Loaded;
use crate::params::{Params, wrong};
use serde_json::{Value, json};
use unhitch_analysis::{Cancel, StackKind, State, user_marks};
use unhitch_model::{EventKind, NameId, StackId, Time, WakeFlags, Window};

/// `GET event`
pub(super) fn event(loaded: &Loaded<'_>, params: &Params, _: &Cancel) -> Result<Value, Error> {
    let trace = loaded.trace;
    let index = |name, len: usize| -> Result<Option<usize>, Error> {
        let Some(id) = params.id(name)? else { return Ok(None) };
        if (id as usize) < len { Ok(Some(id as usize)) } else { Err(Error::NotFound("event")) }
    };
    if let Some(at) = index("switch", trace.switches.len())? {
        let (switches, time) = (&trace.switches, trace.switches.time[at]);
        return Ok(json!({
            "kind": "switch", "index": at, "time": loaded.at(time), "cpu": switches.cpu[at],
            "prev": loaded.who(switches.prev[at], time), "next": loaded.who(switches.next[at], time),
            "prev_state": switches.prev_state[at].letter(), "prev_prio": switches.prev_prio[at], "next_prio": switches.next_prio[at],
            "stack": loaded.stack(StackKind::Wait, switches.stack[at]),
        }));
    }
    if let Some(at) = index("waking", trace.wakings.len())? {
        return Ok(waking(loaded, at));
    }
    if let Some(at) = index("sample", trace.samples.len())? {
        let (samples, time) = (&trace.samples, trace.samples.time[at]);
        return Ok(json!({
            "kind": "sample", "index": at, "time": loaded.at(time), "cpu": samples.cpu[at],
            "who": loaded.who(samples.thread[at], time), "stack": loaded.stack(StackKind::Sample, samples.stack[at]),
        }));
    }
    if let Some(at) = index("provider", trace.events.len())? {
        let (events, time) = (&trace.events, trace.events.time[at]);
        let name =
            |id: fn(&EventKind) -> NameId| events.kind_of(at).map(|kind| trace.name(id(kind)));
        let fields = user_marks::fields(trace, at)
            .into_iter()
            .map(|(name, value)| json!({ "name": name, "value": value }));
        return Ok(json!({
            "kind": "provider", "index": at, "time": loaded.at(time), "cpu": events.cpu[at], "who": loaded.who(events.thread[at], time),
            "provider": name(|kind| kind.provider), "name": name(|kind| kind.name), "fields": fields.collect::<Vec<_>>(),
            "stack": loaded.stack(StackKind::Sample, events.stack[at]),
        }));
    }
    Err(wrong("switch", "", "an index; or one in `waking`, `sample` or `provider`"))
}

fn waking(loaded: &Loaded<'_>, at: usize) -> Value {
    let wakings = &loaded.trace.wakings;
    let (time, wakee) = (wakings.time[at], wakings.wakee[at]);
    let names = [
        ("hardirq", WakeFlags::HARDIRQ),
        ("softirq", WakeFlags::SOFTIRQ),
        ("nmi", WakeFlags::NMI),
        ("new", WakeFlags::NEW),
    ];
    let flags: Vec<&str> = names
        .iter()
        .filter(|(_, flag)| wakings.flags[at].has(*flag))
        .map(|(name, _)| *name)
        .collect();
    let before = Window::new(Time::from_nanos(time.nanos().saturating_sub(1)), time);
    let asleep =
        loaded.analysis.segments(wakee, before).pop().filter(|segment| segment.wake() == Some(at));
    let asleep = asleep.filter(|segment| matches!(segment.state, State::Sleeping(_)));
    // The segment just before the wake-up shows when the sleep began.
    let slept_ns = asleep
        .and_then(|segment| segment.out())
        .map(|out| time.since(loaded.trace.switches.time[out]));
    let mut value = wake_of(loaded, at);
    for (key, field) in [
        ("kind", json!("waking")),
        ("index", json!(at)),
        ("time", json!(loaded.at(time))),
        ("of", loaded.who(wakee, time)),
        ("target_cpu", json!(wakings.target_cpu[at])),
        ("flags", json!(flags)),
        (
            "redundant",
            json!(loaded.analysis.timeline.redundant_wakings().binary_search(&(at as u32)).is_ok()),
        ),
        ("ended_sleep_ns", json!(slept_ns)),
        ("current", loaded.who(wakings.waker[at], time)),
    ] {
        value[key] = field;
    }
    value
}

/// `GET stack`
pub(super) fn stack(loaded: &Loaded<'_>, params: &Params, _: &Cancel) -> Result<Value, Error> {
    let trace = loaded.trace;
    let id = params.id("id")?.ok_or_else(|| wrong("id", "", "a stack's id"))?;
    let kind = match params.get("kind") {
        None => StackKind::Wait,
        Some(word) => {
            StackKind::of_word(word).ok_or_else(|| wrong("kind", word, "wait, wake or sample"))?
        }
    };
    if id as usize >= trace.stacks.len() {
        return Err(Error::NotFound("stack"));
    }
    let stack = StackId(id);
    let (noise, all) = (loaded.analysis.stacks.noise_len(stack), trace.stacks.frames_of(stack));
    let own = if kind == StackKind::Wake {
        loaded.analysis.stacks.own_frames(trace, stack).len()
    } else {
        all.len()
    };
    let mut frames = Vec::new();
    for (at, &frame) in all.iter().enumerate() {
        let place = trace.stacks.frame(frame);
        let module = place.and_then(|place| trace.modules.get(place.module));
        let symbols = trace.symbols.get(frame);
        let lines: Vec<(String, &str, u32)> = match symbols {
            [] => trace.frame_names(frame).into_iter().map(|name| (name, "", 0)).collect(),
            named => named
                .iter()
                .map(|one| (trace.name(one.function).to_owned(), trace.name(one.file), one.line))
                .collect(),
        };
        let count = lines.len();
        for (depth, (function, file, line)) in lines.into_iter().enumerate() {
            frames.push(json!({
                "function": function, "inlined": depth + 1 < count,
                "module": module.map(|module| trace.name(module.path)), "file": file, "line": line,
                "offset": place.map(|place| format!("{:#x}", place.offset)),
                "kernel": module.is_some_and(|module| module.kind.is_kernel()),
                "noise": kind != StackKind::Sample && at < noise, "bystander": at >= own,
            }));
        }
    }
    frames.reverse();
    let class = (kind == StackKind::Wait).then(|| loaded.analysis.stacks.class(stack).name());
    Ok(
        json!({ "stack": id, "kind": kind.word(), "frames": frames, "told": loaded.stack_text(kind, stack), "class": class }),
    )
}
