//! Manifests of .NET's EventSource: XML that a provider writes into the trace in chunks, as events
//! of its own.
//!
//! This reads only what an EventSource writes: XML's five entities but no others, and no structs.

use super::{
    buffer::u16_at,
    kernel,
    schema::{MAX_ENTRIES, MAX_NAME_LEN, Map, Schema, SchemaField, Subject, event_name, in_type},
};
use rustc_hash::FxHashMap;
use unhitch_model::Count;

/// The event that carries a part of a manifest.
pub(super) const EVENT_ID: u16 = 0xfffe;

/// The fields of that event.
pub(super) fn chunk_schema() -> Schema {
    let words = [
        "Format:u8",
        "MajorVersion:u8",
        "MinorVersion:u8",
        "Magic:u8",
        "TotalChunks:u16",
        "ChunkNumber:u16",
        "Manifest:ansi",
    ];
    Schema {
        name: "ManifestData".to_owned(),
        fields: words.into_iter().filter_map(kernel::schema_field).collect(),
        ..Schema::default()
    }
}

/// Chunks of manifests by provider, until all are there.
#[derive(Default)]
pub(super) struct Chunks(FxHashMap<[u8; 16], Vec<Option<Vec<u8>>>>);

/// Maximum memory for the fields of events: this many times the manifest's length.
const MAX_GROWTH: usize = 16;

/// Maximum number of chunks. A manifest has up to a few hundred KiB.
const MAX_CHUNKS: u16 = 256;

impl Chunks {
    /// Adds an event's payload. The last missing chunk returns the whole text.
    pub(super) fn add(&mut self, guid: [u8; 16], payload: &[u8]) -> Option<String> {
        let [1, _, _, 0x5b] = *payload.first_chunk::<4>()? else { return None };
        let (total, index) = (u16_at(payload, 4)?.min(MAX_CHUNKS), u16_at(payload, 6)?);
        let text = payload.get(8..)?;
        let chunks = self.0.entry(guid).or_default();
        if chunks.len() != usize::from(total) {
            *chunks = vec![None; usize::from(total)];
        }
        *chunks.get_mut(usize::from(index))? = Some(text.to_vec());
        let whole: Option<Vec<&[u8]>> = chunks.iter().map(Option::as_deref).collect();
        let whole = whole.map(|chunks| String::from_utf8_lossy(&chunks.concat()).into_owned());
        if whole.is_some() {
            self.0.remove(&guid);
        }
        whole
    }
}

/// What a manifest describes.
#[derive(Default)]
pub(super) struct Described {
    pub provider: String,
    pub events: Vec<(Subject, Schema)>,
    pub maps: Vec<(String, Map)>,
}

/// Reads the manifest of the provider `guid`.
pub(super) fn read(guid: [u8; 16], xml: &str) -> Described {
    let mut described = Described::default();
    let (mut tasks, mut opcodes) = (FxHashMap::default(), FxHashMap::default());
    let mut strings: FxHashMap<String, String> = FxHashMap::default();
    let mut templates: FxHashMap<String, Template> = FxHashMap::default();
    let (mut template, mut events) = (String::new(), Vec::new());
    for tag in tags(xml) {
        let attribute = |name: &str| {
            tag.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        };
        let number = |name: &str| attribute(name).and_then(|text| parse_number(&text));
        match tag.name {
            "provider" => described.provider = attribute("name").unwrap_or_default(),
            "task" => {
                tasks.insert(attribute("name").unwrap_or_default(), number("value").unwrap_or(0));
            }
            "opcode" => {
                opcodes.insert(attribute("name").unwrap_or_default(), number("value").unwrap_or(0));
            }
            "string" => {
                strings.insert(
                    attribute("id").unwrap_or_default(),
                    attribute("value").unwrap_or_default(),
                );
            }
            "event" => events.push((
                number("value").unwrap_or(0) as u16,
                number("version").unwrap_or(0) as u8,
                attribute("symbol").unwrap_or_default(),
                attribute("task").unwrap_or_default(),
                attribute("opcode").unwrap_or_default(),
                attribute("template"),
            )),
            "template" => template = attribute("tid").unwrap_or_default(),
            "data" => {
                let template = templates.entry(template.clone()).or_default();
                if let Some(field) = field(&attribute, &template.places) {
                    template.push(field);
                }
            }
            "valueMap" | "bitMap" => {
                let map = Map { bits: tag.name == "bitMap", entries: Vec::new() };
                described.maps.push((attribute("name").unwrap_or_default(), map));
            }
            "map" => {
                let last = described.maps.last_mut();
                let last = last.filter(|(_, map)| map.entries.len() < MAX_ENTRIES);
                if let (Some((_, map)), Some(value)) = (last, number("value")) {
                    map.entries.push((value, attribute("message").unwrap_or_default()));
                }
            }
            _ => {}
        }
    }
    for (_, map) in &mut described.maps {
        for (_, text) in &mut map.entries {
            let id = text.strip_prefix("$(string.").and_then(|text| text.strip_suffix(')'));
            if let Some(string) = id.and_then(|id| strings.get(id)) {
                *text = string.clone();
            }
        }
    }
    // Events share templates. Together, their fields should not take much more memory than the
    // text.
    let mut allowed = xml.len().saturating_mul(MAX_GROWTH);
    for (id, version, symbol, task, opcode, template) in events {
        let value = opcodes.get(&opcode).copied().or(standard_opcode(&opcode)).unwrap_or(0) as u8;
        // Without a task, the symbol is the name.
        let name = if task.is_empty() { symbol } else { event_name(&task, &opcode, value, id) };
        let template = template.and_then(|template| templates.get(&template)).filter(|template| {
            allowed.checked_sub(template.cost).map(|rest| allowed = rest).is_some()
        });
        let fields = template.map(|template| template.fields.clone()).unwrap_or_default();
        let subject = Subject { guid, id, version, classic: false };
        // The provider's name is left out: the GUID has it, and a copy in each event would multiply
        // it by the number of events.
        described.events.push((subject, Schema { provider: String::new(), name, fields }));
    }
    described
}

/// The fields of events.
#[derive(Default)]
struct Template {
    fields: Vec<SchemaField>,
    /// The place of the first field of each name.
    places: FxHashMap<String, usize>,
    /// Memory that a copy of the fields takes, bytes.
    cost: usize,
}

impl Template {
    fn push(&mut self, field: SchemaField) {
        let texts = field.name.len() + field.map.as_ref().map_or(0, String::len);
        self.cost += size_of::<SchemaField>() + texts;
        self.places.entry(field.name.clone()).or_insert(self.fields.len());
        self.fields.push(field);
    }
}

fn standard_opcode(name: &str) -> Option<u64> {
    Some(match name {
        "win:Start" => 1,
        "win:Stop" => 2,
        "win:Send" => 9,
        "win:Receive" => 240,
        _ => return None,
    })
}

fn field(
    attribute: &impl Fn(&str) -> Option<String>,
    before: &FxHashMap<String, usize>,
) -> Option<SchemaField> {
    let kind = attribute("inType")?;
    let kind = match kind.strip_prefix("win:").unwrap_or(&kind) {
        "UnicodeString" => 1,
        "AnsiString" => 2,
        "Int8" => 3,
        "UInt8" => 4,
        "Int16" => 5,
        "UInt16" => 6,
        "Int32" => 7,
        "UInt32" => 8,
        "Int64" => 9,
        "UInt64" => 10,
        "Float" => 11,
        "Double" => 12,
        "Boolean" => 13,
        "Binary" => 14,
        "GUID" => 15,
        "Pointer" => 16,
        "FILETIME" => 17,
        "SYSTEMTIME" => 18,
        "SID" => 19,
        "HexInt32" => 20,
        "HexInt64" => 21,
        _ => return None,
    };
    let count = |name: &str| match attribute(name) {
        None => Count::Own,
        Some(text) => match parse_number(&text) {
            Some(number) => Count::Fixed(number as u16),
            None => before.get(&text).map_or(Count::Own, |at| Count::Field(*at as u16)),
        },
    };
    let (kind, _) = in_type(kind, 0)?;
    Some(SchemaField {
        name: attribute("name")?,
        kind,
        count: count("count"),
        length: count("length"),
        map: attribute("map"),
    })
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

struct Tag<'a> {
    name: &'a str,
    attributes: Vec<(String, String)>,
}

/// The opening tags of an XML text.
fn tags(xml: &str) -> impl Iterator<Item = Tag<'_>> {
    xml.split('<').skip(1).filter_map(|text| {
        let text = text.split('>').next()?;
        let name_len = text.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(text.len());
        let (name, mut rest) = text.split_at_checked(name_len)?;
        let mut attributes = Vec::new();
        while let Some((key, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let Some(quote) = after.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
                break;
            };
            let Some((value, after)) = after.get(1..).and_then(|text| text.split_once(quote))
            else {
                break;
            };
            attributes.push((key.trim().to_owned(), unescape(beginning(value))));
            rest = after;
        }
        (!name.is_empty()).then_some(Tag { name, attributes })
    })
}

/// The start of a text, up to [`MAX_NAME_LEN`]: many elements may refer to one text.
fn beginning(text: &str) -> &str {
    let end = (0..=MAX_NAME_LEN.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<instrumentationManifest><provider name="P" guid="{x}"><tasks><task name="Work" value="0xfffe"/></tasks>
        <maps><valueMap name="Colour"><map value="0x1" message="$(string.red)"/></valueMap></maps>
        <events><event value="3" version="1" level="win:Informational" symbol="WorkStart" opcode="win:Start" task="Work" template="A"/>
        <event value="4" version="0" symbol="Plain"/></events>
        <templates><template tid="A"><data name="Count" inType="win:UInt32"/><data name="Text" inType='win:UnicodeString'/>
        <data name="Bytes" inType="win:Binary" length="Count"/></template></templates>
        <string id="red" value="Red &amp; hot"/></provider></instrumentationManifest>"#;

    #[test]
    fn a_manifest_in_chunks_is_read() {
        let guid = [7; 16];
        let mut chunks = Chunks::default();
        let (first, second) = XML.as_bytes().split_at(300);
        assert_eq!(chunks.add(guid, &[&[1, 1, 0, 0x5b, 2, 0, 1, 0][..], second].concat()), None);
        let xml = chunks.add(guid, &[&[1, 1, 0, 0x5b, 2, 0, 0, 0][..], first].concat()).unwrap();
        let described = read(guid, &xml);
        assert_eq!(described.maps[0].1.entries, [(1, "Red & hot".to_owned())]);
        let [(start, schema), (plain, other)] = described.events.as_slice() else { panic!() };
        assert_eq!(
            (start.id, start.version, schema.name.as_str(), described.provider.as_str()),
            (3, 1, "Work/Start", "P")
        );
        assert_eq!((plain.id, other.name.as_str(), other.fields.len()), (4, "Plain", 0));
        let fields: Vec<(&str, Count)> =
            schema.fields.iter().map(|field| (field.name.as_str(), field.length)).collect();
        assert_eq!(
            fields,
            [("Count", Count::Own), ("Text", Count::Own), ("Bytes", Count::Field(0))]
        );
    }

    #[test]
    fn no_text_breaks_it() {
        for end in 0..XML.len() {
            read([0; 16], XML.get(..end).unwrap_or_default());
            read([0; 16], XML.get(end..).unwrap_or_default());
        }
        assert_eq!(Chunks::default().add([0; 16], &[1, 0, 0, 0x5b, 0xff, 0xff, 0xff, 0xff]), None);
    }

    /// All fields name the last one as their length, and all events share them.
    #[test]
    fn many_fields_of_many_events_are_read_in_the_time_of_their_text() {
        const MANY: usize = 100_000;
        let field =
            |n: usize| format!("<data name='f{n}' inType='win:Binary' length='f{}'/>", n - 1);
        let event = |n: usize| format!("<event value='{n}' symbol='e' template='A'/>");
        let events: String = (0..MANY).map(event).collect();
        let fields: String = (1..MANY).map(field).collect();
        let xml = format!("{events}<template tid='A'>{fields}</template>");
        let described = read([7; 16], &xml);
        assert_eq!(described.events.len(), MANY);
        let fields = &described.events[0].1.fields;
        assert_eq!((fields[0].length, fields[1].length), (Count::Own, Count::Field(0)));
        let copied: usize = described.events.iter().map(|(_, schema)| schema.fields.len()).sum();
        assert!(copied * size_of::<SchemaField>() <= MAX_GROWTH * xml.len(), "{copied}");
    }
}
