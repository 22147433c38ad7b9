//! The kernel's own events: their names and the layouts of their payloads, from
//! `kernel_events.txt`.

use super::{hook, schema::SchemaField};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;
use unhitch_model::{Count, Field, FieldType, Layout, Strings};

/// A kind of event in the table.
pub(super) struct KernelEvent {
    /// Class and name, e.g. `DiskIO/Read`.
    pub name: &'static str,
    /// Fields by the version from which they hold, newest first.
    versions: Vec<(u8, Vec<(&'static str, Shape)>)>,
}

/// What a field is made of.
#[derive(Clone, Copy)]
struct Shape {
    kind: FieldType,
    count: Count,
    length: Count,
}

static EVENTS: LazyLock<FxHashMap<u16, KernelEvent>> =
    LazyLock::new(|| parse(include_str!("kernel_events.txt")));

/// The table's entry for a hook.
pub(super) fn event(hook: u16) -> Option<&'static KernelEvent> {
    EVENTS.get(&hook)
}

/// The name of a hook.
pub(super) fn name(hook: u16) -> String {
    let class = match hook & 0xff00 {
        _ if event(hook).is_some() => return event(hook).map_or("", |event| event.name).to_owned(),
        hook::IMAGE_ID => "ImageID",
        hook::SYS_CONFIG => "SysConfig",
        hook::META_DATA => "MetaData",
        hook::LOST => "Lost",
        _ => return format!("event {hook:#06x}"),
    };
    // The group of these hooks is made up, so only the opcode is shown.
    format!("{class}/opcode {}", hook & 0xff)
}

/// The layout of this version of a hook's payload; without fields if the table has none.
pub(super) fn layout(hook: u16, version: u8, pointer_bytes: u8, strings: &mut Strings) -> Layout {
    let fields = event(hook).and_then(|event| {
        // For versions before the oldest known one, the oldest is more likely right than none.
        event.versions.iter().find(|(from, _)| *from <= version).or(event.versions.last())
    });
    let fields = fields.map(|(_, fields)| fields.as_slice()).unwrap_or_default();
    let fields = fields.iter().map(|(name, shape)| Field {
        name: strings.intern(name),
        kind: shape.kind,
        count: shape.count,
        length: shape.length,
        map: None,
    });
    Layout { fields: fields.collect(), pointer_bytes }
}

/// A field in the table's notation, for the tables of other providers.
pub(super) fn schema_field(word: &'static str) -> Option<SchemaField> {
    let (name, Shape { kind, count, length }) = field(word)?;
    Some(SchemaField { name: name.to_owned(), kind, count, length, map: None })
}

fn parse(text: &'static str) -> FxHashMap<u16, KernelEvent> {
    let mut events: FxHashMap<u16, KernelEvent> = FxHashMap::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some((hook, name)) =
            words.next().and_then(|word| u16::from_str_radix(word, 16).ok()).zip(words.next())
        else {
            continue;
        };
        let event = KernelEvent { name, versions: Vec::new() };
        match words.next() {
            Some("=") => {
                let like = words.next().and_then(|word| u16::from_str_radix(word, 16).ok());
                let more: Vec<_> = words.filter_map(field).collect();
                let like = like
                    .and_then(|like| events.get(&like))
                    .map(|event| event.versions.clone())
                    .unwrap_or_default();
                let versions = like
                    .into_iter()
                    .map(|(from, fields)| (from, [fields, more.clone()].concat()))
                    .collect();
                events.insert(hook, KernelEvent { versions, ..event });
            }
            Some(from) => {
                let fields = (from.parse().unwrap_or(0), words.filter_map(field).collect());
                events.entry(hook).or_insert(event).versions.push(fields);
            }
            None => {
                events.insert(hook, event);
            }
        }
    }
    events
}

fn field(word: &'static str) -> Option<(&'static str, Shape)> {
    let (repeated, word) = word.strip_prefix('*').map_or((false, word), |word| (true, word));
    let (name, kind) = word.split_once(':')?;
    let (kind, length) = kind.split_once(':').map_or((kind, Count::Own), |(kind, length)| {
        (kind, length.parse().map_or(Count::Own, Count::Fixed))
    });
    let int = |kind: &str, signed, hex| {
        let bits: u8 = kind.get(1..)?.parse().ok()?;
        Some(FieldType::Int { bytes: bits / 8, signed, hex })
    };
    let kind = match kind {
        "ptr" => FieldType::Pointer,
        "size" => FieldType::Size,
        "f32" => FieldType::Float { bytes: 4 },
        "f64" => FieldType::Float { bytes: 8 },
        "bool" => FieldType::Bool { bytes: 4 },
        "text" => FieldType::Utf16,
        "ansi" => FieldType::Ansi,
        "guid" => FieldType::Guid,
        "filetime" => FieldType::FileTime,
        "sid" => FieldType::TokenUser,
        "ip4" => FieldType::Ipv4,
        "ip6" => FieldType::Ipv6,
        "port" => FieldType::Port,
        "bytes" => FieldType::Bytes,
        kind if kind.starts_with('u') => int(kind, false, false)?,
        kind if kind.starts_with('i') => int(kind, true, false)?,
        kind if kind.starts_with('x') => int(kind, false, true)?,
        _ => return None,
    };
    Some((name, Shape { kind, count: if repeated { Count::Rest } else { Count::Own }, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let text = include_str!("kernel_events.txt");
        let mut written = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(words.len() >= 2 && u16::from_str_radix(words[0], 16).is_ok(), "{line}");
            let fields = if words.get(2) == Some(&"=") {
                &words[4..]
            } else {
                words.get(3..).unwrap_or_default()
            };
            for word in fields {
                assert!(field(word).is_some(), "{word} in {line}");
                written += 1;
            }
            let event = event(u16::from_str_radix(words[0], 16).unwrap()).unwrap();
            assert_eq!(event.name, words[1]);
            if words.get(2) == Some(&"=") {
                assert!(!event.versions.is_empty(), "{line}");
            }
        }
        assert!(written > 300);
    }

    #[test]
    fn versions_have_their_own_fields() {
        let mut strings = Strings::default();
        let fields =
            |version, strings: &mut Strings| layout(0x301, version, 8, strings).fields.len();
        let lens: Vec<usize> = (0..7).map(|version| fields(version, &mut strings)).collect();
        assert_eq!(lens, [4, 7, 8, 9, 12, 12, 12]);
        assert_eq!(layout(0x327, 5, 8, &mut strings).fields.len(), 13);
        assert_eq!(layout(0xeeee, 5, 8, &mut strings).fields.len(), 0);
    }

    #[test]
    fn hooks_without_a_name_go_by_their_class_and_number() {
        let names =
            [hook::IMAGE_RSDS, hook::IMAGE_ID | 34, hook::SYS_CONFIG | 99, 0x0b77].map(name);
        assert_eq!(
            names,
            ["ImageID/DbgID_RSDS", "ImageID/opcode 34", "SysConfig/opcode 99", "event 0x0b77"]
        );
    }
}
