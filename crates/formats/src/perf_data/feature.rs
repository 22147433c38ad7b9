//! The feature sections behind a file's data, which a pipe has as records.
//!
//! `HEADER_*` in `tools/perf/util/header.h`; each is a bit of the file header. A damaged section
//! loses its own content, never the trace.

use super::{
    attr::EventAttr,
    description::{ClockData, EventDesc, Features},
    record::misc,
    records::Records,
};
use crate::{
    cursor::{Cursor, until_nul},
    tracepoint::TracingData,
};
use rustc_hash::FxHashMap;
use unhitch_model::{Time, Window};

pub(crate) const TRACING_DATA: u32 = 1;
pub(crate) const BUILD_ID: u32 = 2;
pub(crate) const HOSTNAME: u32 = 3;
pub(crate) const OS_RELEASE: u32 = 4;
pub(crate) const VERSION: u32 = 5;
pub(crate) const ARCH: u32 = 6;
pub(crate) const NR_CPUS: u32 = 7;
pub(crate) const TOTAL_MEM: u32 = 10;
pub(crate) const CMDLINE: u32 = 11;
pub(crate) const EVENT_DESC: u32 = 12;
pub(crate) const SAMPLE_TIME: u32 = 21;
pub(crate) const CLOCK_ID: u32 = 23;
pub(crate) const CLOCK_DATA: u32 = 29;
/// The path under which the kernel's build id is listed.
pub(crate) const KERNEL_PATH: &[u8] = b"[kernel.kallsyms]";
/// Number of features that the header has room for.
pub(crate) const COUNT: u32 = 256;

/// Maximum number of events. No machine can open more, so anything beyond is damage.
pub(crate) const MAX_EVENTS: usize = 4096;

/// What a file says about itself outside its records.
#[derive(Default)]
pub(crate) struct FileDescription {
    /// The events, in the order of their attributes.
    pub events: Vec<EventDesc>,
    /// Names that a pipe gives to events later, by the id of an instance.
    pub renamed: Vec<(u64, String)>,
    /// Machine and recording.
    pub features: Features,
    /// Build ids by path, for MMAP records that do not carry them.
    pub build_ids: FxHashMap<Vec<u8>, Vec<u8>>,
}

impl FileDescription {
    /// Reads one feature section; `None` if it is damaged.
    pub(crate) fn read_section(&mut self, feature: u32, section: &[u8]) -> Option<()> {
        let mut from = Cursor::new(section);
        let features = &mut self.features;
        match feature {
            TRACING_DATA => features.tracing_data = TracingData::decode(section).ok()?,
            BUILD_ID => {
                for record in Records::new(section) {
                    self.read_build_id(record.misc, record.body)?;
                }
            }
            HOSTNAME => features.host = text(&mut from)?,
            OS_RELEASE => features.kernel = text(&mut from)?,
            VERSION => features.producer = text(&mut from)?,
            ARCH => features.arch = text(&mut from)?,
            NR_CPUS => (features.cpus_available, features.cpus_online) = (from.u32()?, from.u32()?),
            TOTAL_MEM => features.memory_kib = from.u64()?,
            CMDLINE => {
                for _ in 0..from.u32()? {
                    features.command_line.push(text(&mut from)?);
                }
            }
            EVENT_DESC => self.read_event_desc(&mut from)?,
            SAMPLE_TIME => {
                features.sample_window =
                    Some(Window::new(Time::from_nanos(from.u64()?), Time::from_nanos(from.u64()?)))
            }
            CLOCK_DATA => {
                let _version = from.u32()?;
                features.clock_id = Some(ClockData {
                    clockid: from.u32()?,
                    wall_ns: from.u64()?,
                    clock_ns: from.u64()?,
                });
            }
            _ => {}
        }
        Some(())
    }

    /// Takes the events' names from the section. The header has the rest.
    fn read_event_desc(&mut self, from: &mut Cursor<'_>) -> Option<()> {
        let count = from.u32()?;
        let attr_len = from.u32()? as usize;
        for index in 0..count as usize {
            let attr = from.bytes(attr_len)?;
            let ids = from.u32()?;
            let name = text(from)?;
            from.bytes_u64(u64::from(ids) * 8)?;
            if let Some(event) = self.events.get_mut(index).filter(|event| {
                EventAttr::decode(attr).is_ok_and(|attr| attr.config == event.attr.config)
            }) {
                event.name = name;
            }
        }
        Some(())
    }

    /// `struct perf_record_header_build_id`.
    pub(crate) fn read_build_id(&mut self, record_misc: u16, body: &[u8]) -> Option<()> {
        let mut from = Cursor::new(body);
        let _pid = from.u32()?;
        let id = from.bytes(24)?;
        let len = if record_misc & misc::BUILD_ID_SIZE != 0 { usize::from(id[20]) } else { 20 };
        self.build_ids.insert(until_nul(from.rest()).to_vec(), id[..len.min(20)].to_vec());
        Some(())
    }

    /// Adds an event of a pipe, `struct perf_record_header_attr`.
    pub(crate) fn read_attr(&mut self, body: &[u8]) -> Option<()> {
        let len = match Cursor::new(body.get(4..)?).u32()? as usize {
            0 => EventAttr::MIN_LEN,
            len => len,
        };
        let (attr, ids) = body.split_at_checked(len)?;
        let ids = ids.as_chunks::<8>().0.iter().map(|id| u64::from_le_bytes(*id)).collect();
        let event = EventDesc { name: String::new(), attr: EventAttr::decode(attr).ok()?, ids };
        (self.events.len() < MAX_EVENTS).then(|| self.events.push(event))
    }

    /// Reads a feature section of a pipe, `struct perf_record_header_feature`.
    pub(crate) fn read_feature(&mut self, body: &[u8]) -> Option<()> {
        let mut from = Cursor::new(body);
        let feature = u32::try_from(from.u64()?).ok()?;
        self.read_section(feature, from.rest())
    }

    /// Names an event of a pipe, `struct perf_record_event_update`.
    pub(crate) fn read_event_update(&mut self, body: &[u8]) -> Option<()> {
        const NAME: u64 = 2;
        let mut from = Cursor::new(body);
        let (kind, id) = (from.u64()?, from.u64()?);
        if kind == NAME {
            self.renamed.push((id, String::from_utf8_lossy(until_nul(from.rest())).into_owned()));
        }
        Some(())
    }
}

/// `perf_header_string`: length, then a NUL-terminated text padded to it.
fn text(from: &mut Cursor<'_>) -> Option<String> {
    let len = from.u32()?;
    Some(String::from_utf8_lossy(until_nul(from.bytes_u64(u64::from(len))?)).into_owned())
}
