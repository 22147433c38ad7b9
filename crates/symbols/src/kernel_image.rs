//! Reads kernel code from a `vmlinux`, and finds the offset at which the recorded kernel ran.
//!
//! Format: ELF. The kernel moves itself at boot by a multiple of 2 MiB (`CONFIG_RANDOMIZE_BASE`, at
//! least `CONFIG_PHYSICAL_ALIGN`). *Why the offset is found by names*: the trace has the names of
//! the functions on its stacks, the image says where they were linked, and only one offset fits
//! them all. This works on any machine, and detects an image of another build.

use crate::elf::Elf;
use crate::files::open_regular;
use crate::machine_code::{Code, Isa, NoCode, bounds, read_at};
use crate::module::same_build;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use unhitch_model::{FrameId, ModuleId, Trace};

/// The kernel's offset is a multiple of this, bytes, on x86 and 64-bit Arm.
const STEP_BYTES: u64 = 2 << 20;
/// Maximum number of a trace's frames that are compared with the image.
const MAX_COMPARED: usize = 4096;

/// A kernel image that matches a trace.
pub(crate) struct KernelImage {
    path: PathBuf,
    file: File,
    elf: Elf,
    /// avma minus svma.
    moved: u64,
}

impl KernelImage {
    /// Opens the image at `path`; it must be the kernel `module` of `trace`.
    pub(crate) fn open(path: &Path, trace: &Trace, module: ModuleId) -> Result<Self, NoCode> {
        let other = |how| NoCode::OtherImage { path: path.to_owned(), how };
        let name = || path.display().to_string();
        let mut file = open_regular(path).map_err(|_| NoCode::Unreadable(name()))?;
        let elf =
            file.try_clone().ok().and_then(Elf::read).ok_or_else(|| NoCode::Damaged(name()))?;
        let recorded = trace.modules.get(module).map_or(&[][..], |module| &module.build_id);
        if !recorded.is_empty() && !elf.build_id.is_empty() && !same_build(recorded, &elf.build_id)
        {
            return Err(other("the build ids differ"));
        }
        if elf.is_nameless() {
            return Err(other("it has no symbols, so it is unknown where it was loaded"));
        }
        let moved = moved(trace, module, &elf, &mut file)
            .ok_or_else(|| other("its functions are not where the recorded ones were"))?;
        Ok(Self { path: path.to_owned(), file, elf, moved })
    }

    /// The code at the avmas `near`.
    pub(crate) fn code(mut self, near: Range<u64>) -> Result<Code, NoCode> {
        let not_in_it = NoCode::OtherImage {
            path: self.path.clone(),
            how: "it does not contain this code (is it a kernel module's?)",
        };
        let svmas = near.start.wrapping_sub(self.moved)..near.end.wrapping_sub(self.moved);
        let (bounds, is_function) = bounds(self.elf.extent_at(svmas.start), &svmas);
        // A margin may reach beyond the segment.
        let start =
            if self.elf.file_offset(bounds.start).is_some() { bounds.start } else { svmas.start };
        let offset = self.elf.file_offset(start).ok_or_else(|| not_in_it.clone())?;
        let bytes = read_at(&mut self.file, offset, bounds.end.saturating_sub(start))
            .map_err(|_| not_in_it)?;
        Ok(Code {
            start: start.wrapping_add(self.moved),
            bytes,
            start_address: start.wrapping_add(self.moved),
            is_function,
            isa: Isa::of_machine(self.elf.machine),
            source: self.path,
            doubt: Some("this is the code as linked; a running kernel patches some instructions"),
        })
    }
}

/// The offset at which the kernel of `trace` ran: the one that fits more than half of its frames
/// whose names the image has.
fn moved(trace: &Trace, module: ModuleId, elf: &Elf, file: &mut File) -> Option<u64> {
    let by_name = elf.functions_by_name(file);
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut compared = 0;
    let kernel_frames =
        trace.stacks.frames().iter().enumerate().filter(|(_, frame)| frame.module == module);
    let named = kernel_frames.filter_map(|(index, frame)| {
        let symbol = trace.symbols.get(FrameId(index as u32)).last()?;
        Some((frame.offset, by_name.get(trace.name(symbol.function))?))
    });
    for (avma, functions) in named.take(MAX_COMPARED) {
        compared += 1;
        let mut fitting: Vec<u64> = functions
            .iter()
            .filter_map(|svmas| {
                let moved = avma.checked_sub(svmas.start)? / STEP_BYTES * STEP_BYTES;
                svmas.contains(&(avma - moved)).then_some(moved)
            })
            .collect();
        fitting.dedup();
        fitting.into_iter().for_each(|moved| *votes.entry(moved).or_default() += 1);
    }
    votes
        .into_iter()
        .max_by_key(|&(_, count)| count)
        .filter(|(_, count)| count * 2 > compared)
        .map(|(moved, _)| moved)
}
