//! Events of any provider: disk transfers, page faults, UI delays, focus, input, marks, and
//! whatever else was recorded.
//!
//! They are columns like those of the scheduler's events. What all events of a kind have in common
//! is stored once ([`EventKind`]). Payloads stay as recorded and are decoded on demand
//! ([`Layout`]).

use crate::{Layout, NameId, StackId, ThreadId, Time, Value, Window};
use rustc_hash::FxHashMap;

/// An index into the kinds of a trace's [`ProviderEvents`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct KindId(pub u32);

/// One kind of event.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct EventKind {
    /// The provider's name, e.g. `Microsoft-Windows-Win32k`; its GUID if the name is unknown.
    pub provider: NameId,
    /// The provider's GUID as it lies in memory; zero if it has none.
    pub provider_guid: [u8; 16],
    /// The event's name, e.g. `MessageCheckDelay`; made from its numbers if the name is unknown.
    pub name: NameId,
    /// The event's number (ETW: event id, or the hook of a kernel event).
    pub id: u16,
    /// Version of its payload.
    pub version: u8,
    /// Start, stop and so on.
    pub opcode: u8,
    /// 1 critical to 5 verbose, 0 always.
    pub level: u8,
    /// The task that it belongs to.
    pub task: u16,
    /// Its keyword bits.
    pub keyword: u64,
    /// How its payload is decoded; without fields if that is unknown.
    pub layout: Layout,
}

/// Names for the values of a field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValueMap {
    /// True if the values are bits, of which several may be set.
    pub bits: bool,
    /// Values with their names.
    pub entries: Vec<(u64, NameId)>,
}

/// Events of all providers, by time.
#[derive(Clone, Debug, Default)]
pub struct ProviderEvents {
    /// When.
    pub time: Vec<Time>,
    /// On which CPU.
    pub cpu: Vec<u16>,
    /// The thread it belongs to; an [unknown](ThreadId::is_unknown) one if the event has only the
    /// process, or not even that.
    pub thread: Vec<ThreadId>,
    /// Which kind.
    pub kind: Vec<KindId>,
    /// The thread's stack, if one was recorded.
    pub stack: Vec<StackId>,
    payloads: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<EventKind>,
    kind_ids: FxHashMap<EventKind, KindId>,
    maps: Vec<ValueMap>,
}

/// An event without its payload.
#[derive(Clone, Copy, Debug)]
pub struct EventHead {
    /// When.
    pub time: Time,
    /// On which CPU.
    pub cpu: u16,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// Which kind.
    pub kind: KindId,
    /// The thread's stack.
    pub stack: StackId,
}

impl ProviderEvents {
    /// Adds an event, which must not be earlier than the last one.
    pub fn push(&mut self, head: EventHead, payload: &[u8]) {
        self.time.push(head.time);
        self.cpu.push(head.cpu);
        self.thread.push(head.thread);
        self.kind.push(head.kind);
        self.stack.push(head.stack);
        self.payloads.extend_from_slice(payload);
        self.ends.push(self.payloads.len());
    }

    /// Adds events from another source, sorted by time, between those that are there.
    pub fn merge(&mut self, added: &[(EventHead, Vec<u8>)]) {
        if added.is_empty() {
            return;
        }
        let mut merged = Self {
            kinds: std::mem::take(&mut self.kinds),
            kind_ids: std::mem::take(&mut self.kind_ids),
            maps: std::mem::take(&mut self.maps),
            ..Self::default()
        };
        let mut added = added.iter().peekable();
        for index in 0..self.len() {
            while let Some((head, payload)) =
                added.next_if(|(head, _)| head.time < self.time[index])
            {
                merged.push(*head, payload);
            }
            let head = EventHead {
                time: self.time[index],
                cpu: self.cpu[index],
                thread: self.thread[index],
                kind: self.kind[index],
                stack: self.stack[index],
            };
            merged.push(head, self.payload(index));
        }
        added.for_each(|(head, payload)| merged.push(*head, payload));
        *self = merged;
    }

    /// The id of a kind, stored if new.
    pub fn intern_kind(&mut self, kind: EventKind) -> KindId {
        if let Some(&id) = self.kind_ids.get(&kind) {
            return id;
        }
        let id = KindId(u32::try_from(self.kinds.len()).unwrap_or(u32::MAX));
        self.kinds.push(kind.clone());
        self.kind_ids.insert(kind, id);
        id
    }

    /// Stores a map and returns its number, for [`Field::map`](crate::Field::map).
    pub fn add_map(&mut self, map: ValueMap) -> u32 {
        self.maps.push(map);
        u32::try_from(self.maps.len() - 1).unwrap_or(u32::MAX)
    }

    /// The kinds with their ids.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &EventKind)> {
        self.kinds.iter().enumerate().map(|(index, kind)| (KindId(index as u32), kind))
    }

    /// A kind, if it is in this trace.
    pub fn get_kind(&self, id: KindId) -> Option<&EventKind> {
        self.kinds.get(id.0 as usize)
    }

    /// The kind of an event, if there is such an event.
    pub fn kind_of(&self, event: usize) -> Option<&EventKind> {
        self.kind.get(event).and_then(|id| self.get_kind(*id))
    }

    /// The map with this number.
    pub fn map(&self, number: u32) -> Option<&ValueMap> {
        self.maps.get(number as usize)
    }

    /// A map's name for a value; for several bits, all their names. `None` if it has none.
    pub fn value_name(
        &self,
        map: u32,
        value: &Value<'_>,
        name: impl Fn(NameId) -> String,
    ) -> Option<String> {
        let (map, number) = (self.map(map)?, value.as_u64()?);
        if let Some((_, known)) = map.entries.iter().find(|(value, _)| *value == number) {
            return Some(name(*known));
        }
        let set =
            map.entries.iter().filter(|(bit, _)| map.bits && *bit != 0 && number & bit == *bit);
        let names: Vec<String> = set.map(|(_, known)| name(*known)).collect();
        (!names.is_empty()).then(|| names.join(" | "))
    }

    /// An event's payload as recorded; empty if there is no such event.
    pub fn payload(&self, event: usize) -> &[u8] {
        let start =
            event.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(event).copied().unwrap_or(start);
        self.payloads.get(start..end).unwrap_or(&[])
    }

    /// An event's fields in order, with their names; empty if its layout is unknown.
    pub fn fields(&self, event: usize) -> Vec<(NameId, Value<'_>)> {
        let mut fields = Vec::new();
        if let Some(kind) = self.kind_of(event) {
            kind.layout.read(self.payload(event), |field, value| fields.push((field.name, value)));
        }
        fields
    }

    /// An event's field with this name.
    pub fn field(&self, event: usize, name: NameId) -> Option<Value<'_>> {
        self.kind_of(event)?.layout.value(self.payload(event), name)
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// The indices of the events inside `window`.
    pub fn range(&self, window: Window) -> std::ops::Range<usize> {
        self.time.partition_point(|&t| t < window.start)
            ..self.time.partition_point(|&t| t < window.end)
    }
}
