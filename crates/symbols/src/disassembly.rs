//! Disassembles machine code around samples.
//!
//! Format: the Intel and AMD manuals, decoded with the `iced-x86` crate and printed like `objdump`
//! and `perf annotate` (AT&T syntax). *Why samples are needed*: x86 instructions have no fixed
//! length, but every sample was taken at the start of one. If no function is known, only samples
//! show where to begin.

use crate::machine_code::{Code, Isa};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter};

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Module offset, like [`Code::start`].
    pub offset: u64,
    /// The address that disassemblers show, like [`Code::start_address`].
    pub address: u64,
    /// Its length in bytes.
    pub len: u32,
    /// As text; `(bad)` if the bytes are not an instruction.
    pub text: String,
    /// The module offset that it jumps or may jump to, if the code has it; its own offset if it
    /// repeats itself. Calls do not count.
    pub target: Option<u64>,
    /// True when the next instruction may follow.
    pub falls_through: bool,
    /// True for a jump through a register or a table.
    pub jumps_anywhere: bool,
}

/// The instructions of `code`. `sampled` are module offsets, ascending, at which instructions are
/// known to start. `None` for machines other than x86.
pub fn disassemble(code: &Code, sampled: &[u64]) -> Option<Vec<Instruction>> {
    let Isa::X86 { bits } = code.isa else { return None };
    let sampled: Vec<usize> = sampled
        .iter()
        .filter_map(|offset| usize::try_from(offset.checked_sub(code.start)?).ok())
        .filter(|&at| at < code.bytes.len())
        .collect();
    let begin = match sampled.first() {
        Some(&first) if !code.is_function => {
            (0..first).find(|&begin| leads_to(code, bits, begin, first)).unwrap_or(first)
        }
        _ => 0,
    };
    let mut anchors = sampled.into_iter().filter(|&at| at > begin).peekable();
    let mut instructions = Vec::new();
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_rip_relative_addresses(true);
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_uppercase_hex(false);
    let mut decoder = decoder(code, bits, begin);
    while decoder.can_decode() {
        let at = decoder.position();
        let decoded = decoder.decode();
        while anchors.next_if(|&anchor| anchor <= at).is_some() {}
        // An instruction across a sampled address is data, or was entered in its middle.
        let anchor = anchors.peek().copied().filter(|&anchor| anchor < at + decoded.len());
        let len = anchor.map_or(decoded.len(), |anchor| anchor - at);
        if anchor.is_some() {
            move_to(&mut decoder, code, at + len);
        }
        let offset = code.start.wrapping_add(at as u64);
        let mut text = String::new();
        let is_bad = anchor.is_some() || decoded.is_invalid();
        match is_bad {
            true => text.push_str("(bad)"),
            false => formatter.format(&decoded, &mut text),
        }
        let flow = if is_bad { FlowControl::Exception } else { decoded.flow_control() };
        let repeats = decoded.is_string_instruction()
            && (decoded.has_rep_prefix() || decoded.has_repne_prefix());
        let target = match flow {
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => Some(
                decoded
                    .near_branch_target()
                    .wrapping_sub(code.start_address)
                    .wrapping_add(code.start),
            ),
            _ => (repeats && !is_bad).then_some(offset),
        };
        let is_breakpoint = decoded.code() == iced_x86::Code::Int3;
        instructions.push(Instruction {
            offset,
            address: code.start_address.wrapping_add(at as u64),
            len: len as u32,
            text,
            target,
            falls_through: !is_breakpoint
                && !matches!(
                    flow,
                    FlowControl::UnconditionalBranch
                        | FlowControl::IndirectBranch
                        | FlowControl::Return
                        | FlowControl::Exception
                ),
            jumps_anywhere: flow == FlowControl::IndirectBranch,
        });
    }
    Some(instructions)
}

fn decoder(code: &Code, bits: u32, at: usize) -> Decoder<'_> {
    let mut decoder = Decoder::new(bits, &code.bytes, DecoderOptions::NONE);
    move_to(&mut decoder, code, at);
    decoder
}

fn move_to(decoder: &mut Decoder<'_>, code: &Code, at: usize) {
    // This fails only behind the end, and then does not move.
    let _ = decoder.set_position(at);
    decoder.set_ip(code.start_address.wrapping_add(at as u64));
}

/// True if decoding from `begin` leads over valid instructions to one that starts at `anchor`.
fn leads_to(code: &Code, bits: u32, begin: usize, anchor: usize) -> bool {
    let mut decoder = decoder(code, bits, begin);
    while decoder.can_decode() && decoder.position() < anchor {
        if decoder.decode().is_invalid() {
            return false;
        }
    }
    decoder.position() == anchor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(bytes: &[u8], is_function: bool) -> Code {
        Code {
            start: 0x500,
            bytes: bytes.to_vec(),
            start_address: 0x40_0500,
            is_function,
            isa: Isa::X86 { bits: 64 },
            source: "made".into(),
            doubt: None,
        }
    }

    /// `xor %eax,%eax; 1: inc %rax; cmp %rsi,%rax; jne 1b; ret`
    const LOOP: [u8; 11] = [0x31, 0xc0, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xf0, 0x75, 0xf8, 0xc3];

    fn offsets(instructions: &[Instruction]) -> Vec<u64> {
        instructions.iter().map(|instruction| instruction.offset).collect()
    }

    #[test]
    fn branches_lead_to_module_offsets() {
        let instructions = disassemble(&made(&LOOP, true), &[0x505]).unwrap();
        let texts: Vec<&str> =
            instructions.iter().map(|instruction| instruction.text.as_str()).collect();
        assert_eq!(texts, ["xor %eax,%eax", "inc %rax", "cmp %rsi,%rax", "jne 0x400502", "ret"]);
        assert_eq!(offsets(&instructions), [0x500, 0x502, 0x505, 0x508, 0x50a]);
        assert_eq!(
            (instructions[3].target, instructions[3].address, instructions[3].falls_through),
            (Some(0x502), 0x40_0508, true)
        );
        assert!(
            !instructions[4].falls_through
                && instructions[..4].iter().all(|instruction| instruction.falls_through)
        );
    }

    #[test]
    fn without_a_function_the_samples_say_where_instructions_start() {
        // The end of a `mov $0x…,%rax` before it: decoded from its first byte on, the rest would be
        // out of step.
        let bytes = [&[0x00, 0x06][..], &LOOP].concat();
        let instructions = disassemble(&made(&bytes, false), &[0x504, 0x507]).unwrap();
        assert!(
            offsets(&instructions).ends_with(&[0x504, 0x507, 0x50a, 0x50c]),
            "{instructions:?}"
        );
    }

    #[test]
    fn what_runs_over_a_sampled_address_is_no_instruction() {
        let instructions =
            disassemble(&made(&[0x48, 0xb8, 0x90, 0x90, 0xc3], true), &[0x502]).unwrap();
        let texts: Vec<&str> =
            instructions.iter().map(|instruction| instruction.text.as_str()).collect();
        assert_eq!(texts, ["(bad)", "nop", "nop", "ret"]);
    }

    #[test]
    fn repeated_string_instructions_are_their_own_loop() {
        let instructions = disassemble(&made(&[0xf3, 0x48, 0xab, 0xc3], true), &[]).unwrap();
        assert_eq!(
            (instructions[0].target, instructions[0].falls_through),
            (Some(0x500), true),
            "{instructions:?}"
        );
    }

    #[test]
    fn any_bytes_are_disassembled_to_the_last() {
        let mut noise = 1_u64;
        for len in 0..300_usize {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    noise = noise
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (noise >> 56) as u8
                })
                .collect();
            for is_function in [true, false] {
                let sampled = [0x4ff, 0x500 + len as u64 / 2, u64::MAX];
                let instructions = disassemble(&made(&bytes, is_function), &sampled).unwrap();
                assert!(
                    instructions
                        .windows(2)
                        .all(|pair| pair[0].offset + u64::from(pair[0].len) == pair[1].offset)
                );
                let end =
                    instructions.last().map_or(0x500, |last| last.offset + u64::from(last.len));
                assert_eq!(end, 0x500 + len as u64);
            }
        }
        assert_eq!(disassemble(&Code { isa: Isa::Other, ..made(&LOOP, true) }, &[]), None);
    }
}
