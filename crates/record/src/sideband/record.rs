//! One side-band record.

use std::borrow::Cow;
use unhitch_formats::perf_data::record::{FileId, kind, misc};
use unhitch_model::Time;

/// Length of the trailer of every record (TID, TIME, CPU, IDENTIFIER), in bytes.
const TRAILER_LEN: usize = 32;

/// One record, as it is written to the file.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) time: Time,
    pub(crate) bytes: Box<[u8]>,
    pub(super) tid: u32,
    pub(super) kind: RecordKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Fork { parent_pid: u32 },
    Exit,
    Comm { exec: bool },
    Map { start_avma: u64, len: u64 },
    Machine,
}

impl Record {
    /// Parses one record; `None` for kinds that we do not need, and for damage.
    pub(super) fn parse(bytes: &[u8]) -> Option<(u32, Self)> {
        let bytes = &*without_garbage(bytes);
        let u32_at = |offset: usize| {
            Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
        };
        let u64_at = |offset: usize| {
            Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
        };
        let misc = u32_at(4)? as u16;
        let time = Time::from_nanos(u64_at(bytes.len().checked_sub(TRAILER_LEN - 8)?)?);
        let (pid, tid, kind) = match u32_at(0)? {
            kind::COMM => {
                (u32_at(8)?, u32_at(12)?, RecordKind::Comm { exec: misc & misc::COMM_EXEC != 0 })
            }
            kind::FORK => (u32_at(8)?, u32_at(16)?, RecordKind::Fork { parent_pid: u32_at(12)? }),
            kind::EXIT => (u32_at(8)?, u32_at(16)?, RecordKind::Exit),
            kind::MMAP | kind::MMAP2 if u32_at(8)? != u32::MAX => (
                u32_at(8)?,
                u32_at(12)?,
                RecordKind::Map { start_avma: u64_at(16)?, len: u64_at(24)? },
            ),
            kind::MMAP | kind::MMAP2 | KSYMBOL => (u32::MAX, 0, RecordKind::Machine),
            _ => return None,
        };
        Some((pid, Self { time, bytes: bytes.into(), tid, kind }))
    }

    /// A copy of this mapping for process `pid`, valid from `time` on.
    pub(super) fn inherited(&self, pid: u32, time: Time) -> Self {
        let mut bytes = self.bytes.clone();
        let trailer = bytes.len() - TRAILER_LEN;
        for at in [8, 12, trailer, trailer + 4] {
            bytes[at..at + 4].copy_from_slice(&pid.to_le_bytes());
        }
        bytes[trailer + 8..trailer + 16].copy_from_slice(&time.nanos().to_le_bytes());
        Self { time, bytes, tid: pid, kind: self.kind }
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }

    /// The file of a mapping.
    pub(super) fn file(&self) -> FileId {
        const MMAP2_FILE_AT: usize = 40;
        let identity = self.bytes.get(MMAP2_FILE_AT..).and_then(<[u8]>::first_chunk);
        let is_mmap2 = self.bytes.starts_with(&kind::MMAP2.to_le_bytes());
        identity.filter(|_| is_mmap2).map(FileId::read).unwrap_or_default()
    }

    /// The path of a mapping.
    pub(super) fn path(&self) -> Option<&[u8]> {
        const MMAP_PATH_AT: usize = 40;
        const MMAP2_PATH_AT: usize = 72;
        let at = match u32::from_le_bytes(*self.bytes.first_chunk::<4>()?) {
            kind::MMAP => MMAP_PATH_AT,
            kind::MMAP2 => MMAP2_PATH_AT,
            _ => return None,
        };
        self.bytes.get(at..)?.split(|&byte| byte == 0).next()
    }
}

const KSYMBOL: u32 = 17;
/// Where its name begins.
const KSYMBOL_NAME_AT: usize = 24;
/// Where a record's header has its length, 16 bits.
const LEN_AT: usize = 6;

/// The record without what follows its trailer. The kernel (seen in 6.18) adds the trailer's length
/// to that of a KSYMBOL record again for each further event that gets it: with one on every CPU, all
/// but the first record are too long, and perf fails to read the trailer.
pub(super) fn without_garbage(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_ksymbol = bytes.starts_with(&KSYMBOL.to_le_bytes());
    let name = bytes.get(KSYMBOL_NAME_AT..).filter(|_| is_ksymbol);
    let name_len = name.and_then(|name| name.iter().position(|byte| *byte == 0));
    let len = name_len.map(|len| KSYMBOL_NAME_AT + (len + 1).next_multiple_of(8) + TRAILER_LEN);
    match len.filter(|len| *len < bytes.len()) {
        Some(len) => {
            let mut whole = bytes[..len].to_vec();
            whole[LEN_AT..LEN_AT + 2].copy_from_slice(&(len as u16).to_le_bytes());
            Cow::Owned(whole)
        }
        None => Cow::Borrowed(bytes),
    }
}

/// The order of records with the same time: a process starts before it gets a name, and gets a name
/// before it maps files.
pub(super) fn rank(record: &Record) -> u8 {
    match record.kind {
        RecordKind::Machine => 0,
        RecordKind::Fork { .. } => 1,
        RecordKind::Comm { .. } => 2,
        RecordKind::Map { .. } => 3,
        RecordKind::Exit => 4,
    }
}
