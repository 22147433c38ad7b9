//! What the X server calls keys: keysyms by name, and their classes.
//!
//! Values are those of the X protocol, appendix A ("keysym encoding").

use crate::mark::KeyClass;

/// Keys with names of their own that people may want as a hot key.
const NAMED: &[(&str, u32)] = &[
    ("space", 0x20),
    ("tab", 0xff09),
    ("return", 0xff0d),
    ("enter", 0xff0d),
    ("pause", 0xff13),
    ("scroll_lock", 0xff14),
    ("escape", 0xff1b),
    ("home", 0xff50),
    ("left", 0xff51),
    ("up", 0xff52),
    ("right", 0xff53),
    ("down", 0xff54),
    ("page_up", 0xff55),
    ("page_down", 0xff56),
    ("end", 0xff57),
    ("print", 0xff61),
    ("insert", 0xff63),
    ("menu", 0xff67),
    ("backspace", 0xff08),
    ("delete", 0xffff),
];
/// F1; the others follow.
const F1: u32 = 0xffbe;
const MAX_F: u32 = 35;

/// Left keys of Num Lock, Alt and Super, by which their modifier is found.
pub const NUM_LOCK: u32 = 0xff7f;
pub const ALT_L: u32 = 0xffe9;
pub const SUPER_L: u32 = 0xffeb;

/// The keysym of a key's name: a letter or digit, `F1` to `F35`, or one of those above.
pub fn keysym(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    if let [c @ b'!'..=b'~'] = name.as_bytes() {
        return Some(u32::from(*c));
    }
    if let Some(number) = name.strip_prefix('f').and_then(|number| number.parse::<u32>().ok()) {
        return (1..=MAX_F).contains(&number).then(|| F1 + number - 1);
    }
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, keysym)| *keysym)
}

/// The class of a key that has these meanings without and with Shift. By the key, not by what it
/// typed: whether Shift was down is not looked at.
pub fn class(plain: u32, shifted: u32) -> KeyClass {
    match plain {
        0x20 => KeyClass::Space,
        // Enter, and that of the keypad.
        0xff0d | 0xff8d => KeyClass::Enter,
        0xff08 | 0xffff => KeyClass::Delete,
        // Tab in both directions; the block of arrows.
        0xff09 | 0xfe20 | 0xff50..=0xff58 => KeyClass::Navigation,
        // The keypad is digits or arrows, as Num Lock says, which is not looked at either.
        0xff95..=0xff9f | 0xffb0..=0xffb9 => KeyClass::Digit,
        0xffbe..=0xffe0 => KeyClass::Function,
        // Shift to Hyper; Mode_switch, Num Lock; the further levels of ISO.
        0xffe1..=0xffee | 0xff7e | 0xff7f | 0xfe01..=0xfe13 => KeyClass::Modifier,
        // A French keyboard has digits with Shift.
        _ if [plain, shifted].iter().any(|sym| (0x30..=0x39).contains(sym)) => KeyClass::Digit,
        _ if is_letter(plain) => KeyClass::Letter,
        _ => KeyClass::Other,
    }
}

fn is_letter(keysym: u32) -> bool {
    match keysym {
        // Latin 1 is as in Unicode.
        0x41..=0xff => char::from_u32(keysym).is_some_and(char::is_alphabetic),
        // Latin 2 to Korean, from before keysyms were Unicode; graphics are among them.
        0x1a1..=0x7ff | 0xca1..=0x1aff => true,
        0x0100_0100..=0x0110_ffff => {
            char::from_u32(keysym - 0x0100_0000).is_some_and(char::is_alphabetic)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keysyms() {
        assert_eq!(keysym("R"), Some(0x72));
        assert_eq!(keysym("f12"), Some(0xffc9));
        assert_eq!(keysym("Print"), Some(0xff61));
        for wrong in ["", "F0", "F36", "Rr", "é", "\n"] {
            assert_eq!(keysym(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn classes_of_keys() {
        let cases = [
            (0x61, 0x41, KeyClass::Letter),
            (0xe9, 0xc9, KeyClass::Letter),
            (0x6c1, 0x6e1, KeyClass::Letter),
            (0x0100_0431, 0, KeyClass::Letter),
            (0x31, 0x21, KeyClass::Digit),
            (0x26, 0x31, KeyClass::Digit),
            (0xffb5, 0, KeyClass::Digit),
            (0xff97, 0xffb8, KeyClass::Digit),
            (0x20, 0x20, KeyClass::Space),
            (0xff0d, 0, KeyClass::Enter),
            (0xffff, 0, KeyClass::Delete),
            (0xff53, 0, KeyClass::Navigation),
            (0xffc9, 0, KeyClass::Function),
            (0xffe1, 0, KeyClass::Modifier),
            (0xfe03, 0, KeyClass::Modifier),
            (0x3b, 0x3a, KeyClass::Other),
            (0xd7, 0, KeyClass::Other),
            (0, 0, KeyClass::Other),
        ];
        for (plain, shifted, expected) in cases {
            assert_eq!(class(plain, shifted), expected, "{plain:#x}");
        }
    }
}
