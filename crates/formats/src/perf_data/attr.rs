//! [`EventAttr`]: what an event counts and what its samples carry.
//!
//! `struct perf_event_attr` of `include/uapi/linux/perf_event.h`. The same bytes go to
//! `perf_event_open` and into every file, so recorder, writer and reader share one definition.

use crate::{Error, cursor::Cursor};

/// `PERF_TYPE_HARDWARE`.
pub const TYPE_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub const TYPE_SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`: `config` is the id in the tracepoint's format text.
pub const TYPE_TRACEPOINT: u32 = 2;

/// `PERF_COUNT_SW_CPU_CLOCK`: a timer per CPU.
pub const SW_CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_TASK_CLOCK`: a timer that runs with a task.
pub const SW_TASK_CLOCK: u64 = 1;
/// `PERF_COUNT_SW_DUMMY`: counts nothing, carries the side-band.
pub const SW_DUMMY: u64 = 9;

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $bit:expr;)*) => {
        $($(#[$doc])* pub const $name: u64 = 1 << $bit;)*
    };
}

/// Bits of [`EventAttr::flags`].
pub mod flag {
    bits! {
        /// Off until enabled.
        DISABLED = 0;
        /// Children inherit it.
        INHERIT = 1;
        /// Must always be on the PMU.
        PINNED = 2;
        /// Only group on the PMU.
        EXCLUSIVE = 3;
        /// Not in user mode.
        EXCLUDE_USER = 4;
        /// Not in the kernel.
        EXCLUDE_KERNEL = 5;
        /// Not in the hypervisor.
        EXCLUDE_HV = 6;
        /// Not when idle.
        EXCLUDE_IDLE = 7;
        /// MMAP records for executable mappings.
        MMAP = 8;
        /// COMM records.
        COMM = 9;
        /// `sample_period` is a frequency in Hz.
        FREQ = 10;
        /// Per-task counts.
        INHERIT_STAT = 11;
        /// Enabled by the next exec.
        ENABLE_ON_EXEC = 12;
        /// FORK and EXIT records.
        TASK = 13;
        /// `wakeup` counts bytes, not events.
        WATERMARK = 14;
        /// MMAP records for data mappings too.
        MMAP_DATA = 17;
        /// Every record ends with a sample id.
        SAMPLE_ID_ALL = 18;
        /// Not in a host.
        EXCLUDE_HOST = 19;
        /// Not in a guest.
        EXCLUDE_GUEST = 20;
        /// No kernel frames in call chains.
        EXCLUDE_CALLCHAIN_KERNEL = 21;
        /// No user frames in call chains.
        EXCLUDE_CALLCHAIN_USER = 22;
        /// MMAP2 records in place of MMAP.
        MMAP2 = 23;
        /// COMM records are flagged after an exec.
        COMM_EXEC = 24;
        /// `clockid` holds.
        USE_CLOCKID = 25;
        /// SWITCH records.
        CONTEXT_SWITCH = 26;
        /// The ring is written from its end to its start, and overwritten.
        WRITE_BACKWARD = 27;
        /// NAMESPACES records.
        NAMESPACES = 28;
        /// KSYMBOL records.
        KSYMBOL = 29;
        /// BPF_EVENT records.
        BPF_EVENT = 30;
        /// AUX events generate output into another event.
        AUX_OUTPUT = 31;
        /// CGROUP records.
        CGROUP = 32;
        /// TEXT_POKE records.
        TEXT_POKE = 33;
        /// MMAP2 records carry the file's build id.
        BUILD_ID = 34;
        /// Children inherit only when cloned as threads.
        INHERIT_THREAD = 35;
        /// Removed on exec.
        REMOVE_ON_EXEC = 36;
        /// Sends a signal.
        SIGTRAP = 37;
    }
}

/// Bits of [`EventAttr::sample_type`], in the order of `PERF_SAMPLE_*`.
pub mod sample {
    bits! {
        /// Instruction pointer.
        IP = 0;
        /// Process and thread id.
        TID = 1;
        /// Time.
        TIME = 2;
        /// Data address.
        ADDR = 3;
        /// Counter values, see `read_format`.
        READ = 4;
        /// Call chain.
        CALLCHAIN = 5;
        /// Event id, of the group leader.
        ID = 6;
        /// CPU.
        CPU = 7;
        /// Period.
        PERIOD = 8;
        /// Event id, of the event itself.
        STREAM_ID = 9;
        /// The tracepoint's own bytes.
        RAW = 10;
        /// Last branches.
        BRANCH_STACK = 11;
        /// User registers.
        REGS_USER = 12;
        /// A copy of the user stack.
        STACK_USER = 13;
        /// Weight.
        WEIGHT = 14;
        /// Where data came from.
        DATA_SRC = 15;
        /// Event id, at a fixed place.
        IDENTIFIER = 16;
        /// Transaction flags.
        TRANSACTION = 17;
        /// Registers at the interrupt.
        REGS_INTR = 18;
        /// Physical data address.
        PHYS_ADDR = 19;
    }
}

/// Bits of [`EventAttr::read_format`].
pub mod read_format {
    bits! {
        /// Time enabled.
        TOTAL_TIME_ENABLED = 0;
        /// Time running.
        TOTAL_TIME_RUNNING = 1;
        /// Event id.
        ID = 2;
        /// All events of the group.
        GROUP = 3;
        /// Lost samples.
        LOST = 4;
    }
}

/// `struct perf_event_attr`, field by field. Unions go by the name that tracepoints and clocks use.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventAttr {
    /// `type`: `PERF_TYPE_*`.
    pub kind: u32,
    /// What is counted, by `kind`.
    pub config: u64,
    /// Events between samples, or their frequency in Hz with [`flag::FREQ`].
    pub sample_period: u64,
    /// What a sample carries: bits of [`sample`].
    pub sample_type: u64,
    /// What a read carries: bits of [`read_format`].
    pub read_format: u64,
    /// The bit field: bits of [`flag`].
    pub flags: u64,
    /// Events, or bytes with [`flag::WATERMARK`], before a wake-up of the reader.
    pub wakeup: u32,
    /// Breakpoint type.
    pub bp_type: u32,
    /// More configuration.
    pub config1: u64,
    /// More configuration.
    pub config2: u64,
    /// Which branches.
    pub branch_sample_type: u64,
    /// Which user registers.
    pub sample_regs_user: u64,
    /// Bytes of user stack to copy.
    pub sample_stack_user: u32,
    /// The clock, with [`flag::USE_CLOCKID`].
    pub clockid: i32,
    /// Which registers at the interrupt.
    pub sample_regs_intr: u64,
    /// Bytes before a wake-up of the AUX reader.
    pub aux_watermark: u32,
    /// Longest call chain, 0 for the system's limit.
    pub sample_max_stack: u16,
    /// Bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    /// Passed with a signal.
    pub sig_data: u64,
    /// More configuration.
    pub config3: u64,
}

impl EventAttr {
    /// Length of the newest layout known here, bytes: `PERF_ATTR_SIZE_VER8`.
    pub const ENCODED_LEN: usize = 136;
    /// `PERF_ATTR_SIZE_VER0`, the shortest layout that a file may have, bytes.
    pub(crate) const MIN_LEN: usize = 64;
    /// `PERF_ATTR_SIZE_VER5`, bytes: enough for tracepoints and clocks. A perf that is older than
    /// the file's layout refuses the file.
    pub(crate) const COMPATIBLE_LEN: usize = 112;

    /// What the events of a file have in common whose times are those of the clock `CLOCK_*`.
    pub fn on_clock(clockid: u32) -> Self {
        let flags = flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
        Self { flags, clockid: clockid as i32, ..Self::default() }
    }

    /// The bytes that `perf_event_open` takes. Older kernels accept them as long as the fields that
    /// they do not know are 0.
    pub fn encode(&self) -> [u8; Self::ENCODED_LEN] {
        let mut out = [0; Self::ENCODED_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.kind.to_le_bytes());
        put(&(Self::ENCODED_LEN as u32).to_le_bytes());
        for word in
            [self.config, self.sample_period, self.sample_type, self.read_format, self.flags]
        {
            put(&word.to_le_bytes());
        }
        put(&self.wakeup.to_le_bytes());
        put(&self.bp_type.to_le_bytes());
        for word in [self.config1, self.config2, self.branch_sample_type, self.sample_regs_user] {
            put(&word.to_le_bytes());
        }
        put(&self.sample_stack_user.to_le_bytes());
        put(&self.clockid.to_le_bytes());
        put(&self.sample_regs_intr.to_le_bytes());
        put(&self.aux_watermark.to_le_bytes());
        put(&self.sample_max_stack.to_le_bytes());
        put(&[0; 2]);
        put(&self.aux_sample_size.to_le_bytes());
        put(&[0; 4]);
        put(&self.sig_data.to_le_bytes());
        put(&self.config3.to_le_bytes());
        out
    }

    /// The bytes of a file's attribute, cut to `len`, with `len` in their size field.
    pub(crate) fn encode_len(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        bytes.truncate(len);
        bytes
    }

    /// Reads the bytes of any version. Fields that an old version lacks are 0; fields of a newer
    /// one are ignored.
    ///
    /// # Errors
    /// If there are fewer bytes than the oldest version has.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() < Self::MIN_LEN {
            return Err(Error::truncated("an event attribute of at least 64 bytes", bytes.len()));
        }
        let stated = match u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize {
            0 => Self::MIN_LEN,
            len => len,
        };
        let mut padded = [0; Self::ENCODED_LEN];
        let len = stated.min(bytes.len()).min(Self::ENCODED_LEN);
        padded[..len].copy_from_slice(&bytes[..len]);
        Self::read(&mut Cursor::new(&padded))
            .ok_or_else(|| Error::truncated("an event attribute", len))
    }

    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        let kind = from.u32()?;
        from.u32()?;
        let mut attr = Self {
            kind,
            config: from.u64()?,
            sample_period: from.u64()?,
            sample_type: from.u64()?,
            read_format: from.u64()?,
            flags: from.u64()?,
            wakeup: from.u32()?,
            bp_type: from.u32()?,
            config1: from.u64()?,
            config2: from.u64()?,
            branch_sample_type: from.u64()?,
            sample_regs_user: from.u64()?,
            sample_stack_user: from.u32()?,
            clockid: from.u32()? as i32,
            sample_regs_intr: from.u64()?,
            aux_watermark: from.u32()?,
            sample_max_stack: from.u16()?,
            ..Self::default()
        };
        from.u16()?;
        attr.aux_sample_size = from.u32()?;
        from.u32()?;
        attr.sig_data = from.u64()?;
        attr.config3 = from.u64()?;
        Some(attr)
    }

    /// True when all bits of `flags` are set.
    pub const fn has(&self, flags: u64) -> bool {
        self.flags & flags == flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_decodes() {
        let attr = EventAttr {
            kind: 2,
            config: 372,
            sample_period: 1,
            sample_type: sample::IDENTIFIER | sample::RAW,
            read_format: 4,
            flags: flag::SAMPLE_ID_ALL | flag::USE_CLOCKID,
            wakeup: 3,
            bp_type: 4,
            config1: 5,
            config2: 6,
            branch_sample_type: 7,
            sample_regs_user: 8,
            sample_stack_user: 9,
            clockid: -1,
            sample_regs_intr: 10,
            aux_watermark: 11,
            sample_max_stack: 12,
            aux_sample_size: 13,
            sig_data: 14,
            config3: 15,
        };
        assert_eq!(EventAttr::decode(&attr.encode()).unwrap(), attr);
        let cut = EventAttr { aux_sample_size: 0, sig_data: 0, config3: 0, ..attr.clone() };
        assert_eq!(EventAttr::decode(&attr.encode_len(EventAttr::COMPATIBLE_LEN)).unwrap(), cut);
        assert!(EventAttr::decode(&attr.encode()[..63]).is_err());
    }
}
