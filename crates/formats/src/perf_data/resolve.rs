//! Resolves raw call chains to interned stacks.

use super::{
    record::context,
    space::{FrameOverTime, Spaces},
    stack_table::{RawStack, StackTable},
};
use crate::scripts::{ScriptFrame, Scripts};
use unhitch_model::{FrameId, StackId, Time, Trace};

/// The stack that a raw call chain stands for. It changes when the process maps something else.
#[derive(Clone)]
pub(crate) enum StackOverTime {
    Fixed(StackId),
    /// Each stack with the time from which it holds; by time, the first from the beginning.
    Varying(Box<[(Time, StackId)]>),
}

impl StackOverTime {
    /// The stack at `time`.
    #[inline]
    pub(crate) fn at(&self, time: Time) -> StackId {
        match self {
            Self::Fixed(id) => *id,
            Self::Varying(stacks) => {
                let next = stacks.partition_point(|(from, _)| *from <= time);
                stacks[next.saturating_sub(1)].1
            }
        }
    }
}

/// Resolves every stack of `table`, by its number there.
pub(crate) fn resolve(
    table: &StackTable<'_>,
    spaces: &mut Spaces,
    mut scripts: Scripts<'_>,
    trace: &mut Trace,
) -> Vec<StackOverTime> {
    let mut buffers = Buffers::default();
    let resolve = |stack| resolve_one(stack, spaces, &mut scripts, trace, &mut buffers);
    table.stacks().iter().map(resolve).collect()
}

/// Memory that is reused for each stack.
#[derive(Default)]
struct Buffers {
    kernel: Vec<u64>,
    user: Vec<u64>,
    frames: Vec<FrameId>,
}

fn resolve_one(
    stack: &RawStack<'_>,
    spaces: &mut Spaces,
    scripts: &mut Scripts<'_>,
    trace: &mut Trace,
    buffers: &mut Buffers,
) -> StackOverTime {
    let Buffers { kernel, user, frames } = buffers;
    split(stack.words, kernel, user);
    scripts.join(stack.pid, user);
    // All but the leaf are return addresses, which lie behind the call.
    let call = |index: usize, avma: u64| if index == 0 { avma } else { avma.wrapping_sub(1) };
    frames.clear();
    for avma in kernel.iter() {
        frames.push(spaces.kernel_frame(call(frames.len(), *avma), trace));
    }
    let kernel_len = frames.len() as u16;
    let mut varying = Vec::new();
    // Scripts' frames have no addresses, and only methods of Java are native frames, too.
    let mut native = frames.len();
    for avma in user.iter() {
        if let Some(frame) = scripts.frame(stack.pid, *avma, trace) {
            frames.push(frame);
            native += usize::from(ScriptFrame::is_method_word(*avma));
            continue;
        }
        native += 1;
        match spaces.user_frame(stack.pid, call(native - 1, *avma), trace) {
            FrameOverTime::Fixed(Some(frame)) => frames.push(frame),
            FrameOverTime::Fixed(None) => {
                frames.push(trace.cut_frame());
                break;
            }
            FrameOverTime::Varying(history) => {
                frames.push(FrameId::default());
                varying.push((frames.len() - 1, history));
            }
        }
    }
    if varying.is_empty() {
        return StackOverTime::Fixed(trace.stacks.intern(frames, kernel_len));
    }
    let mut changes: Vec<Time> =
        varying.iter().flat_map(|(_, history)| history.iter().map(|(from, _)| *from)).collect();
    changes.push(Time::ZERO);
    changes.sort_unstable();
    changes.dedup();
    spaces.keep_newest(&mut changes);
    let stack_from = |time: Time| {
        let mut len = frames.len();
        for (index, history) in &varying {
            let next = history.partition_point(|(from, _)| *from <= time);
            match history[next.saturating_sub(1)].1 {
                Some(frame) => frames[*index] = frame,
                // The address may be code at one time and not at another.
                None => {
                    frames[*index] = trace.cut_frame();
                    len = index + 1;
                    break;
                }
            }
        }
        (time, trace.stacks.intern(&frames[..len], kernel_len))
    };
    StackOverTime::Varying(changes.into_iter().map(stack_from).collect())
}

/// Splits a call chain into the kernel's and the user program's addresses. A trace of the host
/// cannot resolve those of a guest.
fn split(words: &[u8], kernel: &mut Vec<u64>, user: &mut Vec<u64>) {
    kernel.clear();
    user.clear();
    // Without a marker the address decides: the kernel has the upper half.
    let mut context = 0;
    let mut words = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    while let Some(word) = words.next() {
        if context::is_marker(word) {
            context = word;
            if word == context::USER_DEFERRED {
                words.next();
            }
            continue;
        }
        match context {
            context::KERNEL => kernel.push(word),
            context::USER => user.push(word),
            0 if word >> 63 == 1 => kernel.push(word),
            0 => user.push(word),
            _ => {}
        }
    }
}
