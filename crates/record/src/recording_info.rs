//! [`RecordingInfo`]: what a trace says about its recording and machine, collected once when
//! recording starts.

use crate::error::Error;
use crate::events::{self, CLOCK};
use crate::options::Options;
use crate::session::Session;
use rustc_hash::FxHashSet;
use std::fs;
use std::path::Path;
use unhitch_formats::container::Readers;
use unhitch_formats::perf_data::attr::sample;
use unhitch_formats::perf_data::{ClockData, EventDesc, Features};
use unhitch_formats::tracepoint::TracingData;

/// What stays the same for all saves of one recording.
pub(crate) struct RecordingInfo {
    pub(crate) events: Vec<EventDesc>,
    pub(crate) features: Features,
    pub(crate) options: serde_json::Value,
    pub(crate) sample_period_ns: u64,
    pub(crate) warnings: Vec<String>,
    pub(crate) readers: Readers,
    /// Ids of the events whose samples start with an instruction pointer.
    with_ip: FxHashSet<u64>,
}

impl RecordingInfo {
    pub(crate) fn new(
        options: &Options,
        session: &Session,
        tracefs: &Path,
        warnings: Vec<String>,
    ) -> Result<Self, Error> {
        let mut descriptions: Vec<EventDesc> = session
            .events
            .iter()
            .map(|event| EventDesc {
                name: event.name.clone(),
                attr: event.attr.clone(),
                ids: Vec::new(),
            })
            .collect();
        for open in session.cpus.iter().flat_map(|cpu| &cpu.events) {
            descriptions[open.event].ids.push(open.id);
        }
        let with_ip = |event: &&EventDesc| event.attr.sample_type & sample::IP != 0;
        let with_ip = descriptions
            .iter()
            .filter(with_ip)
            .flat_map(|event| event.ids.iter().copied())
            .collect();
        descriptions.push(session.sideband().description());
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let features = Features {
            host: text("/proc/sys/kernel/hostname"),
            kernel: text("/proc/sys/kernel/osrelease"),
            arch: std::env::consts::ARCH.to_owned(),
            producer: concat!("unhitch ", env!("CARGO_PKG_VERSION")).to_owned(),
            cpus_online: crate::procfs::online_cpus().len() as u32,
            cpus_available: crate::procfs::cpu_list(&text("/sys/devices/system/cpu/possible")).len()
                as u32,
            memory_kib: crate::procfs::memory_kib(),
            command_line: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            tracing_data: TracingData::read_from_tracefs(
                tracefs,
                &events::tracepoint_names(&session.events),
            )?,
            ..Features::default()
        };
        let sampled = match session.engine {
            None => session.events.iter().any(|event| event.attr.sample_type & sample::IP != 0),
            Some(_) => options.sample_hz > 0,
        };
        let options_used = serde_json::json!({
            "ring_bytes_per_cpu": match &session.engine {
                Some(engine) => engine.ring_bytes(),
                None => session.cpus.first().map_or(0, |cpu| cpu.ring.len()),
            },
            "engine": if session.engine.is_some() { "bpf" } else { "perf" },
            "switch_in_hook": session.engine.as_ref().map(|engine| engine.hook().name()),
            "min_wait_ns": session.engine.as_ref().map(|_| options.min_wait_ns),
            "stack_budget_ppm": session.engine.as_ref().map(|_| options.stack_budget_ppm),
            "sample_hz": options.sample_hz,
            "user_stacks": options.user_stacks,
            "max_stack": session.events.first().map_or(0, |event| event.attr.sample_max_stack),
            "only_pid": options.only_pid,
            "events": session.events.iter().map(|event| &event.name).collect::<Vec<_>>(),
        });
        Ok(Self {
            events: descriptions,
            features,
            options: options_used,
            sample_period_ns: if sampled {
                1_000_000_000 / u64::from(options.sample_hz.max(1))
            } else {
                0
            },
            warnings,
            readers: options.readers,
            with_ip,
        })
    }

    /// True when samples of the event with this id contain an instruction pointer.
    pub(crate) fn has_ip(&self, id: u64) -> bool {
        self.with_ip.contains(&id)
    }

    /// Relates the clock of the records to the wall clock.
    pub(crate) fn clock(wall_ns: i64, clock_ns: u64) -> ClockData {
        ClockData { clockid: CLOCK as u32, wall_ns: wall_ns as u64, clock_ns }
    }
}
