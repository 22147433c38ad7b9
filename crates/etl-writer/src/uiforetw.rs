//! UIforETW's providers: keys, the mouse, and marks (`etwproviders.man`).

use crate::{Bytes, Guid, Header, Writer};

/// Keys and the mouse.
pub const INPUT: Guid =
    Guid::new(0x70e2_503b, 0xc6f3, 0x4780, [0xb3, 0x23, 0xbd, 0x8e, 0xd0, 0xc6, 0x1b, 0xf8]);
/// Marks and measured values.
pub const MAIN: Guid =
    Guid::new(0x231c_f54b, 0x22a0, 0x49e4, [0xa5, 0x9a, 0x47, 0x05, 0x2a, 0x30, 0xff, 0xed]);
/// Displayed frames.
pub const FRAME_RATE: Guid =
    Guid::new(0x2b25_961d, 0xba6e, 0x4d79, [0xbe, 0xc7, 0x36, 0x05, 0x36, 0x6e, 0x2e, 0x09]);
const INFORMATION: u8 = 14;
const MARK: u8 = 13;
const BEGIN: u8 = 10;
const END: u8 = 11;

fn header(provider: Guid, id: u16, opcode: u8, (pid, tid): (u32, u32)) -> Header {
    Header::Manifest {
        provider,
        id,
        version: 0,
        level: 4,
        opcode,
        task: id,
        keyword: 1,
        pid,
        tid,
        extended: Vec::new(),
    }
}

/// Writes a key press. UIforETW's private mode names every letter `A` and every digit `0`.
pub fn key_down(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    virtual_key: u32,
    name: &str,
) {
    let payload = Bytes::new().u32(virtual_key).ansi(name).u32(1).u32(0);
    writer.event(cpu, ns, &header(INPUT, 404, INFORMATION, thread), &payload.0);
}

/// Writes a mouse button going down or up.
pub fn mouse_button(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    down: bool,
    (x, y): (i32, i32),
) {
    let payload = Bytes::new().u32(0).u32(0).u32(x as u32).u32(y as u32);
    writer.event(
        cpu,
        ns,
        &header(INPUT, if down { 400 } else { 401 }, INFORMATION, thread),
        &payload.0,
    );
}

/// Writes a move of the pointer.
pub fn mouse_move(writer: &mut Writer, cpu: u16, ns: u64, thread: (u32, u32), (x, y): (i32, i32)) {
    let payload = Bytes::new().u32(0).u32(x as u32).u32(y as u32);
    writer.event(cpu, ns, &header(INPUT, 402, INFORMATION, thread), &payload.0);
}

/// Writes a mark with a text of the program or the user.
pub fn mark(writer: &mut Writer, cpu: u16, ns: u64, thread: (u32, u32), text: &str) {
    writer.event(cpu, ns, &header(MAIN, 102, MARK, thread), &Bytes::new().ansi(text).0);
}

/// Writes the begin of a program's work, nested `depth` deep.
pub fn begin(writer: &mut Writer, cpu: u16, ns: u64, thread: (u32, u32), text: &str, depth: u32) {
    writer.event(cpu, ns, &header(MAIN, 100, BEGIN, thread), &Bytes::new().ansi(text).u32(depth).0);
}

/// Writes the end of it.
pub fn end(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    (text, depth): (&str, u32),
    took_ms: f32,
) {
    writer.event(
        cpu,
        ns,
        &header(MAIN, 101, END, thread),
        &Bytes::new().ansi(text).u32(depth).f32(took_ms).0,
    );
}

/// Writes a mark with one to four integers.
pub fn mark_ints(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    text: &str,
    numbers: &[i32],
) {
    let payload =
        numbers.iter().fold(Bytes::new().ansi(text), |out, number| out.u32(*number as u32));
    writer.event(
        cpu,
        ns,
        &header(MAIN, [104, 105, 118, 119][numbers.len() - 1], MARK, thread),
        &payload.0,
    );
}

/// Writes a mark with one to four floating-point numbers.
pub fn mark_floats(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    text: &str,
    numbers: &[f32],
) {
    let payload = numbers.iter().fold(Bytes::new().ansi(text), |out, number| out.f32(*number));
    writer.event(
        cpu,
        ns,
        &header(MAIN, [106, 107, 116, 117][numbers.len() - 1], MARK, thread),
        &payload.0,
    );
}

/// Writes a displayed frame.
pub fn frame(
    writer: &mut Writer,
    cpu: u16,
    ns: u64,
    thread: (u32, u32),
    number: u32,
    took_ms: f32,
) {
    writer.event(
        cpu,
        ns,
        &header(FRAME_RATE, 200, MARK, thread),
        &Bytes::new().u32(number).f32(took_ms).0,
    );
}
