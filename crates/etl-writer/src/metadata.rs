//! Metadata: what merging tools add (system configuration, event descriptions), and events that
//! describe themselves (TraceLogging).

use crate::{Bytes, Extended, Guid, Header, Writer};

const SYS_CONFIG: Guid =
    Guid::new(0x9b79_ee91, 0xb5fd, 0x41c0, [0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0]);
const EVENT_METADATA: Guid =
    Guid::new(0xbbcc_f6c1, 0x6cd1, 0x48c4, [0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71]);
const LOST_EVENT: Guid =
    Guid::new(0x6a39_9ae0, 0x4bc6, 0x4de9, [0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e]);
/// Offset of a description's properties, and the length of one, bytes.
const PROPERTIES_AT: usize = 0x70;
const PROPERTY_LEN: usize = 24;

/// Types of fields: `TDH_INTYPE`.
#[allow(missing_docs, reason = "the names are those of the format")]
pub mod in_type {
    pub const UTF16: u16 = 1;
    pub const ANSI: u16 = 2;
    pub const U32: u16 = 8;
    pub const U64: u16 = 10;
}

fn classic(class: Guid, opcode: u8) -> Header {
    Header::Full { class, opcode, version: 2, pid: 4, tid: 8 }
}

/// Writes the DOS drive of an NT volume.
pub fn volume(writer: &mut Writer, cpu: u16, ns: u64, nt: &str, dos: &str) {
    writer.event(cpu, ns, &classic(SYS_CONFIG, 35), &Bytes::new().utf16(nt).utf16(dos).0);
}

/// Writes the build of Windows.
pub fn build_info(writer: &mut Writer, cpu: u16, ns: u64, lab: &str, product: &str) {
    let installed = writer.options().start_filetime;
    writer.event(
        cpu,
        ns,
        &classic(SYS_CONFIG, 32),
        &Bytes::new().u64(installed).utf16(lab).utf16(product).0,
    );
}

/// Writes `RT_LostEvent`: something before it is missing. 32 is an event, 33 a buffer.
pub fn lost_event(writer: &mut Writer, cpu: u16, ns: u64, opcode: u8) {
    writer.event(cpu, ns, &classic(LOST_EVENT, opcode), &[]);
}

/// A manifest event's description.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct Description<'a> {
    pub provider: Guid,
    pub provider_name: &'a str,
    pub id: u16,
    pub version: u8,
    pub opcode: u8,
    pub task: u16,
    pub task_name: &'a str,
    pub keyword: u64,
    /// Names and types.
    pub fields: &'a [(&'a str, u16)],
}

/// Writes the `TRACE_EVENT_INFO` of an event, like `xperf -merge` and WPR.
pub fn event_info(writer: &mut Writer, cpu: u16, ns: u64, event: &Description<'_>) {
    let strings_at = PROPERTIES_AT + event.fields.len() * PROPERTY_LEN;
    let mut strings = Bytes::new();
    let mut string = |text: &str| {
        let at = (strings_at + strings.len()) as u32;
        strings = std::mem::take(&mut strings).utf16(text);
        at
    };
    let (provider_at, task_at) = (string(event.provider_name), string(event.task_name));
    let names: Vec<u32> = event.fields.iter().map(|(name, _)| string(name)).collect();
    let mut info = Bytes::new()
        .raw(&event.provider.0)
        .raw(&[0; 16])
        .u16(event.id)
        .u8(event.version)
        .u8(0)
        .u8(4)
        .u8(event.opcode)
        .u16(event.task)
        .u64(event.keyword)
        .u32(0)
        .u32(provider_at)
        .raw(&[0; 12])
        .u32(task_at)
        .raw(&[0; 28])
        .u32(event.fields.len() as u32)
        .u32(event.fields.len() as u32)
        .u32(0);
    assert_eq!(info.len(), PROPERTIES_AT);
    for (&(_, kind), at) in event.fields.iter().zip(names) {
        let len = match kind {
            in_type::UTF16 | in_type::ANSI => 0,
            in_type::U64 => 8,
            _ => 4,
        };
        info = info.u32(0).u32(at).u16(kind).u16(0).u32(0).u16(1).u16(len).u32(0);
    }
    writer.event(cpu, ns, &classic(EVENT_METADATA, 32), &info.raw(&strings.0).0);
}

/// Writes an event that carries its own description. `fields` are names with TraceLogging's types,
/// which are those of [`in_type`].
pub fn trace_logging(
    writer: &mut Writer,
    (cpu, ns): (u16, u64),
    (pid, tid): (u32, u32),
    (provider, provider_name): (Guid, &str),
    name: &str,
    fields: &[(&str, u16)],
    payload: &Bytes,
) {
    let described = fields
        .iter()
        .fold(Bytes::new().u8(0).ansi(name), |out, (name, kind)| out.ansi(name).u8(*kind as u8));
    let sized = |body: Bytes| Bytes::new().u16(body.len() as u16 + 2).raw(&body.0).0;
    let extended = vec![
        Extended { kind: 0xb, data: sized(described) },
        Extended { kind: 0xc, data: sized(Bytes::new().ansi(provider_name)) },
    ];
    let header = Header::Manifest {
        provider,
        id: 0,
        version: 0,
        level: 5,
        opcode: 0,
        task: 0,
        keyword: 0,
        pid,
        tid,
        extended,
    };
    writer.event(cpu, ns, &header, &payload.0);
}
