//! Raw call chains to interned stacks.

use super::{
    record::context,
    space::{Place, Spaces},
    stack_table::{RawStack, StackTable},
};
use unhitch_model::{FrameId, StackId, Time, Trace};

/// What a raw stack is: one stack, or another one after the process mapped something else.
#[derive(Clone)]
pub(crate) enum Resolved {
    Always(StackId),
    /// From when on; by time, the first from the beginning.
    Varying(Box<[(Time, StackId)]>),
}

impl Resolved {
    /// The stack at `time`.
    #[inline]
    pub(crate) fn at(&self, time: Time) -> StackId {
        match self {
            Self::Always(id) => *id,
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
    trace: &mut Trace,
) -> Vec<Resolved> {
    let mut buffers = Buffers::default();
    table.stacks().iter().map(|stack| resolve_one(stack, spaces, trace, &mut buffers)).collect()
}

/// Memory that is used for one stack after the other.
#[derive(Default)]
struct Buffers {
    kernel: Vec<u64>,
    user: Vec<u64>,
    frames: Vec<FrameId>,
}

fn resolve_one(
    stack: &RawStack<'_>,
    spaces: &mut Spaces,
    trace: &mut Trace,
    buffers: &mut Buffers,
) -> Resolved {
    let Buffers { kernel, user, frames } = buffers;
    split(stack.words, kernel, user);
    // All but the leaf are return addresses: the call is before them.
    let call = |index: usize, avma: u64| if index == 0 { avma } else { avma.wrapping_sub(1) };
    frames.clear();
    for avma in kernel.iter() {
        frames.push(spaces.kernel_frame(call(frames.len(), *avma), trace));
    }
    let kernel_len = frames.len() as u16;
    let mut varying = Vec::new();
    for avma in user.iter() {
        match spaces.user_place(stack.pid, call(frames.len(), *avma), trace) {
            Place::Fixed(Some(frame)) => frames.push(frame),
            Place::Fixed(None) => {
                frames.push(trace.cut_frame());
                break;
            }
            Place::Varying(history) => {
                frames.push(FrameId::default());
                varying.push((frames.len() - 1, history));
            }
        }
    }
    if varying.is_empty() {
        return Resolved::Always(trace.stacks.intern(frames, kernel_len));
    }
    let mut changes: Vec<Time> =
        varying.iter().flat_map(|(_, history)| history.iter().map(|(from, _)| *from)).collect();
    changes.push(Time::ZERO);
    changes.sort_unstable();
    changes.dedup();
    let stack_from = |time: Time| {
        let mut len = frames.len();
        for (index, history) in &varying {
            let next = history.partition_point(|(from, _)| *from <= time);
            match history[next.saturating_sub(1)].1 {
                Some(frame) => frames[*index] = frame,
                // What is code at one time may be none at another.
                None => {
                    frames[*index] = trace.cut_frame();
                    len = index + 1;
                    break;
                }
            }
        }
        (time, trace.stacks.intern(&frames[..len], kernel_len))
    };
    Resolved::Varying(changes.into_iter().map(stack_from).collect())
}

/// The kernel's and the user program's addresses of a call chain. Guests have no place in a trace
/// of their host.
fn split(words: &[u8], kernel: &mut Vec<u64>, user: &mut Vec<u64>) {
    kernel.clear();
    user.clear();
    // Without a marker the address tells: the kernel has the upper half.
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
