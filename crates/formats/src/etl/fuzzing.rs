//! Entry points to single readers, for fuzz targets: mutated bytes of a whole `.etl` would reach
//! them too seldom.
//!
//! Each returns something comparable, so that a target can check that reading twice gives the same
//! result.

use super::{manifest, schema, trace_logging, xpress};

/// Unpacks XPRESS. The error is the offset of the damage.
pub fn unpack(packed: &[u8], len: usize) -> (Vec<u8>, Result<(), usize>) {
    let mut out = Vec::new();
    let result = xpress::unpack(packed, len, &mut out);
    (out, result)
}

/// Reads a manifest. Returns its provider and the numbers of events, fields and map entries.
pub fn manifest(xml: &str) -> (String, usize, usize, usize) {
    let described = manifest::read([0; 16], xml);
    let fields = described.events.iter().map(|(_, schema)| schema.fields.len()).sum();
    let entries = described.maps.iter().map(|(_, map)| map.entries.len()).sum();
    (described.provider, described.events.len(), fields, entries)
}

/// Reads the description that a TraceLogging event carries. Returns its name and the number of
/// fields.
pub fn trace_logging(schema: &[u8]) -> Option<(String, usize)> {
    trace_logging::schema(schema).map(|schema| (schema.name, schema.fields.len()))
}

/// Reads a provider's name from its traits.
pub fn provider(traits: &[u8]) -> Option<String> {
    trace_logging::provider(traits)
}

/// Reads a `TRACE_EVENT_INFO`.
pub fn event_info(bytes: &[u8]) -> Option<(String, usize)> {
    schema::event_info(bytes).map(|(_, schema)| (schema.name, schema.fields.len()))
}

/// Reads an `EVENT_MAP_INFO`.
pub fn map_info(bytes: &[u8]) -> Option<(String, usize)> {
    schema::map_info(bytes).map(|(name, map)| (name, map.entries.len()))
}
