//! [`PythonLayout`]: where the fields are that lead from the runtime to a function's name.

/// Number of 16-bit numbers of a layout.
const FIELDS: usize = 21;
/// A field that this version does not have.
const NONE: u16 = u16::MAX;
/// Maximum number of bytes of a frame, and of the names in a code object, that are looked at:
/// `MAX_PYTHON_FRAME_BYTES` of `python.h`.
const MAX_FRAME_BYTES: u16 = 128;

/// Offsets in bytes, for one minor version of Python 3 on 64-bit machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PythonLayout {
    /// 9 for Python 3.9.
    pub minor: u16,
    /// `_PyRuntimeState`: the pointer to the first interpreter.
    pub interpreters: u16,
    /// `PyInterpreterState`: the next one, and its first thread.
    pub next_interpreter: u16,
    /// See `next_interpreter`.
    pub first_thread: u16,
    /// `PyThreadState`: the next one, its `pthread_self()`, and its innermost frame.
    pub next_thread: u16,
    /// See `next_thread`.
    pub thread_id: u16,
    /// See `next_thread`. With `c_frame`, the pointer to what points to the frame.
    pub frame: u16,
    /// `_PyCFrame`: the innermost frame (3.11, 3.12).
    pub c_frame: Option<u16>,
    /// A frame: its caller, its code object, its instruction, and the byte of [`Boundary`].
    pub previous: u16,
    /// See `previous`.
    pub code: u16,
    /// See `previous` and [`Instruction`].
    pub instruction: u16,
    /// See `previous`.
    pub boundary: u16,
    /// `PyCodeObject`: file name, name, qualified name (from 3.11 on) and line table are pointers in
    /// this order, the first one here.
    pub names: u16,
    /// `PyCodeObject`: its first line.
    pub first_line: u16,
    /// `PyCodeObject`: its instructions (from 3.11 on).
    pub instructions: u16,
    /// `PyObject`: its type.
    pub object_type: u16,
    /// `PyASCIIObject`: the length, the bits that say how characters are stored, and where they
    /// begin.
    pub string_length: u16,
    /// See `string_length`.
    pub string_state: u16,
    /// See `string_length`. Strings with other characters have `string_wide` bytes more before them.
    pub string_start: u16,
    /// `PyBytesObject`: its length, and where its bytes begin.
    pub bytes_length: u16,
    /// See `bytes_length`.
    pub bytes_start: u16,
}

/// How a frame shows that a call of the interpreter's loop in C ends with it: the frames inwards of
/// it, up to the one before, belong to one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// Each frame has its own call (up to 3.10).
    Each,
    /// The outermost frame of a call has a flag (3.11).
    IsEntry,
    /// A frame of the C stack, which is no function, is outside of the outermost one (from 3.12 on).
    CStack,
}

/// What a frame says of the instruction that it executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// The offset in bytes, 32 bits (3.9).
    Bytes,
    /// The offset in units of two bytes, 32 bits (3.10).
    Units,
    /// The address (from 3.11 on).
    Pointer,
}

const V3_9: PythonLayout = PythonLayout {
    minor: 9,
    interpreters: 32,
    next_interpreter: 0,
    first_thread: 8,
    next_thread: 8,
    thread_id: 176,
    frame: 24,
    c_frame: None,
    previous: 24,
    code: 32,
    instruction: 104,
    boundary: 0,
    names: 104,
    first_line: 40,
    instructions: 0,
    object_type: 8,
    string_length: 16,
    string_state: 32,
    string_start: 48,
    bytes_length: 16,
    bytes_start: 32,
};

const V3_11: PythonLayout = PythonLayout {
    minor: 11,
    interpreters: 40,
    next_interpreter: 0,
    first_thread: 16,
    next_thread: 8,
    thread_id: 152,
    frame: 56,
    c_frame: Some(8),
    previous: 48,
    code: 32,
    instruction: 56,
    boundary: 68,
    names: 112,
    first_line: 72,
    instructions: 184,
    ..V3_9
};

/// Python 3.9 to 3.12. Later versions say themselves where their fields are.
const KNOWN: [PythonLayout; 4] = [
    V3_9,
    PythonLayout { minor: 10, instruction: 96, ..V3_9 },
    V3_11,
    PythonLayout {
        minor: 12,
        first_thread: 72,
        thread_id: 136,
        c_frame: Some(0),
        previous: 8,
        code: 0,
        boundary: 70,
        first_line: 68,
        instructions: 192,
        string_start: 40,
        ..V3_11
    },
];

impl PythonLayout {
    /// The layout of Python 3.`minor`, if it is known.
    pub fn of_version(minor: u16) -> Option<Self> {
        KNOWN.into_iter().find(|known| known.minor == minor)
    }

    /// The layout that Python 3.13 describes in the first words of its runtime
    /// (`_Py_DebugOffsets`).
    pub(super) fn described(words: &[u64]) -> Option<Self> {
        let at = |index: usize| u16::try_from(*words.get(index)?).ok().filter(|at| *at != NONE);
        let is_known = words.first() == Some(&u64::from_le_bytes(*b"xdebugpy"))
            && words.get(1).is_some_and(|version| version >> 16 == 0x030d);
        // Name, qualified name and line table must follow the file name.
        let names = at(35)?;
        let follow = [at(36)?, at(37)?, at(38)?] == [8, 16, 24].map(|more| names + more);
        let layout = Self {
            minor: 13,
            interpreters: at(5)?,
            next_interpreter: at(8)?,
            first_thread: at(9)?,
            next_thread: at(21)?,
            thread_id: at(24)?,
            frame: at(23)?,
            c_frame: None,
            previous: at(29)?,
            code: at(30)?,
            instruction: at(31)?,
            boundary: at(33)?,
            names,
            first_line: at(39)?,
            instructions: at(43)?,
            object_type: at(45)?,
            string_length: at(69)?,
            string_state: at(68)?,
            string_start: at(70)?,
            bytes_length: at(65)?,
            bytes_start: at(66)?,
        };
        (is_known && follow && layout.is_plausible()).then_some(layout)
    }

    /// How a frame shows where a call of the interpreter's loop ends.
    pub fn boundary(&self) -> Boundary {
        match self.minor {
            ..=10 => Boundary::Each,
            11 => Boundary::IsEntry,
            _ => Boundary::CStack,
        }
    }

    /// What a frame says of its instruction.
    pub fn instruction(&self) -> Instruction {
        match self.minor {
            ..=9 => Instruction::Bytes,
            10 => Instruction::Units,
            _ => Instruction::Pointer,
        }
    }

    /// Number of pointers at `names`: with the qualified name, or without.
    pub fn names_len(&self) -> usize {
        if self.minor <= 10 { 3 } else { 4 }
    }

    /// Number of bytes of a frame that its fields are in.
    pub fn frame_bytes(&self) -> u16 {
        let last = self.previous.max(self.code).max(self.instruction);
        (last.max(self.boundary & !7).saturating_add(8)).next_multiple_of(8)
    }

    /// By how many bytes the characters of a string that is not ASCII begin later.
    pub fn string_wide(&self) -> u16 {
        if self.minor <= 11 { 24 } else { 16 }
    }

    fn is_plausible(&self) -> bool {
        let words = [self.previous, self.code, self.instruction, self.names];
        let limited = words.iter().chain([&self.boundary]);
        (9..=13).contains(&self.minor)
            && words.iter().all(|at| at.is_multiple_of(8))
            && limited.clone().all(|at| *at < 1 << 12)
            && self.frame_bytes() <= MAX_FRAME_BYTES
    }

    /// As numbers, for [`from_numbers`](Self::from_numbers).
    pub(super) fn to_numbers(self) -> [u16; FIELDS] {
        [
            self.minor,
            self.interpreters,
            self.next_interpreter,
            self.first_thread,
            self.next_thread,
            self.thread_id,
            self.frame,
            self.c_frame.unwrap_or(NONE),
            self.previous,
            self.code,
            self.instruction,
            self.boundary,
            self.names,
            self.first_line,
            self.instructions,
            self.object_type,
            self.string_length,
            self.string_state,
            self.string_start,
            self.bytes_length,
            self.bytes_start,
        ]
    }

    /// From numbers that somebody else wrote; `None` if no Python is like that.
    pub(super) fn from_numbers(numbers: [u16; FIELDS]) -> Option<Self> {
        let [minor, interpreters, next_interpreter, first_thread, rest @ ..] = numbers;
        let [next_thread, thread_id, frame, c_frame, previous, code, rest @ ..] = rest;
        let [instruction, boundary, names, first_line, instructions, rest @ ..] = rest;
        let [object_type, string_length, string_state, string_start, rest @ ..] = rest;
        let [bytes_length, bytes_start] = rest;
        let layout = Self {
            minor,
            interpreters,
            next_interpreter,
            first_thread,
            next_thread,
            thread_id,
            frame,
            c_frame: (c_frame != NONE).then_some(c_frame),
            previous,
            code,
            instruction,
            boundary,
            names,
            first_line,
            instructions,
            object_type,
            string_length,
            string_state,
            string_start,
            bytes_length,
            bytes_start,
        };
        layout.is_plausible().then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_survive_a_round_trip_and_bad_ones_are_refused() {
        for layout in KNOWN {
            assert_eq!(PythonLayout::from_numbers(layout.to_numbers()), Some(layout));
        }
        assert_eq!(PythonLayout::from_numbers([0; FIELDS]), None);
        assert_eq!(PythonLayout::from_numbers([u16::MAX; FIELDS]), None);
        let mut far = KNOWN[2].to_numbers();
        far[8] = 4096;
        assert_eq!(PythonLayout::from_numbers(far), None);
        assert_eq!(PythonLayout::described(&[]), None);
        assert_eq!(PythonLayout::described(&[u64::from_le_bytes(*b"xdebugpy"); 80]), None);
    }
}
