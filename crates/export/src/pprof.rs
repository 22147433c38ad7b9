//! pprof's `profile.proto`, compressed: <https://github.com/google/pprof/tree/main/proto>.
//!
//! Waits and wake-ups are profiles like Go's of blocking and mutexes: a count of contentions and a
//! delay. Labels hold the thread, the other thread, and what the wait was for.

use crate::folded::needs;
use crate::frames::{Frames, Function};
use crate::job::{Job, Of, Progress};
use crate::protobuf::Message;
use crate::report::{Report, details};
use crate::set::Set;
use crate::weighed::{Key, Weighed, Weight};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use unhitch_model::{FrameId, ModuleId, NameId};

/// Fields of `Profile`.
const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const MAPPING: u32 = 3;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRING: u32 = 6;
const TIME: u32 = 9;
const DURATION: u32 = 10;
const PERIOD_TYPE: u32 = 11;
const PERIOD: u32 = 12;
const COMMENT: u32 = 13;
const DEFAULT_SAMPLE_TYPE: u32 = 14;

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
    let weighed = Weighed::new(job, progress);
    let mut profile = Profile {
        job,
        frames: &frames,
        out: GzEncoder::new(out, Compression::fast()),
        message: Message::default(),
        strings: FxHashMap::default(),
        locations: Set::default(),
        mappings: Set::default(),
        functions: Set::default(),
    };
    profile.head()?;
    for (key, weight) in weighed.sorted() {
        profile.sample(&key, weight)?;
    }
    profile.out.finish()?.flush()?;
    let mut report = Report::default();
    let (one, many) = match job.of {
        Of::Waits | Of::WaitsAndWakes => ("wait", "waits"),
        Of::Wakes => ("wake-up", "wake-ups"),
        Of::Cpu => ("CPU sample", "CPU samples"),
    };
    report.held(&[(weighed.all.count, one, many)]);
    needs(job, &mut report);
    report.without_stack(weighed.stackless.count, weighed.stackless.ns, one);
    report.note(
        "left out when it was: a profile has no time, no threads' states, no stalls; one file \
         holds waits, wake-ups or CPU samples (--of)",
    );
    report.no_place("pprof", &details(trace));
    Ok(report)
}

struct Profile<'f, 'o> {
    job: &'f Job<'f>,
    frames: &'f Frames<'f>,
    out: GzEncoder<&'o mut dyn Write>,
    message: Message,
    /// The texts that were written, with their numbers.
    strings: FxHashMap<String, u64>,
    locations: Set,
    mappings: Set,
    functions: Set,
}

impl Profile<'_, '_> {
    /// The number of a text, which is written if it is new.
    fn string(&mut self, text: &str) -> u64 {
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let number = self.strings.len() as u64;
        self.strings.insert(text.to_owned(), number);
        self.message.put(STRING, text);
        number
    }

    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(self.message.bytes())?;
        self.message.clear();
        Ok(())
    }

    /// What the values are, and when they were recorded.
    fn head(&mut self) -> io::Result<()> {
        let (trace, window) = (self.job.analysis.trace, self.job.selection.window);
        // The first text must be empty.
        self.string("");
        let types = match self.job.of {
            Of::Cpu => [("samples", "count"), ("cpu", "nanoseconds")],
            _ => [("contentions", "count"), ("delay", "nanoseconds")],
        };
        for (kind, unit) in types {
            let (kind, unit) = (self.string(kind), self.string(unit));
            self.message.nest(SAMPLE_TYPE, |of| value_type(of, kind, unit));
        }
        let start = trace.meta.epoch_ns.map(|epoch| epoch + i128::from(window.start.nanos()));
        if let Some(start) = start.and_then(|start| i64::try_from(start).ok()) {
            self.message.int(TIME, start);
        }
        self.message.uint(DURATION, window.duration_ns());
        let (kind, unit) = (self.string(types[1].0), self.string(types[1].1));
        self.message.nest(PERIOD_TYPE, |of| value_type(of, kind, unit));
        let period = if self.job.of == Of::Cpu { trace.meta.sample_period_ns } else { 1 };
        self.message.uint(PERIOD, period);
        let comment = format!("{} of {}", self.job.producer, trace.meta.host);
        let comment = self.string(&comment);
        self.message.uint(COMMENT, comment);
        self.message.uint(DEFAULT_SAMPLE_TYPE, kind);
        self.write()
    }

    fn sample(&mut self, key: &Key, weight: Weight) -> io::Result<()> {
        let trace = self.job.analysis.trace;
        let stack = trace.stacks.frames_of(key.stack);
        stack.iter().for_each(|frame| self.location(*frame));
        let other = match self.job.of {
            Of::Wakes => "woken",
            _ => "waker",
        };
        let name = |name: NameId| trace.name(name);
        let labels = [
            ("thread", Some(name(key.thread))),
            (other, key.other.map(name)),
            (if self.job.of == Of::Wakes { "context" } else { "reason" }, key.class),
        ];
        let labels = labels.map(|(label, text)| {
            Some((self.string(label), self.string(text.filter(|text| !text.is_empty())?)))
        });
        self.message.nest(SAMPLE, |sample| {
            // Innermost first.
            sample.packed(1, stack.iter().map(|frame| id(frame.index())));
            sample.packed(2, [weight.count, weight.ns]);
            for (label, text) in labels.into_iter().flatten() {
                sample.nest(3, |message| {
                    message.uint(1, label);
                    message.uint(2, text);
                });
            }
        });
        self.write()
    }

    /// A frame, with the functions inlined there.
    fn location(&mut self, frame: FrameId) {
        if !self.locations.insert(frame.index()) {
            return;
        }
        let trace = self.job.analysis.trace;
        let levels = trace.symbols.get(frame).len().max(1) as u32;
        let functions = (0..levels).map(|level| Function { frame, level });
        let lines: Vec<(u64, u64)> = functions.map(|function| self.function(function)).collect();
        let of = trace.stacks.frame(frame);
        of.into_iter().for_each(|of| self.mapping(of.module));
        self.message.nest(LOCATION, |location| {
            location.uint(1, id(frame.index()));
            if let Some(of) = of {
                location.uint(2, id(of.module.index()));
                location.uint(3, of.offset);
            }
            for (function, line) in lines {
                location.nest(4, |message| {
                    message.uint(1, function);
                    message.uint(2, line);
                });
            }
        });
    }

    /// Writes a function. Returns its id and the line.
    fn function(&mut self, function: Function) -> (u64, u64) {
        let symbol = self.frames.symbol(function);
        // One function is at many frames.
        let number = match symbol {
            Some(symbol) => symbol.function.index() * 2,
            None => self.frames.number(function) as usize * 2 + 1,
        };
        let line = symbol.map_or(0, |symbol| u64::from(symbol.line));
        if self.functions.insert(number) {
            let name = self.frames.name(function);
            let file = symbol.map_or("", |symbol| self.job.analysis.trace.name(symbol.file));
            let (name, file) = (self.string(&name), self.string(file));
            self.message.nest(FUNCTION, |message| {
                message.uint(1, id(number));
                message.uint(2, name);
                message.uint(3, name);
                message.uint(4, file);
            });
        }
        (id(number), line)
    }

    fn mapping(&mut self, module: ModuleId) {
        let trace = self.job.analysis.trace;
        let Some(of) = trace.modules.get(module) else { return };
        if !self.mappings.insert(module.index()) {
            return;
        }
        let path = trace.shown(trace.name(of.path).to_owned());
        let path = self.string(&path);
        let build_id = self.string(&unhitch_model::units::hex(trace.modules.build_id(module)));
        self.message.nest(MAPPING, |mapping| {
            mapping.uint(1, id(module.index()));
            mapping.uint(5, path);
            mapping.uint(6, build_id);
            // Nothing is left to look up.
            for has in [7, 8, 9, 10] {
                mapping.uint(has, 1);
            }
        });
    }
}

/// The id of an entry: 0 is none.
const fn id(index: usize) -> u64 {
    index as u64 + 1
}

fn value_type(message: &mut Message, kind: u64, unit: u64) {
    message.uint(1, kind);
    message.uint(2, unit);
}
