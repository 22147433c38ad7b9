//! Perfetto: the packets are sound, the thread states and stacks are ours.

use super::scheduler::{self, Event, Slice};
use super::wire::Message;
use super::{Stacks, Tables, assert_same, export, skipped};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use unhitch_analysis::{Analysis, State};
use unhitch_export::Of;
use unhitch_formats::perf_data::tracepoints::state_bits;
use unhitch_model::{ModuleKind, ThreadId, WakeFlags};

/// Fields of `TracePacket`.
const FTRACE: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const FLAGS: u32 = 13;
const DEFAULTS: u32 = 59;
const TRACK: u32 = 60;
const STACK_SAMPLE: u32 = 135;

/// Everything that must hold for any trace.
pub fn check(analysis: &Analysis<'_>) {
    let bytes = export(analysis, "perfetto", Of::Waits);
    let file = Message::read(&bytes);
    assert_eq!(file.fields().collect::<Vec<_>>(), [1], "a trace is packets");
    let packets: Vec<Message<'_>> = file.messages(1).collect();
    check_sequences(&packets);
    check_tracks(&packets);
    check_states(analysis, &packets);
    check_stacks(analysis, &packets);
}

/// Perfetto's own descriptors know every field, and find as many packets as we do.
pub fn check_descriptors(analysis: &Analysis<'_>, test: &str) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find_map(|folder| {
        Some(folder.join("crates/export/tests")).filter(|tests| tests.join("formats").exists())
    });
    let tests = tests.expect("the sources");
    let own = tests.join("../../../target/tools/perfetto/bin/python");
    let python = if own.exists() { own } else { "python3".into() };
    let has_it = Command::new(&python).args(["-c", "import perfetto"]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        return skipped(test, "Python's package perfetto is not there (tools/setup test)");
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, bytes) = (folder.path().join("a.pftrace"), export(analysis, "perfetto", Of::Waits));
    std::fs::write(&file, &bytes).unwrap();
    let script = tests.join("unknown_fields.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let packets = Message::read(&bytes).messages(1).count();
    assert_eq!(text, format!("{packets} packets\nno unknown field\n"), "{errors}");
}

/// What a sequence has interned, by kind and id.
#[derive(Default)]
struct Interned<'a>(BTreeMap<(u32, u64), Message<'a>>);

impl<'a> Interned<'a> {
    /// Kinds with the kinds that their fields refer to, each of which comes before.
    const REFERENCES: [(u32, &'static [(u32, u32)]); 3] = [
        // Mapping: build id, path.
        (19, &[(2, 16), (7, 17)]),
        // Frame: function, mapping, source path.
        (6, &[(2, 5), (3, 19), (5, 18)]),
        // Callstack: frames.
        (7, &[(2, 6)]),
    ];

    fn add(&mut self, data: &Message<'a>) {
        for kind in [5, 16, 17, 18, 19, 6, 7] {
            for entry in data.messages(kind) {
                let id = entry.number(1);
                assert_ne!(id, 0, "0 means none");
                let known = self.0.insert((kind, id), entry);
                assert!(known.is_none(), "{kind}: {id} is interned twice");
            }
        }
        for (kind, references) in Self::REFERENCES {
            for entry in data.messages(kind) {
                for (field, of) in references {
                    for id in entry.numbers(*field).into_iter().filter(|id| *id > 0) {
                        assert!(self.0.contains_key(&(*of, id)), "{kind} refers to {of}: {id}");
                    }
                }
            }
        }
    }

    fn text(&self, kind: u32, id: u64) -> &'a str {
        self.0.get(&(kind, id)).map_or("", |entry| entry.text(2))
    }

    /// The names of a stack as our tables print them, outermost first.
    fn names(&self, callstack: u64) -> Vec<String> {
        const SCRIPT: u64 = 3;
        let name = |frame: u64| {
            let frame = &self.0[&(6, frame)];
            let function = self.text(5, frame.number(2));
            let mapping = &self.0[&(19, frame.number(3))];
            match (function, frame.number(7)) {
                ("", _) => {
                    let path = self.text(17, mapping.number(7));
                    format!("{}+{:#x}", ModuleKind::File.file_name(path), frame.number(4))
                }
                (function, SCRIPT) => {
                    let source = ModuleKind::Script.file_name(self.text(18, frame.number(5)));
                    format!("{function} ({source}:{})", frame.number(6))
                }
                (function, _) => function.to_owned(),
            }
        };
        self.0[&(7, callstack)].numbers(2).into_iter().map(name).collect()
    }
}

/// Each sequence begins with a cleared state, and refers only to what it has interned before.
fn check_sequences(packets: &[Message<'_>]) {
    let mut interned: BTreeMap<u64, Interned<'_>> = BTreeMap::new();
    for packet in packets {
        let sequence = packet.number(SEQUENCE);
        assert_ne!(sequence, 0, "trace processor rejects packets without a sequence");
        let uses = packet.has(TRACK_EVENT) || packet.has(STACK_SAMPLE) || packet.has(TRACK);
        let expected = if interned.contains_key(&sequence) { 2 } else { 1 | 2 };
        if uses {
            assert_eq!(packet.number(FLAGS), expected, "sequence {sequence}");
            interned.entry(sequence).or_default();
        }
        for data in packet.messages(INTERNED) {
            interned.get_mut(&sequence).expect("a sequence with state").add(&data);
        }
        let stacks = [(STACK_SAMPLE, 6), (TRACK_EVENT, 56)].map(|(kind, field)| {
            packet.messages(kind).flat_map(|of| of.numbers(field)).collect::<Vec<_>>()
        });
        for id in stacks.concat() {
            assert!(interned[&sequence].0.contains_key(&(7, id)), "stack {id} is not interned");
        }
        assert!(!uses || packet.has(TRACK) || packet.has(TIMESTAMP), "an event has a time");
    }
}

/// Slices are on tracks that exist, and end; every flow leads somewhere.
fn check_tracks(packets: &[Message<'_>]) {
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut flows: BTreeMap<u64, u64> = BTreeMap::new();
    for packet in packets {
        for track in packet.messages(TRACK) {
            let parent = track.number(5);
            assert!(parent == 0 || open.contains_key(&parent), "a parent comes first");
            assert!(open.insert(track.number(1), Vec::new()).is_none(), "a track is told once");
        }
        for event in packet.messages(TRACK_EVENT) {
            let time = packet.number(TIMESTAMP);
            let track = open.get_mut(&event.number(11)).expect("a track");
            match event.number(9) {
                1 => track.push(time),
                2 => assert!(track.pop().expect("a slice that began") <= time),
                3 => {}
                kind => panic!("an event of kind {kind}"),
            }
            event.numbers(47).into_iter().for_each(|flow| *flows.entry(flow).or_default() += 1);
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    // The stall, the link of its chain, the wake-up.
    assert!(flows.values().all(|events| *events == 3), "{flows:?}");
}

/// The scheduler's events in the order of time, as trace processor sorts them.
fn events(packets: &[Message<'_>]) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for bundle in packets.iter().flat_map(|packet| packet.messages(FTRACE).collect::<Vec<_>>()) {
        let mut last = 0;
        for event in bundle.messages(2) {
            let time = event.number(1);
            assert!(last <= time, "a bundle is in the order of time");
            last = time;
            let of = |field: u32| event.messages(field).last();
            if let Some(switch) = of(4) {
                assert_eq!(event.number(2), switch.number(2), "the current thread leaves");
                let (prev, prev_state) = (switch.number(2), switch.number(4));
                events.push((time, Event::Switch { prev, prev_state, next: switch.number(6) }));
            } else if let Some(waking) = of(20) {
                /// `TRACE_FLAG_HARDIRQ`, `_SOFTIRQ`.
                const INTERRUPTS: u64 = 0x08 | 0x10;
                let (wakee, waker) = (waking.number(2), event.number(2));
                let in_interrupt = event.number(5) & INTERRUPTS != 0;
                events.push((time, Event::Waking { wakee, waker, in_interrupt }));
            } else if let Some(task) = of(235) {
                events.push((time, Event::NewTask { child: task.number(1) }));
            } else if let Some(free) = of(240) {
                events.push((time, Event::Free { tid: free.number(2) }));
            }
        }
    }
    events.sort_by_key(|(time, _)| *time);
    events
}

/// Trace processor's thread states are ours, to the nanosecond, with the same wakers. What it counts
/// otherwise by its own rules is counted here.
fn check_states(analysis: &Analysis<'_>, packets: &[Message<'_>]) {
    let window = analysis.timeline.window();
    let inside =
        |event: &(u64, Event)| (window.start.nanos()..window.end.nanos()).contains(&event.0);
    let events: Vec<_> = events(packets).into_iter().filter(inside).collect();
    let mut first_switch: BTreeMap<u64, u64> = BTreeMap::new();
    for (time, event) in &events {
        if let Event::Switch { prev, next, .. } = event {
            for tid in [prev, next] {
                first_switch.entry(*tid).or_insert(*time);
            }
        }
    }
    let theirs = scheduler::states(events, window.end.nanos());
    let ours = our_states(analysis);
    // A new thread is runnable from its creation there, from its first wake-up here, which may be
    // when it is switched in.
    let created = |slices: &BTreeSet<Slice>| -> BTreeSet<(u64, u64)> {
        let created = slices.iter().filter(|slice| slice.state == scheduler::State::Created);
        created.map(|slice| (slice.tid, slice.end)).collect()
    };
    let known: BTreeSet<Slice> =
        theirs.slices.iter().copied().filter(|s| s.state != scheduler::State::Created).collect();
    let mine: BTreeSet<Slice> =
        ours.slices.iter().copied().filter(|s| s.state != scheduler::State::Created).collect();
    let born = created(&theirs.slices);
    let at_once = |tid, end| !ours.slices.iter().any(|slice| (slice.tid, slice.end) == (tid, end));
    let here = created(&ours.slices);
    let alone: Vec<_> = born.difference(&here).filter(|&&(tid, end)| !at_once(tid, end)).collect();
    assert!(alone.is_empty(), "new threads only there: {alone:?}");
    let (more, less): (Vec<_>, Vec<_>) =
        (known.difference(&mine).collect(), mine.difference(&known).collect());
    assert!(
        more.is_empty() && less.is_empty(),
        "trace processor alone: {more:?}\nwe alone: {less:?}"
    );
    // Nothing says there that a thread runs before it is first switched.
    let seen = |(time, tid): &&(u64, u64)| first_switch.get(tid).is_some_and(|first| first < time);
    let alone: Vec<_> =
        ours.spurious.iter().filter(seen).filter(|it| !theirs.spurious.contains(it)).collect();
    assert!(alone.is_empty(), "woken in vain only here: {alone:?}");
}

/// Our thread states in trace processor's terms, as far as events say them: not what we infer of
/// the time before a thread's first event, nor what lost records hide.
fn our_states(analysis: &Analysis<'_>) -> scheduler::States {
    let (trace, timeline) = (analysis.trace, &analysis.timeline);
    let mut states = scheduler::States::default();
    let woken_by = |wake: Option<usize>| {
        let (wake, of) = (wake?, &trace.wakings);
        let in_interrupt = [WakeFlags::HARDIRQ, WakeFlags::SOFTIRQ];
        let in_interrupt = in_interrupt.iter().any(|flag| of.flags[wake].has(*flag));
        Some((u64::from(trace.threads.get(of.waker[wake]).tid), in_interrupt))
    };
    for thread in (1..timeline.threads() as u32).map(ThreadId) {
        let tid = u64::from(trace.threads.get(thread).tid);
        timeline.each_segment(trace, thread, timeline.window(), &mut |segment| {
            let out = segment.out().map(|out| trace.switches.prev_state[out]);
            let new =
                segment.wake().is_some_and(|wake| trace.wakings.flags[wake].has(WakeFlags::NEW));
            let mut woken = None;
            let state = match (segment.state, out) {
                (State::Ran, _) if segment.back().is_some() => scheduler::State::Running,
                (State::Sleeping(state), Some(_)) => scheduler::State::Sleeping(state_bits(state)),
                (State::Runnable { preempted: true }, Some(state)) => match state_bits(state) {
                    0 => scheduler::State::Runnable,
                    _ => scheduler::State::Preempted,
                },
                (State::Runnable { preempted: false }, None) if new => scheduler::State::Created,
                (State::Runnable { preempted: false }, out) => {
                    let wake = segment.wake().expect("it was woken");
                    let time = trace.wakings.time[wake];
                    match out {
                        // Woken before it had left: it sleeps there until it is back.
                        Some(out) if time <= segment.left(trace).expect("it left") => {
                            states.spurious.insert((time.nanos(), tid));
                            scheduler::State::Sleeping(state_bits(out))
                        }
                        _ => {
                            woken = woken_by(segment.wake());
                            scheduler::State::Runnable
                        }
                    }
                }
                _ => return,
            };
            let (start, end) = (segment.window.start.nanos(), segment.window.end.nanos());
            states.slices.insert(Slice { tid, start, end, state, woken });
        });
    }
    states
}

/// The samples of each source have the stacks, threads and times of our tables.
fn check_stacks(analysis: &Analysis<'_>, packets: &[Message<'_>]) {
    let mut interned: BTreeMap<u64, Interned<'_>> = BTreeMap::new();
    let mut sources: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
    let mut found: BTreeMap<&str, Stacks> = BTreeMap::new();
    for packet in packets {
        let sequence = packet.number(SEQUENCE);
        for defaults in packet.messages(DEFAULTS) {
            let of = defaults.message(100);
            sources.insert(sequence, (of.text(1), of.message(2).number(3)));
        }
        let of_sequence = interned.entry(sequence).or_default();
        packet.messages(INTERNED).for_each(|data| of_sequence.add(&data));
        for sample in packet.messages(STACK_SAMPLE) {
            let (source, unit) = sources[&sequence];
            assert_eq!(unit, 1, "nanoseconds");
            let names = of_sequence.names(sample.number(6));
            let stacks = found.entry(source).or_default();
            stacks.add(sample.message(1).number(3), names, sample.number(11));
        }
    }
    let tables = Tables::of(analysis);
    for (source, of) in
        [("unhitch.cpu", Of::Cpu), ("unhitch.wait", Of::Waits), ("unhitch.wake", Of::Wakes)]
    {
        let expected = tables.stacks(of);
        let found = found.remove(source).unwrap_or_default();
        assert_eq!(found.total(), expected.total(), "{source}");
        match of {
            // An interrupt's stack is that of the thread that it interrupted, which did not wake
            // anybody: our table has no thread there.
            Of::Wakes => assert_same(&found.as_in(&expected), &expected.by_stack(), source),
            _ => assert_same(&found.0, &expected.0, source),
        }
    }
}
