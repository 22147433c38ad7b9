//! `Microsoft-Windows-Win32k`: user-interface threads that did not check their messages.

use crate::{Bytes, Guid, Header, Writer};

/// The provider since Windows 8.
pub const PROVIDER: Guid =
    Guid::new(0x8c41_6c79, 0xd49b, 0x4f01, [0xa4, 0x67, 0xe5, 0x6d, 0x3a, 0xa8, 0x23, 0x4c]);
/// The provider of Windows 7.
pub const PROVIDER_7: Guid =
    Guid::new(0xe7ef_96be, 0x969f, 0x414f, [0x97, 0xd7, 0x3d, 0xdb, 0x7b, 0x55, 0x8c, 0xcc]);
const UI_UNRESPONSIVENESS: u64 = 0x4_0000;
const FOCUS: u64 = 0x2000;

/// A delay, as in `MessageCheckDelay` (38) and `InputProcessDelay` (37).
#[derive(Clone, Copy, Default, Debug)]
pub struct Delay<'a> {
    /// `ThreadInfoFlags`: 2 visible windows, 4 new input, 0x20 ghosted, 0x800 foreground, and so
    /// on.
    pub flags: u32,
    /// Time since the thread last checked its queue, milliseconds.
    pub delay_ms: u32,
    /// Time since it last took an input message, milliseconds.
    pub since_input_ms: u32,
    /// Time since the oldest input message arrived, milliseconds.
    pub oldest_input_ms: u32,
    /// Class of the window and image of the process; `None` before Windows 10.
    pub window: Option<(&'a str, &'a str)>,
    /// The unhandled message and its first parameter; written only with the window.
    pub message: (u32, u64),
}

/// The paint message.
pub const WM_PAINT: u32 = 0xf;

fn header(provider: Guid, id: u16, keyword: u64, (pid, tid): (u32, u32)) -> Header {
    Header::Manifest {
        provider,
        id,
        version: 0,
        level: 4,
        opcode: 0,
        task: id,
        keyword,
        pid,
        tid,
        extended: Vec::new(),
    }
}

fn tail(head: Bytes, delay: &Delay<'_>) -> Bytes {
    let (message, parameter) = delay.message;
    delay.window.iter().fold(head, |head, (class, image)| {
        head.utf16(class).utf16(class).utf16(image).u32(message).u64(parameter)
    })
}

/// Writes that `thread` checks its queue again after a delay.
pub fn message_check_delay(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    delay: &Delay<'_>,
) {
    let head = Bytes::new()
        .u32(delay.flags)
        .u32(delay.delay_ms)
        .u32(delay.since_input_ms)
        .u32(delay.oldest_input_ms);
    let provider = if delay.window.is_some() { PROVIDER } else { PROVIDER_7 };
    writer.event(cpu, ns, &header(provider, 38, UI_UNRESPONSIVENESS, thread), &tail(head, delay).0);
}

/// Writes that `thread` handled input late.
pub fn input_process_delay(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    delay: &Delay<'_>,
) {
    let head = Bytes::new().u32(delay.flags).u32(delay.since_input_ms).u32(delay.oldest_input_ms);
    let provider = if delay.window.is_some() { PROVIDER } else { PROVIDER_7 };
    writer.event(cpu, ns, &header(provider, 37, UI_UNRESPONSIVENESS, thread), &tail(head, delay).0);
}

/// Writes that the focus moves from one thread to another.
pub fn focus_change(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    old_tid: u32,
    new_tid: u32,
) {
    writer.event(
        cpu,
        ns,
        &header(PROVIDER, 2, FOCUS, thread),
        &Bytes::new().u32(old_tid).u32(new_tid).0,
    );
}
