//! What a file says before its events: descriptions, names, options.

use crate::cursor::Cursor;
use crate::tracepoint::EventFormat;

/// Everything of the file but its pages.
#[derive(Default)]
pub(super) struct Header<'a> {
    pub page_size: usize,
    /// Events with their systems.
    pub events: Vec<(String, EventFormat)>,
    pub header_page: String,
    /// The text of `/proc/kallsyms`.
    pub kallsyms: Vec<u8>,
    /// Threads and their names.
    pub names: Vec<(u32, String)>,
    pub cpus: u32,
    pub clock: String,
    /// The clock of the buffers that hold the events, where they have one of their own.
    pub buffers_clock: String,
    /// Host, kernel and machine, as `uname(1)` prints them.
    pub uname: String,
    pub version: String,
    /// What is added to each time.
    pub offset: i64,
    /// Factor and shift of a clock that counts the CPU's cycles.
    pub cycles: Option<(u32, u32)>,
    /// True if a ring had overwritten its oldest events.
    pub has_overrun: bool,
    /// Events that the kernel dropped, by its own count.
    pub dropped: u64,
    pub buffers: Vec<Buffer<'a>>,
}

/// The pages of one instance.
pub(super) struct Buffer<'a> {
    pub page_size: usize,
    /// True if the pages are in compressed chunks.
    pub is_packed: bool,
    pub cpus: Vec<(u16, &'a [u8])>,
}

/// Numbers of options.
pub(super) mod option {
    pub const CPU_STATISTICS: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACE_CLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const CPU_COUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const TSC_TO_NS: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const COMMAND_LINES: u16 = 21;
}

impl Header<'_> {
    /// The descriptions of the ring's pages.
    pub fn header_info(&mut self, from: &mut Cursor<'_>) -> Option<()> {
        from.c_str()?;
        let len = from.u64()?;
        self.header_page = String::from_utf8_lossy(from.bytes_u64(len)?).into_owned();
        from.c_str()?;
        let len = from.u64()?;
        from.bytes_u64(len)?;
        Some(())
    }

    /// The events of ftrace itself, such as its stacks.
    pub fn ftrace_events(&mut self, from: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..from.u32()? {
            self.event(from, "ftrace")?;
        }
        Some(())
    }

    /// The events of all systems.
    pub fn event_formats(&mut self, from: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..from.u32()? {
            let system = String::from_utf8_lossy(from.c_str()?).into_owned();
            for _ in 0..from.u32()? {
                self.event(from, &system)?;
            }
        }
        Some(())
    }

    fn event(&mut self, from: &mut Cursor<'_>, system: &str) -> Option<()> {
        /// Systems whose events become parts of a trace.
        const SYSTEMS: [&str; 4] = ["ftrace", "sched", "task", "lock"];
        let len = from.u64()?;
        let text = from.bytes_u64(len)?;
        if SYSTEMS.contains(&system) {
            let format = EventFormat::parse(&String::from_utf8_lossy(text));
            self.events.extend(format.map(|format| (system.to_owned(), format)));
        }
        Some(())
    }

    /// Names of threads, each on a line behind its id.
    pub fn command_lines(&mut self, text: &[u8]) {
        let lines = text.split(|byte| *byte == b'\n');
        let name = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            let (tid, name) = line.trim_start().split_once(' ')?;
            Some((tid.parse().ok()?, name.to_owned()))
        };
        self.names.extend(lines.filter_map(name));
    }

    /// An option that is the same in both versions.
    pub fn option(&mut self, id: u16, data: &[u8]) {
        let text = || String::from_utf8_lossy(crate::cursor::until_nul(data)).into_owned();
        match id {
            option::CPU_STATISTICS => self.statistics(&text()),
            option::TRACE_CLOCK => {
                // The chosen one is in brackets.
                let text = text();
                let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
                self.clock = chosen.unwrap_or(text.trim()).to_owned();
            }
            option::UNAME => self.uname = text(),
            option::OFFSET => self.offset = text().trim().parse().unwrap_or(0),
            option::CPU_COUNT => self.cpus = Cursor::new(data).u32().unwrap_or(0),
            option::VERSION => self.version = text().trim().to_owned(),
            option::TSC_TO_NS => {
                let mut from = Cursor::new(data);
                self.cycles = from.u32().zip(from.u32()).filter(|(factor, _)| *factor > 0);
            }
            _ => {}
        }
    }

    /// The text of `per_cpu/cpuN/stats`.
    fn statistics(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, count)) = line.split_once(':') else { continue };
            let count = count.trim().parse::<u64>().unwrap_or(0);
            match name.trim() {
                "overrun" => self.has_overrun |= count > 0,
                "dropped events" | "commit overrun" => {
                    self.dropped = self.dropped.saturating_add(count);
                }
                _ => {}
            }
        }
    }
}
