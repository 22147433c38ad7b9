//! [`Frames`]: the functions of every frame, inlined ones included, by number.

use unhitch_model::{FrameId, StackId, Symbol, Trace};

/// One function at a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) frame: FrameId,
    /// 0 for the innermost of inlined functions.
    pub(crate) level: u32,
}

/// Numbers the functions of a trace's frames, from 0.
pub(crate) struct Frames<'t> {
    trace: &'t Trace,
    /// By frame: the number of its innermost function.
    firsts: Vec<u32>,
}

impl<'t> Frames<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        let mut next = 0;
        let mut firsts = Vec::with_capacity(trace.stacks.frames().len() + 1);
        for frame in 0..trace.stacks.frames().len() as u32 {
            firsts.push(next);
            next += levels(trace, FrameId(frame));
        }
        firsts.push(next);
        Self { trace, firsts }
    }

    /// The number of a function.
    pub(crate) fn number(&self, function: Function) -> u32 {
        self.firsts.get(function.frame.index()).map_or(0, |first| first + function.level)
    }

    /// The functions of a stack, leaf first.
    pub(crate) fn of_stack(&self, stack: StackId) -> impl DoubleEndedIterator<Item = Function> {
        let frames = self.trace.stacks.frames_of(stack).iter();
        frames.flat_map(|&frame| {
            (0..levels(self.trace, frame)).map(move |level| Function { frame, level })
        })
    }

    /// The name and source of a function, if it has a name.
    pub(crate) fn symbol(&self, function: Function) -> Option<&'t Symbol> {
        self.trace.symbols.get(function.frame).get(function.level as usize)
    }

    /// The name of a function, or what stands for it: its module and offset.
    pub(crate) fn name(&self, function: Function) -> String {
        match self.symbol(function) {
            Some(symbol) => self.trace.name(symbol.function).to_owned(),
            None => self.trace.frame_names(function.frame).pop().unwrap_or_default(),
        }
    }
}

fn levels(trace: &Trace, frame: FrameId) -> u32 {
    trace.symbols.get(frame).len().max(1) as u32
}
