//! Receives lines in pieces, from a peer that may never finish one.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// What was received and is not a whole line yet, with limits for its length and time.
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// How many of them have no line end.
    searched: usize,
    max_len: usize,
    time: Duration,
    /// Until when the line must be complete; `None` while nothing of it has arrived.
    deadline: Option<Instant>,
}

impl Lines {
    /// The first line must be complete after `time`, any further one so long after its first byte.
    pub(super) fn new(max_len: usize, time: Duration) -> Self {
        let deadline = Some(Instant::now() + time);
        Self { bytes: Vec::new(), searched: 0, max_len, time, deadline }
    }

    /// The remaining time of the line that has begun.
    pub(super) fn left(&self) -> Duration {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        self.deadline.map_or(self.time, left)
    }

    /// The next line must be complete so long after now.
    pub(super) fn expect(&mut self, time: Duration) {
        self.deadline = Some(Instant::now() + time);
    }

    /// Reads what the non-blocking `source` has now. Returns a whole line without its end, or `None`
    /// if none is complete. A complete line is accepted even after the deadline, because it may be
    /// us who had no time to read it.
    pub(super) fn read(&mut self, source: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
        let mut piece = [0; 4096];
        loop {
            if let Some(line) = self.take()? {
                return Ok(Some(line));
            }
            match source.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.deadline.get_or_insert_with(|| Instant::now() + self.time);
                    self.bytes.extend_from_slice(&piece[..len]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let is_late = self.deadline.is_some() && self.left().is_zero();
                    return if is_late { Err(ErrorKind::TimedOut.into()) } else { Ok(None) };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next line of what was received.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let len = end.map_or(self.bytes.len(), |end| self.searched + end);
        if len > self.max_len {
            return Err(io::Error::new(ErrorKind::InvalidData, "the line is too long"));
        }
        self.searched = len;
        if end.is_none() {
            return Ok(None);
        }
        let rest = self.bytes.split_off(len + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        self.searched = 0;
        self.deadline = (!self.bytes.is_empty()).then(|| Instant::now() + self.time);
        Ok(Some(line))
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
        let kind =
            |mut lines: Lines, mut source: &[u8]| lines.read(&mut source).unwrap_err().kind();
        let line = Lines::new(3, time).read(&mut &b"abc\nd"[..]).unwrap();
        assert_eq!(line.as_deref(), Some(&b"abc"[..]));
        assert_eq!(kind(Lines::new(2, time), b"abc\n"), ErrorKind::InvalidData);
        assert_eq!(
            Lines::new(1 << 20, time).read(&mut io::repeat(b'x')).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        assert_eq!(kind(Lines::new(9, time), b"abc"), ErrorKind::UnexpectedEof);
        let (mut source, mut writer) = UnixStream::pair().unwrap();
        source.set_nonblocking(true).unwrap();
        writer.write_all(b"abc").unwrap();
        let mut late = Lines::new(9, Duration::ZERO);
        assert_eq!(late.read(&mut source).unwrap_err().kind(), ErrorKind::TimedOut);
        writer.write_all(b"d\n").unwrap();
        let line = late.read(&mut source).unwrap();
        assert_eq!(line.as_deref(), Some(&b"abcd"[..]), "it may have arrived in time");
    }

    #[test]
    fn lines_that_arrive_together_are_read_one_by_one_and_a_peer_may_be_idle_between_them() {
        let (mut source, mut writer) = UnixStream::pair().unwrap();
        source.set_nonblocking(true).unwrap();
        let mut lines = Lines::new(9, Duration::from_millis(1));
        writer.write_all(b"a\n\nbc\n").unwrap();
        let mut next = || lines.read(&mut source).unwrap();
        assert_eq!((next(), next(), next()), (Some(b"a".into()), Some(vec![]), Some(b"bc".into())));
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(next(), None, "no line has begun");
        writer.write_all(b"d").unwrap();
        assert_eq!(next(), None);
        std::thread::sleep(Duration::from_millis(5));
        assert!(lines.read(&mut source).is_err());
    }
}
