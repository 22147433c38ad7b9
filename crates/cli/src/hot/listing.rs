//! One function's instructions with their samples, as text and as JSON. The JSON is a contract:
//! fields may be added, never changed or removed.
//!
//! *Why every listing explains skid*: nobody guesses that the slow instruction is the one before
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

/// Functions of at most this many instructions are shown whole.
const MAX_WHOLE: usize = 40;
/// In longer functions, how many instructions to show before and after the loop and each
/// instruction with samples.
const CONTEXT: usize = 2;
/// Loops of at most this many instructions are shown whole; of longer ones, only the instructions
/// with samples.
const MAX_WHOLE_LOOP: usize = 64;

/// Width of the instruction column, in characters.
const TEXT_WIDTH: usize = 44;

const SKID: &str = "a sample's address is where the timer interrupt was taken, usually just after \
                    the slow instruction: check the line above, too.";
const KERNEL: &str = "while the kernel has interrupts disabled, the timer interrupt must wait: \
                      samples of such code appear at the instruction that enables interrupts \
                      again.";

/// An instruction, or just an address if there is no code.
struct Line {
    /// Offset in the module.
    offset: u64,
    /// Address as a disassembler shows it; the offset if there is no code.
    address: u64,
    text: String,
    samples: u64,
    /// Source file and line, and the inlined function; empty if unknown.
    origin: String,
}

/// A function's instructions with their samples.
pub struct Listing {
    function: String,
    module: String,
    is_kernel: bool,
    /// Self samples of the function: the sum over the lines.
    samples: u64,
    /// Self samples plus samples in callees.
    inside: u64,
    /// All selected samples.
    total: u64,
    /// Samples in none of the lines: in another function of the same name, or nearby if there are
    /// no names.
    elsewhere: u64,
    source: Option<String>,
    no_code: Option<String>,
    notes: Vec<String>,
    lines: Vec<Line>,
    hot_loop: Option<HotLoop>,
}

impl Listing {
    /// Reads and disassembles the code around the samples of `place`. `inside` of the `total`
    /// samples are in the function or its callees.
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
            // The callers of unnamed code are not known well enough to be counted.
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
                        "cannot disassemble {} code yet; here are the samples per address",
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
            self.notes.push(
                "the bounds of the function are not known: this is the code around the samples"
                    .to_owned(),
            );
        }
        let steps: Vec<hot_loop::Instruction> = instructions
            .iter()
            .map(|instruction| hot_loop::Instruction {
                offset: instruction.offset,
                len: instruction.len,
                target: instruction.target,
                falls_through: instruction.falls_through,
                // The code around the samples may belong to several functions; a jump through a
                // table stays in its own.
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

    /// Describes the loop in a phrase: `a loop of 7 instructions, 99.4 % of the function's
    /// samples`.
    pub fn loop_summary(&self) -> String {
        let Some(found) = &self.hot_loop else {
            return "none with at least half of the samples".to_owned();
        };
        let hottest = found
            .body
            .iter()
            .filter_map(|&index| self.lines.get(index))
            .max_by_key(|line| line.samples);
        let hottest = hottest.map_or(0, |line| line.samples);
        format!(
            "a loop of {}, {} of the function's samples; {} on one instruction",
            units::plural(found.body.len() as u64, "instruction"),
            units::rounded_percent(found.samples, self.samples),
            units::rounded_percent(hottest, self.samples),
        )
    }

    /// The lines of the loop (unless it is very long) and the lines with at least `min_samples`,
    /// each with `around` lines before and after; the loop is marked.
    pub fn annotated(&self, around: usize, min_samples: u64) -> Vec<String> {
        let body = self.hot_loop.as_ref().map_or(&[][..], |found| &found.body);
        let is_loop_shown = body.len() <= MAX_WHOLE_LOOP;
        let is_wanted = |index: usize| {
            is_loop_shown && body.binary_search(&index).is_ok()
                || self.lines[index].samples >= min_samples
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

    /// The whole listing as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut head = |name: &str, text: &str| {
            let _ = writeln!(out, "{name:<9} {}", visible(text));
        };
        head("FUNCTION", &format!("{}  ({})", self.function, self.module));
        let below = match self.inside.saturating_sub(self.samples + self.elsewhere) {
            0 => String::new(),
            below => format!("; {} more in its callees", units::count(below)),
        };
        let (samples, total) =
            (units::plural(self.samples, "sample"), units::plural(self.total, "sample"));
        let share = units::rounded_percent(self.samples, self.total);
        head(
            "SAMPLES",
            &format!("{samples} in the function itself, {share} of the {total} selected{below}"),
        );
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
                    "not shown: {} in another function of the same name or, if the function has \
                     no name, in code nearby",
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
        let around = if self.lines.len() <= MAX_WHOLE { MAX_WHOLE } else { CONTEXT };
        for line in self.annotated(around, 1) {
            let _ = writeln!(out, "{}", visible(&line));
        }
        out
    }

    /// The listing as JSON, with every instruction.
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

/// Code of the function around the hottest address; if its bounds are unknown, the code that spans
/// all samples.
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

/// Source file and line, and the function if it is inlined.
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
