//! Traces written by hand: a few threads, their switches and wake-ups, with named stacks.

use TaskState::{Runnable, Sleeping};
use unhitch_analysis::answer::{self, ClauseKind};
use unhitch_analysis::wording::{Event, Reference};
use unhitch_analysis::{Analysis, Query, Rules, Stall, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;

/// A trace under construction. Times are microseconds; events may be given in any order.
#[derive(Default)]
pub struct Scene {
    pub trace: Trace,
    switches: Vec<(Time, u16, ThreadId, TaskState, ThreadId, StackId)>,
    wakings: Vec<(Time, u16, ThreadId, ThreadId, WakeFlags, StackId)>,
    samples: Vec<(Time, u16, ThreadId, StackId)>,
    contentions: Vec<(Time, ThreadId, ContentionKind, u64, StackId)>,
}

impl Scene {
    /// A thread (its own process when `pid` equals `tid`).
    pub fn thread(&mut self, pid: u32, tid: u32, name: &str) -> ThreadId {
        let name = self.trace.strings.intern(name);
        let known = self
            .trace
            .threads
            .at(pid, Time::MAX)
            .map(|leader| self.trace.threads.get(leader).process);
        let process = known.unwrap_or_else(|| {
            let leader = ThreadId(self.trace.threads.len() as u32);
            self.trace.threads.add_process(Process { pid, leader, ..Process::default() })
        });
        self.trace.threads.add(Thread {
            tid,
            process,
            names: vec![(Time::ZERO, name)],
            start: None,
            end: None,
            policy: None,
            nice: None,
        })
    }

    /// A stack by function names, root first; kernel frames are those after `"|"`. A function of another
    /// program than the scene's is `PROGRAM!function`.
    pub fn stack(&mut self, names: &[&str]) -> StackId {
        let split = names.iter().position(|name| *name == "|");
        let kernel_len = split.map_or(0, |at| names.len() - at - 1);
        let mut frames: Vec<FrameId> = Vec::new();
        for name in names.iter().rev().filter(|name| **name != "|") {
            let (file, name) = name.split_once('!').unwrap_or(("scene", name));
            let function = self.trace.strings.intern(name);
            let kernel = frames.len() < kernel_len;
            let path = if kernel { "[kernel]".to_owned() } else { format!("/usr/bin/{file}") };
            let path = self.trace.strings.intern(&path);
            let kind = if kernel { ModuleKind::Kernel } else { ModuleKind::File };
            let module = self.trace.modules.intern(Module { path, kind, build_id: Vec::new() });
            let frame =
                self.trace.stacks.intern_frame(Frame { module, offset: u64::from(function.0) });
            self.trace.symbols.set(frame, &[Symbol { function, file: NameId::EMPTY, line: 0 }]);
            frames.push(frame);
        }
        self.trace.stacks.intern(&frames, kernel_len as u16)
    }

    pub fn switch(
        &mut self,
        us: u64,
        cpu: u16,
        prev: ThreadId,
        state: TaskState,
        next: ThreadId,
        stack: StackId,
    ) -> &mut Self {
        self.switches.push((Time::from_nanos(us * 1000), cpu, prev, state, next, stack));
        self
    }

    pub fn wake(
        &mut self,
        us: u64,
        cpu: u16,
        waker: ThreadId,
        wakee: ThreadId,
        flags: WakeFlags,
        stack: StackId,
    ) -> &mut Self {
        self.wakings.push((Time::from_nanos(us * 1000), cpu, waker, wakee, flags, stack));
        self
    }

    pub fn sample(&mut self, us: u64, cpu: u16, thread: ThreadId, stack: StackId) -> &mut Self {
        self.samples.push((Time::from_nanos(us * 1000), cpu, thread, stack));
        self
    }

    /// `thread` finds the kernel lock at `lock_avma` taken, or has it (without a stack, as it is
    /// recorded).
    pub fn contention(
        &mut self,
        us: u64,
        thread: ThreadId,
        kind: ContentionKind,
        lock_avma: u64,
        stack: StackId,
    ) -> &mut Self {
        self.contentions.push((Time::from_nanos(us * 1000), thread, kind, lock_avma, stack));
        self
    }

    /// The finished trace, covering `[0, end)` microseconds on `cpus` CPUs; later events are not
    /// recorded.
    pub fn finish(mut self, cpus: u16, end_us: u64) -> Trace {
        let end = Time::from_nanos(end_us * 1000);
        self.switches.retain(|event| event.0 < end);
        self.wakings.retain(|event| event.0 < end);
        self.samples.retain(|event| event.0 < end);
        self.switches.sort_by_key(|event| event.0);
        self.wakings.sort_by_key(|event| event.0);
        self.samples.sort_by_key(|event| event.0);
        self.contentions.retain(|event| event.0 < end);
        self.contentions.sort_by_key(|event| event.0);
        let trace = &mut self.trace;
        for (time, cpu, prev, state, next, stack) in self.switches {
            trace.switches.time.push(time);
            trace.switches.cpu.push(cpu);
            trace.switches.prev.push(prev);
            trace.switches.next.push(next);
            trace.switches.prev_state.push(state);
            trace.switches.prev_prio.push(120);
            trace.switches.next_prio.push(120);
            trace.switches.stack.push(stack);
        }
        for (time, cpu, waker, wakee, flags, stack) in self.wakings {
            trace.wakings.time.push(time);
            trace.wakings.cpu.push(cpu);
            trace.wakings.waker.push(waker);
            trace.wakings.wakee.push(wakee);
            trace.wakings.target_cpu.push(cpu);
            trace.wakings.flags.push(flags);
            trace.wakings.stack.push(stack);
        }
        for (time, cpu, thread, stack) in self.samples {
            trace.samples.time.push(time);
            trace.samples.cpu.push(cpu);
            trace.samples.thread.push(thread);
            trace.samples.stack.push(stack);
        }
        for (time, thread, kind, lock_avma, stack) in self.contentions {
            trace.contentions.time.push(time);
            trace.contentions.thread.push(thread);
            trace.contentions.kind.push(kind);
            trace.contentions.lock_avma.push(lock_avma);
            trace.contentions.flags.push(0);
            trace.contentions.stack.push(stack);
        }
        let window = Window::new(Time::ZERO, end);
        trace.spans = (0..cpus).map(|cpu| CpuSpan { cpu, window }).collect();
        self.trace
    }
}

/// All stalls, worst first.
pub fn stalls(trace: &Trace) -> Vec<Stall> {
    diagnose(&Analysis::new(trace, &Rules::default()), &Query::default())
}

/// The worst stall and the text about it.
pub fn judged(trace: &Trace) -> (Stall, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let stalls = diagnose(&analysis, &Query::default());
    let text = answer::text(&analysis, &stalls, 1);
    let stall = stalls.into_iter().next().unwrap_or_else(|| panic!("no stall found:\n{text}"));
    let shares: u64 = unhitch_analysis::explain::partition(&analysis, &stall.explanation)
        .iter()
        .map(|share| share.ns)
        .sum();
    assert_eq!(shares, stall.explanation.window.duration_ns());
    check_clauses(&analysis, &stall, &text);
    (stall, text)
}

/// The clauses form the text, and each named thread takes part in the event that proves it.
fn check_clauses(analysis: &Analysis<'_>, stall: &Stall, text: &str) {
    let (trace, clauses) = (analysis.trace, answer::clauses(analysis, stall));
    let joined: String = clauses.iter().map(|clause| format!("{clause}\n")).collect();
    assert!(text.starts_with(&joined), "{joined}");
    let mut proved = 0;
    for clause in &clauses {
        let (words, links) = (clause.text(), clause.links());
        assert!(links.is_sorted_by(|a, b| a.range.end <= b.range.start), "{clause:?}");
        let composed = words.starts_with('\n')
            || words.contains("smaller parts")
            || words.contains("nobody")
            || words.contains("CPU idle while ready to run");
        // Advice needs no proof of its own.
        let remedy = clause.kind == ClauseKind::Remedy;
        let is_linked = if remedy { links.is_empty() } else { composed || !links.is_empty() };
        assert!(is_linked, "{clause:?}");
        for link in &links {
            let Reference { thread, window, event } = link.reference;
            assert!(words.get(link.range.clone()).is_some_and(|part| !part.is_empty()));
            assert!(!window.is_empty() && window.overlaps(analysis.timeline.window()));
            let takes_part =
                |threads: [ThreadId; 2]| thread.is_some_and(|thread| threads.contains(&thread));
            let proves = match event {
                None => true,
                Some(Event::Switch(at)) => {
                    takes_part([trace.switches.prev[at], trace.switches.next[at]])
                }
                Some(Event::Waking(at)) => {
                    takes_part([trace.wakings.waker[at], trace.wakings.wakee[at]])
                }
                Some(Event::Provider(at)) => at < trace.events.len(),
            };
            assert!(proves, "{link:?} of {words}");
            // No single switch or wake-up proves a clause about the machine, or a whole sentence
            // that names nobody.
            let sentence = link.range == (0..words.len()) || clause.kind == ClauseKind::Machine;
            assert!(
                !sentence || matches!(event, None | Some(Event::Provider(_))),
                "{link:?} of {words}"
            );
            proved += usize::from(event.is_some());
        }
    }
    assert!(proved > 0 || stall.explanation.hops.is_empty());
}

/// Threads and stacks of a program with a user interface, which pumps every 10 ms from `from` to
/// `to` (in ms), called by "mouse".
pub struct Desktop {
    pub scene: Scene,
    pub ui: ThreadId,
    pub mouse: ThreadId,
    pub poll: StackId,
    pub notify: StackId,
}

impl Desktop {
    pub fn new() -> Self {
        let mut scene = Scene::default();
        let ui = scene.thread(100, 100, "ui");
        let mouse = scene.thread(200, 200, "mouse");
        let poll = scene.stack(&[
            "main",
            "run_event_loop",
            "|",
            "__x64_sys_poll",
            "do_sys_poll",
            "schedule",
        ]);
        let notify = scene.stack(&["main", "move_mouse", "|", "eventfd_write", "try_to_wake_up"]);
        Self { scene, ui, mouse, poll, notify }
    }

    /// The event loop waits, and is called at `until` (µs), on CPU 0.
    pub fn pump(&mut self, from: u64, until: u64) {
        self.scene.switch(from, 0, self.ui, Sleeping, ThreadId::IDLE, self.poll);
        self.scene.wake(until, 1, self.mouse, self.ui, WakeFlags::default(), self.notify);
        self.scene.switch(until + 10, 0, ThreadId::IDLE, Runnable, self.ui, StackId::EMPTY);
    }

    /// Ordinary life of the event loop from `from` to `to` (ms): every 10 ms it works for 100 µs.
    pub fn pump_all(&mut self, from_ms: u64, to_ms: u64) {
        for tick in from_ms / 10..to_ms / 10 {
            self.pump(tick * 10 * MS + 100, (tick + 1) * 10 * MS);
        }
    }
}
