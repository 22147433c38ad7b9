//! Events of the .NET runtime about methods and their code (`ClrEtwAll.man`).

use crate::{Bytes, Guid, Header, Writer};

/// Microsoft-Windows-DotNETRuntime, which reports changes.
pub const RUNTIME: Guid =
    Guid::new(0xe13c_0d23, 0xccbc, 0x4e12, [0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4]);
/// Microsoft-Windows-DotNETRuntimeRundown, which lists what exists.
pub const RUNDOWN: Guid =
    Guid::new(0xa669_021c, 0xc450, 0x4609, [0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18]);

/// What an event records about a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the format")]
pub enum MethodChange {
    Load,
    Unload,
    DcStart,
    DcEnd,
}

/// A method's machine code.
#[derive(Clone, Copy, Debug)]
pub struct Method<'a> {
    /// The runtime's id of the method.
    pub id: u64,
    /// The runtime's id of the module.
    pub module: u64,
    /// First address of the code.
    pub start: u64,
    /// Length of the code, bytes.
    pub len: u32,
    /// True if compiled at run time, not ahead of time.
    pub jitted: bool,
    /// Type, name and signature. Without them, the event is not a verbose one.
    pub names: Option<(&'a str, &'a str, &'a str)>,
}

fn header(provider: Guid, id: u16, (pid, tid): (u32, u32)) -> Header {
    Header::Manifest {
        provider,
        id,
        version: 1,
        level: 5,
        opcode: 0,
        task: 9,
        keyword: 0x10,
        pid,
        tid,
        extended: Vec::new(),
    }
}

/// Writes `MethodLoad`, `MethodUnload`, `MethodDCStart` or `MethodDCEnd`; the verbose variant if
/// the method has names.
pub fn method(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    change: MethodChange,
    method: &Method<'_>,
) {
    let provider =
        if matches!(change, MethodChange::Load | MethodChange::Unload) { RUNTIME } else { RUNDOWN };
    let id = match change {
        MethodChange::Load | MethodChange::DcStart => 141,
        MethodChange::Unload | MethodChange::DcEnd => 142,
    };
    let flags = if method.jitted { 8 } else { 0 };
    let numbers = Bytes::new()
        .u64(method.id)
        .u64(method.module)
        .u64(method.start)
        .u32(method.len)
        .u32(0x600_0001)
        .u32(flags);
    let (id, payload) = match method.names {
        Some((of, name, signature)) => (id + 2, numbers.utf16(of).utf16(name).utf16(signature)),
        None => (id, numbers),
    };
    writer.event(cpu, ns, &header(provider, id, thread), &payload.u16(9).0);
}

/// Writes `ModuleLoad`, which has the file of a module.
pub fn module(writer: &mut Writer, cpu: u16, ns: u64, thread: (u32, u32), module: u64, path: &str) {
    let payload = Bytes::new().u64(module).u64(1).u32(0).u32(0).utf16(path).utf16("").u16(9);
    writer.event(cpu, ns, &header(RUNTIME, 152, thread), &payload.0);
}
