//! The stalls, and each of them in full: its wait chain, its evidence, where its time went.

use super::lanes::roles;
use super::slice::{interrupt_words, occupants};
use super::view::thread_lane;
use crate::Error;
use crate::app::App;
use crate::loaded::Loaded;
use crate::opened::Stage;
use crate::params::{Params, wrong};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use unhitch_analysis::answer::{self, Clause, TextLink};
use unhitch_analysis::explain::{Meanwhile, awaited_cpu};
use unhitch_analysis::lod::LaneState;
use unhitch_analysis::wording::{Event, Reference};
use unhitch_analysis::{Cancel, ChainLink, Evidence, Hop, LinkState, Share, WakeContext, What};
use unhitch_analysis::{Query, StackKind, Stall, WaitClass};
use unhitch_model::{StackId, ThreadId, Window};

/// Maximum arrows; those that ended the longest waits are drawn.
const MAX_ARROWS: usize = 500;

/// `GET stalls`
pub(super) async fn stalls(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Error> {
    let (status, progress) = app.opened(&name)?.status();
    if let Some(why) = status.failed {
        return Err(Error::Unreadable(why));
    }
    if status.stage < Stage::Ready {
        return Ok(Json(
            json!({ "ready": false, "progress": progress, "stalls": [], "nothing": null, "advice": null }),
        )
        .into_response());
    }
    app.json(&name, Stage::Ready, move |loaded, _| list(loaded, &params)).await
}

fn list(loaded: &Loaded<'_>, params: &Params) -> Result<Value, Error> {
    let (selection, stalls) = (params.selection(loaded)?, loaded.stalls().ok_or(Error::NotReady)?);
    let worst = stalls.iter().map(Stall::severity).max().unwrap_or(1).max(1);
    let wanted = |stall: &&Stall| {
        stall.explanation.window.overlaps(selection.window)
            && stall.victims.iter().any(|&victim| selection.has(loaded, victim))
    };
    let values = stalls.iter().enumerate().filter(|(_, stall)| wanted(stall)).map(|(index, stall)| {
        let (window, finding) = (stall.explanation.window, &stall.finding);
        json!({
            "id": index + 1, "kind": stall.candidate.kind.name(), "headline": answer::headline(stall),
            "from": loaded.at(window.start), "to": loaded.at(window.end), "duration_ns": window.duration_ns(),
            "severity": stall.severity() as f64 / worst as f64,
            "victim": loaded.who(stall.candidate.victim, window.end), "victims": stall.victims.len(),
            "pattern": finding.pattern.name(), "culprit": finding.culprit.map(|culprit| loaded.who(culprit, window.end)),
            "function": finding.function, "evidence": finding.evidence.name(), "cause": finding.cause.to_string(),
        })
    });
    let values: Vec<Value> = values.collect();
    let nothing = values.is_empty().then(|| match stalls.is_empty() {
        true => answer::nothing_found(loaded.analysis, &Query::default()),
        false => answer::Nothing {
            why: "None of the stalls of this trace is in the selection.".to_owned(),
            commands: String::new(),
            record: "",
        },
    });
    // The commands are left out: the page can do what they would.
    let advice = nothing.as_ref().map(|nothing| nothing.record).filter(|record| !record.is_empty());
    let nothing = nothing.as_ref().map(|nothing| nothing.why.as_str());
    Ok(json!({
        "ready": true, "progress": 1.0, "stalls": values, "nothing": nothing, "advice": advice,
    }))
}

/// `GET stall/{id}`
pub(super) async fn stall(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Error> {
    let id: usize = id.parse().map_err(|_| Error::NotFound("stall"))?;
    app.json(&name, Stage::Ready, move |loaded, _| {
        loaded.stall(id).map(|stall| in_full(loaded, stall, id))
    })
    .await
}

/// `GET explain`
pub(super) fn explain(loaded: &Loaded<'_>, params: &Params, _: &Cancel) -> Result<Value, Error> {
    let thread = params.id("thread")?.ok_or_else(|| wrong("thread", "", "a thread's id"))?;
    let (victim, window) =
        (loaded.thread(thread)?, params.window(loaded)?.intersect(loaded.window()));
    let query = Query { victims: vec![victim], window: Some(window), ..Query::default() };
    let stalls = unhitch_analysis::diagnose(loaded.analysis, &query);
    stalls
        .first()
        .map(|stall| in_full(loaded, stall, 0))
        .ok_or(Error::NotFound("time of this thread in that window"))
}

pub(super) fn in_full(loaded: &Loaded<'_>, stall: &Stall, id: usize) -> Value {
    let (analysis, finding, window) = (loaded.analysis, &stall.finding, stall.explanation.window);
    let who = |thread: ThreadId| loaded.who(thread, window.end);
    let (wakes, in_vain) = stall.figures(analysis);
    let roles = roles(stall);
    let depth_of = |thread: ThreadId| {
        roles.iter().find(|(known, ..)| *known == thread).map_or(0, |&(.., depth)| depth)
    };
    let links = stall.explanation.chain(ChainLink::MAX);
    let chain: Vec<Value> = links
        .iter()
        .enumerate()
        .map(|(index, link)| chain_link_value(loaded, link, index, depth_of(link.thread), window))
        .collect();
    let partition = unhitch_analysis::explain::partition(analysis, &stall.explanation);
    let shares = partition.iter().map(|share| {
        json!({
            "what": share.what.name(), "label": label(share), "who": share.who.filter(|who| !who.is_idle()).map(who), "ns": share.ns,
            "share": share.ns as f64 / window.duration_ns().max(1) as f64, "state": LaneState::of_share(share.what) as u8,
        })
    });
    json!({
        "id": id, "kind": stall.candidate.kind.name(), "headline": answer::headline(stall),
        "from": loaded.at(window.start), "to": loaded.at(window.end), "duration_ns": window.duration_ns(),
        "victim": who(stall.candidate.victim), "victims": stall.victims.iter().map(|&victim| who(victim)).collect::<Vec<_>>(),
        "cause": {
            "pattern": finding.pattern.name(), "culprit": finding.culprit.map(who), "function": finding.function,
            "evidence": finding.evidence.name(), "evidence_words": finding.evidence_words.to_string(),
            "text": finding.cause.to_string(), "advice": finding.advice,
        },
        "figures": { "wakes": wakes, "wakes_in_vain": in_vain, "idle_share": analysis.cpus.idle_share(loaded.trace, window) },
        "lanes": roles.iter().map(|&(thread, role, depth)| {
            json!({ "lane": thread_lane(thread), "who": who(thread), "role": role.word(), "depth": depth })
        }).collect::<Vec<_>>(),
        "chain": chain,
        "arrows": arrows(loaded, stall, &links),
        "wakes_followed": stall.explanation.hops.iter().map(|hop| u64::from(hop.waits)).sum::<u64>(),
        "partition": shares.collect::<Vec<_>>(),
        "clauses": clauses(loaded, stall),
        "text": answer::text(analysis, std::slice::from_ref(stall), 1),
    })
}

fn chain_link_value(
    loaded: &Loaded<'_>,
    link: &ChainLink,
    index: usize,
    depth: u32,
    window: Window,
) -> Value {
    let (analysis, segment) = (loaded.analysis, &link.piece.segment);
    let wait = link.wait(analysis);
    let awaited = awaited_cpu(analysis, segment, link.window);
    let had_it = awaited.map_or(Vec::new(), |cpu| occupants(loaded, cpu, link.window));
    let cpu = awaited.or(analysis.cpu_of(segment));
    json!({
        "link": index, "who": loaded.who(link.thread, window.end), "lane": thread_lane(link.thread), "depth": depth,
        "state": link.state.name(), "class": wait.class, "from": loaded.at(link.window.start), "to": loaded.at(link.window.end),
        "ns": link.window.duration_ns(), "waited_ns": wait.waited_ns, "pieces": link.pieces,
        "stack": loaded.stack(wait.kind, wait.stack), "cpu": cpu,
        "occupants": had_it, "wake": wake(loaded, link, window),
    })
}

/// The wake-up that ended a link's wait, and the thread that caused it.
fn ended_by(loaded: &Loaded<'_>, link: &ChainLink) -> Option<(Option<usize>, Option<ThreadId>)> {
    match &link.hop {
        Some(hop) => Some((hop.release(), Some(hop.by))),
        None if link.state == LinkState::Sleeping => link.piece.segment.wake().map(|wake| {
            let by_task = loaded.analysis.stacks.wake_source(loaded.trace, wake).context.is_task();
            (Some(wake), by_task.then(|| loaded.trace.wakings.waker[wake]))
        }),
        None => None,
    }
}

/// How it is known that the named thread ended the wait.
fn evidence(hop: &Hop) -> Evidence {
    match hop.source.context {
        _ if hop.released.is_some() => Evidence::Direct,
        // Inferred from the lock word or the order of a queue; no wake-up was seen.
        _ if hop.wake.is_none() || hop.is_queued() => Evidence::Inferred,
        WakeContext::Task | WakeContext::Interrupt | WakeContext::Idle => Evidence::Direct,
        WakeContext::SoftirqSync | WakeContext::Worker => Evidence::Inferred,
    }
}

fn wake(loaded: &Loaded<'_>, link: &ChainLink, window: Window) -> Option<Value> {
    let (wake, by) = ended_by(loaded, link)?;
    let wakings = &loaded.trace.wakings;
    let source = wake.map(|wake| loaded.analysis.stacks.wake_source(loaded.trace, wake));
    Some(json!({
        "at": wake.map(|wake| loaded.at(wakings.time[wake])), "waking": wake,
        "context": source.map_or("unknown", |source| source.context.name()), "source": source.and_then(interrupt_words),
        "by": by.map(|by| loaded.who(by, window.end)), "by_lane": by.map(thread_lane),
        "stack": loaded.stack(StackKind::Wake, wake.map_or(StackId::EMPTY, |wake| wakings.stack[wake])),
        "evidence": link.hop.as_ref().map_or(Evidence::Direct, evidence).name(),
    }))
}

/// Wake-ups as arrows from the waker's lane to the woken thread's: those that ended the longest
/// waits, in order of time.
fn arrows(loaded: &Loaded<'_>, stall: &Stall, links: &[ChainLink]) -> Vec<Value> {
    let mut hops: Vec<&Hop> = stall.explanation.hops.iter().collect();
    hops.sort_by_key(|hop| (std::cmp::Reverse(hop.window.duration_ns()), hop.window.end));
    hops.truncate(MAX_ARROWS);
    hops.sort_by_key(|hop| (hop.window.end, hop.depth));
    hops.into_iter().map(|hop| arrow(loaded, hop, links)).collect()
}

fn arrow(loaded: &Loaded<'_>, hop: &Hop, links: &[ChainLink]) -> Value {
    let at = hop.wake.map_or(hop.window.end, |wake| loaded.trace.wakings.time[wake]);
    let context = match hop.wake {
        Some(_) => hop.source.context.name(),
        None if hop.started.is_some() => "started the waker",
        None if hop.meanwhile == Some(Meanwhile::Ran) => "ran meanwhile",
        None if hop.meanwhile == Some(Meanwhile::ServedDisk) => "served the disk",
        None if hop.class == WaitClass::Lock => "lock word",
        None => "not answered yet",
    };
    let evidence = evidence(hop).name();
    // A link includes its short neighbours, and ends where they end.
    let link = links
        .iter()
        .position(|link| link.window.start < hop.window.end && hop.window.end <= link.window.end);
    json!({
        "from_lane": thread_lane(hop.by), "to_lane": thread_lane(hop.sleeper), "at": loaded.at(at), "waking": hop.wake,
        "context": context, "evidence": evidence, "label": format!("{context} · {evidence}"),
        "link": link, "depth": hop.depth, "waited_ns": hop.slept.duration_ns(),
    })
}

/// The words for a share of the time; the page appends the thread, if one is known.
fn label(share: &Share) -> &'static str {
    match share.who {
        Some(who) if who.is_idle() => share.what.words_of_idle(),
        None if share.what == What::WaitedForCpu => "CPU use not recorded",
        _ => share.what.words(),
    }
}

/// The answer's sentences, each with links to its evidence. No commands: the page shows it itself.
fn clauses(loaded: &Loaded<'_>, stall: &Stall) -> Vec<Value> {
    let clauses = answer::clauses(loaded.analysis, stall);
    let values = clauses.into_iter().map(Clause::without_commands).map(|clause| {
        let (text, links) = (clause.text(), clause.links());
        // Browsers count in UTF-16.
        let units = |byte: usize| text.get(..byte).unwrap_or(&text).encode_utf16().count();
        let links: Vec<Value> = links
            .iter()
            .map(|link| link_value(loaded, link, units(link.range.start), units(link.range.end)))
            .collect();
        let (kind, label) = (clause.kind.name(), clause.label);
        json!({ "kind": kind, "label": label, "text": text, "links": links })
    });
    let warnings = loaded.trace.warnings.lines().map(
        |warning| json!({ "kind": "warning", "label": "WARNING", "text": warning, "links": [] }),
    );
    values.chain(warnings).collect()
}

fn link_value(loaded: &Loaded<'_>, link: &TextLink, start: usize, end: usize) -> Value {
    let Reference { thread, window, event } = link.reference;
    let event = event.map(|event| match event {
        Event::Switch(at) => json!({ "switch": at }),
        Event::Waking(at) => json!({ "waking": at }),
        Event::Provider(at) => json!({ "provider": at }),
    });
    json!({
        "start": start, "end": end, "lane": thread.map(thread_lane),
        "from": loaded.at(window.start), "to": loaded.at(window.end), "event": event,
        "instructions_of": link.instructions_of.map(|name| loaded.trace.name(name)),
    })
}
