//! Where the fields of an event's samples lie.
//!
//! Specified by the comment on `PERF_RECORD_SAMPLE` in `include/uapi/linux/perf_event.h`: which
//! fields exist, and so where they lie, depends on the event's `sample_type`. The offsets are
//! computed once per event. Up to the call chain all fields have a fixed length.

use super::attr::{EventAttr, read_format, sample};
use crate::cursor::Cursor;
use unhitch_model::Time;

/// Layout of one event's samples, and of the trailers of records that belong to it. Offsets are in
/// the record's body.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleLayout {
    id: Option<usize>,
    ip: Option<usize>,
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    fixed_len: usize,
    read: Option<u64>,
    call_chain: bool,
    raw: bool,
    sample_type: u64,
    sample_id_all: bool,
}

/// The fields of one sample that are used.
pub(crate) struct SampleFields<'a> {
    pub ip: &'a [u8],
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub cpu: u32,
    /// The call chain's words.
    pub call_chain: &'a [u8],
    pub raw: &'a [u8],
}

/// The trailer of a record that is not a sample. What the event does not record is 0 or `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub time: Time,
    pub cpu: Option<u32>,
    pub tid: Option<u32>,
}

fn u32_at(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(body: &[u8], at: usize) -> Option<u64> {
    body.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

impl SampleLayout {
    pub(crate) fn new(attr: &EventAttr) -> Self {
        let has = |bit: u64| attr.sample_type & bit != 0;
        let mut at = 0;
        let mut field = |bit: u64| {
            has(bit).then(|| {
                at += 8;
                at - 8
            })
        };
        let identifier = field(sample::IDENTIFIER);
        let ip = field(sample::IP);
        let tid = field(sample::TID);
        let time = field(sample::TIME);
        field(sample::ADDR);
        let id = field(sample::ID);
        field(sample::STREAM_ID);
        let cpu = field(sample::CPU);
        field(sample::PERIOD);
        Self {
            id: identifier.or(id),
            ip,
            tid,
            time,
            cpu,
            fixed_len: at,
            read: has(sample::READ).then_some(attr.read_format),
            call_chain: has(sample::CALLCHAIN),
            raw: has(sample::RAW),
            sample_type: attr.sample_type,
            sample_id_all: attr.has(super::attr::flag::SAMPLE_ID_ALL),
        }
    }

    /// Where a sample has the id of its event.
    pub(crate) fn id_offset(&self) -> Option<usize> {
        self.id
    }

    pub(crate) fn has_time_and_cpu(&self) -> bool {
        self.time.is_some() && self.cpu.is_some()
    }

    /// Reads a sample's body; `None` if a length in it is wrong.
    #[inline]
    pub(crate) fn read<'a>(&self, body: &'a [u8]) -> Option<SampleFields<'a>> {
        let (fixed, rest) = body.split_at_checked(self.fixed_len)?;
        let mut rest = Cursor::new(rest);
        if let Some(format) = self.read {
            skip_read(&mut rest, format)?;
        }
        let call_chain = if self.call_chain {
            rest.u64().and_then(|words| rest.bytes_u64(words.checked_mul(8)?))?
        } else {
            &[]
        };
        let raw =
            if self.raw { rest.u32().and_then(|len| rest.bytes_u64(u64::from(len)))? } else { &[] };
        let (pid, tid) = match self.tid {
            Some(at) => (u32_at(fixed, at)?, u32_at(fixed, at + 4)?),
            None => (u32::MAX, u32::MAX),
        };
        Some(SampleFields {
            ip: self.ip.map_or(&[], |at| &fixed[at..at + 8]),
            pid,
            tid,
            time: self.time.and_then(|at| u64_at(fixed, at)).unwrap_or(0),
            cpu: self.cpu.and_then(|at| u32_at(fixed, at)).unwrap_or(0),
            call_chain,
            raw,
        })
    }

    /// Reads the trailer of a record that is not a sample: `sample_id` in the comment on
    /// `PERF_RECORD_MMAP`.
    pub(crate) fn read_trailer(&self, body: &[u8]) -> Trailer {
        let mut trailer = Trailer::default();
        if !self.sample_id_all {
            return trailer;
        }
        // From the last field to the first: the record's own fields before them have any length.
        let mut end = body.len();
        for bit in [
            sample::IDENTIFIER,
            sample::CPU,
            sample::STREAM_ID,
            sample::ID,
            sample::TIME,
            sample::TID,
        ] {
            if self.sample_type & bit == 0 {
                continue;
            }
            let Some(at) = end.checked_sub(8) else { return Trailer::default() };
            match bit {
                sample::CPU => trailer.cpu = u32_at(body, at),
                sample::TID => trailer.tid = u32_at(body, at + 4),
                sample::TIME => trailer.time = Time::from_nanos(u64_at(body, at).unwrap_or(0)),
                _ => {}
            }
            end = at;
        }
        // perf writes -1 for an unknown time.
        trailer.time = if trailer.time == Time::MAX { Time::ZERO } else { trailer.time };
        trailer
    }
}

/// `struct read_format`: one value, or those of a whole group.
fn skip_read(from: &mut Cursor<'_>, format: u64) -> Option<()> {
    let has = |bit: u64| u64::from(format & bit != 0);
    let times = has(read_format::TOTAL_TIME_ENABLED) + has(read_format::TOTAL_TIME_RUNNING);
    let value = 1 + has(read_format::ID) + has(read_format::LOST);
    let words = if format & read_format::GROUP != 0 {
        times.checked_add(from.u64()?.checked_mul(value)?)?
    } else {
        times + value
    };
    from.bytes_u64(words.checked_mul(8)?).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_data::attr::flag;

    #[test]
    fn skips_what_it_does_not_need() {
        let sample_type = sample::IP
            | sample::TID
            | sample::ADDR
            | sample::READ
            | sample::CALLCHAIN
            | sample::RAW
            | sample::REGS_USER;
        let read = read_format::GROUP | read_format::ID | read_format::TOTAL_TIME_ENABLED;
        let layout = SampleLayout::new(&EventAttr {
            sample_type,
            read_format: read,
            ..EventAttr::default()
        });
        // ip, pid and tid, addr; group of 2 with the time enabled, value and id each; a chain of 1;
        // raw of 4; a register.
        let words: [u64; 12] =
            [10, 7 << 32 | 6, 11, 2, 12, 13, 14, 15, 16, 1, 17, 4 | 0xabcd << 32];
        let body: Vec<u8> = words.iter().chain(&[99]).flat_map(|word| word.to_le_bytes()).collect();
        let fields = layout.read(&body).unwrap();
        assert_eq!((fields.pid, fields.tid), (6, 7));
        assert_eq!(fields.ip, 10u64.to_le_bytes());
        assert_eq!(fields.call_chain, 17u64.to_le_bytes());
        assert_eq!(fields.raw, 0xabcdu32.to_le_bytes());
        for len in 0..words.len() * 8 {
            assert!(layout.read(&body[..len]).is_none());
        }
    }

    #[test]
    fn trailers_are_read_from_the_end() {
        let sample_type =
            sample::TID | sample::TIME | sample::ID | sample::CPU | sample::IDENTIFIER;
        let layout = SampleLayout::new(&EventAttr {
            sample_type,
            flags: flag::SAMPLE_ID_ALL,
            ..EventAttr::default()
        });
        let body: Vec<u8> = [1u64, 2, 3 | 30 << 32, 40, 5, 6, 7]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(
            layout.read_trailer(&body),
            Trailer { time: Time::from_nanos(40), cpu: Some(6), tid: Some(30) }
        );
        assert_eq!(layout.read_trailer(&body[..24]), Trailer::default());
    }
}
