//! The kernel's events by their hook, which is a group (high byte) and a type, as in `ntwmi.h`; and
//! the MOF classes that have the same events under a GUID and an opcode.

pub(super) const HEADER: u16 = 0x0000;
/// The session's own records.
pub(super) const SESSION_FIRST: u16 = 0x0000;
pub(super) const SESSION_LAST: u16 = 0x00ff;
pub(super) const PROCESS_START: u16 = 0x0301;
pub(super) const PROCESS_END: u16 = 0x0302;
pub(super) const PROCESS_DC_START: u16 = 0x0303;
pub(super) const PROCESS_DC_END: u16 = 0x0304;
pub(super) const PROCESS_DEFUNCT: u16 = 0x0327;
pub(super) const IMAGE_LOAD: u16 = 0x030a;
pub(super) const THREAD_START: u16 = 0x0501;
pub(super) const THREAD_END: u16 = 0x0502;
pub(super) const THREAD_DC_START: u16 = 0x0503;
pub(super) const THREAD_DC_END: u16 = 0x0504;
pub(super) const THREAD_SET_NAME: u16 = 0x0548;
pub(super) const CSWITCH: u16 = 0x0524;
pub(super) const READY_THREAD: u16 = 0x0532;
pub(super) const SAMPLE: u16 = 0x0f2e;
/// The sampling interval: when it is set, and its value at the beginning and the end.
pub(super) const SAMPLE_HOOKS_FIRST: u16 = 0x0f48;
pub(super) const SAMPLE_HOOKS_LAST: u16 = 0x0f4a;
/// File objects and their names: opened, created, deleted, at the beginning or end.
pub(super) const FILE_NAMES: [u16; 4] = [0x0400, 0x0420, 0x0423, 0x0424];
/// The machine's CPUs, memory and name.
pub(super) const COMPUTER: u16 = 0x0b0a;
pub(super) const STACK: u16 = 0x1820;
pub(super) const STACK_KEY_CREATE: u16 = 0x1822;
pub(super) const STACK_KEY_DELETE: u16 = 0x1823;
pub(super) const STACK_KEY_RUNDOWN: u16 = 0x1824;
pub(super) const STACK_KEY_KERNEL: u16 = 0x1825;
pub(super) const STACK_KEY_USER: u16 = 0x1826;
pub(super) const IMAGE_UNLOAD: u16 = 0x1402;
pub(super) const IMAGE_DC_START: u16 = 0x1403;
pub(super) const IMAGE_DC_END: u16 = 0x1404;

/// Made-up hooks for classic events that have none. They are never in a file.
pub(super) const IMAGE_ID: u16 = 0xfe00;
pub(super) const IMAGE_RSDS: u16 = 0xfe24;
/// The same for managed code.
pub(super) const IMAGE_IL_RSDS: u16 = 0xfe25;
/// Classes outside the kernel's groups.
pub(super) const SYS_CONFIG: u16 = 0xfd00;
pub(super) const BUILD_INFO: u16 = 0xfd20;
pub(super) const SYSTEM_PATHS: u16 = 0xfd21;
pub(super) const VOLUME_MAPPING: u16 = 0xfd23;
pub(super) const META_DATA: u16 = 0xfc00;
pub(super) const EVENT_INFO: u16 = 0xfc20;
pub(super) const EVENT_MAP_INFO: u16 = 0xfc21;
/// RT_LostEvent: an event, a buffer or a file was lost.
pub(super) const LOST: u16 = 0xfb00;
/// The provider's GUID and a part of its EventSource manifest.
pub(super) const MANIFEST: u16 = 0xfa00;

/// The end of a GUID that many classes share: `…-fe05-11d0-9dda-00c04fd7ba7c`.
const COMMON: [u8; 12] = [0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c];

/// The hook of a classic event of the kernel or of the tools that merge traces; `None` for any
/// other class.
pub(super) fn of_class(guid: &[u8; 16], opcode: u8) -> Option<u16> {
    let (first, rest) = guid.split_first_chunk::<4>()?;
    let group = match (u32::from_le_bytes(*first), rest) {
        (0x3d6f_a8d0, rest) if rest == COMMON => 0x0300,
        (0x3d6f_a8d1, rest) if rest == COMMON => 0x0500,
        (0x3d6f_a8d3, rest) if rest == COMMON => 0x0200,
        (0x3d6f_a8d4, rest) if rest == COMMON => 0x0100,
        (0x2cb1_5d1d, [0xc1, 0x5f, 0xd2, 0x11, ..]) if opcode == 10 => return Some(IMAGE_LOAD),
        (0x2cb1_5d1d, [0xc1, 0x5f, 0xd2, 0x11, ..]) => 0x1400,
        (0xce1d_bfb4, [0x7e, 0x13, 0xa6, 0x4d, ..]) => 0x0f00,
        (0x90cb_dc39, [0x3e, 0x4a, 0xd1, 0x11, ..]) => 0x0400,
        (0xdef2_fe46, [0xd6, 0x7b, 0x80, 0x4b, ..]) => 0x1800,
        (0x0185_3a65, [0x8f, 0x41, 0x36, 0x4f, ..]) => 0x0b00,
        (0x68fd_d900, [0x3e, 0x4a, 0xd1, 0x11, ..]) => 0x0000,
        (0xb3e6_75d7, [0x54, 0x25, 0x18, 0x4f, ..]) => IMAGE_ID,
        (0x9b79_ee91, [0xfd, 0xb5, 0xc0, 0x41, ..]) => SYS_CONFIG,
        (0xbbcc_f6c1, [0xd1, 0x6c, 0xc4, 0x48, ..]) => META_DATA,
        (0x6a39_9ae0, [0xc6, 0x4b, 0xe9, 0x4d, ..]) => LOST,
        _ => return None,
    };
    Some(group | u16::from(opcode))
}

/// Results of the system assessment, which merging tools add:
/// {ed54dff8-c409-4cf6-bf83-05e1e61a09c4}.
const ASSESSMENT: [u8; 16] = [
    0xf8, 0xdf, 0x54, 0xed, 0x09, 0xc4, 0xf6, 0x4c, 0xbf, 0x83, 0x05, 0xe1, 0xe6, 0x1a, 0x09, 0xc4,
];

/// True for the classic events that merging tools add. They describe other events, images or the
/// system.
pub(super) fn is_metadata(guid: &[u8; 16], opcode: u8) -> bool {
    let group = of_class(guid, opcode).map(|hook| hook & 0xff00);
    matches!(group, Some(IMAGE_ID | SYS_CONFIG | META_DATA)) || *guid == ASSESSMENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_known_by_their_guid() {
        let guid = |text: &str| -> [u8; 16] {
            let hex: String = text.chars().filter(|c| *c != '-').collect();
            let mut bytes: [u8; 16] =
                std::array::from_fn(|i| u8::from_str_radix(&hex[i * 2..i * 2 + 2], 16).unwrap());
            bytes[..4].reverse();
            bytes[4..6].reverse();
            bytes[6..8].reverse();
            bytes
        };
        for (text, opcode, hook) in [
            ("3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", 1, PROCESS_START),
            ("3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c", 36, CSWITCH),
            ("2cb15d1d-5fc1-11d2-abe1-00a0c911f518", 10, IMAGE_LOAD),
            ("2cb15d1d-5fc1-11d2-abe1-00a0c911f518", 4, IMAGE_DC_END),
            ("ce1dbfb4-137e-4da6-87b0-3f59aa102cbc", 46, SAMPLE),
            ("90cbdc39-4a3e-11d1-84f4-0000f80464e3", 36, 0x424),
            ("def2fe46-7bd6-4b80-bd94-f57fe20d0ce3", 32, STACK),
            ("68fdd900-4a3e-11d1-84f4-0000f80464e3", 0, HEADER),
            ("b3e675d7-2554-4f18-830b-2762732560de", 36, IMAGE_ID | 36),
            ("9b79ee91-b5fd-41c0-a243-4248e266e9d0", 35, SYS_CONFIG | 35),
            ("bbccf6c1-6cd1-48c4-80ff-839482e37671", 32, META_DATA | 32),
            ("6a399ae0-4bc6-4de9-870b-3657f8947e7e", 32, LOST | 32),
            ("01853a65-418f-4f36-aefc-dc0f1d2fd235", 10, 0xb0a),
        ] {
            assert_eq!(of_class(&guid(text), opcode), Some(hook), "{text}");
        }
        assert_eq!(of_class(&[7; 16], 1), None);
    }
}
