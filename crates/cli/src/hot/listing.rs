//! One function's instructions with their samples, as text and as JSON (a contract: fields may be
//! added, never changed or removed).
//!
//! *Why the skid is told every time*: nobody guesses that the slow instruction is the one before
//! the one with the samples.

use crate::rights;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use unhitch_analysis::SelfSamples;
use unhitch_analysis::samples::hot_loop::{self, HotLoop, hot_loop};
use unhitch_analysis::wording::units;
use unhitch_model::{FrameId, Trace, visible};
use unhitch_symbols::{Code, CodeOptions, Instruction, NoCode, code, disassemble};

/// Shorter functions are shown whole.
const SHOWN_WHOLE: usize = 40;
/// In longer ones, so many instructions on either side of the loop and of what has samples.
const AROUND: usize = 2;
/// A loop is shown whole up to this length; of a longer one, what has samples.
const SHOWN_LOOP: usize = 64;

/// The column of instructions.
const TEXT_WIDTH: usize = 44;

const SKID: &str = "a sample's address is where the timer's interrupt was taken, mostly just after the slow instruction: look at the line above, too.";
const KERNEL: &str = "where the kernel has interrupts disabled the timer must wait: those samples pile up where it enables them again.";

/// An instruction, or only an address where there is no code.
struct Line {
    /// In the module.
    offset: u64,
    /// As a disassembler shows it; the offset where there is no code.
    address: u64,
    text: String,
    samples: u64,
    /// Source file and line, and the inlined function; empty when unknown.
    origin: String,
}

/// A function's instructions with their samples.
pub struct Listing {
    function: String,
    module: String,
    is_kernel: bool,
    /// The function's own samples: those of the lines.
    samples: u64,
    /// Those and the samples of what it calls.
    inside: u64,
    /// All samples looked at.
    total: u64,
    /// Samples in none of the lines: in another function of that name, or near by where there are
    /// no names.
    elsewhere: u64,
    source: Option<String>,
    no_code: Option<String>,
    notes: Vec<String>,
    lines: Vec<Line>,
    hot_loop: Option<HotLoop>,
}

impl Listing {
    /// Reads and disassembles the code around the samples of `place`. `inside` of `total` samples
    /// are in the function or below it.
    pub(super) fn new(
        trace: &Trace,
        place: &SelfSamples,
        inside: u64,
        total: u64,
        notes: Vec<String>,
        options: &CodeOptions,
    ) -> Self {
        let module = trace.modules.get(place.module);
        let mut listing = Self {
            function: place.label(trace),
            module: module.map_or("?", |module| trace.name(module.path)).to_owned(),
            is_kernel: module.is_some_and(|module| module.kind.is_kernel()),
            samples: place.samples,
            // Who called code without a name is not known well enough to be counted.
            inside: if place.function.is_empty() { 0 } else { inside },
            total,
            elsewhere: 0,
            source: None,
            no_code: None,
            notes,
            lines: Vec::new(),
            hot_loop: None,
        };
        let sampled: Vec<u64> = place.at.keys().copied().collect();
        let disassembled =
            read(trace, place, options).map_err(|why| why.to_string()).and_then(|code| {
                let instructions = disassemble(&code, &sampled).ok_or_else(|| {
                    format!(
                        "disassembly for {} is not there yet; the samples per address are",
                        trace.meta.arch
                    )
                })?;
                Ok((code, instructions))
            });
        match disassembled {
            Ok((code, instructions)) => listing.annotate(trace, place, &code, instructions),
            Err(why) => {
                listing.no_code = Some(rights::out_of_reach(&listing.module).unwrap_or(why));
                listing.lines = place
                    .at
                    .iter()
                    .map(|(&offset, &(frame, samples))| Line {
                        offset,
                        address: offset,
                        text: String::new(),
                        samples,
                        origin: origin(trace, frame),
                    })
                    .collect();
            }
        }
        listing
    }

    fn annotate(
        &mut self,
        trace: &Trace,
        place: &SelfSamples,
        code: &Code,
        instructions: Vec<Instruction>,
    ) {
        let doubt = code.doubt.map_or(String::new(), |doubt| format!(" ({doubt})"));
        self.source = Some(format!("{}{doubt}", code.source.display()));
        if !code.is_function {
            self.notes.push("where the function begins and ends is not known: this is what lies around the samples".to_owned());
        }
        let steps: Vec<hot_loop::Instruction> = instructions
            .iter()
            .map(|instruction| hot_loop::Instruction {
                offset: instruction.offset,
                len: instruction.len,
                target: instruction.target,
                falls_through: instruction.falls_through,
                // Around the samples may be several functions; a jump through a table leads into
                // none but its own.
                jumps_anywhere: instruction.jumps_anywhere && code.is_function,
                samples: place.at.get(&instruction.offset).map_or(0, |(_, samples)| *samples),
            })
            .collect();
        self.hot_loop = hot_loop(&steps);
        self.lines = instructions
            .into_iter()
            .zip(&steps)
            .map(|(Instruction { offset, address, text, .. }, step)| {
                let origin = place
                    .at
                    .get(&offset)
                    .map_or_else(String::new, |(frame, _)| origin(trace, *frame));
                Line { offset, address, text, samples: step.samples, origin }
            })
            .collect();
        let here = self.lines.iter().map(|line| line.samples).sum();
        self.elsewhere = self.samples.saturating_sub(here);
        self.samples = here;
        if place.function.is_empty() && code.is_function {
            let file = self.module.rsplit('/').next().unwrap_or(&self.module);
            self.function = format!("{file}+{:#x}", code.start);
        }
    }

    /// The loop in a sentence: `a loop of 7 instructions, 99.4 % of the function's samples`.
    pub fn loop_summary(&self) -> String {
        let Some(found) = &self.hot_loop else {
            return "none that holds half of the samples".to_owned();
        };
        let hottest = found
            .body
            .iter()
            .filter_map(|&index| self.lines.get(index))
            .max_by_key(|line| line.samples);
        let hottest = hottest.map_or(0, |line| line.samples);
        format!(
            "a loop of {}, {} of the function's samples; {} on one of them",
            units::plural(found.body.len() as u64, "instruction"),
            units::rounded_percent(found.samples, self.samples),
            units::rounded_percent(hottest, self.samples),
        )
    }

    /// The lines of the loop (unless it is very long) and those with at least `least_samples`, each
    /// with `around` lines on either side; the loop is marked.
    pub fn annotated(&self, around: usize, least_samples: u64) -> Vec<String> {
        let body = self.hot_loop.as_ref().map_or(&[][..], |found| &found.body);
        let is_loop_shown = body.len() <= SHOWN_LOOP;
        let is_wanted = |index: usize| {
            is_loop_shown && body.binary_search(&index).is_ok()
                || self.lines[index].samples >= least_samples
        };
        let mut shown = vec![false; self.lines.len()];
        for index in (0..self.lines.len()).filter(|&index| is_wanted(index)) {
            shown[index.saturating_sub(around)
                ..self.lines.len().min(index.saturating_add(around).saturating_add(1))]
                .fill(true);
        }
        let mark = |index: usize| match body.binary_search(&index) {
            Ok(_) if body.len() == 1 => "↺",
            Ok(0) => "┌",
            Ok(at) if at + 1 == body.len() => "└",
            Ok(_) => "│",
            Err(_) => " ",
        };
        let mut lines = Vec::new();
        let mut last = None;
        for index in (0..self.lines.len()).filter(|&index| shown[index]) {
            if index > 0 && last != Some(index - 1) {
                lines.push(format!("{:>9} {:>8}  …", "", ""));
            }
            last = Some(index);
            let line = &self.lines[index];
            let (count, share) = match line.samples {
                0 => (String::new(), String::new()),
                samples => (units::count(samples), units::rounded_percent(samples, self.samples)),
            };
            let width = if self.no_code.is_some() { 0 } else { TEXT_WIDTH };
            let row = format!(
                "{count:>9} {share:>8}  {} {:>16x}  {:<width$} {}",
                mark(index),
                line.address,
                line.text,
                line.origin
            );
            lines.push(row.trim_end().to_owned());
        }
        lines
    }

    /// All of it, in words and lines.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut head = |name: &str, text: &str| {
            let _ = writeln!(out, "{name:<9} {}", visible(text));
        };
        head("FUNCTION", &format!("{}  ({})", self.function, self.module));
        let below = match self.inside.saturating_sub(self.samples + self.elsewhere) {
            0 => String::new(),
            below => format!("; {} more in what it calls", units::count(below)),
        };
        let (samples, total) =
            (units::plural(self.samples, "sample"), units::plural(self.total, "sample"));
        let share = units::rounded_percent(self.samples, self.total);
        head("SAMPLES", &format!("{samples} of its own, {share} of the {total} looked at{below}"));
        match &self.no_code {
            Some(why) => head("NO CODE", why),
            None => head("LOOP", &self.loop_summary()),
        }
        if self.no_code.is_none() {
            head("SKID", SKID);
        }
        if self.is_kernel {
            head("KERNEL", KERNEL);
        }
        if let Some(source) = &self.source {
            head("CODE", source);
        }
        if self.elsewhere > 0 {
            head(
                "NOTE",
                &format!(
                    "{} beside it, in other code of that name or place, not shown",
                    units::plural(self.elsewhere, "sample")
                ),
            );
        }
        for note in &self.notes {
            head("NOTE", note);
        }
        let (address, instruction) =
            if self.no_code.is_some() { ("module offset", "") } else { ("address", "instruction") };
        let heading = format!("{:>9} {:>8}    {address:>16}  {instruction}", "samples", "share");
        let _ = writeln!(out, "\n{}", heading.trim_end());
        let around = if self.lines.len() <= SHOWN_WHOLE { SHOWN_WHOLE } else { AROUND };
        for line in self.annotated(around, 1) {
            let _ = writeln!(out, "{}", visible(&line));
        }
        out
    }

    /// The same for programs, every instruction included.
    pub fn json(&self) -> Value {
        let body = self.hot_loop.as_ref().map_or(&[][..], |found| &found.body);
        let share = |samples: u64| samples as f64 / self.samples.max(1) as f64;
        let instructions = self.lines.iter().enumerate().map(|(index, line)| {
            json!({
                "offset": line.offset,
                "address": line.address,
                "text": line.text,
                "samples": line.samples,
                "share": share(line.samples),
                "in_loop": body.binary_search(&index).is_ok(),
                "origin": line.origin,
            })
        });
        json!({
            "version": 1,
            "function": self.function,
            "module": self.module,
            "kernel": self.is_kernel,
            "samples": self.samples,
            "inside": self.inside,
            "total": self.total,
            "elsewhere": self.elsewhere,
            "code": self.source,
            "no_code": self.no_code,
            "notes": self.notes,
            "loop": self.hot_loop.as_ref().map(|found| json!({
                "instructions": found.body.len(),
                "samples": found.samples,
                "share": share(found.samples),
            })),
            "instructions": instructions.collect::<Vec<_>>(),
        })
    }
}

/// The function that the most samples are in, or all that lies around them.
fn read(trace: &Trace, place: &SelfSamples, options: &CodeOptions) -> Result<Code, NoCode> {
    let hottest = place
        .at
        .iter()
        .max_by_key(|&(&offset, &(_, samples))| (samples, std::cmp::Reverse(offset)))
        .map_or(0, |(&offset, _)| offset);
    match code(trace, place.module, hottest..hottest.saturating_add(1), options)? {
        function if function.is_function => Ok(function),
        _ => code(trace, place.module, place.span(), options),
    }
}

/// Source file and line, and the function, where that is inlined.
fn origin(trace: &Trace, frame: FrameId) -> String {
    let [innermost, outer @ ..] = trace.symbols.get(frame) else { return String::new() };
    let file = Path::new(trace.name(innermost.file))
        .file_name()
        .map_or(String::new(), |file| file.to_string_lossy().into_owned());
    let place = if file.is_empty() || innermost.line == 0 {
        file
    } else {
        format!("{file}:{}", innermost.line)
    };
    let inlined = if outer.is_empty() { "" } else { trace.name(innermost.function) };
    format!("{place} {inlined}").trim().to_owned()
}
