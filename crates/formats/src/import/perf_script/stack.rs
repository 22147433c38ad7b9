//! The frames below an event's line: `ADDRESS FUNCTION+0xOFFSET (FILE)`.

use crate::import::frames::{Frames, is_kernel};
use unhitch_model::{FrameId, StackId, Symbol, Trace};

/// The frames of one stack so far, innermost first.
#[derive(Default)]
pub(super) struct StackText {
    frames: Vec<FrameId>,
    kernel_len: usize,
    /// Functions that were inlined into the next frame.
    inlined: Vec<String>,
    /// True after a frame of the process that perf found in a file or in memory of its own.
    is_mapped: bool,
    /// True if nothing is known of the frames that follow.
    is_cut: bool,
}

/// Addresses from here on are the kernel's, on every 64-bit architecture.
const FIRST_OF_KERNEL: u64 = 0xff00_0000_0000_0000;
/// What perf prints for a function, or a file, that it does not know.
const UNKNOWN: &str = "[unknown]";

impl StackText {
    const MAX_FRAMES: usize = 1024;

    /// Adds the frame of a line; false if the line is none.
    pub fn add(&mut self, trace: &mut Trace, out: &mut Frames, pid: u32, line: &str) -> bool {
        let Some(frame) = FrameText::parse(line) else { return false };
        if self.is_cut || self.frames.len() >= Self::MAX_FRAMES {
            return true;
        }
        if self.is_made_up(&frame) {
            self.is_cut = true;
            self.frames.push(trace.cut_frame());
            return true;
        }
        if frame.file == "inlined" {
            self.inlined.push(frame.function.to_owned());
            return true;
        }
        // All but the leaf are return addresses, which lie behind the call.
        let back = u64::from(!self.frames.is_empty());
        let avma = frame.avma.saturating_sub(back);
        let known = frame.function != UNKNOWN;
        let function = if known { frame.function } else { "" };
        let is_kernel = frame.avma >= FIRST_OF_KERNEL || is_kernel(frame.file);
        let id = if is_kernel {
            out.kernel(trace, avma, function)
        } else if frame.file.is_empty()
            || frame.file == UNKNOWN
            || frame.file.starts_with("//anon")
            || frame.file.starts_with("/tmp/perf-")
        {
            out.anonymous(trace, pid, avma, function)
        } else if known {
            out.named(trace, frame.file, function, frame.offset.saturating_sub(back as u32))
        } else {
            out.nameless(trace, frame.file, avma)
        };
        self.name_inlined(trace, id);
        self.is_mapped |= !is_kernel && frame.file != UNKNOWN;
        if is_kernel && self.kernel_len == self.frames.len() {
            self.kernel_len += 1;
        }
        self.frames.push(id);
        true
    }

    /// True for an address that perf found in no mapping of a process whose mappings it knows, as
    /// for `-1`: where code keeps no frame pointers, the kernel follows what is none.
    fn is_made_up(&self, frame: &FrameText<'_>) -> bool {
        let is_nowhere = frame.function == UNKNOWN && frame.file == UNKNOWN;
        is_nowhere && (self.is_mapped || frame.avma == u64::MAX)
    }

    fn name_inlined(&mut self, trace: &mut Trace, frame: FrameId) {
        if self.inlined.is_empty() {
            return;
        }
        let outer = trace.symbols.get(frame).to_vec();
        let inner = self
            .inlined
            .drain(..)
            .map(|name| Symbol { function: trace.strings.intern(&name), ..Symbol::default() });
        let all: Vec<Symbol> = inner.chain(outer.last().copied()).collect();
        if outer.len() <= 1 {
            trace.symbols.set(frame, &all);
        }
    }

    /// The stack, after which the next one begins.
    pub fn take(&mut self, trace: &mut Trace) -> StackId {
        let stack = trace.stacks.intern(&self.frames, self.kernel_len as u16);
        self.frames.clear();
        self.kernel_len = 0;
        self.inlined.clear();
        (self.is_mapped, self.is_cut) = (false, false);
        stack
    }
}

/// The parts of a frame's line.
#[derive(PartialEq, Eq, Debug)]
struct FrameText<'a> {
    avma: u64,
    function: &'a str,
    offset: u32,
    file: &'a str,
}

impl<'a> FrameText<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (address, rest) = line.split_once(char::is_whitespace)?;
        let avma = u64::from_str_radix(address, 16).ok()?;
        let rest = rest.trim();
        let rest = rest.strip_suffix(" (deleted))").unwrap_or(rest);
        // Functions of C++ have brackets and blanks, too.
        let (function, file) = match rest.rsplit_once(" (") {
            Some((function, file)) => (function, file.strip_suffix(')').unwrap_or(file)),
            None => (rest, ""),
        };
        let (function, offset) = match function.rsplit_once("+0x") {
            Some((name, offset)) if u32::from_str_radix(offset, 16).is_ok() => {
                (name, u32::from_str_radix(offset, 16).unwrap_or(0))
            }
            _ => (function, 0),
        };
        Some(Self { avma, function: function.trim(), offset, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read() {
        let frame = |avma, function, offset, file| Some(FrameText { avma, function, offset, file });
        for (line, expected) in [
            (
                "\tffffffff8117d09c __schedule+0x2ac ([kernel.kallsyms])",
                frame(0xffff_ffff_8117_d09c, "__schedule", 0x2ac, "[kernel.kallsyms]"),
            ),
            (
                " 7f1 operator()(int (*)()) const+0x5 (/a (deleted))",
                frame(0x7f1, "operator()(int (*)()) const", 5, "/a"),
            ),
            ("55 main (/bin/a b)", frame(0x55, "main", 0, "/bin/a b")),
            ("55 f (inlined)", frame(0x55, "f", 0, "inlined")),
            ("7f [unknown] ([unknown])", frame(0x7f, "[unknown]", 0, "[unknown]")),
            ("main.c:3", None),
            ("xyz main (/bin/a)", None),
        ] {
            assert_eq!(FrameText::parse(line), expected, "{line}");
        }
    }
}
