//! A line that comes in pieces, from somebody who may never end it.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// What has come of a line, and until when and how long it may go on.
pub(super) struct Line {
    bytes: Vec<u8>,
    longest: usize,
    deadline: Instant,
}

impl Line {
    /// Nothing has come yet. The time counts from now, however often something comes.
    pub(super) fn new(longest: usize, time: Duration) -> Self {
        Self { bytes: Vec::new(), longest, deadline: Instant::now() + time }
    }

    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Takes what `source`, which does not block, has now: the whole line without its end, or
    /// nothing when more must come. What has come whole is taken late, too: it may be the reader
    /// who had no time.
    pub(super) fn take(&mut self, source: &mut impl Read) -> io::Result<Option<&[u8]>> {
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
            if self.bytes.len() > self.longest {
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
        assert_eq!(Line::new(3, time).take(&mut &b"abc\nd"[..]).unwrap(), Some(&b"abc"[..]));
        assert_eq!(
            Line::new(2, time).take(&mut &b"abc\n"[..]).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert_eq!(
            Line::new(1 << 20, time).take(&mut io::repeat(b'x')).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert_eq!(
            Line::new(9, time).take(&mut &b"abc"[..]).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        let (mut source, mut writer) = UnixStream::pair().unwrap();
        source.set_nonblocking(true).unwrap();
        writer.write_all(b"abc").unwrap();
        assert_eq!(Line::new(9, time).take(&mut source).unwrap(), None);
        assert_eq!(
            Line::new(9, Duration::ZERO).take(&mut source).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        writer.write_all(b"d\n").unwrap();
        assert_eq!(
            Line::new(9, Duration::ZERO).take(&mut source).unwrap(),
            Some(&b"d"[..]),
            "it came in time, for all we know"
        );
    }
}
