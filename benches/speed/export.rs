//! How fast a trace is exported.

use crate::cost::Spread;
use crate::table::Table;
use std::time::Instant;
use unhitch_analysis::{Analysis, Rules};
use unhitch_export::{FORMATS, Job, Of, Progress};
use unhitch_formats::perf_data::Selection;
use unhitch_model::{
    CpuSpan, Frame, FrameId, Module, ModuleKind, NameId, Process, StackId, Switch, Symbol,
    TaskState, Thread, ThreadId, Time, Trace, WakeFlags, Waking, Window,
};

/// Wake-ups; each with a switch to the woken thread, and every third with stacks.
const ROUNDS: u32 = 150_000;
const STACKS: u32 = 512;
const DEPTH: u32 = 24;
const RUNS: usize = 7;

/// 300,000 events, of which 100,000 have stacks: 64 pairs of threads wake each other.
fn trace() -> Trace {
    let mut trace = Trace::default();
    let path = trace.strings.intern("/usr/bin/pairs");
    let module = Module { path, kind: ModuleKind::File, build_id: vec![7; 20] };
    let module = trace.modules.intern(module);
    let stacks: Vec<StackId> = (0..STACKS)
        .map(|stack| {
            let frames: Vec<FrameId> = (0..DEPTH)
                .map(|depth| {
                    let number = if depth < 4 { stack * DEPTH + depth } else { depth };
                    let offset = u64::from(number);
                    let frame = trace.stacks.intern_frame(Frame { module, offset });
                    let function = trace.strings.intern(&format!("function_{number}"));
                    trace
                        .symbols
                        .set_once(frame, Symbol { function, file: NameId::EMPTY, line: 1 });
                    frame
                })
                .collect();
            trace.stacks.intern(&frames, 0)
        })
        .collect();
    let threads: Vec<ThreadId> = (0..128)
        .map(|number| {
            let name = trace.strings.intern(&format!("pair-{number}"));
            let leader = ThreadId(trace.threads.len() as u32);
            let pid = 1_000 + number;
            let process = trace.threads.add_process(Process { pid, leader, ..Process::default() });
            let names = vec![(Time::ZERO, name)];
            let thread = Thread {
                tid: pid,
                process,
                names,
                start: None,
                end: None,
                policy: None,
                nice: None,
            };
            trace.threads.add(thread)
        })
        .collect();
    let mut on_cpu = threads[0];
    for round in 0..ROUNDS {
        let time = Time::from_nanos(1_000_000 + u64::from(round) * 5_000);
        let next = threads[((round * 7 + 1) % 128) as usize];
        if next == on_cpu {
            continue;
        }
        let has_stack = round % 3 == 0;
        let of = |number: u32| {
            if has_stack { stacks[(number % STACKS) as usize] } else { StackId::EMPTY }
        };
        trace.wakings.push(Waking {
            time,
            cpu: 0,
            waker: on_cpu,
            wakee: next,
            target_cpu: 0,
            flags: WakeFlags::default(),
            stack: of(round * 13),
        });
        trace.switches.push(Switch {
            time: time.plus(1_000),
            cpu: 0,
            prev: on_cpu,
            next,
            prev_state: TaskState::Sleeping,
            prev_prio: 120,
            next_prio: 120,
            stack: of(round * 31),
            prev_reason: None,
        });
        on_cpu = next;
    }
    let window = Window::new(Time::ZERO, Time::from_nanos(u64::from(ROUNDS) * 5_000 + 2_000_000));
    trace.spans = vec![CpuSpan { cpu: 0, window }];
    trace
}

/// The time to write each format, without reading the trace and building its timeline.
pub fn exports(table: &mut Table) -> anyhow::Result<()> {
    let trace = trace();
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let selection = Selection { window: trace.extent(), threads: None };
    let job = Job { analysis: &analysis, selection: &selection, of: Of::Waits, producer: "bench" };
    for format in FORMATS {
        let mut bytes = 0;
        let mut seconds = Vec::new();
        for _ in 0..RUNS {
            let mut out = Vec::new();
            let start = Instant::now();
            format.write(&job, &mut out, &mut Progress::new(&mut |_| {}))?;
            seconds.push(start.elapsed().as_secs_f64());
            bytes = out.len();
        }
        let time = Spread::of(seconds);
        let what = format!(
            "export of 300 k events, 100 k stacks to {} ({:.1} MB): seconds",
            format.name,
            bytes as f64 / 1e6
        );
        let is_goal = format.name == "perfetto";
        let goal = if is_goal { "≤ 0.5" } else { "" };
        table.ours(&what, time.to_string(), goal, is_goal.then_some(time.median <= 0.5));
    }
    Ok(())
}
