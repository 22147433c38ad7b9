//! Interned call stacks.
//!
//! A frame is a code location (module + offset), not an address: the same function in a hundred
//! processes is one [`FrameId`], so equal stacks of different processes are one [`StackId`], and
//! grouping by stack is grouping by integer.

use crate::{FrameId, ModuleId, StackId};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// A code location. The module's [`ModuleKind`](crate::ModuleKind) says what `offset` counts from.
///
/// For all frames except the leaf, it is one byte *before* the return address, so that it lies
/// inside the call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame {
    /// The module that holds the code.
    pub module: ModuleId,
    /// Offset in the module, see [`ModuleKind`](crate::ModuleKind).
    pub offset: u64,
}

/// All stacks of a trace, each once. Frames are stored leaf first, so kernel frames come before
/// user frames. Id 0 is the empty stack.
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_ids: FxHashMap<Frame, FrameId>,
    flat: Vec<FrameId>,
    ends: Vec<u32>,
    kernel_lens: Vec<u16>,
    by_hash: FxHashMap<u64, StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut stacks = Self {
            frames: Vec::new(),
            frame_ids: FxHashMap::default(),
            flat: Vec::new(),
            ends: Vec::new(),
            kernel_lens: Vec::new(),
            by_hash: FxHashMap::default(),
        };
        stacks.intern(&[], 0);
        stacks
    }
}

impl Stacks {
    /// The id of `frame`, stored if new.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let next = FrameId(u32::try_from(self.frames.len()).unwrap_or(u32::MAX));
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            next
        })
    }

    /// The id of the stack `frames` (leaf first), of which the first `kernel_len` are kernel
    /// frames; stored if new.
    pub fn intern(&mut self, frames: &[FrameId], kernel_len: u16) -> StackId {
        let mut hasher = FxHasher::default();
        (frames, kernel_len).hash(&mut hasher);
        // Stacks of equal hash are in consecutive slots.
        let mut slot = hasher.finish();
        while let Some(&id) = self.by_hash.get(&slot) {
            if self.frames_of(id) == frames && self.kernel_len(id) == usize::from(kernel_len) {
                return id;
            }
            slot = slot.wrapping_add(1);
        }
        let id = StackId(u32::try_from(self.ends.len()).unwrap_or(u32::MAX));
        self.flat.extend_from_slice(frames);
        self.ends.push(u32::try_from(self.flat.len()).unwrap_or(u32::MAX));
        self.kernel_lens.push(kernel_len);
        self.by_hash.insert(slot, id);
        id
    }

    /// The frames of a stack, leaf first; empty for an id of another trace.
    pub fn frames_of(&self, id: StackId) -> &[FrameId] {
        let start = match id.index() {
            0 => 0,
            index => self.ends.get(index - 1).map_or(0, |&end| end as usize),
        };
        let end = self.ends.get(id.index()).map_or(start, |&end| end as usize);
        self.flat.get(start..end).unwrap_or(&[])
    }

    /// Number of kernel frames, which come first in a stack.
    pub fn kernel_len(&self, id: StackId) -> usize {
        self.kernel_lens.get(id.index()).map_or(0, |&len| usize::from(len))
    }

    /// The kernel frames of a stack, leaf first.
    pub fn kernel_frames(&self, id: StackId) -> &[FrameId] {
        let frames = self.frames_of(id);
        &frames[..self.kernel_len(id).min(frames.len())]
    }

    /// The user frames of a stack, leaf first.
    pub fn user_frames(&self, id: StackId) -> &[FrameId] {
        let frames = self.frames_of(id);
        &frames[self.kernel_len(id).min(frames.len())..]
    }

    /// The location of a frame.
    pub fn frame(&self, id: FrameId) -> Option<Frame> {
        self.frames.get(id.index()).copied()
    }

    /// All frames, in the order of their ids.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// How many stacks there are, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is only the empty stack.
    pub fn is_empty(&self) -> bool {
        self.ends.len() <= 1
    }
}
