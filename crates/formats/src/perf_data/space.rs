//! [`Spaces`]: what an address of a process meant at a time.
//!
//! MMAP records add mappings, FORK records copy them to the child, an exec ends them. An address is
//! looked up once per process, not once per event. The answer depends on the time only if the
//! process mapped something else over the address.

use super::feature::KERNEL_PATH;
use super::record::FileId;
use super::side_band::{Mmap, SideBand, Timed};
use rustc_hash::FxHashMap;
use std::cell::LazyCell;
use std::rc::Rc;
use unhitch_model::{
    AddressSpaces, Frame, FrameId, Mapping, Module, ModuleId, ModuleKind, Time, Trace, Warnings,
};

/// The frame at an address of a process; `None` if no executable mapping covers it, so that it is
/// not code.
#[derive(Clone)]
pub(crate) enum FrameOverTime {
    /// The same for the whole life of the process.
    Fixed(Option<FrameId>),
    /// Each frame with the time from which it holds; by time, the first from the beginning.
    Varying(Rc<[(Time, Option<FrameId>)]>),
}

/// Maximum number of changes of one address, and of one stack. *Why*: a process that maps one
/// address again and again would have all of its stacks as often.
const MAX_CHANGES: usize = 256;

/// The address spaces of a trace, for looking up addresses.
pub(crate) struct Spaces {
    address_spaces: AddressSpaces,
    kernel: ModuleId,
    known: FxHashMap<(u32, u64), FrameOverTime>,
    /// True if something had more than [`MAX_CHANGES`].
    has_dropped: bool,
}

impl Spaces {
    /// From the side-band, sorted by time. The modules go into `trace`.
    pub(crate) fn new(
        side_band: &[Timed<'_>],
        build_ids: &FxHashMap<Vec<u8>, Vec<u8>>,
        trace: &mut Trace,
    ) -> Self {
        let kernel = kernel_module(side_band, build_ids, trace);
        let newest = newest_files(side_band);
        let mut spaces = AddressSpaces::default();
        for Timed { time, record, .. } in side_band {
            match *record {
                SideBand::Fork { pid, ppid, .. } if pid != ppid && *time != Time::ZERO => {
                    spaces.fork(pid, ppid, *time);
                }
                SideBand::Comm { pid, exec: true, .. } => spaces.exec(pid, *time),
                SideBand::Mmap(map) if map.kernel => {
                    spaces.kernel.push(mapping(&map, *time, kernel, trace));
                }
                SideBand::Mmap(map) if map.executable => {
                    let known = map.file.comparable(*time);
                    let is_other = known.is_some_and(|file| newest.get(map.path) != Some(&file));
                    let module = module(&map, build_ids, is_other, trace);
                    spaces.map(map.pid, mapping(&map, *time, module, trace));
                }
                _ => {}
            }
        }
        spaces.sort();
        Self { address_spaces: spaces, kernel, known: FxHashMap::default(), has_dropped: false }
    }

    /// Leaves out all but the last changes of an address or a stack.
    pub(crate) fn keep_newest<T>(&mut self, changes: &mut Vec<T>) {
        if let Some(more @ 1..) = changes.len().checked_sub(MAX_CHANGES) {
            changes.drain(..more);
            self.has_dropped = true;
        }
    }

    /// Says so if changes were left out.
    pub(crate) fn warn(&self, warnings: &mut Warnings) {
        if self.has_dropped {
            warnings.add(format!(
                "some code was mapped more than {MAX_CHANGES} times at one address: older stacks \
                 there may have wrong functions"
            ));
        }
    }

    /// The address spaces themselves.
    pub(crate) fn into_address_spaces(self) -> AddressSpaces {
        self.address_spaces
    }

    /// The frame at a kernel address.
    pub(crate) fn kernel_frame(&self, avma: u64, trace: &mut Trace) -> FrameId {
        trace.stacks.intern_frame(Frame { module: self.kernel, offset: avma })
    }

    /// The frame at a user address of process `pid`.
    pub(crate) fn user_frame(&mut self, pid: u32, avma: u64, trace: &mut Trace) -> FrameOverTime {
        if let [space] = self.address_spaces.of(pid)
            && let Some(mapping) = space.only_mapping(avma)
        {
            return FrameOverTime::Fixed(Some(frame(mapping, avma, trace)));
        }
        if let Some(known) = self.known.get(&(pid, avma)) {
            return known.clone();
        }
        let found = self.find_user_frame(pid, avma, trace);
        self.known.insert((pid, avma), found.clone());
        found
    }

    fn find_user_frame(&mut self, pid: u32, avma: u64, trace: &mut Trace) -> FrameOverTime {
        let mut history = Vec::new();
        let spaces = &self.address_spaces;
        // A mapping from another space of the process is better than none: the snapshot may have
        // been taken in that one.
        let elsewhere = LazyCell::new(|| {
            let mut others = spaces.of(pid).iter().rev().take(MAX_CHANGES).rev();
            others.find_map(|other| other.covering(avma).into_iter().next())
        });
        let oldest = spaces.of(pid).len().saturating_sub(MAX_CHANGES);
        self.has_dropped |= oldest > 0;
        for (number, space) in spaces.of(pid).iter().enumerate().skip(oldest) {
            let mut covering = spaces.covering(pid, number, avma);
            if covering.is_empty() {
                covering.extend(*elsewhere);
            }
            if covering.is_empty() {
                // If no code of the process is known, this address may still be code.
                let unknown = (!spaces.knows_mappings(pid, number))
                    .then(|| anonymous_frame(pid, avma, trace));
                history.push((space.from, unknown));
            }
            for (index, mapping) in covering.iter().enumerate() {
                let from = if index == 0 { space.from } else { mapping.from };
                history.push((from, Some(frame(mapping, avma, trace))));
            }
        }
        history.dedup_by_key(|(_, frame)| *frame);
        self.keep_newest(&mut history);
        match history[..] {
            [] => FrameOverTime::Fixed(Some(anonymous_frame(pid, avma, trace))),
            [(_, frame)] => FrameOverTime::Fixed(frame),
            _ => FrameOverTime::Varying(history.into()),
        }
    }
}

/// The module of the kernel, with the build id of its own mapping.
fn kernel_module(
    side_band: &[Timed<'_>],
    build_ids: &FxHashMap<Vec<u8>, Vec<u8>>,
    trace: &mut Trace,
) -> ModuleId {
    let mut recorded = side_band.iter().filter_map(|timed| match timed.record {
        SideBand::Mmap(map) if map.kernel && map.path.starts_with(b"[kernel") => Some(map.build_id),
        _ => None,
    });
    let last = recorded.rfind(|build_id| !build_id.is_empty());
    let separate = || build_ids.get(KERNEL_PATH).map(Vec::as_slice);
    let build_id = last.or_else(separate).unwrap_or_default().to_vec();
    let path = trace.strings.intern("[kernel]");
    trace.modules.intern(Module { path, kind: ModuleKind::Kernel, build_id })
}

/// By path: the file that was mapped last, of those that are told apart by device and inode.
fn newest_files<'a>(side_band: &[Timed<'a>]) -> FxHashMap<&'a [u8], FileId> {
    let files = side_band.iter().filter_map(|timed| match timed.record {
        SideBand::Mmap(map) if map.executable => Some((map.path, map.file.comparable(timed.time)?)),
        _ => None,
    });
    files.collect()
}

/// The module that a process mapped.
fn module(
    map: &Mmap<'_>,
    build_ids: &FxHashMap<Vec<u8>, Vec<u8>>,
    is_other: bool,
    trace: &mut Trace,
) -> ModuleId {
    if is_anonymous(map.path) {
        return anonymous_module(map.pid, trace);
    }
    let build_id = match map.build_id {
        [] => build_ids.get(map.path).cloned().unwrap_or_default(),
        id => id.to_vec(),
    };
    let mut path = String::from_utf8_lossy(map.path);
    if build_id.is_empty() && is_other {
        path = Module::path_of_other(&path, map.file.inode).into();
    }
    let path = trace.strings.intern(&path);
    trace.modules.intern(Module { path, kind: ModuleKind::File, build_id })
}

fn mapping(map: &Mmap<'_>, from: Time, module: ModuleId, trace: &mut Trace) -> Mapping {
    let anonymous = !map.kernel && is_anonymous(map.path);
    Mapping {
        start_avma: map.start_avma,
        end_avma: map.start_avma.saturating_add(map.len),
        module_offset: if anonymous { map.start_avma } else { map.file_offset },
        from,
        module,
        path: trace.strings.intern(&String::from_utf8_lossy(map.path)),
    }
}

fn frame(mapping: &Mapping, avma: u64, trace: &mut Trace) -> FrameId {
    let offset = (avma - mapping.start_avma).wrapping_add(mapping.module_offset);
    trace.stacks.intern_frame(Frame { module: mapping.module, offset })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapping of `/app` by that time, of the inode on a device of that major number.
    fn mapped<'a>(ms: u64, major: u32, inode: u64) -> Timed<'a> {
        let file = FileId { major, minor: 0, inode };
        let map = Mmap {
            pid: 1,
            start_avma: 0x1000 * (inode + 1),
            len: 0x1000,
            file_offset: 0,
            path: b"/app",
            build_id: &[],
            file,
            kernel: false,
            executable: true,
        };
        let time = Time::from_nanos(ms * 1_000_000);
        Timed { time, cpu: None, record: SideBand::Mmap(map) }
    }

    fn paths(side_band: &[Timed<'_>]) -> Vec<String> {
        let mut trace = Trace::default();
        Spaces::new(side_band, &FxHashMap::default(), &mut trace);
        let files = trace.modules.iter().filter(|(_, module)| module.kind == ModuleKind::File);
        files.map(|(_, module)| trace.name(module.path).to_owned()).collect()
    }

    #[test]
    fn two_files_at_a_path_are_told_apart_only_where_their_numbers_can_be_compared() {
        let both = ["/app (inode 1)", "/app"];
        assert_eq!(paths(&[mapped(0, 8, 1), mapped(5, 8, 1)]), ["/app"]);
        assert_eq!(paths(&[mapped(0, 8, 1), mapped(5, 8, 2)]), both, "rebuilt on a disk");
        assert_eq!(paths(&[mapped(3, 0, 1), mapped(5, 0, 2)]), both, "rebuilt on btrfs or tmpfs");
        assert_eq!(
            paths(&[mapped(0, 0, 1), mapped(5, 8, 7)]),
            ["/app"],
            "an overlay and its layer"
        );
        assert_eq!(paths(&[mapped(0, 0, 0), mapped(5, 8, 7)]), ["/app"], "not known");
    }
}
