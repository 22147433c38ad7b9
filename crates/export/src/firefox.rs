//! The Firefox Profiler's processed profile, as JSON.
//!
//! A wait is a sample without CPU time that weighs its length. *Why microseconds:* weights are
//! 32-bit numbers, and the profiler counts samples, not time, unless they have weights. The crate
//! that writes the format holds the whole profile in memory.

use crate::frames::Frames;
use crate::job::{Job, Progress};
use crate::report::{Report, details};
use crate::stalls::stalls;
use crate::waits::{each_wait, ended_sleeps, samples, wakes};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo,
    MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, MarkerTiming, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, StaticSchemaMarker, StaticSchemaMarkerField,
    StringHandle, ThreadHandle, Timestamp,
};
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use std::time::Duration;
use unhitch_analysis::wording::units;
use unhitch_model::{ModuleKind, ProcessId, Recorded, StackId, System, ThreadId, Time};

/// The interval that a profile without CPU samples declares.
const DEFAULT_INTERVAL_NS: u64 = 1_000_000;

/// Writes a file.
///
/// # Errors
/// Those of `out`.
pub(crate) fn export(
    job: &Job<'_>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<Report> {
    let trace = job.analysis.trace;
    let frames = Frames::new(trace);
    let mut builder = Builder::new(job, &frames);
    let cpu = builder.cpu(progress);
    let (waits, stackless, stackless_ns) = builder.waits(progress);
    let wakes = builder.wakes(progress);
    let stalls = builder.stalls();
    serde_json::to_writer(out, &builder.profile)?;
    let mut report = Report::default();
    report.held(&[
        (cpu, "CPU sample", "CPU samples"),
        (waits, "wait", "waits"),
        (wakes, "wake-up", "wake-ups"),
        (stalls, "stall", "stalls"),
    ]);
    report.needs(trace, Recorded::Switches, "context switches, so no waits");
    report.needs(trace, Recorded::Wakings, "wake-ups");
    report.without_stack(stackless, stackless_ns, "wait");
    report.note(
        "left out what the Firefox Profiler has no place for: threads' states, CPUs, addresses, \
         the chains of stalls",
    );
    report.no_place("the Firefox Profiler", &details(trace));
    Ok(report)
}

/// A marker with a name and a text.
struct TextMarker {
    name: StringHandle,
    text: StringHandle,
    category: CategoryHandle,
}

impl StaticSchemaMarker for TextMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Unhitch";
    const LOCATIONS: MarkerLocations = MarkerLocations::MARKER_CHART
        .union(MarkerLocations::MARKER_TABLE)
        .union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.text}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.text}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "text",
        label: "What",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.text
    }

    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}

/// The categories of frames and markers.
struct Categories {
    user: CategoryPairHandle,
    kernel: CategoryPairHandle,
    script: CategoryPairHandle,
    wakes: CategoryHandle,
    stalls: CategoryHandle,
}

struct Builder<'b> {
    job: &'b Job<'b>,
    frames: &'b Frames<'b>,
    profile: Profile,
    categories: Categories,
    processes: FxHashMap<ProcessId, ProcessHandle>,
    threads: FxHashMap<ThreadId, ThreadHandle>,
    stacks: FxHashMap<(ThreadId, StackId), Option<StackHandle>>,
}

impl<'b> Builder<'b> {
    fn new(job: &'b Job<'b>, frames: &'b Frames<'b>) -> Self {
        let (meta, start) = (&job.analysis.trace.meta, job.selection.window.start.nanos());
        let wall = meta.epoch_ns.and_then(|epoch| u64::try_from(epoch + i128::from(start)).ok());
        let reference = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(
            wall.unwrap_or(0),
        ));
        let interval = match meta.sample_period_ns {
            0 => DEFAULT_INTERVAL_NS,
            period_ns => period_ns,
        };
        let product = format!("{}: weights are microseconds", meta.host);
        let mut profile = Profile::new(&product, reference, SamplingInterval::from_nanos(interval));
        profile.set_os_name(match meta.system {
            System::Windows => "Windows",
            _ => "Linux",
        });
        // No server is to be asked for names.
        profile.set_symbolicated(true);
        let categories = Categories {
            user: profile.add_category("User", CategoryColor::Yellow).into(),
            kernel: profile.add_category("Kernel", CategoryColor::Orange).into(),
            script: profile.add_category("Script", CategoryColor::Green).into(),
            wakes: profile.add_category("Wake-ups", CategoryColor::Blue),
            stalls: profile.add_category("Stalls", CategoryColor::Red),
        };
        let (processes, threads, stacks) = Default::default();
        Self { job, frames, profile, categories, processes, threads, stacks }
    }

    fn at(&self, time: Time) -> Timestamp {
        Timestamp::from_nanos_since_reference(time.since(self.job.selection.window.start))
    }

    fn thread(&mut self, id: ThreadId, time: Time) -> ThreadHandle {
        if let Some(known) = self.threads.get(&id) {
            return *known;
        }
        let trace = self.job.analysis.trace;
        let (thread, of) = (trace.threads.get(id), trace.threads.process_of(id));
        let begin = |start: Option<Time>| self.at(start.unwrap_or_default());
        let (process_start, thread_start) =
            (begin(trace.threads.get(of.leader).start), begin(thread.start));
        let process = match self.processes.get(&thread.process) {
            Some(known) => *known,
            None => {
                let name = trace.process_name(id, time);
                let new = self.profile.add_process(name, of.pid, process_start);
                self.processes.insert(thread.process, new);
                new
            }
        };
        let handle = self.profile.add_thread(process, thread.tid, thread_start, of.leader == id);
        self.profile.set_thread_name(handle, trace.thread_name(id, time));
        if let Some(end) = thread.end {
            let end = self.at(end);
            self.profile.set_thread_end_time(handle, end);
        }
        self.threads.insert(id, handle);
        handle
    }

    fn stack(&mut self, id: ThreadId, handle: ThreadHandle, stack: StackId) -> Option<StackHandle> {
        if let Some(known) = self.stacks.get(&(id, stack)) {
            return *known;
        }
        let trace = self.job.analysis.trace;
        let mut infos = Vec::new();
        // Callers come first.
        for function in self.frames.of_stack(stack).rev() {
            let name = self.profile.intern_string(&self.frames.name(function));
            let module = trace
                .stacks
                .frame(function.frame)
                .and_then(|frame| trace.modules.get(frame.module).map(|module| module.kind));
            let category_pair = match module {
                Some(kind) if kind.is_kernel() => self.categories.kernel,
                Some(ModuleKind::Script) => self.categories.script,
                _ => self.categories.user,
            };
            let flags = FrameFlags::empty();
            infos.push(FrameInfo { frame: Frame::Label(name), category_pair, flags });
        }
        let found = self.profile.intern_stack_frames(handle, infos.into_iter());
        self.stacks.insert((id, stack), found);
        found
    }

    fn sample(&mut self, id: ThreadId, time: Time, stack: StackId, cpu_ns: u64, ns: u64) {
        let handle = self.thread(id, time);
        let (stack, at) = (self.stack(id, handle, stack), self.at(time));
        let weight = i32::try_from(ns / 1_000).unwrap_or(i32::MAX);
        self.profile.add_sample(handle, at, stack, CpuDelta::from_nanos(cpu_ns), weight);
    }

    fn cpu(&mut self, progress: &mut Progress<'_>) -> u64 {
        let (analysis, of) = (self.job.analysis, &self.job.analysis.trace.samples);
        progress.expect(of.range(self.job.selection.window).len());
        let period = analysis.trace.meta.sample_period_ns;
        let mut count = 0;
        for sample in samples(analysis, self.job.selection) {
            progress.step();
            count += 1;
            self.sample(of.thread[sample], of.time[sample], of.stack[sample], period, period);
        }
        count
    }

    /// Returns how many waits there are, and how many have no stack, with their time.
    fn waits(&mut self, progress: &mut Progress<'_>) -> (u64, u64, u64) {
        let mut counts = (0, 0, 0);
        each_wait(self.job.analysis, self.job.selection, &mut |wait| {
            progress.step();
            if wait.stack.is_empty() {
                counts = (counts.0, counts.1 + 1, counts.2 + wait.ns);
            } else {
                counts.0 += 1;
                self.sample(wait.thread, wait.window.end, wait.stack, 0, wait.ns);
            }
        });
        counts
    }

    fn wakes(&mut self, progress: &mut Progress<'_>) -> u64 {
        let (analysis, of) = (self.job.analysis, &self.job.analysis.trace.wakings);
        progress.expect(of.range(self.job.selection.window).len());
        let slept = ended_sleeps(analysis);
        let name = self.profile.intern_string("wake-up");
        let category = self.categories.wakes;
        let mut count = 0;
        for wake in wakes(analysis, self.job.selection) {
            progress.step();
            // The current thread of an interrupt did not wake anybody.
            if of.stack[wake].is_empty() || !analysis.stacks.is_by_task(analysis.trace, wake) {
                continue;
            }
            let (id, time) = (of.waker[wake], of.time[wake]);
            let woken = units::thread(analysis.trace, of.wakee[wake], time);
            let text = match slept.get(wake).copied().flatten() {
                Some(ns) => format!("{woken}, after {}", units::duration(ns)),
                None => woken,
            };
            let text = self.profile.intern_string(&text);
            let (handle, at) = (self.thread(id, time), self.at(time));
            let stack = self.stack(id, handle, of.stack[wake]);
            let marker = TextMarker { name, text, category };
            let marker = self.profile.add_marker(handle, MarkerTiming::Instant(at), marker);
            self.profile.set_marker_stack(handle, marker, stack);
            count += 1;
        }
        count
    }

    fn stalls(&mut self) -> u64 {
        let stalls = stalls(self.job);
        let category = self.categories.stalls;
        for (index, stall) in stalls.iter().enumerate() {
            let window = stall.explanation.window;
            let handle = self.thread(stall.candidate.victim, window.end);
            if index == 0 {
                self.profile.add_initial_selected_thread(handle);
            }
            let name = format!("stall: {}", stall.finding.pattern.name());
            let name = self.profile.intern_string(&name);
            let text = self.profile.intern_string(&stall.finding.cause.to_string());
            let timing = MarkerTiming::Interval(self.at(window.start), self.at(window.end));
            self.profile.add_marker(handle, timing, TextMarker { name, text, category });
        }
        stalls.len() as u64
    }
}
