//! [`Spaces`]: what an address of a process meant at a time.
//!
//! MMAP records add mappings, FORK records copy them to the child, an exec ends them. An address is
//! looked up once per process, not once per event. The answer depends on the time only if the
//! process mapped something else over the address.

use super::side_band::{Mmap, SideBand, Timed};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use unhitch_model::{Frame, FrameId, Module, ModuleId, ModuleKind, Time, Trace};

/// The frame at an address of a process; `None` if no executable mapping covers it, so that it is
/// not code.
#[derive(Clone)]
pub(crate) enum FrameOverTime {
    /// The same for the whole life of the process.
    Fixed(Option<FrameId>),
    /// Each frame with the time from which it holds; by time, the first from the beginning.
    Varying(Rc<[(Time, Option<FrameId>)]>),
}

struct Mapping {
    start_avma: u64,
    end_avma: u64,
    file_offset: u64,
    from: Time,
    module: ModuleId,
    /// Offsets in the module are avma.
    anonymous: bool,
}

/// The mappings of a process between two execs.
struct Space {
    from: Time,
    /// Process and number of the space that it was copied from.
    parent: Option<(u32, usize)>,
    /// By start address, then in the order of the records.
    mappings: Vec<Mapping>,
    /// For each mapping, the highest end up to it.
    highest_end: Vec<u64>,
}

/// All address spaces of a trace.
pub(crate) struct Spaces {
    by_pid: FxHashMap<u32, Vec<Space>>,
    kernel: ModuleId,
    known: FxHashMap<(u32, u64), FrameOverTime>,
}

/// Maximum number of forks without an exec that are followed back to find a mapping.
const MAX_FORKS: usize = 64;

impl Spaces {
    /// From the side-band, sorted by time. The modules go into `trace`.
    pub(crate) fn new(
        side_band: &[Timed<'_>],
        build_ids: &FxHashMap<Vec<u8>, Vec<u8>>,
        trace: &mut Trace,
    ) -> Self {
        let mut kernel_build_id: &[u8] = &[];
        let mut by_pid = FxHashMap::<u32, Vec<Space>>::default();
        for Timed { time, record, .. } in side_band {
            match *record {
                SideBand::Fork { pid, ppid, .. } if pid != ppid && *time != Time::ZERO => {
                    let parent = by_pid.get(&ppid).map(|spaces| (ppid, spaces.len() - 1));
                    by_pid.entry(pid).or_default().push(Space::new(*time, parent));
                }
                SideBand::Comm { pid, exec: true, .. } => {
                    by_pid.entry(pid).or_default().push(Space::new(*time, None))
                }
                SideBand::Mmap(map) if map.kernel => {
                    let names_kernel = map.path.starts_with(b"[kernel") && !map.build_id.is_empty();
                    kernel_build_id = if names_kernel { map.build_id } else { kernel_build_id };
                }
                SideBand::Mmap(map) if map.executable => {
                    let mapping = Mapping::new(&map, *time, build_ids, trace);
                    let spaces = by_pid.entry(map.pid).or_default();
                    if spaces.is_empty() {
                        spaces.push(Space::new(Time::ZERO, None));
                    }
                    if let Some(space) = spaces.last_mut() {
                        space.mappings.push(mapping);
                    }
                }
                _ => {}
            }
        }
        by_pid.values_mut().flatten().for_each(Space::sort);
        if let Some(id) =
            build_ids.get(&b"[kernel.kallsyms]"[..]).filter(|_| kernel_build_id.is_empty())
        {
            kernel_build_id = id;
        }
        let path = trace.strings.intern("[kernel]");
        let kernel = trace.modules.intern(Module {
            path,
            kind: ModuleKind::Kernel,
            build_id: kernel_build_id.to_vec(),
        });
        Self { by_pid, kernel, known: FxHashMap::default() }
    }

    /// The frame at a kernel address.
    pub(crate) fn kernel_frame(&self, avma: u64, trace: &mut Trace) -> FrameId {
        trace.stacks.intern_frame(Frame { module: self.kernel, offset: avma })
    }

    /// The frame at a user address of process `pid`.
    pub(crate) fn user_frame(&mut self, pid: u32, avma: u64, trace: &mut Trace) -> FrameOverTime {
        if let Some([space]) = self.by_pid.get(&pid).map(Vec::as_slice)
            && let Some(mapping) = space.only_mapping(avma)
        {
            return FrameOverTime::Fixed(Some(mapping.frame(avma, trace)));
        }
        if let Some(known) = self.known.get(&(pid, avma)) {
            return known.clone();
        }
        let found = self.find_user_frame(pid, avma, trace);
        self.known.insert((pid, avma), found.clone());
        found
    }

    fn find_user_frame(&self, pid: u32, avma: u64, trace: &mut Trace) -> FrameOverTime {
        let mut history = Vec::new();
        for (number, space) in self.by_pid.get(&pid).into_iter().flatten().enumerate() {
            let mut covering = self.covering(pid, number, avma);
            if covering.is_empty() {
                // A mapping from another space of the process is better than none: the snapshot
                // may have been taken in that one.
                covering = self.by_pid[&pid]
                    .iter()
                    .map(|other| other.covering(avma))
                    .find(|found| !found.is_empty())
                    .unwrap_or_default();
                covering.truncate(1);
            }
            if covering.is_empty() {
                // If no code of the process is known, this address may still be code.
                let unknown =
                    (!self.knows_mappings(pid, number)).then(|| anonymous_frame(pid, avma, trace));
                history.push((space.from, unknown));
            }
            for (index, mapping) in covering.iter().enumerate() {
                let from = if index == 0 { space.from } else { mapping.from };
                history.push((from, Some(mapping.frame(avma, trace))));
            }
        }
        history.dedup_by_key(|(_, frame)| *frame);
        match history[..] {
            [] => FrameOverTime::Fixed(Some(anonymous_frame(pid, avma, trace))),
            [(_, frame)] => FrameOverTime::Fixed(frame),
            _ => FrameOverTime::Varying(history.into()),
        }
    }

    /// A space and those it was copied from, nearest first, each with the time up to which its
    /// mappings count.
    fn lineage(&self, pid: u32, number: usize) -> impl Iterator<Item = (&Space, Time)> {
        let get =
            |pid: u32, number: usize| self.by_pid.get(&pid).and_then(|spaces| spaces.get(number));
        let first = get(pid, number).map(|space| (space, Time::MAX));
        let parent_of = move |&(space, until): &(&Space, Time)| {
            let (pid, number) = space.parent?;
            Some((get(pid, number)?, space.from.min(until)))
        };
        std::iter::successors(first, parent_of).take(MAX_FORKS)
    }

    /// True if some code of the space is known. Then an address that no mapping covers is not code.
    fn knows_mappings(&self, pid: u32, number: usize) -> bool {
        self.lineage(pid, number).any(|(space, _)| !space.mappings.is_empty())
    }

    /// The mappings that cover `avma`, oldest first: the space's own, else the inherited one.
    fn covering(&self, pid: u32, number: usize, avma: u64) -> Vec<&Mapping> {
        for (space, until) in self.lineage(pid, number) {
            let mut covering = space.covering(avma);
            if until != Time::MAX && !covering.is_empty() {
                let last = covering.iter().rposition(|mapping| mapping.from <= until).unwrap_or(0);
                covering = vec![covering[last]];
            }
            if !covering.is_empty() {
                return covering;
            }
        }
        Vec::new()
    }
}

impl Space {
    fn new(from: Time, parent: Option<(u32, usize)>) -> Self {
        Self { from, parent, mappings: Vec::new(), highest_end: Vec::new() }
    }

    fn sort(&mut self) {
        self.mappings.sort_by_key(|mapping| mapping.start_avma);
        let mut highest = 0;
        self.highest_end = self
            .mappings
            .iter()
            .map(|mapping| {
                highest = mapping.end_avma.max(highest);
                highest
            })
            .collect();
    }

    /// The mappings that may cover `avma`. The first one does.
    fn candidates(&self, avma: u64) -> &[Mapping] {
        let end = self.mappings.partition_point(|mapping| mapping.start_avma <= avma);
        let begin = self.highest_end[..end].partition_point(|highest| *highest <= avma);
        &self.mappings[begin..end]
    }

    /// The mapping that covers `avma` if it is the only one, which is nearly always the case.
    fn only_mapping(&self, avma: u64) -> Option<&Mapping> {
        match self.candidates(avma) {
            [only] => Some(only),
            _ => None,
        }
    }

    fn covering(&self, avma: u64) -> Vec<&Mapping> {
        let mut covering: Vec<&Mapping> =
            self.candidates(avma).iter().filter(|mapping| avma < mapping.end_avma).collect();
        covering.sort_by_key(|mapping| mapping.from);
        covering
    }
}

impl Mapping {
    fn new(
        map: &Mmap<'_>,
        from: Time,
        build_ids: &FxHashMap<Vec<u8>, Vec<u8>>,
        trace: &mut Trace,
    ) -> Self {
        let anonymous = is_anonymous(map.path);
        let module = if anonymous {
            anonymous_module(map.pid, trace)
        } else {
            let build_id = match map.build_id {
                [] => build_ids.get(map.path).cloned().unwrap_or_default(),
                id => id.to_vec(),
            };
            let path = trace.strings.intern(&String::from_utf8_lossy(map.path));
            trace.modules.intern(Module { path, kind: ModuleKind::File, build_id })
        };
        let end_avma = map.start_avma.saturating_add(map.len);
        Self {
            start_avma: map.start_avma,
            end_avma,
            file_offset: map.file_offset,
            from,
            module,
            anonymous,
        }
    }

    fn frame(&self, avma: u64, trace: &mut Trace) -> FrameId {
        let offset = if self.anonymous {
            avma
        } else {
            (avma - self.start_avma).wrapping_add(self.file_offset)
        };
        trace.stacks.intern_frame(Frame { module: self.module, offset })
    }
}

/// True for the names that the kernel gives to memory without a file. No code can be read from
/// them.
fn is_anonymous(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"//anon",
        b"[anon",
        b"[heap]",
        b"[stack",
        b"/anon_hugepage",
        b"/memfd:",
        b"/dev/zero",
        b"/SYSV",
    ];
    path.is_empty() || NAMES.iter().any(|name| path.starts_with(name))
}

fn anonymous_module(pid: u32, trace: &mut Trace) -> ModuleId {
    let path = trace.strings.intern("[anon]");
    trace.modules.intern(Module { path, kind: ModuleKind::Anonymous { pid }, build_id: Vec::new() })
}

fn anonymous_frame(pid: u32, avma: u64, trace: &mut Trace) -> FrameId {
    let module = anonymous_module(pid, trace);
    trace.stacks.intern_frame(Frame { module, offset: avma })
}
