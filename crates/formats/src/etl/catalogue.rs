//! [`Catalogue`]: descriptions of kinds of events, from the trace itself and from built-in tables.

use super::{
    hook, kernel,
    kinds::KindKey,
    manifest::{self, Chunks},
    rows::Naming,
    schema::{self, Map, Schema, SchemaField, Subject},
    trace_logging,
};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;
use unhitch_model::{EventKind, Field, Layout, Trace, ValueMap, guid_text};

/// A provider's GUID, and the name of one of its maps.
type MapName = ([u8; 16], String);

/// All known descriptions.
#[derive(Default)]
pub(super) struct Catalogue {
    schemas: FxHashMap<Subject, Schema>,
    providers: FxHashMap<[u8; 16], String>,
    maps: FxHashMap<MapName, Map>,
    /// Numbers of the maps that the trace has already.
    map_numbers: FxHashMap<MapName, u32>,
    /// Fields and named values that may still be added to the descriptions here.
    descriptions_left: usize,
    /// Fields that may still be added to the trace's kinds of events.
    fields_left: usize,
    /// Number of descriptions that were beyond these limits.
    pub left_out: u64,
}

/// Maximum number of fields and named values. Real traces describe about ten thousand. Kinds of
/// events share descriptions and descriptions share texts, so a small file could expand a
/// thousandfold.
const MAX_FIELDS: usize = 1 << 17;

impl Catalogue {
    /// Reads the descriptions among the naming events.
    pub(super) fn new(naming: &[Naming]) -> Self {
        let mut all =
            Self { descriptions_left: MAX_FIELDS, fields_left: MAX_FIELDS, ..Self::default() };
        let mut chunks = Chunks::default();
        for event in naming {
            match event.hook {
                hook::EVENT_INFO => {
                    let Some((subject, schema)) = schema::event_info(&event.payload) else {
                        continue;
                    };
                    if let Some(guid) =
                        event.payload.first_chunk::<16>().filter(|_| !schema.provider.is_empty())
                    {
                        all.providers.insert(*guid, schema.provider.clone());
                    }
                    if all.may_describe(schema.fields.len()) {
                        all.schemas.insert(subject, schema);
                    }
                }
                hook::EVENT_MAP_INFO => {
                    let Some((guid, rest)) = event.payload.split_first_chunk::<16>() else {
                        continue;
                    };
                    if let Some((name, map)) = schema::map_info(rest)
                        .filter(|(_, map)| all.may_describe(map.entries.len()))
                    {
                        all.maps.insert((*guid, name), map);
                    }
                }
                hook::MANIFEST => {
                    let Some((guid, chunk)) = event.payload.split_first_chunk::<16>() else {
                        continue;
                    };
                    let Some(xml) = chunks.add(*guid, chunk) else { continue };
                    let described = manifest::read(*guid, &xml);
                    all.providers.insert(*guid, described.provider);
                    for (subject, schema) in described.events {
                        if !all.schemas.contains_key(&subject)
                            && all.may_describe(schema.fields.len())
                        {
                            all.schemas.insert(subject, schema);
                        }
                    }
                    for (name, map) in described.maps {
                        if all.may_describe(map.entries.len()) {
                            all.maps.insert((*guid, name), map);
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }

    /// True if `fields` more may be described; counts them.
    fn may_describe(&mut self, fields: usize) -> bool {
        take(&mut self.descriptions_left, fields, &mut self.left_out)
    }

    /// The built-in table.
    fn known() -> Self {
        let mut all = Self::default();
        let (mut guid, mut provider) = ([0; 16], "");
        let mut of_provider: FxHashMap<[u8; 16], Vec<(u16, Schema)>> = FxHashMap::default();
        for line in include_str!("known_events.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let Some(first) = words.next() else { continue };
            if let Some(text) = first.strip_prefix('@') {
                guid = parse_guid(text).unwrap_or_default();
                match (words.next(), words.next()) {
                    (Some("="), Some(like)) => {
                        let like = parse_guid(like).unwrap_or_default();
                        let name = all.providers.get(&like).cloned().unwrap_or_default();
                        all.providers.insert(guid, name);
                        let copied = of_provider.get(&like).cloned().unwrap_or_default();
                        of_provider.insert(guid, copied);
                    }
                    (name, _) => {
                        provider = name.unwrap_or_default();
                        all.providers.insert(guid, provider.to_owned());
                    }
                }
                continue;
            }
            let Some((id, name)) = first.parse().ok().zip(words.next()) else { continue };
            let fields = words.filter_map(kernel::schema_field).collect();
            let schema = Schema { provider: provider.to_owned(), name: name.to_owned(), fields };
            of_provider.entry(guid).or_default().push((id, schema));
        }
        for (guid, schemas) in of_provider {
            for (id, schema) in schemas {
                all.schemas
                    .insert(Subject { guid, id, version: ANY_VERSION, classic: false }, schema);
            }
        }
        all
    }

    /// The trace's name for a kind of event, and the layout of its payload.
    pub(super) fn describe(
        &mut self,
        key: &KindKey,
        pointer_bytes: u8,
        trace: &mut Trace,
    ) -> EventKind {
        match key {
            KindKey::Hook { hook, version } => EventKind {
                provider: trace.strings.intern(KERNEL),
                name: trace.strings.intern(&kernel::name(*hook)),
                id: *hook,
                version: *version,
                opcode: *hook as u8,
                layout: kernel::layout(*hook, *version, pointer_bytes, &mut trace.strings),
                ..EventKind::default()
            },
            KindKey::Classic { guid, opcode, version, level } => {
                let subject = Subject {
                    guid: *guid,
                    id: u16::from(*opcode),
                    version: *version,
                    classic: true,
                };
                let schema = self.schema(subject).unwrap_or_else(|| Schema {
                    name: format!("opcode {opcode}"),
                    ..Schema::default()
                });
                EventKind {
                    opcode: *opcode,
                    level: *level,
                    ..self.kind(*guid, u16::from(*opcode), *version, pointer_bytes, schema, trace)
                }
            }
            KindKey::Manifest {
                guid,
                id,
                version,
                level,
                opcode,
                task,
                keyword,
                pointer_bytes,
                schema,
                traits,
            } => {
                if let Some(name) = trace_logging::provider(traits) {
                    self.providers.entry(*guid).or_insert(name);
                }
                let subject = Subject { guid: *guid, id: *id, version: *version, classic: false };
                let own = (!schema.is_empty()).then(|| trace_logging::schema(schema)).flatten();
                let unknown = || match *id {
                    manifest::EVENT_ID => manifest::chunk_schema(),
                    id => Schema {
                        name: schema::event_name("", "", *opcode, id),
                        ..Schema::default()
                    },
                };
                let schema = own.or_else(|| self.schema(subject)).unwrap_or_else(unknown);
                let kind = self.kind(*guid, *id, *version, *pointer_bytes, schema, trace);
                EventKind { opcode: *opcode, level: *level, task: *task, keyword: *keyword, ..kind }
            }
            KindKey::Message => EventKind {
                provider: trace.strings.intern("WPP"),
                name: trace.strings.intern("message"),
                ..EventKind::default()
            },
            KindKey::Unknown => EventKind {
                provider: trace.strings.intern(KERNEL),
                name: trace.strings.intern("(unknown header)"),
                ..EventKind::default()
            },
        }
    }

    /// The description of a kind of event. Its fields are left out if there are too many by now.
    fn schema(&mut self, subject: Subject) -> Option<Schema> {
        let any = Subject { version: ANY_VERSION, ..subject };
        let known = self.schemas.get(&subject).or_else(|| KNOWN.schemas.get(&any))?;
        if known.fields.len() <= self.fields_left {
            return Some(known.clone());
        }
        self.left_out += 1;
        let (provider, name) = (known.provider.clone(), known.name.clone());
        Some(Schema { provider, name, fields: Vec::new() })
    }

    fn kind(
        &mut self,
        guid: [u8; 16],
        id: u16,
        version: u8,
        pointer_bytes: u8,
        mut schema: Schema,
        trace: &mut Trace,
    ) -> EventKind {
        if !take(&mut self.fields_left, schema.fields.len(), &mut self.left_out) {
            schema.fields = Vec::new();
        }
        let provider = match (
            self.providers.get(&guid).or_else(|| KNOWN.providers.get(&guid)),
            schema.provider.as_str(),
        ) {
            (Some(name), _) => name.clone(),
            (None, "") => guid_text(&guid),
            (None, name) => name.to_owned(),
        };
        let fields =
            schema.fields.into_iter().map(|field| self.field(guid, field, trace)).collect();
        EventKind {
            provider: trace.strings.intern(&provider),
            provider_guid: guid,
            name: trace.strings.intern(&schema.name),
            id,
            version,
            layout: Layout { fields, pointer_bytes },
            ..EventKind::default()
        }
    }

    fn field(&mut self, guid: [u8; 16], field: SchemaField, trace: &mut Trace) -> Field {
        let map = field.map.and_then(|name| {
            let key = (guid, name);
            if let Some(&number) = self.map_numbers.get(&key) {
                return Some(number);
            }
            let map = self.maps.get(&key)?;
            let entries = map
                .entries
                .iter()
                .map(|(value, name)| (*value, trace.strings.intern(name)))
                .collect();
            let number = trace.events.add_map(ValueMap { bits: map.bits, entries });
            self.map_numbers.insert(key, number);
            Some(number)
        });
        Field {
            name: trace.strings.intern(&field.name),
            kind: field.kind,
            count: field.count,
            length: field.length,
            map,
        }
    }
}

/// Takes `count` from `left`. If there is not enough left, counts that in `left_out` instead.
fn take(left: &mut usize, count: usize, left_out: &mut u64) -> bool {
    match left.checked_sub(count) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => {
            *left_out += 1;
            false
        }
    }
}

static KNOWN: LazyLock<Catalogue> = LazyLock::new(Catalogue::known);

/// The provider of the kernel's own events.
pub(super) const KERNEL: &str = "Windows Kernel";

/// Marks descriptions of the built-in table, which hold for all versions: newer ones only add
/// fields at the end.
const ANY_VERSION: u8 = u8::MAX;

/// `8c416c79-d49b-4f01-a467-e56d3aa8234c` as it lies in memory.
fn parse_guid(text: &str) -> Option<[u8; 16]> {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let mut bytes = u128::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 32)?.to_be_bytes();
    let [a, b, c, d, e, f, g, h, ..] = &mut bytes;
    std::mem::swap(a, d);
    std::mem::swap(b, c);
    std::mem::swap(e, f);
    std::mem::swap(g, h);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_our_table_is_understood() {
        let catalogue = Catalogue::known();
        let mut lines = 0;
        for line in
            include_str!("known_events.txt").lines().filter(|line| !line.starts_with(['#', '@']))
        {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            assert!(words.len() >= 2 && words[0].parse::<u16>().is_ok(), "{line}");
            assert!(words[2..].iter().all(|word| kernel::schema_field(word).is_some()), "{line}");
            lines += 1;
        }
        // Win32k's events are there under both of its GUIDs.
        assert_eq!(catalogue.schemas.len(), lines + 8);
        let guid = parse_guid("8c416c79-d49b-4f01-a467-e56d3aa8234c").unwrap();
        assert_eq!(
            (guid_text(&guid).as_str(), guid[0]),
            ("8c416c79-d49b-4f01-a467-e56d3aa8234c", 0x79)
        );
        let old = parse_guid("e7ef96be-969f-414f-97d7-3ddb7b558ccc").unwrap();
        let mut trace = Trace::default();
        let key = KindKey::Manifest {
            guid: old,
            id: 38,
            version: 0,
            level: 4,
            opcode: 0,
            task: 0,
            keyword: 0,
            pointer_bytes: 8,
            schema: Box::default(),
            traits: Box::default(),
        };
        let kind = Catalogue::new(&[]).describe(&key, 8, &mut trace);
        assert_eq!(
            (trace.name(kind.provider), trace.name(kind.name)),
            ("Microsoft-Windows-Win32k", "MessageCheckDelay")
        );
    }
}
