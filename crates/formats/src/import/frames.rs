//! Frames as foreign traces have them: addresses, names, or both.

use rustc_hash::FxHashMap;
use unhitch_model::{Frame, FrameId, Module, ModuleId, ModuleKind, NameId, Symbol, Trace};

/// Adds frames to a trace.
#[derive(Default)]
pub(super) struct Frames {
    /// Numbers of the functions that have names and no addresses, by module and name.
    functions: FxHashMap<(ModuleId, NameId), u32>,
    /// Number of such functions of each module.
    in_module: FxHashMap<ModuleId, u32>,
    /// Bytes of names that may still be read for stacks, where a file may ask for a long one again and
    /// again in a few bytes.
    left: u64,
}

impl Frames {
    /// With room for the names in the stacks of a file of `len` bytes: far more than the stacks of a
    /// recorder take, which are as many as their samples.
    pub fn of_file(len: usize) -> Self {
        const FOR_EACH_BYTE: u64 = 512;
        const MIN: u64 = 64 << 20;
        Self { left: (len as u64).saturating_mul(FOR_EACH_BYTE).max(MIN), ..Self::default() }
    }

    /// Takes `len` bytes of names from what may still be read; `None` if that is too much.
    pub fn spend(&mut self, len: usize) -> Option<()> {
        self.left = self.left.checked_sub(len as u64)?;
        Some(())
    }

    /// Code of the kernel at an address. A name may be empty.
    pub fn kernel(&self, trace: &mut Trace, avma: u64, name: &str) -> FrameId {
        let module = kernel(trace);
        let frame = trace.stacks.intern_frame(Frame { module, offset: avma });
        set_name(trace, frame, name);
        frame
    }

    /// Code of a file, at an offset in it.
    pub fn file(
        &self,
        trace: &mut Trace,
        (path, build_id): (&str, &[u8]),
        offset: u64,
        name: &str,
    ) -> FrameId {
        let path = trace.strings.intern(path);
        let build_id = build_id[..build_id.len().min(20)].to_vec();
        let module = trace.modules.intern(Module { path, kind: ModuleKind::File, build_id });
        let frame = trace.stacks.intern_frame(Frame { module, offset });
        set_name(trace, frame, name);
        frame
    }

    /// Code of a process that is in no file, at an address.
    pub fn anonymous(&self, trace: &mut Trace, pid: u32, avma: u64, name: &str) -> FrameId {
        let path = trace.strings.intern(if name.is_empty() { "[anon]" } else { "[jit]" });
        let kind = ModuleKind::Anonymous { pid };
        let module = trace.modules.intern(Module { path, kind, build_id: Vec::new() });
        let frame = trace.stacks.intern_frame(Frame { module, offset: avma });
        set_name(trace, frame, name);
        frame
    }

    /// The return addresses of a process whose mappings are not known, innermost first. The stack is
    /// cut where there can be no code of a program: in the first page, and in the kernel's half.
    pub fn user_stack(
        &self,
        trace: &mut Trace,
        pid: u32,
        callers: impl Iterator<Item = u64>,
    ) -> Vec<FrameId> {
        const CODE: std::ops::Range<u64> = 0x1000..1 << 63;
        let mut frames = Vec::new();
        for avma in callers {
            if !CODE.contains(&avma) {
                frames.push(trace.cut_frame());
                break;
            }
            // Return addresses lie behind the call.
            frames.push(self.anonymous(trace, pid, avma.wrapping_sub(1), ""));
        }
        frames
    }

    /// A function of the kernel whose address is not known: its number stands for it.
    pub fn kernel_named(&mut self, trace: &mut Trace, name: &str) -> FrameId {
        let path = trace.strings.intern(KERNEL);
        let module = Module { path, kind: ModuleKind::Kernel, build_id: Vec::new() };
        let function = trace.strings.intern(name);
        let frame = self.numbered(trace, module, function, 0);
        set_name(trace, frame, name);
        frame
    }

    /// A function of a file that was mapped somewhere, with the offset in the function.
    pub fn named(&mut self, trace: &mut Trace, path: &str, name: &str, offset: u32) -> FrameId {
        let path = trace.strings.intern(path);
        let module = Module { path, kind: ModuleKind::Named, build_id: Vec::new() };
        let function = trace.strings.intern(name);
        let frame = self.numbered(trace, module, function, offset);
        set_name(trace, frame, name);
        frame
    }

    /// A place in a function: the number of the function in its module, and `low`.
    pub fn numbered(
        &mut self,
        trace: &mut Trace,
        module: Module,
        function: NameId,
        low: u32,
    ) -> FrameId {
        let module = trace.modules.intern(module);
        let number = *self.functions.entry((module, function)).or_insert_with(|| {
            let count = self.in_module.entry(module).or_default();
            *count += 1;
            *count
        });
        /// Above every address of a program, and below those of the kernel.
        const FIRST: u64 = ModuleKind::NO_AVMA;
        let offset = FIRST | u64::from(number) << 32 | u64::from(low);
        trace.stacks.intern_frame(Frame { module, offset })
    }

    /// Code without a name in a file that was mapped somewhere, at its address in memory.
    pub fn nameless(&self, trace: &mut Trace, path: &str, avma: u64) -> FrameId {
        let path = trace.strings.intern(path);
        let module = Module { path, kind: ModuleKind::Named, build_id: Vec::new() };
        let module = trace.modules.intern(module);
        trace.stacks.intern_frame(Frame { module, offset: avma })
    }
}

/// The path of the kernel's module.
const KERNEL: &str = "[kernel]";

/// True for the names that tools give to the kernel's code.
pub(super) fn is_kernel(path: &str) -> bool {
    /// What is in brackets, too, and not a module of the kernel.
    const OTHERS: [&str; 7] =
        ["[vdso]", "[vsyscall]", "[unknown]", "[heap]", "[stack]", "[anon]", "[jit]"];
    let is_named = matches!(path, "/kernel" | "kernel") || path.starts_with("[kernel");
    let is_module = path.starts_with('[') && path.ends_with(']') && !OTHERS.contains(&path);
    is_named || is_module || path.ends_with(".ko")
}

fn kernel(trace: &mut Trace) -> ModuleId {
    let path = trace.strings.intern(KERNEL);
    trace.modules.intern(Module { path, kind: ModuleKind::Kernel, build_id: Vec::new() })
}

fn set_name(trace: &mut Trace, frame: FrameId, name: &str) {
    if !name.is_empty() {
        let function = trace.strings.intern(name);
        trace.symbols.set_once(frame, Symbol { function, ..Symbol::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_without_mappings_is_cut_where_no_program_has_code() {
        let (mut trace, frames) = (Trace::default(), Frames::default());
        let cut = trace.cut_frame();
        for no_code in [0, 0x42, 0xffff_8000_0000_1000, u64::MAX] {
            let callers = [0x40_1001, no_code, 0x40_2001];
            let stack = frames.user_stack(&mut trace, 7, callers.into_iter());
            let first = trace.stacks.frame(stack[0]).unwrap();
            assert_eq!((first.offset, &stack[1..]), (0x40_1000, &[cut][..]), "{no_code:#x}");
        }
        let whole = frames.user_stack(&mut trace, 7, [0x40_1001, 0x40_2001].into_iter());
        assert!(whole.len() == 2 && !whole.contains(&cut));
    }
}
