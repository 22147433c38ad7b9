//! The side-band: records of forks, exits, names, mappings and losses between the samples.
//!
//! `enum perf_event_type` of `include/uapi/linux/perf_event.h`.

use super::{
    events::Events,
    record::{FileId, kind, misc},
    records::Record,
};
use crate::cursor::{Cursor, until_nul};
use unhitch_model::Time;

/// A mapping of code.
#[derive(Clone, Copy)]
pub(crate) struct Mmap<'a> {
    pub pid: u32,
    pub start_avma: u64,
    pub len: u64,
    pub file_offset: u64,
    pub path: &'a [u8],
    pub build_id: &'a [u8],
    /// Which file it is, where there is no build id.
    pub file: FileId,
    pub kernel: bool,
    /// False for a mapping of data, which no return address can point into.
    pub executable: bool,
}

/// The content of a record.
#[derive(Clone, Copy)]
pub(crate) enum SideBand<'a> {
    Mmap(Mmap<'a>),
    Comm { pid: u32, tid: u32, name: &'a [u8], exec: bool },
    Fork { pid: u32, ppid: u32, tid: u32, ptid: u32 },
    Exit { tid: u32 },
    Lost { events: u64 },
}

/// A record with its CPU and its time, which is zero for what existed before the recording.
#[derive(Clone, Copy)]
pub(crate) struct Timed<'a> {
    pub time: Time,
    pub cpu: Option<u32>,
    pub record: SideBand<'a>,
}

/// True for the types of records that [`read`] understands.
pub(crate) fn is_known(record_kind: u32) -> bool {
    use kind::*;
    matches!(record_kind, MMAP | MMAP2 | COMM | FORK | EXIT | LOST | LOST_SAMPLES)
}

/// Reads a record; `None` if it is damaged.
pub(crate) fn read<'a>(record: &Record<'a>, events: &Events) -> Option<Timed<'a>> {
    let trailer = events.trailer(record.body);
    let mut from = Cursor::new(record.body);
    let mut time = trailer.time;
    let content = match record.kind {
        kind::COMM => {
            let exec = record.misc & misc::COMM_EXEC != 0;
            SideBand::Comm {
                pid: from.u32()?,
                tid: from.u32()?,
                name: until_nul(from.rest()),
                exec,
            }
        }
        kind::FORK | kind::EXIT => {
            let (pid, ppid, tid, ptid) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
            time = Time::from_nanos(from.u64()?);
            if record.kind == kind::FORK {
                SideBand::Fork { pid, ppid, tid, ptid }
            } else {
                SideBand::Exit { tid }
            }
        }
        kind::LOST => {
            from.u64()?;
            SideBand::Lost { events: from.u64()? }
        }
        kind::LOST_SAMPLES => SideBand::Lost { events: from.u64()? },
        kind::MMAP | kind::MMAP2 => SideBand::Mmap(read_mmap(record, &mut from)?),
        _ => return None,
    };
    Some(Timed { time, cpu: trailer.cpu, record: content })
}

/// `mmap(2)`: the mapping may be executed.
const PROT_EXEC: u32 = 4;

/// The build id in the 24 bytes of an MMAP2 record that identify the file: its length, padding, and it;
/// empty if they are the device, inode and generation.
///
/// *Why look, where the record says which it is:* while another recorder asks for build ids, Linux
/// sets that flag in the records of those who do not, too (`perf_event_mmap_output`, 5.12 to at least
/// 6.18).
fn build_id_in(identity: &[u8]) -> &[u8] {
    const LENS: [usize; 3] = [8, 16, 20];
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let Some((head, rest)) = identity.split_at_checked(4) else { return &[] };
    let len = usize::from(head[0]);
    match rest.split_at_checked(len) {
        Some((id, padding)) if LENS.contains(&len) && is_zero(&head[1..]) && is_zero(padding) => id,
        _ => &[],
    }
}

fn read_mmap<'a>(record: &Record<'a>, from: &mut Cursor<'a>) -> Option<Mmap<'a>> {
    let pid = from.u32()?;
    let _tid = from.u32()?;
    let (start_avma, len, file_offset) = (from.u64()?, from.u64()?, from.u64()?);
    let (mut build_id, mut file) = (&[][..], FileId::default());
    let mut executable = record.misc & misc::MMAP_DATA == 0;
    if record.kind == kind::MMAP2 {
        let identity = from.bytes(FileId::LEN)?;
        if record.misc & misc::MMAP_BUILD_ID != 0 {
            build_id = build_id_in(identity);
        }
        file = identity
            .first_chunk()
            .filter(|_| build_id.is_empty())
            .map(FileId::read)
            .unwrap_or_default();
        let (protection, _flags) = (from.u32()?, from.u32()?);
        // Writers that do not know the protection put 0 there.
        executable &= protection == 0 || protection & PROT_EXEC != 0;
    }
    let kernel = record.misc & misc::CPUMODE_MASK == misc::KERNEL;
    Some(Mmap {
        pid,
        start_avma,
        len,
        file_offset,
        path: until_nul(from.rest()),
        build_id,
        file,
        kernel,
        executable,
    })
}

#[cfg(test)]
mod tests {
    use super::build_id_in;

    #[test]
    fn a_files_device_and_inode_are_no_build_id() {
        let mut identity = [0; 24];
        identity[0] = 20;
        identity[4..].fill(0xab);
        assert_eq!(build_id_in(&identity), [0xab; 20]);
        identity[12..].fill(0);
        identity[0] = 8;
        assert_eq!(build_id_in(&identity), [0xab; 8]);
        // Device 254:0, inode 0x4fa7d, generation 0; 8:1 with a generation; 259:0.
        let identity_of = |major: u32, minor: u32, inode: u64, generation: u64| {
            let numbers = [major.to_le_bytes(), minor.to_le_bytes()].concat();
            [numbers, inode.to_le_bytes().to_vec(), generation.to_le_bytes().to_vec()].concat()
        };
        assert!(build_id_in(&identity_of(254, 0, 0x4fa7d, 0)).is_empty());
        assert!(build_id_in(&identity_of(8, 1, 0x4fa7d, 0xf25e_2b9b)).is_empty());
        assert!(build_id_in(&identity_of(259, 0, 0x4fa7d, 0)).is_empty());
    }
}
