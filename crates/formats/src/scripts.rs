//! The functions of scripts, what an interpreter executes, between the frames of its own code; and
//! the methods of Java.
//!
//! A frame of a script is a [word](ScriptFrame) among the addresses of a stack. What it stands for is
//! in the member `scripts.json` ([`ScriptFile`]).
//!
//! The recorder appends Python's frames to those of the thread's native stack, leaf first. Only when a
//! trace is read are the two joined: the frames of one call of the interpreter's loop come right before
//! the loop's own frame, as if it had called them. A method of Java, interpreted or compiled, has one
//! native frame, and its word is in that frame's place.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use unhitch_model::{Frame, FrameId, Module, ModuleKind, NameId, Symbol, Trace};

/// A word with this bit is a frame of a script: no address of a process has it.
const MARK: u64 = 1 << 63;
const OUTERMOST: u64 = 1 << 62;
const METHOD: u64 = 1 << 61;
const UNIT_SHIFT: u32 = 42;
const ID_MASK: u64 = (1 << UNIT_SHIFT) - 1;
/// Instructions from here on count as this one.
const MAX_UNIT: u64 = 0x7_ffff;
/// The module of Java's methods, and where their offsets begin: no address is there.
const JAVA: &str = "[java]";
const FIRST_METHOD: u64 = ModuleKind::NO_AVMA;
/// What a method is called whose name could not be read.
const NAMELESS: &str = "[java method without a name]";
/// What a frame is called whose code object was gone, or not what it had been, when it was read.
const GONE: &str = "[python code that is gone]";
/// What is shown in place of frames that could not be read.
const CUT: &str = "[python frames that were not read]";

/// A frame of a script, as it is in a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptFrame {
    /// What [`id_of_code`] gives for its code object; 0: more frames follow that were not read.
    pub id: u64,
    /// The instruction that it executes, in units of two bytes.
    pub unit: u32,
    /// True for the outermost frame of one call of the interpreter's loop.
    pub is_outermost: bool,
    /// True for a method of Java, which is where its native frame was.
    pub is_method: bool,
}

impl ScriptFrame {
    /// Stands for frames that could not be read.
    pub const CUT: Self = Self { id: 0, unit: 0, is_outermost: false, is_method: false };

    /// The frame in a word of a stack; `None` for an address.
    pub fn from_word(word: u64) -> Option<Self> {
        let is_outermost = word & OUTERMOST != 0;
        (word & MARK != 0).then_some(Self {
            id: word & ID_MASK,
            unit: (word >> UNIT_SHIFT & MAX_UNIT) as u32,
            is_outermost,
            is_method: !is_outermost && word & METHOD != 0,
        })
    }

    /// True for a word of a stack that is a method of Java.
    pub(crate) fn is_method_word(word: u64) -> bool {
        Self::from_word(word).is_some_and(|frame| frame.is_method)
    }

    /// The word of a stack.
    pub fn to_word(self) -> u64 {
        let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let kind = bit(self.is_outermost, OUTERMOST) | bit(self.is_method, METHOD);
        let unit = u64::from(self.unit).min(MAX_UNIT);
        MARK | kind | unit << UNIT_SHIFT | self.id & ID_MASK
    }
}

/// A number for a code object, or a method, at an address whose pointers to names are these. *Why not
/// the address*: another one may be there later, and would lend its name.
/// `id_of_code` of `script.h` is the same.
pub fn id_of_code(avma: u64, names: [u64; 4]) -> u64 {
    let hash = names.into_iter().fold(avma, |hash, name| {
        let hash = (hash ^ name).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^ hash >> 32
    });
    (hash & ID_MASK).max(1)
}

/// The content of `scripts.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptFile {
    /// Version of this layout: 1.
    pub version: u32,
    /// The processes that ran scripts.
    pub processes: Vec<ScriptProcess>,
}

impl ScriptFile {
    /// The member's name and content; `None` without scripts.
    pub fn entry(&self) -> Option<(String, Vec<u8>)> {
        let json = (!self.processes.is_empty()).then(|| serde_json::to_vec(self));
        json?.ok().map(|json| (crate::container::SCRIPTS.to_owned(), json))
    }
}

/// The scripts of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptProcess {
    /// The process.
    pub pid: u32,
    /// Where the interpreter's loop is: start and end, actual addresses.
    pub loops: Vec<[u64; 2]>,
    /// The functions that were seen.
    pub functions: Vec<ScriptFunction>,
}

/// A function of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptFunction {
    /// See [`ScriptFrame::id`].
    pub id: u64,
    /// Its name, with its class.
    pub name: String,
    /// Its file.
    pub file: String,
    /// The line of its first statement, or of its decorator.
    pub first_line: u32,
    /// Instructions, and the line from there on, 0 for none; sorted.
    pub lines: Vec<(u32, u32)>,
}

/// Turns the scripts' frames in stacks into frames of the trace.
#[derive(Default)]
pub(crate) struct Scripts<'a> {
    processes: FxHashMap<u32, Process<'a>>,
    /// The number of a function among those of its file, by file, name and first line.
    functions: FxHashMap<(NameId, NameId, u32), u32>,
    functions_of_file: FxHashMap<NameId, u32>,
}

#[derive(Default)]
struct Process<'a> {
    /// By start; none overlaps another.
    loops: Vec<[u64; 2]>,
    functions: FxHashMap<u64, Function<'a>>,
}

struct Function<'a> {
    of: &'a ScriptFunction,
    /// Those of its instructions that have a line.
    lines: Vec<(u32, u32)>,
    /// Its file and its name, once a stack had it.
    names: Option<(NameId, NameId)>,
}

impl<'a> Function<'a> {
    fn new(of: &'a ScriptFunction) -> Self {
        let lines = of.lines.iter().filter(|(_, line)| *line != 0).copied().collect();
        Self { of, lines, names: None }
    }

    /// The line of an instruction. Instructions without one were added by the compiler, for the line
    /// before them.
    fn line(&self, unit: u32) -> u32 {
        let next = self.lines.partition_point(|(from, _)| *from <= unit);
        let before = next.checked_sub(1).and_then(|before| self.lines.get(before));
        before.map_or(self.of.first_line, |(_, line)| *line)
    }
}

impl Process<'_> {
    /// True if the loop of the interpreter has this address.
    fn is_in_loop(&self, avma: u64) -> bool {
        let next = self.loops.partition_point(|[start, _]| *start <= avma);
        next.checked_sub(1).is_some_and(|before| avma < self.loops[before][1])
    }
}

/// Ranges by start, those that overlap as one.
fn merged(ranges: &[[u64; 2]]) -> Vec<[u64; 2]> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let overlaps = next[0] <= before[1];
        before[1] = if overlaps { before[1].max(next[1]) } else { before[1] };
        overlaps
    });
    ranges
}

impl<'a> Scripts<'a> {
    pub(crate) fn new(file: &'a ScriptFile) -> Self {
        let process = |process: &'a ScriptProcess| {
            let by_id =
                process.functions.iter().map(|function| (function.id, Function::new(function)));
            let (loops, functions) = (merged(&process.loops), by_id.collect());
            (process.pid, Process { loops, functions })
        };
        let processes = file.processes.iter().map(process).collect();
        Self { processes, ..Self::default() }
    }

    /// The frame of the trace that a script's frame in the process `pid` is; `None` for an address.
    pub(crate) fn frame(&mut self, pid: u32, word: u64, trace: &mut Trace) -> Option<FrameId> {
        let of = ScriptFrame::from_word(word)?;
        let process = self.processes.get_mut(&pid);
        if process.is_none() && !of.is_method {
            return None;
        }
        let known = process.and_then(|process| process.functions.get_mut(&of.id));
        let Some(function) = known else {
            let path = trace.strings.intern(match of {
                ScriptFrame { is_method: true, .. } => NAMELESS,
                ScriptFrame { id: 0, .. } => CUT,
                _ => GONE,
            });
            let kind = ModuleKind::Script;
            let module = trace.modules.intern(Module { path, kind, build_id: Vec::new() });
            return Some(trace.stacks.intern_frame(Frame { module, offset: 0 }));
        };
        let intern = |text: &String| trace.strings.intern(text);
        let Function { of: described, names, .. } = &mut *function;
        let (file, name) =
            *names.get_or_insert_with(|| [&described.file, &described.name].map(intern).into());
        if of.is_method {
            let (path, kind) = (trace.strings.intern(JAVA), ModuleKind::Jit { pid, generation: 0 });
            let module = trace.modules.intern(Module { path, kind, build_id: Vec::new() });
            let frame = trace.stacks.intern_frame(Frame { module, offset: FIRST_METHOD | of.id });
            trace.symbols.set_once(frame, Symbol { function: name, file, line: 0 });
            return Some(frame);
        }
        let in_file = &mut self.functions_of_file;
        let number =
            *self.functions.entry((file, name, function.of.first_line)).or_insert_with(|| {
                let count = in_file.entry(file).or_default();
                *count += 1;
                *count
            });
        let kind = ModuleKind::Script;
        let module = trace.modules.intern(Module { path: file, kind, build_id: Vec::new() });
        let line = function.line(of.unit);
        let offset = u64::from(number) << 32 | u64::from(line);
        let frame = trace.stacks.intern_frame(Frame { module, offset });
        trace.symbols.set_once(frame, Symbol { function: name, file, line });
        Some(frame)
    }

    /// Joins the words of a user stack, leaf first, in place: each script's frames before the frame
    /// of the loop that executed them. A word of 0 marks the end of a cut stack.
    pub(crate) fn join(&self, pid: u32, words: &mut Vec<u64>) {
        let Some(process) = self.processes.get(&pid) else { return };
        let is_script =
            |word: &u64| ScriptFrame::from_word(*word).is_some_and(|frame| !frame.is_method);
        let Some(first) = words.iter().position(is_script) else { return };
        let scripts: Vec<u64> = words.extract_if(first.., |word| is_script(word)).collect();
        let is_cut = words.last() == Some(&0);
        let end = words.len() - usize::from(is_cut);
        let in_loop = |(index, avma): (usize, &u64)| {
            // Addresses but the leaf's are behind the call.
            let avma = if index == 0 { *avma } else { avma.saturating_sub(1) };
            process.is_in_loop(avma).then_some(index)
        };
        let loops: Vec<usize> = words[..end].iter().enumerate().filter_map(in_loop).collect();
        let is_outermost =
            |word: &u64| ScriptFrame::from_word(*word).is_some_and(|frame| frame.is_outermost);
        let calls: Vec<&[u64]> = scripts.split_inclusive(is_outermost).collect();
        let is_whole = !is_cut && scripts.last().is_some_and(is_outermost);
        let mut places = vec![end; calls.len()];
        if is_whole {
            // The innermost loop may not have its frame yet, or not any more.
            let from_root = calls.len().min(loops.len());
            let (late, early) = (loops.len() - from_root, calls.len() - from_root);
            places[early..].copy_from_slice(&loops[late..]);
            let innermost = places.get(early).copied().unwrap_or(end);
            places[..early].fill(innermost);
        } else {
            places.iter_mut().zip(&loops).for_each(|(place, at)| *place = *at);
        }
        let native = std::mem::take(words);
        let mut done = 0;
        for (place, call) in places.into_iter().zip(calls) {
            words.extend_from_slice(&native[done..place]);
            words.extend_from_slice(call);
            done = place;
        }
        words.extend_from_slice(&native[done..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(id: u64, is_outermost: bool) -> u64 {
        ScriptFrame { id, unit: 3, is_outermost, is_method: false }.to_word()
    }

    fn file(loops: Vec<[u64; 2]>) -> ScriptFile {
        let functions = vec![ScriptFunction {
            id: 7,
            name: "Handler.get".to_owned(),
            file: "/srv/server.py".to_owned(),
            first_line: 40,
            lines: vec![(0, 40), (2, 42), (3, 0)],
        }];
        ScriptFile { version: 1, processes: vec![ScriptProcess { pid: 5, loops, functions }] }
    }

    #[test]
    fn words_survive_a_round_trip() {
        for frame in [
            ScriptFrame { id: 1, unit: 0, is_outermost: true, is_method: false },
            ScriptFrame { id: 1, unit: 0, is_outermost: false, is_method: true },
            ScriptFrame {
                id: ID_MASK,
                unit: MAX_UNIT as u32,
                is_outermost: true,
                is_method: false,
            },
            ScriptFrame::CUT,
        ] {
            assert_eq!(ScriptFrame::from_word(frame.to_word()), Some(frame));
            assert!(!crate::perf_data::record::context::is_marker(frame.to_word()));
        }
        assert_eq!(ScriptFrame::from_word(0x7fff_ffff_ffff), None);
        assert_ne!(id_of_code(1, [2, 3, 4, 0]), id_of_code(1, [2, 3, 5, 0]));
    }

    #[test]
    fn frames_come_before_the_loop_that_executed_them() {
        let file = file(vec![[100, 200]]);
        let scripts = Scripts::new(&file);
        let join = |words: &[u64]| {
            let mut words = words.to_vec();
            scripts.join(5, &mut words);
            words
        };
        let [a, b, c] = [word(1, false), word(2, true), word(3, true)];
        assert_eq!(join(&[10, 150, 20, 151, 30, a, b, c]), [10, a, b, 150, 20, c, 151, 30]);
        // A loop that has just begun, and one that is not known as such.
        assert_eq!(join(&[150, 20, 151, 30, c]), [150, 20, c, 151, 30]);
        assert_eq!(join(&[10, 20, 151, 30, b, c]), [10, 20, b, c, 151, 30]);
        // Cut stacks.
        assert_eq!(join(&[10, 150, 20, a, b, c, 0]), [10, a, b, 150, 20, c, 0]);
        assert_eq!(join(&[10, 0, a, b]), [10, a, b, 0]);
        let cut = ScriptFrame::CUT.to_word();
        assert_eq!(join(&[150, 20, 151, 30, b, cut]), [b, 150, 20, cut, 151, 30]);
        assert_eq!(join(&[10, 20, a, b]), [10, 20, a, b]);
        assert_eq!(join(&[10, 20]), [10, 20]);
        assert_eq!(join(&[]), [0; 0]);
    }

    #[test]
    fn a_frame_has_function_file_and_line() {
        let file = file(Vec::new());
        let (mut scripts, mut trace) = (Scripts::new(&file), Trace::default());
        let mut names = |id, unit| {
            let of = ScriptFrame { id, unit, is_outermost: false, is_method: false };
            let frame = scripts.frame(5, of.to_word(), &mut trace).unwrap();
            trace.frame_names(frame)
        };
        assert_eq!(names(7, 1), ["Handler.get (server.py:40)"]);
        assert_eq!(names(7, 9), ["Handler.get (server.py:42)"]);
        assert_eq!(names(8, 1), [GONE]);
        assert_eq!(names(0, 1), [CUT]);
    }

    #[test]
    fn many_calls_of_many_loops_are_joined_in_one_pass() {
        const MANY: u64 = 200_000;
        let file = file((0..MANY).rev().map(|n| [10 * n, 10 * n + 5]).collect());
        let scripts = Scripts::new(&file);
        let native: Vec<u64> = (0..MANY).map(|n| 10 * n + 2).collect();
        let calls: Vec<u64> = (1..=MANY).map(|id| word(id, true)).collect();
        let mut words = [&native[..], &calls].concat();
        scripts.join(5, &mut words);
        let expected = calls.into_iter().zip(native).flat_map(|(call, native)| [call, native]);
        assert!(words.into_iter().eq(expected));
    }

    #[test]
    fn a_method_is_where_its_frame_was() {
        let mut file = file(vec![[100, 200]]);
        file.processes[0].functions[0].name = "Account.deposit".to_owned();
        let (mut scripts, mut trace) = (Scripts::new(&file), Trace::default());
        let method =
            |id| ScriptFrame { id, unit: 0, is_outermost: false, is_method: true }.to_word();
        let mut words = vec![10, method(7), 150, method(7), 20, word(2, true)];
        scripts.join(5, &mut words);
        assert_eq!(words, [10, method(7), word(2, true), 150, method(7), 20]);
        let mut names = |pid, id| {
            let frame = scripts.frame(pid, method(id), &mut trace).unwrap();
            trace.frame_names(frame)
        };
        assert_eq!(names(5, 7), ["Account.deposit"]);
        assert_eq!(
            (names(5, 8), names(6, 7)),
            (vec![NAMELESS.to_owned()], vec![NAMELESS.to_owned()])
        );
    }
}
