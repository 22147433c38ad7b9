//! Names of frames.

use crate::{FrameId, NameId};

/// One function at a code location. A location inside inlined code has several, innermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Symbol {
    /// The demangled function name.
    pub function: NameId,
    /// The source file; empty if unknown.
    pub file: NameId,
    /// The source line; 0 if unknown.
    pub line: u32,
}

/// The names of a trace's frames, by [`FrameId`]. Frames without a name are not in it.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    ranges: Vec<(u32, u32)>,
    symbols: Vec<Symbol>,
}

impl Symbols {
    /// Names `frame`: its functions, innermost (inlined) first. Replaces earlier names.
    pub fn set(&mut self, frame: FrameId, symbols: &[Symbol]) {
        if self.ranges.len() <= frame.index() {
            self.ranges.resize(frame.index() + 1, (0, 0));
        }
        let start = self.symbols.len() as u32;
        self.symbols.extend_from_slice(symbols);
        self.ranges[frame.index()] = (start, self.symbols.len() as u32);
    }

    /// Names `frame`, unless it has a name.
    pub fn set_once(&mut self, frame: FrameId, symbol: Symbol) {
        if self.get(frame).is_empty() {
            self.set(frame, &[symbol]);
        }
    }

    /// The functions at `frame`, innermost first; empty if it has no name.
    pub fn get(&self, frame: FrameId) -> &[Symbol] {
        let (start, end) = self.ranges.get(frame.index()).copied().unwrap_or((0, 0));
        self.symbols.get(start as usize..end as usize).unwrap_or(&[])
    }

    /// True when nothing is named.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }
}
