//! Walks the frames of a thread by reading its process's memory, as `python.h` does in the kernel.

use super::process::Python;
use unhitch_formats::scripts::{ScriptFrame, id_of_code};
use unhitch_symbols::python::{Boundary, Instruction, PythonLayout};

/// Maximum number of frames, and of threads among which the right one is looked for.
const MAX_FRAMES: usize = 48;
const MAX_THREADS: usize = 128;
/// `_PyInterpreterFrame::owner` of a frame of the C stack.
const OWNED_BY_C_STACK: u64 = 3;

/// A frame, and the code object that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SeenFrame {
    pub(crate) frame: ScriptFrame,
    pub(crate) code_avma: u64,
}

/// The frames of the thread whose `pthread_self()` is `thread_id`, innermost first; empty if the
/// interpreter has no such thread. At most `max` frames: the last one says if there are more.
pub(crate) fn walk(
    python: &Python,
    thread_id: u64,
    max: usize,
    mut word_at: impl FnMut(u64) -> Option<u64>,
) -> Vec<SeenFrame> {
    let mut frames = Vec::new();
    let max = max.min(MAX_FRAMES);
    let first = find_thread(python, thread_id, &mut word_at)
        .and_then(|thread| first_frame(python.layout(), thread, &mut word_at));
    let (Some(mut at), 1..) = (first, max) else { return frames };
    for steps in 0.. {
        if at == 0 {
            break;
        }
        let step = if frames.len() + 1 < max && steps < 2 * MAX_FRAMES {
            step(python.layout(), at, &mut frames, &mut word_at)
        } else {
            None
        };
        let Some(previous) = step else {
            frames.push(SeenFrame { frame: ScriptFrame::CUT, code_avma: 0 });
            break;
        };
        at = previous;
    }
    if let Some(last) = frames.last_mut().filter(|last| last.frame != ScriptFrame::CUT) {
        last.frame.is_outermost = true;
    }
    frames
}

fn find_thread(
    python: &Python,
    thread_id: u64,
    word_at: &mut impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let layout = python.layout();
    let mut at = |base: u64, offset: u16| word_at(base.wrapping_add(u64::from(offset)));
    let mut interpreter = at(python.interpreters_avma(), 0)?;
    let mut thread = at(interpreter, layout.first_thread)?;
    for _ in 0..MAX_THREADS {
        if thread == 0 {
            interpreter = at(interpreter, layout.next_interpreter).filter(|next| *next != 0)?;
            thread = at(interpreter, layout.first_thread)?;
        } else if at(thread, layout.thread_id)? == thread_id {
            return Some(thread);
        } else {
            thread = at(thread, layout.next_thread)?;
        }
    }
    None
}

fn first_frame(
    layout: &PythonLayout,
    thread: u64,
    word_at: &mut impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let frame = word_at(thread.wrapping_add(u64::from(layout.frame)))?;
    match layout.c_frame {
        Some(_) if frame == 0 => None,
        Some(offset) => word_at(frame.wrapping_add(u64::from(offset))),
        None => Some(frame),
    }
}

/// Adds the frame at `at`. Returns its caller.
fn step(
    layout: &PythonLayout,
    at: u64,
    frames: &mut Vec<SeenFrame>,
    word_at: &mut impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let mut field = |offset: u16| word_at(at.wrapping_add(u64::from(offset)));
    let (previous, code_avma) = (field(layout.previous)?, field(layout.code)?);
    let flag = field(layout.boundary & !7)? >> (layout.boundary % 8 * 8) & 0xff;
    let is_outermost = match layout.boundary() {
        Boundary::Each => true,
        Boundary::IsEntry => flag != 0,
        Boundary::CStack if flag == OWNED_BY_C_STACK => {
            if let Some(last) = frames.last_mut() {
                last.frame.is_outermost = true;
            }
            return Some(previous);
        }
        Boundary::CStack => false,
    };
    let instruction = field(layout.instruction)?;
    let code_start = code_avma.wrapping_add(u64::from(layout.instructions));
    let unit = match layout.instruction() {
        Instruction::Bytes => (instruction as u32).cast_signed().max(0).cast_unsigned() / 2,
        Instruction::Units => (instruction as u32).cast_signed().max(0).cast_unsigned(),
        Instruction::Pointer => {
            let bytes = instruction.wrapping_sub(code_start).cast_signed().max(0).cast_unsigned();
            u32::try_from(bytes / 2).unwrap_or(u32::MAX)
        }
    };
    let mut names = [0; 4];
    for (index, name) in names.iter_mut().enumerate().take(layout.names_len()) {
        let offset = u64::from(layout.names) + index as u64 * 8;
        *name = word_at(code_avma.wrapping_add(offset))?;
    }
    let id = id_of_code(code_avma, names);
    let frame = ScriptFrame { id, unit, is_outermost, is_method: false };
    frames.push(SeenFrame { frame, code_avma });
    Some(previous)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustc_hash::FxHashMap;
    use unhitch_symbols::python::PythonRuntime;

    /// A Python 3.12 whose pointer to the first interpreter is at 0x1028.
    pub(crate) fn python() -> Python {
        let runtime = PythonRuntime {
            runtime_svma: 0,
            code_type_svma: 8,
            eval_svmas: [[0x10, 0x20], [0, 0]],
            layout: PythonLayout::of_version(12).unwrap(),
        };
        Python::new(runtime, 0x1000)
    }

    /// One interpreter with two threads; the second is at 0x4000 and has the id 7. Its frame is at
    /// 0x5000.
    fn memory() -> FxHashMap<u64, u64> {
        let words = [
            (0x1028, 0x2000),
            (0x2000, 0),
            (0x2000 + 72, 0x3000),
            (0x3000 + 136, 6),
            (0x3000 + 8, 0x4000),
            (0x4000 + 136, 7),
            (0x4000 + 56, 0x4800),
            (0x4800, 0x5000),
        ];
        words.into_iter().collect()
    }

    fn frame(memory: &mut FxHashMap<u64, u64>, at: u64, code: u64, previous: u64, owner: u64) {
        memory.extend([(at, code), (at + 8, previous), (at + 64, owner << 48)]);
        memory.insert(at + 56, code + 192 + 10);
        memory.extend((0..4).map(|index| (code + 112 + index * 8, 0x9000 + index)));
    }

    fn frames(memory: &FxHashMap<u64, u64>, max: usize) -> Vec<(u64, u32, bool)> {
        let seen = walk(&python(), 7, max, |avma| memory.get(&avma).copied());
        let brief = |seen: &SeenFrame| (seen.code_avma, seen.frame.unit, seen.frame.is_outermost);
        seen.iter().map(brief).collect()
    }

    #[test]
    fn frames_of_two_calls_of_the_loop() {
        let mut memory = memory();
        for (at, code, previous, owner) in [
            (0x5000, 0xa000, 0x5100, 0),
            (0x5100, 0xb000, 0x5200, 0),
            (0x5200, 0xc000, 0x5300, 3),
            (0x5300, 0xd000, 0x5400, 1),
            (0x5400, 0xc000, 0, 3),
        ] {
            frame(&mut memory, at, code, previous, owner);
        }
        let whole = [(0xa000, 5, false), (0xb000, 5, true), (0xd000, 5, true)];
        assert_eq!(frames(&memory, 90), whole);
        assert_eq!(frames(&memory, 2), [(0xa000, 5, false), (0, 0, false)]);
        memory.remove(&(0xd000 + 112));
        assert_eq!(frames(&memory, 90), [whole[0], whole[1], (0, 0, false)]);
        memory.remove(&0x4800);
        assert_eq!(frames(&memory, 90), []);
    }

    #[test]
    fn circles_end() {
        let mut memory = memory();
        frame(&mut memory, 0x5000, 0xa000, 0x5000, 0);
        let found = frames(&memory, 90);
        assert_eq!((found.len(), found.last()), (MAX_FRAMES, Some(&(0, 0, false))));
        frame(&mut memory, 0x5000, 0xa000, 0x5000, 3);
        // A circle of frames that are no functions.
        assert!(frames(&memory, 90).len() <= 1);
        memory.extend([(0x4000 + 136, 6), (0x4000 + 8, 0x3000)]);
        assert_eq!(frames(&memory, 90), []);
    }
}
