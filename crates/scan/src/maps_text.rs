//! Reads `/proc/PID/maps` (proc(5)) line by line: `START-END rwxp OFFSET MAJOR:MINOR INODE   NAME`.

use crate::error::Error;
use crate::mapping::{Access, Mapping};
use crate::stall::Calls;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

/// Size of the buffer in bytes. It holds any line: a name has at most 4096 bytes, each escaped with
/// at most four.
const BUFFER_BYTES: usize = 64 << 10;

/// The remaining lines.
pub struct MapsText<F = File> {
    file: F,
    path: PathBuf,
    buffer: Vec<u8>,
    /// The part of the buffer that is not yet parsed.
    start: usize,
    end: usize,
    /// Bytes parsed so far, for error messages.
    offset: u64,
}

impl<F: Read> MapsText<F> {
    /// Reads from an open `maps`.
    pub fn new(file: F, path: PathBuf) -> Self {
        Self { file, path, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, offset: 0 }
    }

    /// The mapping of the next line.
    pub fn next(&mut self, calls: &mut Calls) -> Result<Option<Mapping<'_>>, Error> {
        let length = loop {
            let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
            if let Some(length) = unread.iter().position(|byte| *byte == b'\n') {
                break length;
            }
            let had = unread.len();
            if self.fill(calls)? == 0 {
                // If the process exits the text ends, too, perhaps in the middle of a line.
                self.start = self.end;
                return if had == 0 {
                    Ok(None)
                } else {
                    Err(self.malformed("the end of a line", had))
                };
            }
        };
        let (start, end) = (self.start, self.start + length);
        let offset = self.offset;
        self.start = end + 1;
        self.offset += length as u64 + 1;
        let line = self.buffer.get(start..end).unwrap_or_default();
        parse(line).map(Some).ok_or_else(|| Error::Malformed {
            path: self.path.clone(),
            offset,
            expected: "a mapping",
            found: String::from_utf8_lossy(line.get(..line.len().min(100)).unwrap_or_default())
                .into_owned(),
        })
    }

    fn malformed(&self, expected: &'static str, had: usize) -> Error {
        let found =
            self.buffer.get(self.end.saturating_sub(had.min(100))..self.end).unwrap_or_default();
        Error::Malformed {
            path: self.path.clone(),
            offset: self.offset,
            expected,
            found: String::from_utf8_lossy(found).into_owned(),
        }
    }

    /// Reads more text; returns zero at the end, or if a line is longer than the buffer.
    fn fill(&mut self, calls: &mut Calls) -> Result<usize, Error> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match calls.time("read of maps", || self.file.read(room)) {
                Ok(got) => {
                    self.end += got;
                    return Ok(got);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(0),
                Err(source) => {
                    return Err(Error::File { action: "read", path: self.path.clone(), source });
                }
            }
        }
    }
}

fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, rest) = number(line, 16, b'-')?;
    let (end, rest) = number(rest, 16, b' ')?;
    let (access, rest) = rest.split_first_chunk::<5>()?;
    let (_offset, rest) = number(rest, 16, b' ')?;
    let (_major, rest) = number(rest, 16, b':')?;
    let (_minor, rest) = number(rest, 16, b' ')?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (inode, rest) = rest.split_at_checked(digits)?;
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    let [read, write, execute, shared, b' '] = *access else { return None };
    if start >= end {
        return None;
    }
    let access = Access {
        read: read == b'r',
        write: write == b'w',
        execute: execute == b'x',
        shared: shared == b's',
    };
    Some(Mapping { start, end, access, page_bytes: 0, inode, name: rest.trim_ascii_start() })
}

/// Parses a number that ends at the byte `until`; also returns the rest.
fn number(text: &[u8], radix: u32, until: u8) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    for (index, &byte) in text.iter().enumerate() {
        match char::from(byte).to_digit(radix) {
            Some(digit) => value = value.checked_mul(radix.into())?.checked_add(digit.into())?,
            None if byte == until && index > 0 => return Some((value, text.get(index + 1..)?)),
            None => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "5581c0000000-5581c0021000 r--p 00000000 fd:00 1234                       /usr/bin/a name with spaces\n\
                        7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n\
                        7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n\
                        7ffc00030000-7ffc00031000 rwxs 00001000 00:01 77                         /memfd:jit (deleted)\n";

    /// Gives a few bytes at a time.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.len().min(to.len()).min(self.1);
            let (now, later) = self.0.split_at(count);
            to[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn read(text: &[u8], piece: usize) -> Result<Vec<(u64, u64, String)>, Error> {
        let mut maps = MapsText::new(Slowly(text, piece), "maps".into());
        let mut all = Vec::new();
        while let Some(mapping) = maps.next(&mut Calls::default())? {
            all.push((
                mapping.start,
                mapping.end,
                String::from_utf8_lossy(mapping.name).into_owned(),
            ));
        }
        Ok(all)
    }

    #[test]
    fn lines_are_read_whole_however_they_come() {
        let whole = read(TEXT.as_bytes(), usize::MAX).unwrap();
        assert_eq!(whole.len(), 4);
        assert_eq!(
            whole[0],
            (0x5581_c000_0000, 0x5581_c002_1000, "/usr/bin/a name with spaces".to_owned())
        );
        assert_eq!(whole[1].2, "");
        for piece in [1, 7, 64] {
            assert_eq!(read(TEXT.as_bytes(), piece).unwrap(), whole);
        }
        let mut maps = MapsText::new(TEXT.as_bytes(), "maps".into());
        let mut access = Vec::new();
        while let Some(mapping) = maps.next(&mut Calls::default()).unwrap() {
            access.push((mapping.access, mapping.inode));
        }
        assert_eq!(access[1], (Access::default(), 0));
        assert_eq!(
            access[3],
            (Access { read: true, write: true, execute: true, shared: true }, 77)
        );
    }

    #[test]
    fn cut_or_damaged_text_is_an_error_and_no_crash() {
        for cut in 0..TEXT.len() {
            let lines = TEXT.as_bytes()[..cut].iter().filter(|byte| **byte == b'\n').count();
            match read(&TEXT.as_bytes()[..cut], usize::MAX) {
                Ok(read) => {
                    assert!(cut == 0 || TEXT.as_bytes()[cut - 1] == b'\n' && read.len() == lines)
                }
                Err(error) => assert!(matches!(error, Error::Malformed { .. }), "{error}"),
            }
        }
        for bit in 0..TEXT.len() * 8 {
            let mut text = TEXT.as_bytes().to_vec();
            text[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&text, usize::MAX);
        }
        assert!(read(&vec![b'a'; BUFFER_BYTES + 1], usize::MAX).is_err());
    }
}
