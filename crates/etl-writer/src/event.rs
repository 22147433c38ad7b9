//! Event headers of all kinds, each with the payload that follows it.

use crate::Bytes;

/// A GUID as it lies in memory: the first three parts are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// From the printed parts, `{a-b-c-d}`, with the last two parts together.
    pub const fn new(a: u32, b: u16, c: u16, d: [u8; 8]) -> Self {
        let ([a0, a1, a2, a3], [b0, b1], [c0, c1], [d0, d1, d2, d3, d4, d5, d6, d7]) =
            (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes(), d);
        Self([a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, d2, d3, d4, d5, d6, d7])
    }

    /// The 32 upper-case hexadecimal digits that symbol stores use.
    pub fn digits(&self) -> String {
        let [a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..] = self.0;
        let head = format!(
            "{:08X}{:04X}{:04X}",
            u32::from_le_bytes([a0, a1, a2, a3]),
            u16::from_le_bytes([b0, b1]),
            u16::from_le_bytes([c0, c1])
        );
        rest.iter().fold(head, |text, byte| format!("{text}{byte:02X}"))
    }
}

/// An item of an event's extended data.
#[derive(Clone, Debug)]
pub struct Extended {
    /// 1 related activity, 6 stack of 64-bit addresses, 0xB TraceLogging description, 0xC provider
    /// traits, and so on.
    pub kind: u16,
    /// Its content.
    pub data: Vec<u8>,
}

/// The header before an event's payload.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub enum Header {
    /// `SYSTEM_TRACE_HEADER`: the kernel's events that name their thread.
    System { hook: u16, version: u16, pid: u32, tid: u32 },
    /// The same without CPU times.
    Compact { hook: u16, version: u16, pid: u32, tid: u32 },
    /// `PERFINFO_TRACE_HEADER`: the kernel's frequent events.
    PerfInfo { hook: u16, version: u16 },
    /// `EVENT_TRACE_HEADER`: classic providers, and what merging adds.
    Full { class: Guid, opcode: u8, version: u16, pid: u32, tid: u32 },
    /// `EVENT_INSTANCE_HEADER`: the same with the ids of this and the parent transaction, and the
    /// parent's class.
    Instance { class: Guid, opcode: u8, version: u16, pid: u32, tid: u32 },
    /// `WMI_TRACE_MESSAGE_PACKET` of WPP, with sequence number, GUID, time, process and thread
    /// before the arguments.
    Message { of: Guid, number: u16, pid: u32, tid: u32 },
    /// `EVENT_HEADER`: manifest providers and TraceLogging.
    Manifest {
        provider: Guid,
        id: u16,
        version: u8,
        level: u8,
        opcode: u8,
        task: u16,
        keyword: u64,
        pid: u32,
        tid: u32,
        extended: Vec<Extended>,
    },
}

/// The marker byte of a header.
const MARKER: u8 = 0xc0;
/// The marker of WPP, and flags for the items before a message's arguments.
const WPP_MARKER: u8 = 0x90;
const WPP_SEQUENCE: u16 = 1;
const WPP_GUID: u16 = 2;
const WPP_TIME: u16 = 8;
const WPP_IDS: u16 = 0x20;

impl Header {
    /// The whole event, without padding. `width` is the length of a pointer in bytes, which decides
    /// between a type's two variants.
    pub(crate) fn encode(&self, width: u8, ticks: u64, payload: &[u8]) -> Vec<u8> {
        let wide = u8::from(width == 8);
        let size = |header: usize| {
            u16::try_from(header + payload.len()).expect("an event is shorter than 64 KiB")
        };
        let bytes = match self {
            Self::System { hook, version, pid, tid } => Bytes::new()
                .u16(*version)
                .u8(1 + wide)
                .u8(MARKER)
                .u16(size(32))
                .u16(*hook)
                .u32(*tid)
                .u32(*pid)
                .u64(ticks)
                .u64(0),
            Self::Compact { hook, version, pid, tid } => Bytes::new()
                .u16(*version)
                .u8(3 + wide)
                .u8(MARKER)
                .u16(size(24))
                .u16(*hook)
                .u32(*tid)
                .u32(*pid)
                .u64(ticks),
            Self::PerfInfo { hook, version } => Bytes::new()
                .u16(*version)
                .u8(0x10 + wide)
                .u8(MARKER)
                .u16(size(16))
                .u16(*hook)
                .u64(ticks),
            Self::Full { class, opcode, version, pid, tid }
            | Self::Instance { class, opcode, version, pid, tid } => {
                let is_instance = matches!(self, Self::Instance { .. });
                let bytes = Bytes::new()
                    .u16(size(if is_instance { 72 } else { 48 }))
                    .u8(if wide == 1 { 0x14 } else { 0x0a } + u8::from(is_instance))
                    .u8(MARKER)
                    .u8(*opcode)
                    .u8(0)
                    .u16(*version)
                    .u32(*tid)
                    .u32(*pid)
                    .u64(ticks)
                    .raw(&class.0)
                    .u64(0);
                if is_instance { bytes.u32(7).u32(6).raw(&[0; 16]) } else { bytes }
            }
            Self::Message { of, number, pid, tid } => Bytes::new()
                .u16(size(44))
                .u8(0)
                .u8(WPP_MARKER)
                .u16(*number)
                .u16(WPP_SEQUENCE | WPP_GUID | WPP_TIME | WPP_IDS)
                .u32(1)
                .raw(&of.0)
                .u64(ticks)
                .u32(*tid)
                .u32(*pid),
            Self::Manifest { .. } => self.encode_manifest(wide, ticks, payload.len()),
        };
        bytes.raw(payload).0
    }

    /// `EVENT_HEADER` with its extended items.
    fn encode_manifest(&self, wide: u8, ticks: u64, payload_len: usize) -> Bytes {
        let Self::Manifest {
            provider,
            id,
            version,
            level,
            opcode,
            task,
            keyword,
            pid,
            tid,
            extended,
        } = self
        else {
            unreachable!("not a manifest event")
        };
        let items = extended_items(extended);
        let flags = 0x20 << wide | u16::from(!items.is_empty());
        let size = u16::try_from(80 + items.len() + payload_len);
        Bytes::new()
            .u16(size.expect("an event is shorter than 64 KiB"))
            .u8(0x12 + wide)
            .u8(MARKER)
            .u16(flags)
            .u16(0)
            .u32(*tid)
            .u32(*pid)
            .u64(ticks)
            .raw(&provider.0)
            .u16(*id)
            .u8(*version)
            .u8(0)
            .u8(*level)
            .u8(*opcode)
            .u16(*task)
            .u64(*keyword)
            .u64(0)
            .raw(&[0; 16])
            .raw(&items)
    }
}

fn extended_items(items: &[Extended]) -> Vec<u8> {
    let last = items.len().saturating_sub(1);
    let item = |(number, item): (usize, &Extended)| {
        let size = u16::try_from(item.data.len()).expect("an item is shorter than 64 KiB");
        Bytes::new()
            .u16(0)
            .u16(item.kind)
            .u16(u16::from(number < last))
            .u16(size)
            .raw(&item.data)
            .align(8)
            .0
    };
    items.iter().enumerate().flat_map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_their_lengths() {
        let lens = [
            Header::System { hook: 0x301, version: 4, pid: 1, tid: 2 },
            Header::Compact { hook: 0x301, version: 4, pid: 1, tid: 2 },
            Header::PerfInfo { hook: 0x524, version: 4 },
            Header::Full { class: Guid::default(), opcode: 36, version: 2, pid: 1, tid: 2 },
            Header::Instance { class: Guid::default(), opcode: 36, version: 2, pid: 1, tid: 2 },
            Header::Message { of: Guid::default(), number: 9, pid: 1, tid: 2 },
        ]
        .map(|header| header.encode(8, 0x1122_3344_5566_7788, &[]).len());
        assert_eq!(lens, [32, 24, 16, 48, 72, 44]);
        let extended =
            vec![Extended { kind: 1, data: vec![1; 16] }, Extended { kind: 6, data: vec![2; 3] }];
        let header = Header::Manifest {
            provider: Guid::default(),
            id: 38,
            version: 0,
            level: 4,
            opcode: 0,
            task: 0,
            keyword: 0,
            pid: 1,
            tid: 2,
            extended,
        };
        let bytes = header.encode(8, 0, b"payload");
        assert_eq!(bytes.len(), 80 + 24 + 16 + 7);
        assert_eq!((bytes[2], bytes[3], bytes[4], bytes[84], bytes[108]), (0x13, 0xc0, 0x41, 1, 0));
        assert_eq!(bytes[..2], (bytes.len() as u16).to_le_bytes());
    }

    #[test]
    fn digits_are_those_of_a_symbol_store() {
        let guid = Guid::new(
            0x3844_dbb9,
            0x2017,
            0x4967,
            [0xbe, 0x7a, 0xa4, 0xa2, 0xc2, 0x04, 0x30, 0xfa],
        );
        assert_eq!(guid.digits(), "3844DBB920174967BE7AA4A2C20430FA");
    }
}
