//! The packets of a file: their heads, and the events in them.

use super::bits::{Bits, Values};
use super::metadata::{Event, Metadata, Stream};

/// What a packet says before its events.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PacketHead {
    pub cpu: u16,
    /// Ticks of the clock.
    pub begin: u64,
    pub end: u64,
    /// Events of this file that were dropped up to the packet's end.
    pub discarded: u64,
}

/// An event, with its fields in the values that it was read into.
pub(super) struct Found<'t> {
    /// Ticks of the clock.
    pub time: u64,
    pub event: &'t Event,
}

/// Reads the events of a file one after the other.
pub(super) struct Packets<'t, 'a> {
    metadata: &'t Metadata,
    rest: &'a [u8],
    packet: Option<Packet<'t, 'a>>,
    /// True if something could not be read.
    pub is_damaged: bool,
}

struct Packet<'t, 'a> {
    stream: &'t Stream,
    bits: Bits<'a>,
    clock: u64,
}

const MAGIC: u64 = 0xc1fc_1fc1;

impl<'t, 'a> Packets<'t, 'a> {
    pub fn new(metadata: &'t Metadata, bytes: &'a [u8]) -> Self {
        Self { metadata, rest: bytes, packet: None, is_damaged: false }
    }

    /// What is left of the file.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Begins the next packet; `None` at the end of the file, or where it is damaged.
    pub fn next_packet(&mut self, values: &mut Values<'t, 'a>) -> Option<PacketHead> {
        if self.rest.is_empty() {
            return None;
        }
        let head = self.head(values);
        self.is_damaged |= head.is_none();
        head
    }

    fn head(&mut self, values: &mut Values<'t, 'a>) -> Option<PacketHead> {
        let types = &self.metadata.types;
        let mut bits = Bits::new(self.rest);
        values.begin_packet();
        if let Some(header) = self.metadata.packet_header {
            values.read(types, header, "", &mut bits)?;
        }
        if values.number("magic").is_some_and(|magic| magic != MAGIC) {
            return None;
        }
        let stream = self.metadata.streams.get(&values.number("stream_id").unwrap_or(0))?;
        if let Some(context) = stream.packet_context {
            values.read(types, context, "", &mut bits)?;
        }
        let all = self.rest.len() as u64 * 8;
        let content = values.number("content_size").unwrap_or(all);
        let packet = values.number("packet_size").unwrap_or(all);
        bits.end_at(content.min(packet));
        // One that takes no space, or less than its head, would be read again and again.
        let len = usize::try_from(packet / 8).ok().filter(|len| *len > 0)?;
        if packet < bits.position() {
            return None;
        }
        self.is_damaged |= len > self.rest.len();
        self.rest = self.rest.get(len..).unwrap_or_default();
        let begin = values.number("timestamp_begin").unwrap_or(0);
        let head = PacketHead {
            cpu: u16::try_from(values.number("cpu_id").unwrap_or(0)).ok()?,
            begin,
            end: values.number("timestamp_end").unwrap_or(begin),
            discarded: values.number("events_discarded").unwrap_or(0),
        };
        self.packet = Some(Packet { stream, bits, clock: begin });
        Some(head)
    }

    /// Reads the packet's next event into `values`; `None` at its end.
    pub fn next_event(&mut self, values: &mut Values<'t, 'a>) -> Option<Found<'t>> {
        let packet = self.packet.as_mut().filter(|packet| !packet.bits.is_at_end())?;
        let before = packet.bits.position();
        let found = packet.event(self.metadata, values);
        // An event without a bit would come again and again.
        if found.is_none() || packet.bits.position() == before {
            self.packet = None;
            self.is_damaged = true;
            return None;
        }
        found
    }
}

impl<'t, 'a> Packet<'t, 'a> {
    fn event(&mut self, metadata: &'t Metadata, values: &mut Values<'t, 'a>) -> Option<Found<'t>> {
        let (types, bits) = (&metadata.types, &mut self.bits);
        values.clear();
        if let Some(header) = self.stream.event_header {
            values.read(types, header, "", bits)?;
        }
        let id = values.number("id").unwrap_or(0);
        if let Some((low, len)) = values.clock.take() {
            self.clock = later(self.clock, low, len);
        }
        let event = self.stream.events.get(&id)?;
        for context in [self.stream.event_context, event.context].into_iter().flatten() {
            values.read(types, context, "", bits)?;
        }
        values.end_contexts();
        if let Some(fields) = event.fields {
            values.read(types, fields, "", bits)?;
        }
        Some(Found { time: self.clock, event })
    }
}

/// The first time from `clock` on whose lower `len` bits are `low`.
fn later(clock: u64, low: u64, len: u32) -> u64 {
    if len >= 64 {
        return low;
    }
    let mask = (1 << len) - 1;
    let time = clock & !mask | low & mask;
    if time < clock { time.wrapping_add(mask + 1) } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_run_over() {
        assert_eq!(later(0x1_00f0, 0xf5, 8), 0x1_00f5);
        assert_eq!(later(0x1_00f0, 0x05, 8), 0x1_0105);
        assert_eq!(later(7, 3, 64), 3);
    }
}
