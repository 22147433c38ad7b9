//! All lanes, those that matter to the selection first.

use super::view::thread_lane;
use crate::Error;
use crate::loaded::{Loaded, pid, tid};
use crate::params::Params;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use unhitch_analysis::Cancel;
use unhitch_analysis::Stall;
use unhitch_model::{ProcessId, ThreadId, Window};

/// A thread's role in a stall.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Victim,
    Hop,
    Culprit,
}

impl Role {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Victim => "victim",
            Self::Hop => "hop",
            Self::Culprit => "culprit",
        }
    }
}

/// The threads of a stall with their roles and depths, each once: the victim, the threads that its
/// waits lead to by depth, the culprit.
pub(super) fn roles(stall: &Stall) -> Vec<(ThreadId, Role, u32)> {
    let victim = stall.candidate.victim;
    let mut hops: Vec<(u32, std::cmp::Reverse<u64>, ThreadId)> = stall
        .explanation
        .hops
        .iter()
        .map(|hop| (hop.depth, std::cmp::Reverse(hop.window.duration_ns()), hop.by))
        .collect();
    hops.sort();
    let mut roles = vec![(victim, Role::Victim, 0)];
    for (depth, _, thread) in hops {
        if !roles.iter().any(|(known, ..)| *known == thread) {
            roles.push((thread, Role::Hop, depth));
        }
    }
    if let Some(culprit) = stall.finding.culprit.filter(|culprit| *culprit != victim) {
        match roles.iter_mut().find(|(known, ..)| *known == culprit) {
            Some((_, role, _)) => *role = Role::Culprit,
            None => roles.push((culprit, Role::Culprit, 1)),
        }
    }
    roles
}

/// `GET lanes`
pub(super) fn lanes(loaded: &Loaded<'_>, params: &Params, cancel: &Cancel) -> Result<Value, Error> {
    let (selection, trace) = (params.selection(loaded)?, loaded.trace);
    let roles = match params.id("stall")? {
        Some(id) => roles(loaded.stall(id as usize)?),
        None => Vec::new(),
    };
    let rank = |thread: ThreadId| roles.iter().position(|(known, ..)| *known == thread);
    let ran = loaded.at_once(|| loaded.lanes.ran(loaded.analysis, selection.window, cancel))?;
    // The most relevant threads have the greatest number: first those of the stall, then the
    // selected ones, then all others by how much they ran.
    let all_ns = selection.window.duration_ns().max(1);
    let relevance = |thread: ThreadId| match rank(thread) {
        Some(rank) => 1_000_000 - (rank as u64).min(100_000),
        None if selection.names(loaded, thread) => 500_000,
        None => {
            (u128::from(ran[thread.index()].ns) * 100_000 / u128::from(all_ns)).min(100_000) as u64
        }
    };
    let mut processes: BTreeMap<ProcessId, Vec<(u64, ThreadId)>> = BTreeMap::new();
    let mut quiet = 0;
    for (id, thread) in trace.threads.iter().skip(1) {
        let is_active = loaded.analysis.timeline.cycle_count(id) > 0
            || !loaded.analysis.samples.of_thread(trace, id, loaded.window()).is_empty();
        if is_active || rank(id).is_some() || selection.names(loaded, id) {
            processes.entry(thread.process).or_default().push((relevance(id), id));
        } else {
            quiet += 1;
        }
    }
    let thread = |&(relevance, id): &(u64, ThreadId)| {
        let (life, ran) = (loaded.analysis.timeline.life(id), ran[id.index()]);
        let role = rank(id).and_then(|rank| roles.get(rank)).map(|(_, role, _)| role.word());
        json!({
            "lane": thread_lane(id), "thread": id.0, "tid": tid(trace.threads.get(id)),
            "name": trace.thread_name(id, selection.window.end.min(life.end)),
            "from": loaded.at(life.start), "to": loaded.at(life.end),
            "ran_ns": ran.ns, "runnable_ns": loaded.lanes.runnable_ns(id, selection.window), "switches": ran.times,
            "samples": loaded.analysis.samples.of_thread(trace, id, selection.window).len(), "relevance": relevance,
            "role": role.or_else(|| selection.names(loaded, id).then_some("selected")),
        })
    };
    let mut listed: Vec<(u64, u64, ProcessId, Value)> = processes
        .into_iter()
        .map(|(id, mut threads)| {
            threads.sort_by_key(|&(relevance, thread)| (std::cmp::Reverse(relevance), thread));
            let process = trace.threads.process(id);
            let (life, leader) =
                (loaded.analysis.timeline.life(process.leader), trace.threads.get(process.leader));
            let ran_ns: u64 = threads.iter().map(|(_, thread)| ran[thread.index()].ns).sum();
            let max_relevance = threads.first().map_or(0, |(relevance, _)| *relevance);
            let value = json!({
                "process": id.0, "pid": pid(process),
                "name": trace.thread_name(process.leader, selection.window.end.min(life.end)),
                "command_line": trace.name(process.command_line), "parent_pid": process.parent_pid,
                "control_group": trace.machine.group_path(&trace.threads, process.leader),
                "from": loaded.at(life.start), "to": loaded.at(life.end),
                "started": leader.start.is_some(), "ended": leader.end.is_some(),
                "relevance": max_relevance, "ran_ns": ran_ns,
                "threads": threads.iter().map(thread).collect::<Vec<_>>(),
            });
            (max_relevance, ran_ns, id, value)
        })
        .collect();
    listed.sort_by_key(|&(relevance, ran_ns, id, _)| (std::cmp::Reverse((relevance, ran_ns)), id));
    let processes: Vec<Value> = listed.into_iter().map(|(.., value)| value).collect();
    Ok(json!({ "cpus": cpus(loaded, selection.window), "processes": processes, "quiet": quiet }))
}

fn cpus(loaded: &Loaded<'_>, window: Window) -> Vec<Value> {
    let trace = loaded.trace;
    let mut samples = vec![0u64; loaded.analysis.cpus.cpus()];
    for sample in trace.samples.range(window).filter(|&sample| trace.samples.is_work(sample)) {
        let cpu = trace.samples.cpu.get(sample).copied().map_or(usize::MAX, usize::from);
        samples.get_mut(cpu).into_iter().for_each(|count| *count += 1);
    }
    let cpu = |cpu: usize| {
        let busy_ns = loaded.lanes.cpu_busy_ns(loaded.analysis, cpu as u16, window);
        json!({ "lane": format!("c{cpu}"), "cpu": cpu, "busy_ns": busy_ns, "samples": samples[cpu] })
    };
    (0..samples.len()).map(cpu).collect()
}
