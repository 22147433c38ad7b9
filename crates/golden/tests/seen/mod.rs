//! A golden trace as a reader sees it: written as Linux or as Windows would (synthetic: by our own
//! encoder), read back, and checked against what no machine could do.

use std::collections::BTreeMap;
use unhitch_analysis::{Analysis, Rules, Segment, State, repair};
use unhitch_golden::Golden;
use unhitch_model::{StackId, TaskState, ThreadId, Time, Trace, Window};
use unhitch_symbols::{Options, SymbolPath, Symbolizer};

pub struct Seen {
    pub trace: Trace,
    rules: Rules,
    /// What the figures call the time at which the trace's clock is zero.
    origin_ns: u64,
    pub windows: bool,
}

impl Seen {
    /// As a container of our own.
    pub fn on_linux<F>(golden: &Golden<F>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("golden.hitch");
        golden.write(&path).unwrap();
        let rules = Rules::default();
        Self { trace: unhitch_formats::open(&path).unwrap(), rules, origin_ns: 0, windows: false }
    }

    /// As an `.etl` file, with names from the PDBs beside it.
    pub fn on_windows<F>(golden: &Golden<F>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (path, symbols) = (folder.path().join("golden.etl"), folder.path().join("symbols"));
        golden.write_etl(&path, &symbols).unwrap();
        let mut trace = unhitch_formats::open(&path).unwrap();
        let pdbs = SymbolPath::parse(&format!("srv*{}", symbols.display()), None);
        Symbolizer::new(Options { pdbs, ..Options::default() }).resolve(&mut trace);
        Self { trace, rules: Rules::default(), origin_ns: golden.start_ns(), windows: true }
    }

    /// A time of the figures.
    pub fn time(&self, ns: u64) -> Time {
        Time::from_nanos(ns - self.origin_ns)
    }

    /// What a process is called that Linux calls `name`.
    pub fn image(&self, name: &str) -> String {
        if self.windows && name != "System" && !name.ends_with(".exe") {
            format!("{name}.exe")
        } else {
            name.to_owned()
        }
    }

    /// The functions of a stack, root first, without the scheduler's own.
    pub fn own_names(&self, stack: StackId) -> Vec<String> {
        let mut names = self.trace.stack_names(stack);
        names.truncate(names.len() - self.analysis().stacks.noise_len(stack));
        names
    }

    pub fn analysis(&self) -> Analysis<'_> {
        Analysis::new(&self.trace, &self.rules)
    }

    pub fn segments(&self, thread: ThreadId, window: Window) -> Vec<Segment> {
        self.analysis().segments(thread, window)
    }

    /// True when a function of this name is on the stack.
    pub fn has(&self, stack: StackId, function: &str) -> bool {
        self.trace.stack_names(stack).iter().any(|name| name == function)
    }

    /// The stacks of a thread's CPU samples.
    pub fn samples(&self, thread: ThreadId, window: Window) -> Vec<StackId> {
        let samples = &self.trace.samples;
        samples
            .range(window)
            .filter(|&at| samples.thread[at] == thread)
            .map(|at| samples.stack[at])
            .collect()
    }

    /// Nothing is lost, missing or contradictory, every frame has a name, and every thread with
    /// events a known process.
    pub fn is_sound(&self) {
        let trace = &self.trace;
        assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), Vec::<String>::new());
        assert!(trace.losses.is_empty());
        let mut repaired = trace.clone();
        repair(&mut repaired);
        assert_eq!(repaired.switches.time, trace.switches.time, "a chain of switches is broken");
        assert!(repaired.warnings.is_empty());
        assert!(
            (0..trace.stacks.frames().len())
                .all(|frame| !trace.symbols.get(unhitch_model::FrameId(frame as u32)).is_empty())
        );
        self.cpus_are_chains();
        self.threads_are_woken_before_they_come();
        self.times_increase();
    }

    fn cpus_are_chains(&self) {
        let switches = &self.trace.switches;
        let (mut on, mut at) = (BTreeMap::new(), BTreeMap::new());
        for index in 0..switches.len() {
            let (cpu, prev, next) =
                (switches.cpu[index], switches.prev[index], switches.next[index]);
            assert!(
                on.insert(cpu, next).is_none_or(|was| was == prev),
                "CPU {cpu} at {:?}",
                switches.time[index]
            );
            assert_ne!(prev, next);
            at.remove(&prev);
            assert!(next.is_idle() || at.insert(next, cpu).is_none(), "{next:?} is on two CPUs");
        }
    }

    fn threads_are_woken_before_they_come(&self) {
        let analysis = self.analysis();
        assert!(analysis.timeline.redundant_wakings().is_empty());
        for (id, thread) in self.trace.threads.iter().skip(1) {
            let segments = analysis.segments(id, analysis.timeline.window());
            let ended = |segment: &Segment| thread.end.is_some_and(|end| end <= segment.window.end);
            let mut awake = false;
            for segment in &segments {
                match segment.state {
                    State::Unknown => {
                        assert!(ended(segment) || segments.len() == 1, "{} {segment:?}", thread.tid)
                    }
                    State::Sleeping(state) => assert!(
                        state != TaskState::Dead
                            && (segment.wake().is_some()
                                || segment.window.end == analysis.timeline.window().end)
                    ),
                    State::Runnable { .. } => awake = true,
                    State::Ran => {
                        assert!(awake || segment.window.start == analysis.timeline.window().start)
                    }
                }
            }
        }
        // A waker is on the CPU on which it wakes, unless an interrupt does.
        let (switches, wakings) = (&self.trace.switches, &self.trace.wakings);
        let mut on = BTreeMap::new();
        let mut switch = 0;
        for index in 0..wakings.len() {
            while switch < switches.len() && switches.time[switch] <= wakings.time[index] {
                on.insert(switches.cpu[switch], switches.next[switch]);
                switch += 1;
            }
            let current = on.get(&wakings.cpu[index]).copied().unwrap_or(wakings.waker[index]);
            assert_eq!(current, wakings.waker[index]);
        }
    }

    fn times_increase(&self) {
        let Trace { switches, wakings, samples, .. } = &self.trace;
        let all = switches
            .time
            .iter()
            .zip(&switches.cpu)
            .chain(wakings.time.iter().zip(&wakings.cpu))
            .chain(samples.time.iter().zip(&samples.cpu));
        let mut all: Vec<(u16, Time)> = all.map(|(time, cpu)| (*cpu, *time)).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "two events of one CPU at one time");
    }
}
