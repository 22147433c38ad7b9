//! Receives a line in pieces, from a peer that may never finish it.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// The part of a line that was received, with limits for its length and time.
pub(super) struct Line {
    bytes: Vec<u8>,
    max_len: usize,
    deadline: Instant,
}

impl Line {
    /// Starts an empty line. The time limit counts from now and is never extended.
    pub(super) fn new(max_len: usize, time: Duration) -> Self {
        Self { bytes: Vec::new(), max_len, deadline: Instant::now() + time }
    }

    /// The remaining time.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Reads what the non-blocking `source` has now. Returns the whole line without its end, or
    /// `None` if it is not complete. A complete line is accepted even after the deadline, because
    /// it may be us who had no time to read it.
    pub(super) fn read(&mut self, source: &mut impl Read) -> io::Result<Option<&[u8]>> {
        let mut piece = [0; 4096];
        loop {
            let len = match source.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.left().is_zero() => {
                    return Err(ErrorKind::TimedOut.into());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let end = piece[..len].iter().position(|byte| *byte == b'\n');
            self.bytes.extend_from_slice(&piece[..end.unwrap_or(len)]);
            if self.bytes.len() > self.max_len {
                return Err(io::Error::new(ErrorKind::InvalidData, "the line is too long"));
            }
            if end.is_some() {
                return Ok(Some(&self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_line_is_bounded_in_length_and_time() {
        let time = Duration::from_secs(3600);
        assert_eq!(Line::new(3, time).read(&mut &b"abc\nd"[..]).unwrap(), Some(&b"abc"[..]));
        assert_eq!(
            Line::new(2, time).read(&mut &b"abc\n"[..]).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert_eq!(
            Line::new(1 << 20, time).read(&mut io::repeat(b'x')).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert_eq!(
            Line::new(9, time).read(&mut &b"abc"[..]).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        let (mut source, mut writer) = UnixStream::pair().unwrap();
        source.set_nonblocking(true).unwrap();
        writer.write_all(b"abc").unwrap();
        assert_eq!(Line::new(9, time).read(&mut source).unwrap(), None);
        assert_eq!(
            Line::new(9, Duration::ZERO).read(&mut source).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        writer.write_all(b"d\n").unwrap();
        assert_eq!(
            Line::new(9, Duration::ZERO).read(&mut source).unwrap(),
            Some(&b"d"[..]),
            "it may have arrived in time"
        );
    }
}
