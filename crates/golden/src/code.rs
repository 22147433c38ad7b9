//! [`Code`]: images, their functions, and the call stacks through them.
//!
//! A stack is written as Windows debuggers print it, root first: `chrome!RunTask
//! kernelbase!VirtualAlloc nt!NtAllocateVirtualMemory`. The names are those of the investigations.
//! Addresses are assigned in the order in which names appear.

use std::collections::{BTreeMap, BTreeSet};
use unhitch_model::{FrameId, ModuleKind, Symbol, Trace};

/// Length of every function, bytes.
const FUNCTION_LEN: u64 = 0x100;
/// Offset of the first function in an image.
pub(crate) const TEXT: u64 = 0x1000;
/// Offset in a function to which calls return.
const RETURN: u64 = 0x41;
/// Offset in a function of a leaf, by default.
const LEAF: u64 = 0x20;
/// Length of an image in memory, bytes.
pub(crate) const IMAGE_LEN: u64 = 0x100_0000;
const KERNEL_AVMA: u64 = 0xffff_f800_0000_0000;
const USER_AVMA: u64 = 0x7ff8_0000_0000;
const KERNEL_IMAGES: [&str; 4] = ["nt", "win32k", "ntfs", "storport"];

/// A call stack. 0 is the empty one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Stack(usize);

/// An image that is mapped at one address in every process.
#[derive(Clone, Default)]
struct Image {
    name: String,
    avma: u64,
    functions: Vec<String>,
}

/// The parts of a stack, leaf first.
#[derive(Clone, Default)]
pub(crate) struct Chain {
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
    functions: Vec<String>,
    images: BTreeSet<usize>,
}

/// All code of a machine.
#[derive(Clone)]
pub struct Code {
    images: Vec<Image>,
    chains: Vec<Chain>,
    by_text: BTreeMap<String, Stack>,
}

impl Code {
    pub(crate) fn new() -> Self {
        Self { images: Vec::new(), chains: vec![Chain::default()], by_text: BTreeMap::new() }
    }

    /// The stack that `text` describes: `image!function`, root first, with spaces in between.
    pub fn stack(&mut self, text: &str) -> Stack {
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        let mut chain = Chain::default();
        for (depth, frame) in text.split_whitespace().rev().enumerate() {
            let (image, function) = frame.split_once('!').expect("a frame is image!function");
            let start = self.function_avma(image, function, &mut chain.images);
            let part =
                if KERNEL_IMAGES.contains(&image) { &mut chain.kernel } else { &mut chain.user };
            part.push(start + if depth == 0 { LEAF } else { RETURN });
            chain.functions.push(function.to_owned());
        }
        let stack = self.add(chain);
        self.by_text.insert(text.to_owned(), stack);
        stack
    }

    /// `stack` with its leaf at another instruction, `offset` bytes into the function.
    pub(crate) fn at_offset(&mut self, stack: Stack, offset: u64) -> Stack {
        let mut chain = self.chain(stack).clone();
        if let Some(leaf) = chain.kernel.first_mut().or(chain.user.first_mut()) {
            *leaf += offset - LEAF;
        }
        self.add(chain)
    }

    fn add(&mut self, chain: Chain) -> Stack {
        self.chains.push(chain);
        Stack(self.chains.len() - 1)
    }

    fn function_avma(&mut self, image: &str, function: &str, images: &mut BTreeSet<usize>) -> u64 {
        let number =
            self.images.iter().position(|known| known.name == image).unwrap_or_else(|| {
                let base = if KERNEL_IMAGES.contains(&image) { KERNEL_AVMA } else { USER_AVMA };
                let avma = base + self.images.len() as u64 * IMAGE_LEN;
                self.images.push(Image { name: image.to_owned(), avma, functions: Vec::new() });
                self.images.len() - 1
            });
        images.insert(number);
        let image = &mut self.images[number];
        let index =
            image.functions.iter().position(|known| known == function).unwrap_or_else(|| {
                image.functions.push(function.to_owned());
                image.functions.len() - 1
            });
        image.avma + TEXT + index as u64 * FUNCTION_LEN
    }

    pub(crate) fn chain(&self, stack: Stack) -> &Chain {
        &self.chains[stack.0]
    }

    /// Address of the leaf instruction.
    pub(crate) fn leaf_avma(&self, stack: Stack) -> u64 {
        let chain = self.chain(stack);
        chain.kernel.first().or(chain.user.first()).copied().unwrap_or(0)
    }

    /// True when `function` is on the stack.
    pub(crate) fn is_inside(&self, stack: Stack, function: &str) -> bool {
        self.chain(stack).functions.iter().any(|known| known == function)
    }

    /// The images that a process with `stack` must map: path and address.
    pub(crate) fn user_images(&self, stack: Stack) -> impl Iterator<Item = (String, u64)> + '_ {
        let images = self.chain(stack).images.iter().map(|number| &self.images[*number]);
        images.filter(|image| image.avma < KERNEL_AVMA).map(|image| (path(&image.name), image.avma))
    }

    /// The images on `stack`, as numbers of [`Code::images`].
    pub(crate) fn images_of(&self, stack: Stack) -> impl Iterator<Item = usize> + '_ {
        self.chain(stack).images.iter().copied()
    }

    /// Every image: name, address, whether it is the kernel's, and its functions with their
    /// offsets.
    pub(crate) fn images(&self) -> impl Iterator<Item = (&str, u64, bool, Vec<(&str, u64)>)> {
        self.images.iter().map(|image| {
            let functions = image
                .functions
                .iter()
                .zip(0..)
                .map(|(name, index)| (name.as_str(), TEXT + index * FUNCTION_LEN))
                .collect();
            (image.name.as_str(), image.avma, image.avma >= KERNEL_AVMA, functions)
        })
    }

    /// Names the frames of a trace of this code.
    pub(crate) fn name(&self, trace: &mut Trace) {
        let names: Vec<Option<String>> = trace
            .stacks
            .frames()
            .iter()
            .map(|frame| {
                let module = trace.modules.get(frame.module)?;
                let (image, offset) = match module.kind {
                    ModuleKind::Kernel => {
                        let image = self.images.iter().find(|image| {
                            (image.avma..image.avma + IMAGE_LEN).contains(&frame.offset)
                        })?;
                        (image, frame.offset - image.avma)
                    }
                    _ => (
                        self.images
                            .iter()
                            .find(|image| path(&image.name) == trace.name(module.path))?,
                        frame.offset,
                    ),
                };
                image.functions.get((offset.checked_sub(TEXT)? / FUNCTION_LEN) as usize).cloned()
            })
            .collect();
        for (frame, name) in names.into_iter().enumerate() {
            if let Some(name) = name {
                let function = trace.strings.intern(&name);
                trace
                    .symbols
                    .set(FrameId(frame as u32), &[Symbol { function, ..Symbol::default() }]);
            }
        }
    }
}

fn path(image: &str) -> String {
    format!("/made/{image}")
}
