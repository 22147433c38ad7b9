//! Whether a file is Perfetto's.

use super::wire::{Fields, Value};

/// True if `bytes` begin with a packet: the field 1 of a `Trace`, whose content is fields, too.
/// They may be the beginning of a file alone.
pub(crate) fn is_perfetto(bytes: &[u8]) -> bool {
    /// Maximum number of packets that are looked at.
    const MAX_PACKETS: usize = 4;
    /// Greatest number of a field of a `TracePacket`, with room for new ones.
    const MAX_FIELD: u32 = 4096;
    if bytes.first() != Some(&0x0a) {
        return false;
    }
    let mut packets = Fields::new(bytes);
    let mut seen = 0;
    for (field, packet) in packets.by_ref().take(MAX_PACKETS) {
        let Value::Bytes(packet) = packet else { return false };
        let mut fields = Fields::new(packet);
        let is_packet = field == 1 && fields.by_ref().all(|(number, _)| number <= MAX_FIELD);
        if !is_packet || fields.is_damaged() {
            return false;
        }
        seen += packet.len();
    }
    match seen {
        0 => begins_long_packet(bytes),
        _ => !packets.is_damaged() || packets.rest().first() == Some(&0x0a),
    }
}

/// True if the first packet is longer than `bytes`, and begins with a field that packets begin
/// with.
fn begins_long_packet(bytes: &[u8]) -> bool {
    /// What text could be by chance is not enough, bytes.
    const MIN_LEN: usize = 4096;
    /// Fields with their kinds of values: events, times, the sequence, the configuration,
    /// compressed packets.
    const FIRST: [(u8, u8); 10] =
        [(1, 2), (2, 2), (3, 0), (6, 2), (8, 0), (10, 0), (12, 2), (13, 0), (33, 2), (50, 2)];
    let len_bytes = bytes[1..].iter().take(9).take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let Some(tag) = bytes.get(1 + len_bytes..).filter(|_| bytes.len() >= MIN_LEN) else {
        return false;
    };
    let number = match tag {
        [low, high, ..] if low & 0x80 != 0 => u32::from(low & 0x7f) | u32::from(*high) << 7,
        [low, ..] => u32::from(*low),
        [] => return false,
    };
    FIRST.iter().any(|(field, kind)| number == u32::from(*field) << 3 | u32::from(*kind))
}
