//! Real Windows traces, if `UNHITCH_CORPUS` names a folder that contains a folder `etl`; otherwise
//! skipped.

use crate::etl_support::{content, corpus};
use std::collections::HashMap;
use unhitch_model::{FrameId, ModuleKind, StackId, Trace};

/// Buffers and events of every file of the corpus, counted by an independent decoder.
const TOTALS: [(&str, u64, u64); 8] = [
    ("net.4.5.2.x64.etl.zip", 360, 179_474),
    ("vs-gconly.etl", 322, 75_930),
    ("ShutdownPerfDiagLogger.etl", 49, 17_078),
    ("SelfDescribingSingleEvent.etl", 3, 22),
    ("gcevents.etl.zip", 5, 71),
    ("primitive-types.etl.zip", 2, 7),
    // Windows 7, whose buffers have their length in Offset only.
    ("HTTP_Server.etl", 36, 2042),
    ("process_data_32_v1.etl", 2, 3),
];

#[test]
fn buffers_and_events_of_real_files() {
    let Some(one) = corpus(TOTALS[0].0) else { return };
    let is_trace = |name: &String| name.ends_with(".etl") || name.ends_with(".etl.zip");
    let files = one.parent().unwrap().read_dir().unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap()).filter(is_trace);
    let uncounted: Vec<String> =
        names.filter(|name| TOTALS.iter().all(|(of, ..)| of != name)).collect();
    assert!(uncounted.is_empty(), "files of the corpus without totals: {uncounted:?}");
    for (name, buffers, events) in TOTALS {
        let Some(path) = corpus(name) else { return };
        let trace = unhitch_formats::open(&path).unwrap();
        assert_eq!(
            (trace.meta.buffers, trace.by_kind.values().sum::<u64>()),
            (buffers, events),
            "{name}: {:?}",
            trace.warnings
        );
        assert!(trace.warnings.is_empty(), "{name}: {:?}", trace.warnings);
        check_order(&trace);
    }
}

fn check_order(trace: &Trace) {
    assert!(
        trace.switches.time.is_sorted()
            && trace.samples.time.is_sorted()
            && trace.events.time.is_sorted()
    );
}

/// The raw events of one hook: time and payload.
fn of_hook(trace: &Trace, hook: u16) -> Vec<(u64, &[u8])> {
    let is = |event: &usize| {
        trace
            .events
            .kind_of(*event)
            .is_some_and(|kind| kind.provider_guid == [0; 16] && kind.id == hook)
    };
    (0..trace.events.len())
        .filter(is)
        .map(|event| (trace.events.time[event].nanos(), trace.events.payload(event)))
        .collect()
}

/// A part of a stack as the file has it by key: the event's ticks, its thread, the side, the
/// addresses.
type Part<'a> = (i64, u32, bool, &'a [u8]);

/// What the reader made of those parts: each is the kernel's or the user's half of the stack of the
/// event with that time and thread, with as many frames, in modules of its own side. Returns how
/// many were found: the others are of transfers to a disk that name another thread than the one
/// that ran.
fn joined(bytes: &[u8], parts: &[Part<'_>]) -> [usize; 2] {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    // The first buffer's header, the event's, and its fields up to the clock's frequency:
    // TRACE_LOGFILE_HEADER with 8-byte pointers.
    let (zero, per_second) = (word(0x48 + 0x10) as i64, word(0x48 + 32 + 256));
    let ns = |ticks: i64| {
        (u128::from((ticks - zero) as u64) * 1_000_000_000 / u128::from(per_second)) as u64
    };
    let trace = unhitch_formats::etl::every_event(&[bytes]).unwrap();
    let mut stacks: HashMap<(u64, u32), Vec<StackId>> = HashMap::new();
    let Trace { samples, events, threads, .. } = &trace;
    let of_samples = samples.time.iter().zip(&samples.thread).zip(&samples.stack);
    for ((time, thread), stack) in
        of_samples.chain(events.time.iter().zip(&events.thread).zip(&events.stack))
    {
        stacks.entry((time.nanos(), threads.get(*thread).tid)).or_default().push(*stack);
    }
    let is_kernel = |frame: &FrameId| {
        trace.modules.get(trace.stacks.frame(*frame).unwrap().module).unwrap().kind.is_kernel()
    };
    let mut found = [0, 0];
    for (ticks, tid, user, addresses) in parts {
        let Some(of_time) = stacks.get(&(ns(*ticks), *tid)) else { continue };
        let has_it = of_time.iter().any(|&stack| {
            let (kernel, own) =
                trace.stacks.frames_of(stack).split_at(trace.stacks.kernel_len(stack));
            let half = if *user { own } else { kernel };
            let ends = half.first().is_some_and(|frame| is_kernel(frame) != *user)
                && half.last().is_some_and(|frame| is_kernel(frame) != *user);
            half.len() == addresses.len() / 8 && ends && (*user || half.iter().all(is_kernel))
        });
        assert!(
            has_it,
            "the {} part of thread {tid} at {ticks}",
            if *user { "user's" } else { "kernel's" }
        );
        found[usize::from(*user)] += 1;
    }
    found
}

/// The file holds 9,107 parts of stacks by key and 252 by address, no more: counted here from its
/// raw events, without the reader's join. Each key means the first definition of it at that time or
/// later, and gives a stack of the reference's own side. Fifteen stacks of users have frames of the
/// kernel *inside*: Windows' window system calls back into the program, and the walk goes through
/// it.
#[test]
fn stack_keys_give_parts_of_their_own_side() {
    let Some(bytes) = content("net.4.5.2.x64.etl.zip") else { return };
    let trace = unhitch_formats::etl::every_event(&[&bytes]).unwrap();
    let u64_at =
        |payload: &[u8], at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
    let mut definitions: HashMap<u64, Vec<(u64, &[u8])>> = HashMap::new();
    let mut defined = 0;
    for hook in [0x1822, 0x1823, 0x1824] {
        for (time, payload) in of_hook(&trace, hook) {
            definitions.entry(u64_at(payload, 0)).or_default().push((time, &payload[8..]));
            defined += 1;
        }
    }
    definitions.values_mut().for_each(|list| list.sort_by_key(|(time, _)| *time));
    let (mut parts, mut called_back, mut shown) = ([0, 0], 0, Vec::new());
    for (side, hook) in [0x1825, 0x1826].into_iter().enumerate() {
        for (time, payload) in of_hook(&trace, hook) {
            let list = &definitions[&u64_at(payload, 16)];
            let (_, addresses) =
                list.iter().find(|(at, _)| *at >= time).expect("a definition then or later");
            let in_kernel: Vec<bool> =
                addresses.chunks_exact(8).map(|address| u64_at(address, 0) >> 63 == 1).collect();
            assert_eq!(
                in_kernel.first(),
                Some(&(side == 0)),
                "hook {hook:#x}: the innermost frame"
            );
            assert_eq!(in_kernel.last(), Some(&(side == 0)), "hook {hook:#x}: the outermost frame");
            if side == 0 {
                assert!(in_kernel.iter().all(|kernel| *kernel));
            } else if in_kernel.contains(&true) {
                // KeUserModeCallback, and the way back to the system call that led there: the same
                // in all of them.
                let words: Vec<u64> =
                    addresses.chunks_exact(8).map(|address| u64_at(address, 0)).collect();
                let (first, last) = (
                    in_kernel.iter().position(|kernel| *kernel).unwrap(),
                    in_kernel.iter().rposition(|kernel| *kernel).unwrap(),
                );
                assert_eq!(
                    (words[first], words[last]),
                    (0xffff_f800_218f_7c8c, 0xffff_f800_2150_3053)
                );
                called_back += 1;
            }
            parts[side] += 1;
            shown.push((
                u64_at(payload, 0) as i64,
                (u64_at(payload, 8) >> 32) as u32,
                side == 1,
                *addresses,
            ));
        }
    }
    assert_eq!(
        (defined, parts, parts[0] + parts[1], of_hook(&trace, 0x1820).len(), called_back),
        (2921, [2061, 7046], 9107, 252, 15)
    );
    assert_eq!(joined(&bytes, &shown), [2058, 7046]);
}

/// Samples of busy CPUs have stacks, and those lie in images with the ids of their PDBs.
#[test]
fn samples_have_stacks_in_images() {
    let Some(path) = corpus("net.4.5.2.x64.etl.zip") else { return };
    let trace = unhitch_formats::open(&path).unwrap();
    let busy: Vec<usize> =
        (0..trace.samples.len()).filter(|index| !trace.samples.thread[*index].is_idle()).collect();
    assert_eq!((trace.samples.len(), busy.len()), (79_528, 6_215));
    let depths: Vec<usize> = busy
        .iter()
        .map(|index| trace.stacks.frames_of(trace.samples.stack[*index]).len())
        .collect();
    // The other 105 that TraceEvent keeps are of interrupts of idle CPUs.
    let deep = depths.iter().filter(|depth| **depth > 1).count();
    assert!(deep * 10 > busy.len() * 9, "{deep} of {} have more than the instruction", busy.len());
    let frames = busy.iter().flat_map(|index| trace.stacks.frames_of(trace.samples.stack[*index]));
    let (mut in_images, mut with_id, mut all) = (0, 0, 0);
    for frame in frames {
        let module = trace.modules.get(trace.stacks.frame(*frame).unwrap().module).unwrap();
        all += 1;
        in_images += usize::from(matches!(module.kind, ModuleKind::Image { .. }));
        with_id += usize::from(module.build_id.len() == 20);
    }
    assert!(
        in_images * 10 > all * 7 && with_id * 10 > in_images * 9,
        "{all} frames, {in_images} in images, {with_id} with an id"
    );
    let ntoskrnl = trace
        .modules
        .iter()
        .find(|(_, module)| trace.name(module.path).ends_with("ntoskrnl.exe"))
        .unwrap()
        .1;
    assert!(trace.name(ntoskrnl.path).starts_with("C:\\Windows\\"));
    let ModuleKind::Image { pdb, timestamp, size_bytes, kernel } = ntoskrnl.kind else { panic!() };
    assert_eq!(
        (trace.name(pdb), timestamp, size_bytes, kernel),
        ("ntkrnlmp.pdb", 1_343_269_963, 7_634_944, true)
    );
}

#[test]
fn threads_have_names_and_lives() {
    let Some(path) = corpus("vs-gconly.etl") else { return };
    let trace = unhitch_formats::open(&path).unwrap();
    assert_eq!(trace.by_kind["Thread/SetName"], 2263);
    let name = |id| trace.name(trace.threads.process_of(id).name).to_owned();
    let named = trace
        .threads
        .iter()
        .skip(1)
        .filter(|(id, thread)| thread.names.iter().any(|(_, of)| trace.name(*of) != name(*id)))
        .count();
    assert!(named > 2000, "{named}");
    for (_, thread) in trace.threads.iter() {
        assert!(
            thread.names.is_sorted_by_key(|(time, _)| *time)
                && thread.start.zip(thread.end).is_none_or(|(start, end)| start <= end)
        );
        let process = trace.threads.process(thread.process);
        assert!(
            thread.end.zip(process.end).is_none_or(|(thread, process)| thread <= process),
            "a process outlives its threads"
        );
    }
    assert!(trace.threads.processes().skip(1).all(|(_, process)| !process.name.is_empty()));
}

/// The trace's own list of methods names its code: of the frames outside images 99 % (30,308 before
/// methods were read, 276 since), of the samples whose innermost frame was one of those 97 %.
#[test]
fn code_of_dot_net_has_names() {
    let Some(path) = corpus("net.4.5.2.x64.etl.zip") else { return };
    let trace = unhitch_formats::open(&path).unwrap();
    let kind = |frame: &FrameId| {
        trace.modules.get(trace.stacks.frame(*frame).unwrap().module).unwrap().kind
    };
    let work = (0..trace.samples.len()).filter(|sample| trace.samples.is_work(*sample));
    let stacks: Vec<&[FrameId]> =
        work.map(|sample| trace.stacks.frames_of(trace.samples.stack[sample])).collect();
    let jitted = |frame: &&FrameId| matches!(kind(frame), ModuleKind::Jit { .. });
    let unnamed = |frame: &&FrameId| matches!(kind(frame), ModuleKind::Anonymous { .. });
    let frames = || stacks.iter().flat_map(|stack| stack.iter());
    let leaves = || stacks.iter().filter_map(|stack| stack.first());
    assert!(frames().filter(jitted).count() > 30_000 && frames().filter(unnamed).count() < 300);
    assert!(leaves().filter(jitted).count() > 4_450 && leaves().filter(unnamed).count() < 150);
    let hottest = "System.DateTime.GetDatePart(Int32)";
    let of_it = leaves().filter(|frame| trace.frame_names(**frame) == [hottest]).count();
    assert!(of_it > 1_800, "{of_it}");
    let module = trace
        .modules
        .iter()
        .find(|(_, module)| matches!(module.kind, ModuleKind::Jit { .. }))
        .unwrap()
        .1;
    assert!(trace.name(module.path).ends_with(".dll"), "{}", trace.name(module.path));
}

/// TraceEvent agrees on these: the process in the payload, and no thread.
#[test]
fn events_of_the_network_are_those_of_a_process() {
    let Some(path) = corpus("net.4.5.2.x64.etl.zip") else { return };
    let trace = unhitch_formats::open(&path).unwrap();
    let mut counts = std::collections::BTreeMap::<(u32, &str), usize>::new();
    for event in 0..trace.events.len() {
        let name = trace.name(trace.events.kind_of(event).unwrap().name);
        if name.starts_with("TcpIp/") || name.starts_with("UdpIp/") {
            let thread = trace.events.thread[event];
            assert!(thread.is_unknown(), "{name}");
            let process = trace.threads.process_of(thread);
            *counts.entry((process.pid, trace.name(process.name))).or_default() += 1;
        }
    }
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [((4, "System"), 498), ((1188, "svchost.exe"), 12), ((2108, "svchost.exe"), 16)]
    );
    assert_eq!(trace.name(trace.threads.process(unhitch_model::ProcessId(0)).name), "Idle");
}

/// A runtime that writes other fields than the catalogue has: the common ones are read, and how many
/// bytes they do not cover.
#[test]
fn what_a_layout_does_not_have_is_counted() {
    let Some(path) = corpus("gcevents.etl.zip") else { return };
    let trace = unhitch_formats::open(&path).unwrap();
    let kind = |event| trace.events.kind_of(event).unwrap();
    let is = |event: &usize| trace.name(kind(*event).name) == "GC/PerHeapHistory";
    let event = (0..trace.events.len()).find(is).expect("an event of this kind");
    let (mut fields, payload) = (Vec::new(), trace.events.payload(event));
    let rest = kind(event).layout.read(payload, |field, value| {
        fields.push((trace.name(field.name).to_owned(), value.to_string()));
    });
    let value = |name: &str| &fields.iter().find(|(field, _)| field == name).unwrap().1;
    assert_eq!([value("ClrInstanceID"), value("HeapIndex"), value("Count")], ["8", "0", "5"]);
    assert_eq!((rest, &payload[payload.len() - rest..][..4]), (400, &[0x30, 0x2d, 0x11, 0][..]));
}

/// No event of the runtime, and none about images, goes by a number.
#[test]
fn events_of_dot_net_and_of_images_have_names() {
    let Some(path) = corpus("net.4.5.2.x64.etl.zip") else { return };
    let trace = unhitch_formats::open(&path).unwrap();
    let names: Vec<&str> = trace.by_kind.keys().map(String::as_str).collect();
    let is_number = |name: &&&str| {
        let of_these = ["Microsoft-Windows-DotNETRuntime", "Image", "ImageID"];
        let (provider, event) = name.split_once('/').unwrap_or((name, ""));
        of_these.iter().any(|of| provider.starts_with(of))
            && ["opcode", "Opcode", "event"].iter().any(|word| event.contains(word))
    };
    assert_eq!(names.iter().filter(is_number).collect::<Vec<_>>(), Vec::<&&str>::new());
    for known in ["ImageID/DbgID_RSDS", "ImageID/FileVersion", "Image/Load"] {
        assert!(names.contains(&known), "{known}");
    }
}
