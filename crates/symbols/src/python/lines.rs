//! The line table of a code object: which line each instruction is of.
//!
//! Formats: `Objects/lnotab_notes.txt` for `co_lnotab` (3.9) and `co_linetable` (3.10),
//! `Objects/locations.md` for the location table (from 3.11 on).

/// Decodes the line table of a code object of Python 3.`minor` that begins at `first_line`: an
/// instruction, in units of two bytes, and the line from there on, 0 for none; sorted. Damaged tables
/// give what can be read of them.
pub fn lines(minor: u16, first_line: u32, table: &[u8]) -> Vec<(u32, u32)> {
    let mut found = Lines { list: Vec::new(), line: i64::from(first_line) };
    match minor {
        ..=9 => found.increments(table),
        10 => found.ranges(table),
        _ => found.locations(table),
    }
    found.list
}

struct Lines {
    list: Vec<(u32, u32)>,
    line: i64,
}

impl Lines {
    fn add(&mut self, unit: u32, has_line: bool) {
        let line = if has_line { u32::try_from(self.line).unwrap_or(0) } else { 0 };
        match self.list.last_mut() {
            Some((_, last)) if *last == line => {}
            Some((last, known)) if *last == unit => *known = line,
            _ => self.list.push((unit, line)),
        }
    }

    /// Pairs: bytes of code up to the next line, and by how much that differs.
    fn increments(&mut self, table: &[u8]) {
        let mut bytes = 0_u32;
        self.add(0, true);
        for &[code, line] in table.as_chunks::<2>().0 {
            bytes = bytes.saturating_add(u32::from(code));
            self.line += i64::from(line.cast_signed());
            self.add(bytes / 2, true);
        }
    }

    /// Pairs: by how much the line differs from the one before, and how many bytes of code it has.
    fn ranges(&mut self, table: &[u8]) {
        const NO_LINE: i8 = -128;
        let mut bytes = 0_u32;
        for &[code, line] in table.as_chunks::<2>().0 {
            let line = line.cast_signed();
            if line != NO_LINE {
                self.line += i64::from(line);
            }
            if code > 0 {
                self.add(bytes / 2, line != NO_LINE);
            }
            bytes = bytes.saturating_add(u32::from(code));
        }
    }

    /// Entries of different lengths: their first byte has the high bit.
    fn locations(&mut self, table: &[u8]) {
        let (mut rest, mut unit) = (table, 0_u32);
        while let Some((&first, after)) = rest.split_first() {
            let payload = after.iter().position(|byte| byte & 0x80 != 0).unwrap_or(after.len());
            let (payload, others) = after.split_at(payload);
            rest = others;
            let has_line = match first >> 3 & 15 {
                15 => false,
                kind @ 10..=12 => {
                    self.line += i64::from(kind - 10);
                    true
                }
                13 | 14 => {
                    self.line += signed(payload);
                    true
                }
                _ => true,
            };
            self.add(unit, has_line);
            unit = unit.saturating_add(u32::from(first & 7) + 1);
        }
    }
}

/// The first number of an entry: six bits a byte, the lowest first; the lowest bit of all is the
/// sign.
fn signed(payload: &[u8]) -> i64 {
    let mut value = 0_u32;
    for (index, byte) in payload.iter().take(6).enumerate() {
        value |= u32::from(byte & 63).wrapping_shl(index as u32 * 6);
        if byte & 64 == 0 {
            break;
        }
    }
    let magnitude = i64::from(value >> 1);
    if value & 1 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_each_version() {
        // Byte 0 to 5: line 10; 6 to 15: line 11; from 16 on: line 9.
        assert_eq!(lines(9, 10, &[6, 1, 10, 0xfe]), [(0, 10), (3, 11), (8, 9)]);
        // Bytes 0 to 3: line 10; 4 and 5: none; 6 to 9: line 12.
        assert_eq!(lines(10, 10, &[4, 0, 2, 0x80, 4, 2]), [(0, 10), (2, 0), (3, 12)]);
        // Short form, one line further, no column (3 lines back), long form (65 lines on), none.
        let locations =
            [0x81, 0x11, 0xd8, 1, 2, 0xe8, 7, 0xf0, 0x42, 2, 1, 1, 1, 0xf8, 0x80, 0, 0x7f];
        let found = [(0, 10), (2, 11), (3, 8), (4, 73), (5, 0), (6, 73)];
        assert_eq!(lines(11, 10, &locations), found);
    }

    #[test]
    fn damaged_tables_give_what_they_have() {
        let table = [0xf0, 0xff, 0xff, 0x70, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0xe9];
        for minor in [9, 10, 11, 13] {
            for len in 0..=table.len() {
                assert!(lines(minor, u32::MAX, &table[..len]).len() <= len + 1);
            }
        }
    }
}
