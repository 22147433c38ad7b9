//! [`Events`]: what Unhitch does with each event of a file, and which event a sample belongs to.

use super::{
    attr::{self, EventAttr, flag},
    description::EventDesc,
    feature::FileDescription,
    sample::{SampleLayout, Trailer},
};
use crate::tracepoint::{EventFormat, Field};
use rustc_hash::FxHashMap;
use unhitch_model::{MAX_SAMPLE_PERIOD_NS, Warnings};

/// The fields of `sched:sched_switch`.
pub(crate) struct SwitchFields {
    pub prev_pid: Field,
    pub next_pid: Field,
    pub prev_state: Field,
    pub prev_prio: Option<Field>,
    pub next_prio: Option<Field>,
    pub prev_comm: Option<Field>,
    pub next_comm: Option<Field>,
}

/// The fields of `sched:sched_waking` and its kin.
pub(crate) struct WakingFields {
    pub pid: Field,
    pub comm: Option<Field>,
    pub target_cpu: Option<Field>,
    pub common_flags: Option<Field>,
    /// The first wake-up of a new thread.
    pub new: bool,
}

/// The fields of `lock:contention_begin` and `lock:contention_end`.
pub(crate) struct ContentionFields {
    pub lock_addr: Field,
    /// `flags` or `ret`.
    pub detail: Option<Field>,
    pub begin: bool,
}

/// What a sample of an event becomes.
pub(crate) enum Role {
    Switch(SwitchFields),
    Waking(WakingFields),
    Contention(ContentionFields),
    /// `sched:sched_process_fork`: its `child_pid`.
    Born(Field),
    /// `sched:sched_process_exit`: its `pid`.
    Gone(Field),
    /// `task:task_rename`: its `pid` and `newcomm`.
    Renamed(Field, Field),
    /// `sched:sched_migrate_task`: its `pid` and `dest_cpu`.
    Migrated(Field, Field),
    /// A sample of what a CPU was doing.
    Clock,
    /// Only counted.
    Ignored,
}

/// One event of the file.
pub(crate) struct Event {
    pub name: String,
    pub layout: SampleLayout,
    /// The current thread, in a tracepoint's raw bytes.
    pub common_pid: Option<Field>,
    pub role: Role,
}

/// All events of the file.
pub(crate) struct Events {
    list: Vec<Event>,
    by_id: FxHashMap<u64, u16>,
    /// Where a sample holds its event's id; `None` if all samples belong to the first event.
    id_offset: Option<usize>,
    /// The time between two CPU samples of one CPU, 0 when unknown.
    pub sample_period_ns: u64,
}

impl Events {
    pub(crate) fn new(about: &FileDescription, warnings: &mut Warnings) -> Self {
        let formats: Vec<(String, EventFormat)> = about
            .features
            .tracing_data
            .events
            .iter()
            .filter_map(|(system, text)| {
                EventFormat::parse(text).map(|format| (format!("{system}:{}", format.name), format))
            })
            .collect();
        let by_config: FxHashMap<u64, &(String, EventFormat)> =
            formats.iter().map(|entry| (entry.1.id, entry)).collect();
        let format_of = |attr: &EventAttr| {
            (attr.kind == attr::TYPE_TRACEPOINT)
                .then(|| by_config.get(&attr.config).copied())
                .flatten()
        };
        let ids = about
            .events
            .iter()
            .zip(0..)
            .flat_map(|(event, index)| event.ids.iter().map(move |id| (*id, index)));
        let by_id: FxHashMap<u64, u16> = ids.collect();
        let renamed: FxHashMap<u16, &str> = about
            .renamed
            .iter()
            .filter_map(|(id, name)| Some((*by_id.get(id)?, name.as_str())))
            .collect();
        let name = |(event, index): (&EventDesc, u16)| {
            name_of(
                event,
                format_of(&event.attr)
                    .map(|(name, _)| name.as_str())
                    .or(renamed.get(&index).copied()),
            )
        };
        let names: Vec<String> = about.events.iter().zip(0..).map(name).collect();
        let has_waking = names.iter().any(|name| name == "sched:sched_waking");

        let mut events = Self { list: Vec::new(), by_id, id_offset: None, sample_period_ns: 0 };
        let mut clock = None;
        for (desc, name) in about.events.iter().zip(&names) {
            let layout = SampleLayout::new(&desc.attr);
            let format = format_of(&desc.attr).map(|(_, format)| format);
            let mut role = match format {
                Some(format) => tracepoint_role(name, format, has_waking),
                None if desc.attr.kind == attr::TYPE_TRACEPOINT => {
                    warnings.add(format!(
                        "{name}: the file does not describe this tracepoint; its samples were left \
                         out"
                    ));
                    Role::Ignored
                }
                None => clock_role(desc, name, &mut clock, warnings),
            };
            if matches!(role, Role::Clock) && events.sample_period_ns == 0 {
                events.sample_period_ns = sample_period_ns(&desc.attr);
            }
            if !matches!(role, Role::Ignored) && !layout.has_time_and_cpu() {
                warnings.add(format!(
                    "{name} was recorded without time or CPU, so its samples were left out; to get \
                     both, record all CPUs: perf record -a -g -e sched:sched_switch -e sched:sched_waking -e cpu-clock"
                ));
                role = Role::Ignored;
            }
            let common_pid = format.and_then(|format| format.field("common_pid"));
            events.list.push(Event { name: name.clone(), layout, common_pid, role });
        }
        events.find_id_offset(warnings);
        events
    }

    /// Finds where samples have the id of their event. With one event they need none.
    fn find_id_offset(&mut self, warnings: &mut Warnings) {
        if self.list.len() <= 1 {
            return;
        }
        self.id_offset = self.list.iter().find_map(|event| event.layout.id_offset());
        if self.list.iter().any(|event| event.layout.id_offset() != self.id_offset)
            || self.id_offset.is_none()
        {
            warnings.add(
                "the events of this file put their ids at different places in a sample: some \
                 samples may be misread",
            );
        }
    }

    pub(crate) fn list(&self) -> &[Event] {
        &self.list
    }

    /// The number of the event that a sample belongs to.
    #[inline]
    pub(crate) fn of_sample(&self, body: &[u8]) -> Option<u16> {
        let Some(at) = self.id_offset else { return Some(0) };
        let id = body.get(at..)?.first_chunk().map(|id| u64::from_le_bytes(*id))?;
        self.by_id.get(&id).copied()
    }

    /// The trailer of a record that is not a sample.
    pub(crate) fn trailer(&self, body: &[u8]) -> Trailer {
        // An identifier, where there is one, is the last word.
        let id = body.last_chunk().map(|id| u64::from_le_bytes(*id));
        let event = id.and_then(|id| self.by_id.get(&id)).map_or(0, |index| usize::from(*index));
        self.list.get(event).map(|event| event.layout.read_trailer(body)).unwrap_or_default()
    }
}

fn name_of(event: &EventDesc, better: Option<&str>) -> String {
    const SOFTWARE: [&str; 11] = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
    ];
    let software =
        || SOFTWARE.get(usize::try_from(event.attr.config).ok()?).map(|name| (*name).to_owned());
    match (better, event.attr.kind) {
        // A name given with `-e name=…` hides which tracepoint it is; its description does not.
        (Some(name), _) => name.to_owned(),
        _ if !event.name.is_empty() => event.name.clone(),
        (_, attr::TYPE_SOFTWARE) => {
            software().unwrap_or_else(|| format!("software:{}", event.attr.config))
        }
        (_, attr::TYPE_HARDWARE) if event.attr.config & 0xffff_ffff == 0 => "cycles".to_owned(),
        (_, attr::TYPE_TRACEPOINT) => format!("tracepoint:{}", event.attr.config),
        (_, kind) => format!("type{kind}:{:#x}", event.attr.config),
    }
}

/// Takes the first event that samples CPUs as the clock, because a second one would count the same
/// time twice. Only the core types of a hybrid machine have one each, which differ in the upper
/// half of `config`.
fn clock_role<'a>(
    desc: &EventDesc,
    name: &'a str,
    clock: &mut Option<(u32, u64, &'a str)>,
    warnings: &mut Warnings,
) -> Role {
    let EventAttr { kind, config, .. } = desc.attr;
    // Of the software events only the two clocks tick with CPU time; the others mark occurrences or
    // nothing.
    let ticks = match kind {
        attr::TYPE_SOFTWARE => matches!(config, attr::SW_CPU_CLOCK | attr::SW_TASK_CLOCK),
        _ => desc.attr.sample_period > 0,
    };
    if !ticks || desc.attr.sample_type & (attr::sample::IP | attr::sample::CALLCHAIN) == 0 {
        return Role::Ignored;
    }
    let config = config & 0xffff_ffff;
    let (first_kind, first_config, first) = *clock.get_or_insert((kind, config, name));
    if (first_kind, first_config) == (kind, config) {
        return Role::Clock;
    }
    warnings.add(format!("the file samples CPUs by {first} and by {name}: only {first} is used"));
    Role::Ignored
}

fn sample_period_ns(attr: &EventAttr) -> u64 {
    let is_clock = attr.kind == attr::TYPE_SOFTWARE;
    let nanos = match attr.sample_period {
        0 => 0,
        hertz if attr.has(flag::FREQ) => 1_000_000_000 / hertz,
        nanos if is_clock => nanos,
        _ => 0,
    };
    nanos.min(MAX_SAMPLE_PERIOD_NS)
}

/// What a sample of the tracepoint `name` becomes. `has_waking`: `sched_waking` was recorded, too.
pub(crate) fn tracepoint_role(name: &str, format: &EventFormat, has_waking: bool) -> Role {
    try_tracepoint_role(name, format, has_waking).unwrap_or(Role::Ignored)
}

/// `None` if the event matters but lacks a required field.
fn try_tracepoint_role(name: &str, format: &EventFormat, has_waking: bool) -> Option<Role> {
    let field = |name: &str| format.field(name);
    Some(match name {
        "sched:sched_switch" => Role::Switch(SwitchFields {
            prev_pid: field("prev_pid")?,
            next_pid: field("next_pid")?,
            prev_state: field("prev_state")?,
            prev_prio: field("prev_prio"),
            next_prio: field("next_prio"),
            prev_comm: field("prev_comm"),
            next_comm: field("next_comm"),
        }),
        // With `sched_waking` recorded, the `sched_wakeup` that follows it adds nothing.
        "sched:sched_wakeup" if has_waking => Role::Ignored,
        "sched:sched_waking" | "sched:sched_wakeup" | "sched:sched_wakeup_new" => {
            Role::Waking(WakingFields {
                pid: field("pid")?,
                comm: field("comm"),
                target_cpu: field("target_cpu"),
                common_flags: field("common_flags"),
                new: name == "sched:sched_wakeup_new",
            })
        }
        "lock:contention_begin" | "lock:contention_end" => {
            let begin = name == "lock:contention_begin";
            let detail = field(if begin { "flags" } else { "ret" });
            Role::Contention(ContentionFields { lock_addr: field("lock_addr")?, detail, begin })
        }
        "sched:sched_process_fork" => Role::Born(field("child_pid")?),
        "sched:sched_process_exit" => Role::Gone(field("pid")?),
        "sched:sched_migrate_task" => Role::Migrated(field("pid")?, field("dest_cpu")?),
        "task:task_rename" => {
            Role::Renamed(field("pid").or_else(|| field("tid"))?, field("newcomm")?)
        }
        _ => Role::Ignored,
    })
}
