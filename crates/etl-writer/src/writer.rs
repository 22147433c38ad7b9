//! [`Writer`]: puts events into the buffers of their CPUs, and buffers into a file in the order in
//! which they fill up.
//!
//! As in files of a real session, events of one CPU are by time, but buffers of different CPUs are
//! not.

use crate::{Header, LogFile, xpress};

const BUFFER_HEADER: usize = 0x48;
const PROC_INDEX: u16 = 0x20;
const COMPRESSED: u16 = 0x40;
const EVENTS_LOST: u16 = 2;
/// LogFileMode: the file was merged; buffers are compressed; circular.
const MERGED_MODE: u32 = 0x1_0000;
const COMPRESSED_MODE: u32 = 0x0400_0000;
const CIRCULAR_MODE: u32 = 2;

/// The clock of event times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// 1: the performance counter.
    Counter,
    /// 2: wall-clock time in units of 100 ns.
    System,
    /// 3: CPU cycles.
    Cycles,
}

/// Which buffers are compressed. The first one, which holds the header, never is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// None.
    Plain,
    /// All.
    All,
    /// Every second one.
    Mixed,
}

/// The properties of a file.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPUs of the machine.
    pub cpus: u16,
    /// Length of a pointer, bytes: 4 or 8.
    pub pointer_width: u8,
    /// Length of a buffer, bytes.
    pub buffer_bytes: u32,
    /// Which buffers are compressed.
    pub compression: Compression,
    /// The clock of event times.
    pub clock: Clock,
    /// Frequency of the counter, Hz. For [`Clock::Cycles`], only the CPU frequency in whole MHz
    /// counts.
    pub ticks_per_second: u64,
    /// The counter at the start of the trace.
    pub start_ticks: u64,
    /// Wall-clock time of that, in units of 100 ns since 1601.
    pub start_filetime: u64,
    /// The Windows build.
    pub build: u32,
    /// Number of events and of buffers that the session reports as lost.
    pub lost: (u32, u32),
    /// True for a file as written by `xperf -merge` or WPR.
    pub merged: bool,
    /// The data buffers begin with this one and continue with the first, as in a circular file
    /// that has wrapped.
    pub rotated_by: usize,
    /// Which words of a buffer's header have its used length.
    pub used_length: UsedLength,
}

/// Where a buffer's header has its used length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsedLength {
    /// In SavedOffset (+4) and in Offset (+0x30), as since Windows 8.
    SavedOffset,
    /// Only in Offset, with SavedOffset 0, as on Vista and Windows 7. Nothing was compressed then,
    /// and the CPU is one byte, followed by one of alignment.
    OffsetAlone,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpus: 2,
            pointer_width: 8,
            buffer_bytes: 64 << 10,
            compression: Compression::Plain,
            clock: Clock::Counter,
            ticks_per_second: 10_000_000,
            start_ticks: 1_000_000_000_000,
            start_filetime: 131_592_000_000_000_000,
            build: 17_134,
            lost: (0, 0),
            merged: true,
            rotated_by: 0,
            used_length: UsedLength::SavedOffset,
        }
    }
}

impl Options {
    /// The event time of `ns` after the start.
    pub fn ticks(&self, ns: u64) -> u64 {
        let scaled =
            |per_second: u64| (u128::from(ns) * u128::from(per_second) / 1_000_000_000) as u64;
        match self.clock {
            Clock::Counter => self.start_ticks + scaled(self.ticks_per_second),
            Clock::System => self.start_filetime + ns / 100,
            Clock::Cycles => {
                self.start_ticks + scaled(self.ticks_per_second / 1_000_000 * 1_000_000)
            }
        }
    }

    /// A duration of `ns` in event time.
    pub fn span_ticks(&self, ns: u64) -> u64 {
        self.ticks(ns) - self.ticks(0)
    }

    pub(crate) fn log_file(&self, buffers_written: u32) -> LogFile {
        let modes = [
            (self.merged, MERGED_MODE),
            (self.compression != Compression::Plain, COMPRESSED_MODE),
            (self.rotated_by > 0, CIRCULAR_MODE),
        ];
        LogFile {
            buffer_bytes: self.buffer_bytes,
            build: self.build,
            cpus: u32::from(self.cpus),
            end_filetime: 0,
            max_file_mib: if self.rotated_by > 0 { 100 } else { 0 },
            mode: modes.iter().filter(|(is, _)| *is).map(|(_, mode)| mode).sum::<u32>()
                | u32::from(self.rotated_by == 0 && !self.merged),
            buffers_written,
            pointer_width: self.pointer_width,
            events_lost: self.lost.0,
            cpu_mhz: (self.ticks_per_second / 1_000_000) as u32,
            perf_freq: self.ticks_per_second,
            start_filetime: self.start_filetime,
            clock_type: match self.clock {
                Clock::Counter => 1,
                Clock::System => 2,
                Clock::Cycles => 3,
            },
            buffers_lost: self.lost.1,
            session: if self.merged { "Relogger" } else { "NT Kernel Logger" }.to_owned(),
            file: if self.merged { "[multiple files]" } else { "C:\\made-up.etl" }.to_owned(),
            sub_version: if self.compression == Compression::Plain { 5 } else { 0 },
        }
    }
}

/// Writes a file event by event.
pub struct Writer {
    options: Options,
    /// The current buffer of each CPU.
    filling: Vec<Vec<u8>>,
    last_ticks: Vec<u64>,
    /// That buffer's own flags.
    flags: Vec<u16>,
    full: Vec<Vec<u8>>,
    events: u64,
}

impl Writer {
    /// An empty file.
    pub fn new(options: Options) -> Self {
        let cpus = usize::from(options.cpus);
        Self {
            options,
            filling: vec![Vec::new(); cpus],
            last_ticks: vec![0; cpus],
            flags: vec![0; cpus],
            full: Vec::new(),
            events: 0,
        }
    }

    /// The properties of the file.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Number of events so far, without the file's own ones.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds an event of `cpu`, `ns` after the start of the trace.
    ///
    /// # Panics
    /// If it is earlier than the last one of that CPU, or longer than a buffer.
    pub fn event(&mut self, cpu: u16, ns: u64, header: &Header, payload: &[u8]) {
        let ticks = self.options.ticks(ns);
        let last = &mut self.last_ticks[usize::from(cpu)];
        assert!(*last <= ticks, "CPU {cpu} goes back in time at {ns}");
        *last = ticks;
        self.append(cpu, &header.encode(self.options.pointer_width, ticks, payload));
        self.events += 1;
    }

    fn append(&mut self, cpu: u16, event: &[u8]) {
        let room = self.options.buffer_bytes as usize - BUFFER_HEADER;
        assert!(event.len() <= room, "an event fits into a buffer");
        if self.filling[usize::from(cpu)].len().next_multiple_of(8) + event.len() > room {
            self.flush(cpu);
        }
        let buffer = &mut self.filling[usize::from(cpu)];
        buffer.resize(buffer.len().next_multiple_of(8), 0);
        buffer.extend_from_slice(event);
    }

    /// Flags the current buffer of `cpu`: events were lost.
    pub fn lose(&mut self, cpu: u16) {
        self.flags[usize::from(cpu)] |= EVENTS_LOST;
    }

    /// Ends the current buffer of `cpu`, as sessions do from time to time.
    pub fn flush(&mut self, cpu: u16) {
        let data = std::mem::take(&mut self.filling[usize::from(cpu)]);
        if !data.is_empty() {
            let compressed = match self.options.compression {
                Compression::Plain => false,
                Compression::All => true,
                Compression::Mixed => self.full.len().is_multiple_of(2),
            };
            let flags = std::mem::take(&mut self.flags[usize::from(cpu)]);
            let buffer = self.buffer(
                &data,
                cpu,
                self.full.len() as u64 + 1,
                0,
                flags | if compressed { COMPRESSED } else { 0 },
            );
            self.full.push(buffer);
        }
    }

    fn buffer(&self, data: &[u8], cpu: u16, sequence: u64, kind: u16, flags: u16) -> Vec<u8> {
        let compressed = flags & COMPRESSED != 0;
        let stored = if compressed { xpress::compress(data) } else { data.to_vec() };
        let on_disk = if compressed {
            BUFFER_HEADER + stored.len()
        } else {
            self.options.buffer_bytes as usize
        };
        let used = (BUFFER_HEADER + data.len()) as u32;
        let is_old = self.options.used_length == UsedLength::OffsetAlone;
        assert!(!(is_old && compressed), "Windows 7 compresses nothing");
        let mut out = vec![0; BUFFER_HEADER];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x00, &(on_disk as u32).to_le_bytes());
        put(0x04, &if is_old { 0 } else { used }.to_le_bytes());
        put(0x08, &used.to_le_bytes());
        put(0x10, &self.options.start_filetime.to_le_bytes());
        put(0x18, &sequence.to_le_bytes());
        match is_old {
            true => put(0x28, &[u8::try_from(cpu).expect("a CPU of one byte"), 64]),
            false => put(0x28, &cpu.to_le_bytes()),
        }
        put(0x2a, &u16::from(!self.options.merged).to_le_bytes());
        put(0x2c, &3_u32.to_le_bytes());
        put(0x30, &used.to_le_bytes());
        put(0x34, &(flags | if is_old { 0 } else { PROC_INDEX }).to_le_bytes());
        put(0x36, &kind.to_le_bytes());
        out.extend_from_slice(&stored);
        out.resize(on_disk, 0xff);
        out
    }

    /// The whole file.
    pub fn finish(mut self) -> Vec<u8> {
        (0..self.options.cpus).for_each(|cpu| self.flush(cpu));
        let log_file = self.options.log_file(self.full.len() as u32 + 1).payload();
        let header = Header::System { hook: 0, version: 2, pid: 4, tid: 8 };
        let first = header.encode(self.options.pointer_width, self.options.ticks(0), &log_file);
        let mut out = self.buffer(&first, 0, 0, 4, 0);
        let turn = self.options.rotated_by.min(self.full.len());
        self.full.rotate_left(turn);
        self.full.iter().for_each(|buffer| out.extend_from_slice(buffer));
        out
    }
}
