//! The open events of the side-band, one for each CPU, and their rings.

use super::SidebandLog;
use super::record::without_garbage;
use crate::error::Error;
use crate::events::{self, is_memory, is_offline, open_failed};
use crate::ring::{self, DrainedRing};
use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use unhitch_formats::perf_data::{EventAttr, EventDesc};

/// Size of a ring in bytes; it holds about a thousand records.
const RING_LEN: usize = 128 << 10;
/// Minimum size of a ring in bytes, for machines that let no more be allocated.
const MIN_RING_LEN: usize = 16 << 10;
/// An event that is not counted as enabled for so long is dead.
const PULSE: Duration = Duration::from_millis(2);

/// The side-band's rings and their log.
pub(crate) struct Sideband {
    sources: Vec<Source>,
    attr: EventAttr,
    pub(crate) log: SidebandLog,
    scratch: Vec<u8>,
    /// The memory of the log after it was last compacted, in bytes.
    pub(crate) compacted: usize,
}

/// One CPU's event.
struct Source {
    cpu: u16,
    event: Arc<OwnedFd>,
    ring: DrainedRing,
    id: u64,
    /// The id of the CPU's first event, which is the one that traces describe.
    described_id: u64,
}

/// What was opened again.
pub(crate) struct Reopened {
    pub(crate) cpus: Vec<u16>,
    /// False if the event of a CPU that is online could not be.
    pub(crate) all: bool,
}

impl Sideband {
    /// Opens the events, which do not record yet.
    pub(crate) fn open(online: &[u16], warnings: &mut Vec<String>) -> Result<Self, Error> {
        let (mut sources, mut attr) = (Vec::new(), EventAttr::default());
        for &cpu in online {
            if let Some((source, opened)) = Source::open(cpu)? {
                sources.push(source);
                attr = opened;
            }
        }
        if sources.len() < online.len() {
            warnings.push("a CPU went offline while recording started: it is left out".to_owned());
        }
        let log = SidebandLog::default();
        Ok(Self { sources, attr, log, scratch: Vec::new(), compacted: 0 })
    }

    /// Begins to record.
    pub(crate) fn enable(&self) -> Result<(), Error> {
        self.sources.iter().try_for_each(Source::enable)
    }

    /// The event of each CPU, which is readable when its ring is a quarter full.
    pub(crate) fn events(&self) -> Vec<Arc<OwnedFd>> {
        self.sources.iter().map(|source| Arc::clone(&source.event)).collect()
    }

    /// The event as a trace describes it.
    pub(crate) fn description(&self) -> EventDesc {
        EventDesc {
            name: "dummy:HG".to_owned(),
            attr: self.attr.clone(),
            ids: self.sources.iter().map(|source| source.described_id).collect(),
        }
    }

    /// Reads all new records into the log.
    pub(crate) fn drain(&mut self) {
        self.scratch.clear();
        for source in &mut self.sources {
            source.drain(&mut self.scratch);
        }
        self.log.add(&self.scratch);
    }

    /// Opens the events again that the kernel has taken away because their CPU was offline.
    pub(crate) fn reopen(&mut self) -> Reopened {
        let pulses: Vec<Option<u64>> = self.sources.iter().map(Source::enabled_ns).collect();
        std::thread::sleep(PULSE);
        self.drain();
        let mut reopened = Reopened { cpus: Vec::new(), all: true };
        for (source, pulse) in self.sources.iter_mut().zip(pulses) {
            if source.enabled_ns() != pulse {
                continue;
            }
            match Source::open(source.cpu) {
                // Still offline.
                Ok(None) => {}
                Ok(Some((new, _))) if new.enable().is_ok() => {
                    *source = Source { described_id: source.described_id, ..new };
                    reopened.cpus.push(source.cpu);
                }
                _ => reopened.all = false,
            }
        }
        reopened
    }

    /// Memory of the rings and the log, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.sources.iter().map(|source| source.ring.len()).sum::<usize>() + self.log.memory()
    }
}

impl Source {
    /// Opens the event on a CPU; `None` if that is offline.
    fn open(cpu: u16) -> Result<Option<(Self, EventAttr)>, Error> {
        let failed = |error| open_failed("dummy:HG", cpu, error);
        let mut len = RING_LEN;
        loop {
            let (event, attr) = match events::sideband(cpu, (len / 4) as u32) {
                Err(error) if is_offline(&error) => return Ok(None),
                result => result.map_err(failed)?,
            };
            match DrainedRing::new(event.as_fd(), len) {
                Ok(ring) => {
                    let id = sys::event_id(event.as_fd()).map_err(failed)?;
                    let event = Arc::new(event);
                    return Ok(Some((Self { cpu, event, ring, id, described_id: id }, attr)));
                }
                Err(error) if is_memory(&error) && len > MIN_RING_LEN => len /= 2,
                Err(error) => return Err(open_failed("the side-band ring", cpu, error)),
            }
        }
    }

    fn enable(&self) -> Result<(), Error> {
        sys::enable(self.event.as_fd())
            .map_err(|source| Error::System { action: "start the side-band", source })
    }

    /// For how long the event has been enabled.
    fn enabled_ns(&self) -> Option<u64> {
        sys::read_enabled_ns(self.event.as_fd()).ok()
    }

    /// Appends all new records to `out`, with the id that traces describe.
    fn drain(&mut self, out: &mut Vec<u8>) {
        if self.id == self.described_id {
            return self.ring.drain(out);
        }
        let mut drained = Vec::new();
        self.ring.drain(&mut drained);
        for record in ring::records(&drained) {
            let mut record = without_garbage(record).into_owned();
            if let Some(id) = record.last_chunk_mut() {
                *id = self.described_id.to_le_bytes();
            }
            out.extend(record);
        }
    }
}
