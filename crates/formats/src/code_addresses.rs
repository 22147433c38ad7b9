//! [`CodeAddresses`]: at which addresses a process had a code location at a time.
//!
//! The inverse of resolving an address to a frame, for formats that know only addresses.

use rustc_hash::FxHashMap;
use unhitch_model::{FrameId, Mapping, ModuleId, ModuleKind, StackId, Time, Trace};

/// The address that stands for a [cut](ModuleKind::Cut). No mapping covers it, so a reader cuts the
/// stack there, too.
const CUT_AVMA: u64 = 0;

/// Maximum number of mappings, or address spaces, in which an offset is looked for.
const MAX_LOOKED_AT: usize = 1024;
/// Maximum number of stacks that are remembered with their addresses.
const MAX_KNOWN: usize = 1 << 16;

/// The addresses of a stack, leaf first. All but the leaf's are return addresses.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    pub(crate) kernel: Vec<u64>,
    pub(crate) user: Vec<u64>,
    /// Number of frames that are left out because their addresses are unknown.
    pub(crate) left_out: u64,
}

impl Chain {
    /// The address of the leaf; 0 without one.
    pub(crate) fn leaf(&self) -> u64 {
        self.kernel.first().or(self.user.first()).copied().unwrap_or(0)
    }
}

/// Turns the frames of a trace into addresses.
pub(crate) struct CodeAddresses<'t> {
    trace: &'t Trace,
    /// The mappings of each module in each address space (process and number).
    mappings: FxHashMap<(u32, usize, ModuleId), Vec<&'t Mapping>>,
    /// When the mappings of each process change.
    changes: FxHashMap<u32, Vec<Time>>,
    /// By process, number of its changes until then, and stack.
    known: FxHashMap<(u32, usize, StackId), Chain>,
}

impl<'t> CodeAddresses<'t> {
    pub(crate) fn new(trace: &'t Trace) -> Self {
        let mut mappings = FxHashMap::<_, Vec<&Mapping>>::default();
        let mut changes = FxHashMap::<u32, Vec<Time>>::default();
        for (pid, spaces) in trace.address_spaces.iter() {
            let changes = changes.entry(pid).or_default();
            for (number, space) in spaces.iter().enumerate() {
                changes.push(space.from);
                for mapping in space.mappings() {
                    changes.push(mapping.from);
                    mappings.entry((pid, number, mapping.module)).or_default().push(mapping);
                }
            }
            changes.sort_unstable();
            changes.dedup();
        }
        mappings.values_mut().for_each(|list| list.sort_by_key(|mapping| mapping.from));
        Self { trace, mappings, changes, known: FxHashMap::default() }
    }

    /// The addresses of `stack` in process `pid` at `time`.
    pub(crate) fn chain(&mut self, pid: u32, time: Time, stack: StackId) -> &Chain {
        let version = self
            .changes
            .get(&pid)
            .map_or(0, |changes| changes.partition_point(|change| *change <= time));
        let key = (pid, version, stack);
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&key) {
            self.known.clear();
        }
        if !self.known.contains_key(&key) {
            let chain = self.find_chain(pid, time, stack);
            self.known.insert(key, chain);
        }
        &self.known[&key]
    }

    fn find_chain(&self, pid: u32, time: Time, stack: StackId) -> Chain {
        let mut chain = Chain::default();
        let kernel_len = self.trace.stacks.kernel_len(stack);
        for (index, &frame) in self.trace.stacks.frames_of(stack).iter().enumerate() {
            let part = if index < kernel_len { &mut chain.kernel } else { &mut chain.user };
            match self.avma(pid, time, frame) {
                Some(CUT_AVMA) => part.push(CUT_AVMA),
                // A frame lies inside the call, its return address behind it.
                Some(avma) => part.push(avma.wrapping_add(u64::from(index > 0))),
                None => chain.left_out += 1,
            }
        }
        chain
    }

    fn avma(&self, pid: u32, time: Time, frame: FrameId) -> Option<u64> {
        let frame = self.trace.stacks.frame(frame)?;
        match self.trace.modules.get(frame.module)?.kind {
            ModuleKind::Jit { .. } if frame.offset >= ModuleKind::NO_AVMA => None,
            ModuleKind::Kernel | ModuleKind::Anonymous { .. } | ModuleKind::Jit { .. } => {
                Some(frame.offset)
            }
            ModuleKind::Cut => Some(CUT_AVMA),
            ModuleKind::File => self.mapped_at(pid, time, frame.module, frame.offset),
            _ => None,
        }
    }

    /// Where the process had this offset of a module: in its address space of that time, in one
    /// that this was copied from, or else in any other of the process.
    fn mapped_at(&self, pid: u32, time: Time, module: ModuleId, offset: u64) -> Option<u64> {
        let spaces = &self.trace.address_spaces;
        let count = spaces.of(pid).len().min(MAX_LOOKED_AT);
        let begun = spaces.of(pid).partition_point(|space| space.from <= time);
        let number = begun.saturating_sub(1);
        let inherited = spaces.lineage(pid, number).map(|(key, _, until)| (key, until.min(time)));
        let others = (0..count).map(|number| ((pid, number), time));
        inherited.chain(others).find_map(|((pid, number), until)| {
            let mappings = self.mappings.get(&(pid, number, module))?;
            let has = |mapping: &&&Mapping| {
                let len = mapping.end_avma - mapping.start_avma;
                offset.checked_sub(mapping.module_offset).is_some_and(|into| into < len)
            };
            let next = mappings.partition_point(|mapping| mapping.from <= until);
            let (before, after) = mappings.split_at(next);
            let nearest =
                before.iter().rev().take(MAX_LOOKED_AT).chain(after.iter().take(MAX_LOOKED_AT));
            let mapping = nearest.into_iter().find(has)?;
            Some(mapping.start_avma + (offset - mapping.module_offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::{Frame, Module, NameId};

    /// Maps a file of 4 KiB into process 7: at 0x1000 first, from 50 on at 0x9000.
    fn mapped_twice() -> (Trace, ModuleId) {
        let mut trace = Trace::default();
        let path = trace.strings.intern("/bin/a");
        let module =
            trace.modules.intern(Module { path, kind: ModuleKind::File, build_id: Vec::new() });
        for (from, start_avma) in [(0, 0x1000), (50, 0x9000)] {
            let mapping = Mapping {
                start_avma,
                end_avma: start_avma + 0x1000,
                module_offset: 0x2000,
                from: Time::from_nanos(from),
                module,
                path: NameId::EMPTY,
            };
            trace.address_spaces.map(7, mapping);
        }
        trace.address_spaces.fork(8, 7, Time::from_nanos(20));
        trace.address_spaces.sort();
        (trace, module)
    }

    #[test]
    fn a_file_is_where_it_was_mapped_then() {
        let (mut trace, module) = mapped_twice();
        let frames = [0x2010, 0x2020, 0x3000].map(|offset| Frame { module, offset });
        let ids = frames.map(|frame| trace.stacks.intern_frame(frame));
        let stack = trace.stacks.intern(&ids, 0);
        let mut addresses = CodeAddresses::new(&trace);
        let mut user = |pid, time| addresses.chain(pid, Time::from_nanos(time), stack).user.clone();
        assert_eq!(user(7, 10), [0x1010, 0x1021], "the last offset is not mapped");
        assert_eq!(user(7, 60), [0x9010, 0x9021]);
        assert_eq!(user(8, 60), [0x1010, 0x1021], "the copy was made before");
        assert_eq!(user(9, 60), [] as [u64; 0]);
        assert_eq!(addresses.chain(9, Time::ZERO, stack).left_out, 3);
    }
}
