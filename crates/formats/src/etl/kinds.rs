//! [`KindTable`]: the kinds of events of a file and the number of each, before they get names.

use super::event::{EventClass, Manifest, ext, extended};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// The properties that distinguish kinds of events.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum KindKey {
    Hook {
        hook: u16,
        version: u8,
    },
    Classic {
        guid: [u8; 16],
        opcode: u8,
        version: u8,
        level: u8,
    },
    Manifest {
        guid: [u8; 16],
        id: u16,
        version: u8,
        level: u8,
        opcode: u8,
        task: u16,
        keyword: u64,
        pointer_bytes: u8,
        /// TraceLogging: the event's own description; else empty.
        schema: Box<[u8]>,
        /// The provider's traits, if the event has them; else empty.
        traits: Box<[u8]>,
    },
    Message,
    Unknown,
}

/// The kinds of a file, or of the part that one worker decoded.
#[derive(Default, Debug)]
pub(super) struct KindTable {
    pub kinds: Vec<KindKey>,
    pub counts: Vec<u64>,
    /// Number of events of kinds beyond [`MAX_KINDS`], which count as unknown.
    pub beyond: u64,
    /// Numbers by hash; kinds of equal hash are in consecutive slots.
    slots: FxHashMap<u64, u32>,
}

/// Maximum number of kinds that are distinguished. Real traces have a few hundred; a hostile one
/// may have one per event.
pub(super) const MAX_KINDS: usize = 1 << 14;

impl KindTable {
    /// Counts an event. Returns the number of its kind.
    pub(super) fn count(&mut self, class: &EventClass<'_>) -> u32 {
        let (schema, traits) = match class {
            EventClass::Manifest(manifest) if !manifest.extended.is_empty() => described(manifest),
            _ => (&[][..], &[][..]),
        };
        let mut hasher = FxHasher::default();
        match class {
            EventClass::Hook { hook, version, .. } => (0, hook, version).hash(&mut hasher),
            EventClass::Classic { guid, opcode, version, level } => {
                (1, guid, opcode, version, level).hash(&mut hasher)
            }
            EventClass::Manifest(m) => {
                (2, m.guid, m.id, m.version, m.level, m.opcode, m.task, m.keyword, m.pointer_bytes)
                    .hash(&mut hasher);
                (schema, traits).hash(&mut hasher);
            }
            EventClass::Message => 3.hash(&mut hasher),
            EventClass::Unknown => 4.hash(&mut hasher),
        }
        let mut slot = hasher.finish();
        while let Some(&number) = self.slots.get(&slot) {
            if self.kinds.get(number as usize).is_some_and(|key| is_of(key, class, schema, traits))
            {
                if let Some(count) = self.counts.get_mut(number as usize) {
                    *count += 1;
                }
                return number;
            }
            slot = slot.wrapping_add(1);
        }
        if self.kinds.len() >= MAX_KINDS && *class != EventClass::Unknown {
            self.beyond += 1;
            return self.count(&EventClass::Unknown);
        }
        let number = self.kinds.len() as u32;
        self.kinds.push(key(class, schema, traits));
        self.counts.push(1);
        self.slots.insert(slot, number);
        number
    }

    /// Adds all of `other`. Returns the numbers that its kinds have here.
    pub(super) fn union(&mut self, other: Self, known: &mut FxHashMap<KindKey, u32>) -> Vec<u32> {
        self.beyond += other.beyond;
        let numbers = other.kinds.into_iter().zip(other.counts).map(|(key, count)| {
            let is_beyond = self.kinds.len() >= MAX_KINDS
                && key != KindKey::Unknown
                && !known.contains_key(&key);
            self.beyond += if is_beyond { count } else { 0 };
            let key = if is_beyond { KindKey::Unknown } else { key };
            let number = *known.entry(key).or_insert_with_key(|key| {
                self.kinds.push(key.clone());
                self.counts.push(0);
                (self.kinds.len() - 1) as u32
            });
            if let Some(sum) = self.counts.get_mut(number as usize) {
                *sum += count;
            }
            number
        });
        numbers.collect()
    }
}

fn described<'a>(manifest: &Manifest<'a>) -> (&'a [u8], &'a [u8]) {
    let (mut schema, mut traits) = (&[][..], &[][..]);
    for (kind, data) in extended(manifest.extended) {
        match kind {
            ext::SCHEMA_TL => schema = data,
            ext::PROVIDER_TRAITS => traits = data,
            _ => {}
        }
    }
    (schema, traits)
}

fn key(class: &EventClass<'_>, schema: &[u8], traits: &[u8]) -> KindKey {
    match *class {
        EventClass::Hook { hook, version, .. } => KindKey::Hook { hook, version },
        EventClass::Classic { guid, opcode, version, level } => {
            KindKey::Classic { guid: *guid, opcode, version, level }
        }
        EventClass::Manifest(Manifest {
            guid,
            id,
            version,
            level,
            opcode,
            task,
            keyword,
            pointer_bytes,
            ..
        }) => KindKey::Manifest {
            guid: *guid,
            id,
            version,
            level,
            opcode,
            task,
            keyword,
            pointer_bytes,
            schema: schema.into(),
            traits: traits.into(),
        },
        EventClass::Message => KindKey::Message,
        EventClass::Unknown => KindKey::Unknown,
    }
}

fn is_of(key: &KindKey, class: &EventClass<'_>, schema: &[u8], traits: &[u8]) -> bool {
    match (key, class) {
        (KindKey::Hook { hook, version }, EventClass::Hook { hook: h, version: v, .. }) => {
            (hook, version) == (h, v)
        }
        (
            KindKey::Classic { guid, opcode, version, level },
            EventClass::Classic { guid: g, opcode: o, version: v, level: l },
        ) => guid == *g && (opcode, version, level) == (o, v, l),
        (
            KindKey::Manifest {
                guid,
                id,
                version,
                level,
                opcode,
                task,
                keyword,
                pointer_bytes,
                schema: s,
                traits: t,
            },
            EventClass::Manifest(m),
        ) => {
            guid == m.guid
                && (*id, *version, *level, *opcode, *task)
                    == (m.id, m.version, m.level, m.opcode, m.task)
                && (*keyword, *pointer_bytes) == (m.keyword, m.pointer_bytes)
                && **s == *schema
                && **t == *traits
        }
        (KindKey::Message, EventClass::Message) | (KindKey::Unknown, EventClass::Unknown) => true,
        _ => false,
    }
}
