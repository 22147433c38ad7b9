//! [`Methods`]: which method of .NET an address of a process belonged to at a time.
//!
//! The runtime reports where it puts machine code (`MethodLoad`, `MethodUnload`), and lists
//! existing code when a session begins or ends (`MethodDCStart`, `MethodDCEnd`); the layouts are
//! those of `ClrEtwAll.man`. *Why by time*: the runtime reuses code memory, so an address may
//! belong to different methods at different times.

use super::{
    buffer::{u16_at, u32_at, u64_at},
    clock::{Clock, utf16_z},
    kinds::{KindKey, KindTable},
    method_name::method_name,
    rows::{self, Chunk, ProviderEvent},
    space_id::SpaceId,
    tasks::ProcessIndex,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unhitch_model::{NameId, Time, Trace, Window};

/// All methods of a trace. `'a` is the lifetime of the payloads, from which names are made on
/// demand.
#[derive(Default)]
pub(super) struct Methods<'a> {
    spaces: FxHashMap<SpaceId, Space<'a>>,
    /// The files of the runtime's modules.
    modules: FxHashMap<(SpaceId, u64), &'a [u8]>,
    /// Methods that were named already, by space and index.
    named: FxHashMap<(SpaceId, u32), Found>,
}

/// The methods of one address space.
#[derive(Default)]
struct Space<'a> {
    /// By their start, those of equal start by time.
    methods: Vec<Method<'a>>,
    /// Length of the longest method, bytes.
    longest: u64,
}

/// Machine code of one method.
#[derive(Clone, Copy)]
struct Method<'a> {
    start_avma: u64,
    len: u32,
    is_jitted: bool,
    life: Window,
    id: u64,
    module: u64,
    /// Type, name and signature, one after another; empty if only the numbers were recorded.
    names: &'a [u8],
}

/// The method at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub name: NameId,
    /// The file of the method's module; empty if unknown.
    pub file: NameId,
    /// The runtime compiled it while the program ran, so its code is in no file.
    pub is_jitted: bool,
}

/// What an event says about a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Load,
    Unload,
    /// The method exists; its load was not recorded.
    Listed,
}

/// The subject of a kind of event.
#[derive(Clone, Copy)]
enum Subject {
    Method {
        change: Change,
        /// The event has the names.
        verbose: bool,
    },
    /// A module.
    Module {
        /// Where the payload has the file's path, bytes.
        path_at: usize,
    },
}

/// Microsoft-Windows-DotNETRuntime {e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}.
const RUNTIME: [u8; 16] = [
    0x23, 0x0d, 0x3c, 0xe1, 0xbc, 0xcc, 0x12, 0x4e, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4,
];
/// Microsoft-Windows-DotNETRuntimeRundown {a669021c-c450-4609-a035-5af59af4df18}.
const RUNDOWN: [u8; 16] = [
    0x1c, 0x02, 0x69, 0xa6, 0x50, 0xc4, 0x09, 0x46, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18,
];

fn subject(key: &KindKey) -> Option<Subject> {
    let KindKey::Manifest { guid, id, .. } = key else { return None };
    let method = |change, verbose| Some(Subject::Method { change, verbose });
    match (*guid, *id) {
        // .NET 2 has only one provider, which lists existing methods too.
        (RUNTIME, 135 | 136) | (RUNDOWN, 141 | 142) => method(Change::Listed, false),
        (RUNTIME, 137 | 138) | (RUNDOWN, 143 | 144) => method(Change::Listed, true),
        (RUNTIME, 141) => method(Change::Load, false),
        (RUNTIME, 142) => method(Change::Unload, false),
        (RUNTIME, 143) => method(Change::Load, true),
        (RUNTIME, 144) => method(Change::Unload, true),
        (RUNTIME | RUNDOWN, 151) | (RUNDOWN, 152) => Some(Subject::Module { path_at: 32 }),
        (RUNTIME, 152) | (RUNTIME | RUNDOWN, 153) | (RUNDOWN, 154) => {
            Some(Subject::Module { path_at: 24 })
        }
        _ => None,
    }
}

/// `MethodFlags`: a dynamic method, or one compiled at run time.
const DYNAMIC: u32 = 1;
const JITTED: u32 = 8;

/// Where the three names of a verbose event begin, bytes.
const NAMES_AT: usize = 36;

impl<'a> Methods<'a> {
    /// Reads the events about methods among `rows`, which must be by time.
    pub(super) fn new(
        rows: &[(u32, ProviderEvent)],
        chunks: &'a [Chunk],
        kinds: &KindTable,
        processes: &ProcessIndex,
        clock: Clock,
    ) -> Self {
        let kinds: Vec<Option<Subject>> = kinds.kinds.iter().map(subject).collect();
        let mut all = Self::default();
        let mut live: FxHashMap<SpaceId, Live<'a>> = FxHashMap::default();
        for (chunk, row) in rows {
            let Some(subject) = kinds.get(row.kind as usize).copied().flatten() else { continue };
            let time = clock.time(row.ticks);
            let Some(process) = processes.at(row.pid, time) else { continue };
            let (space, payload) = (SpaceId::of(process), rows::payload(chunks, *chunk, row));
            match subject {
                Subject::Method { change, verbose } => {
                    if let Some(method) = method(payload, verbose) {
                        live.entry(space).or_default().event(method, change, time);
                    }
                }
                Subject::Module { path_at } => {
                    let (module, path) = (u64_at(payload, 0), payload.get(path_at..));
                    if let Some((module, path)) =
                        module.zip(path).filter(|(_, path)| u16_at(path, 0) != Some(0))
                    {
                        all.modules.insert((space, module), path);
                    }
                }
            }
        }
        all.spaces = live.into_iter().map(|(space, live)| (space, live.finish())).collect();
        all
    }

    /// Number of methods for which no event has a name.
    pub(super) fn nameless(&self) -> usize {
        self.spaces
            .values()
            .flat_map(|space| &space.methods)
            .filter(|method| method.names.is_empty())
            .count()
    }

    /// The named method that has `avma` at a time, and the window in which that holds.
    pub(super) fn at(
        &mut self,
        space: SpaceId,
        avma: u64,
        time: Time,
        trace: &mut Trace,
    ) -> (Option<Found>, Window) {
        let Some(methods) = self.spaces.get(&space) else { return (None, WHOLE) };
        let (place, window) = methods.at(avma, time);
        let Some((place, method)) =
            place.and_then(|place| Some((place as u32, methods.methods.get(place)?)))
        else {
            return (None, window);
        };
        if method.names.is_empty() {
            return (None, window);
        }
        let found = *self.named.entry((space, place)).or_insert_with(|| {
            let path = self
                .modules
                .get(&(space, method.module))
                .map(|path| text(path).0)
                .unwrap_or_default();
            let (of, rest) = text(method.names);
            let (name, rest) = text(rest);
            let name = method_name(&of, &name, &text(rest).0);
            let (name, file) = (trace.strings.intern(&name), trace.strings.intern(&path));
            Found { name, file, is_jitted: method.is_jitted }
        });
        (Some(found), window)
    }
}

/// All of time.
pub(super) const WHOLE: Window = Window::new(Time::ZERO, Time::MAX);

/// Maximum length of each of a method's three names, bytes.
const MAX_NAME_LEN: usize = 2048;

/// Reads a text up to its terminating zero. Also returns what follows.
fn text(bytes: &[u8]) -> (String, &[u8]) {
    let units = bytes.as_chunks::<2>().0;
    let len = units.iter().position(|unit| *unit == [0; 2]).unwrap_or(units.len()) * 2;
    let read = bytes.get(..len.min(MAX_NAME_LEN)).unwrap_or_default();
    (utf16_z(read).0, bytes.get(len + 2..).unwrap_or_default())
}

/// Reads a method from its event. Other events may shorten its life.
fn method(payload: &[u8], verbose: bool) -> Option<Method<'_>> {
    let flags = u32_at(payload, 32)?;
    Some(Method {
        start_avma: u64_at(payload, 16)?,
        len: u32_at(payload, 24)?,
        is_jitted: flags & (DYNAMIC | JITTED) != 0,
        life: WHOLE,
        id: u64_at(payload, 0)?,
        module: u64_at(payload, 8)?,
        names: payload.get(NAMES_AT..).filter(|_| verbose).unwrap_or_default(),
    })
}

/// The methods of a space while its events are followed.
#[derive(Default)]
struct Live<'a> {
    /// Indices of the live methods by their start. They do not overlap.
    there: BTreeMap<u64, usize>,
    methods: Vec<Method<'a>>,
    /// Names by the number of the method, for events without.
    names: FxHashMap<u64, &'a [u8]>,
}

impl<'a> Live<'a> {
    fn event(&mut self, method: Method<'a>, change: Change, time: Time) {
        if !method.names.is_empty() {
            self.names.insert(method.id, method.names);
        }
        if method.len == 0 {
            return;
        }
        let known =
            self.there.get(&method.start_avma).and_then(|place| self.methods.get_mut(*place));
        let known = known.filter(|known| (known.id, known.len) == (method.id, method.len));
        let life = match (change, known) {
            (Change::Unload, Some(known)) => {
                known.life = Window::new(known.life.start, time);
                self.there.remove(&method.start_avma);
                return;
            }
            // A repetition: by both providers, or at the beginning and at the end.
            (_, Some(known)) => {
                known.names = if known.names.is_empty() { method.names } else { known.names };
                return;
            }
            (Change::Load, None) => Window::new(time, Time::MAX),
            (Change::Listed, None) => WHOLE,
            // It existed from the beginning.
            (Change::Unload, None) => Window::new(Time::ZERO, time),
        };
        let end = method.start_avma.saturating_add(u64::from(method.len));
        // Methods that it overlaps are gone, even if no event said so.
        while let Some((&start, &place)) = self.there.range(..end).next_back() {
            let Some(other) = self.methods.get_mut(place) else { break };
            if start.saturating_add(u64::from(other.len)) <= method.start_avma {
                break;
            }
            other.life = Window::new(other.life.start, time.max(other.life.start));
            self.there.remove(&start);
        }
        if change != Change::Unload {
            self.there.insert(method.start_avma, self.methods.len());
        }
        self.methods.push(Method { life, ..method });
    }

    fn finish(mut self) -> Space<'a> {
        for method in self.methods.iter_mut().filter(|method| method.names.is_empty()) {
            method.names = self.names.get(&method.id).copied().unwrap_or_default();
        }
        self.methods.sort_by_key(|method| (method.start_avma, method.life.start));
        let longest = self.methods.iter().map(|method| u64::from(method.len)).max().unwrap_or(0);
        Space { methods: self.methods, longest }
    }
}

/// Maximum number of methods below an address that are looked at. Methods of one time do not
/// overlap; only those that replaced each other do.
const MAX_BELOW: usize = 256;

impl Space<'_> {
    /// The index of the method that has an address at a time, and the window in which that holds.
    fn at(&self, avma: u64, time: Time) -> (Option<usize>, Window) {
        let below = self.methods.partition_point(|method| method.start_avma <= avma);
        let (mut best, mut window) = (None::<(Time, usize)>, WHOLE);
        for place in (below.saturating_sub(MAX_BELOW)..below).rev() {
            let Some(method) = self.methods.get(place) else { break };
            let offset = avma - method.start_avma;
            if offset >= self.longest {
                break;
            }
            if offset >= u64::from(method.len) {
                continue;
            }
            // The answer changes when any of these methods comes or goes.
            for change in [method.life.start, method.life.end] {
                window = match change <= time {
                    true => Window::new(window.start.max(change), window.end),
                    false => Window::new(window.start, window.end.min(change)),
                };
            }
            // A method whose load was recorded takes precedence over one from the beginning.
            if method.life.contains(time) && best.is_none_or(|(from, _)| from <= method.life.start)
            {
                best = Some((method.life.start, place));
            }
        }
        (best.map(|(_, place)| place), window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(events: &[(Change, u64, u64, u32, u64)]) -> Space<'static> {
        let mut live = Live::default();
        for &(change, id, start_avma, len, at) in events {
            let method = Method {
                start_avma,
                len,
                is_jitted: true,
                life: WHOLE,
                id,
                module: 0,
                names: &[1],
            };
            live.event(method, change, Time::from_nanos(at));
        }
        live.finish()
    }

    fn at(space: &Space<'_>, avma: u64, time: u64) -> (Option<u64>, [u64; 2]) {
        let (place, window) = space.at(avma, Time::from_nanos(time));
        (place.map(|place| space.methods[place].id), [window.start.nanos(), window.end.nanos()])
    }

    const END: u64 = u64::MAX;

    #[test]
    fn an_address_means_what_was_loaded_there_last() {
        let space = space(&[
            (Change::Load, 1, 0x1000, 0x100, 10),
            (Change::Unload, 1, 0x1000, 0x100, 20),
            (Change::Load, 2, 0x1040, 0x40, 30),
            // No event reports that 2 was unloaded.
            (Change::Load, 3, 0x1000, 0x80, 40),
            (Change::Listed, 3, 0x1000, 0x80, 50),
            (Change::Listed, 4, 0x2000, 0x80, 50),
        ]);
        let seen = [5, 15, 25, 35, 45].map(|time| at(&space, 0x1050, time));
        let expected = [
            (None, [0, 10]),
            (Some(1), [10, 20]),
            (None, [20, 30]),
            (Some(2), [30, 40]),
            (Some(3), [40, END]),
        ];
        assert_eq!(seen, expected);
        assert_eq!(at(&space, 0x1080, 45), (None, [20, END]), "behind the method");
        assert_eq!(at(&space, 0x2010, 0), (Some(4), [0, END]), "there from the beginning");
        assert_eq!(at(&space, 0xfff, 15), (None, [0, END]));
    }

    #[test]
    fn what_is_unloaded_unseen_was_there_before() {
        let space =
            space(&[(Change::Unload, 1, 0x1000, 0x100, 20), (Change::Listed, 2, 0x1000, 0x10, 90)]);
        assert_eq!([5, 30].map(|time| at(&space, 0x1020, time).0), [Some(1), None]);
        assert_eq!(at(&space, 0x1008, 30).0, Some(2));
    }
}
