//! What codes of keys mean (`include/uapi/linux/input-event-codes.h`).
//!
//! A code is a place on the keyboard, not a letter: classes are those of a US keyboard. The few
//! letters that other layouts have in the place of punctuation are of the class `other`.

/// What a code is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// A key of this class.
    Key(&'static str),
    /// A mouse button; its number is X's.
    Button(u32),
}

/// The mouse's buttons: left, right, middle, side, extra, as X counts them.
const BUTTONS: [u32; 5] = [1, 3, 2, 8, 9];
const BTN_LEFT: u16 = 0x110;
/// A finger on a touch screen.
const BTN_TOUCH: u16 = 0x14a;

/// What a code means; `None` for what is no key and no button of a mouse.
pub(super) fn meaning(code: u16) -> Option<Meaning> {
    let class = match code {
        BTN_TOUCH => return Some(Meaning::Button(1)),
        // Buttons of joysticks, tablets and the like; more keys begin at 0x160.
        0 | 0x100..0x160 => {
            let button = BUTTONS.get(usize::from(code.checked_sub(BTN_LEFT)?))?;
            return Some(Meaning::Button(*button));
        }
        // The row of digits, and the keypad.
        2..=11 | 71..=73 | 75..=77 | 79..=82 => "digit",
        // Three rows.
        16..=25 | 30..=38 | 44..=50 => "letter",
        57 => "space",
        28 | 96 => "enter",
        14 | 111 => "delete",
        // Tab; the block of arrows.
        15 | 102..=109 => "navigation",
        59..=68 | 87 | 88 | 183..=194 => "function",
        // Control, Shift, Alt, Caps Lock, Num Lock, Super.
        29 | 42 | 54 | 56 | 58 | 69 | 97 | 100 | 125 | 126 => "modifier",
        _ => "other",
    };
    Some(Meaning::Key(class))
}

/// True if a device has a key of a keyboard, a mouse button, or can be touched. `codes`: a bit for
/// each code that it has.
pub(super) fn are_input(codes: &[u8]) -> bool {
    let has = |code: u16| {
        codes.get(usize::from(code / 8)).is_some_and(|byte| byte & 1 << (code % 8) != 0)
    };
    (1..0x100).chain([BTN_LEFT, BTN_TOUCH]).any(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::KEY_CLASSES;

    #[test]
    fn codes_have_the_classes_that_clients_use() {
        for code in 0..=u16::MAX {
            if let Some(Meaning::Key(class)) = meaning(code) {
                assert!(KEY_CLASSES.contains(&class), "{class}");
            }
        }
        let cases = [
            // Q, A, Z, M; semicolon.
            (16, "letter"),
            (30, "letter"),
            (44, "letter"),
            (50, "letter"),
            (39, "other"),
            // 1, 0, and 0 of the keypad.
            (2, "digit"),
            (11, "digit"),
            (82, "digit"),
            (57, "space"),
            (28, "enter"),
            (14, "delete"),
            (103, "navigation"),
            (88, "function"),
            (42, "modifier"),
            // Escape, mute, OK of a remote control.
            (1, "other"),
            (113, "other"),
            (0x160, "other"),
        ];
        for (code, class) in cases {
            assert_eq!(meaning(code), Some(Meaning::Key(class)), "{code}");
        }
        assert_eq!(meaning(BTN_LEFT + 1), Some(Meaning::Button(3)));
        assert_eq!(meaning(BTN_TOUCH), Some(Meaning::Button(1)));
        // None at all; a joystick's trigger.
        assert_eq!((meaning(0), meaning(0x120)), (None, None));
    }

    #[test]
    fn a_device_without_keys_is_none() {
        let with = |code: usize| {
            let mut codes = [0; 96];
            codes[code / 8] |= 1 << (code % 8);
            codes
        };
        assert!(are_input(&with(30)) && are_input(&with(0x110)) && are_input(&with(0x14a)));
        assert!(!are_input(&with(0x120)) && !are_input(&[0; 96]) && !are_input(&[]));
    }
}
