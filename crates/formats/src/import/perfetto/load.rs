//! The loader: packets in the order of the file, then the trace.

use super::clocks::Clocks;
use super::ftrace::Ftrace;
use super::interned::Interned;
use super::processes;
use super::recording::Recording;
use super::samples::{self, About, Defaults, Found};
use super::wire::{Fields, Value};
use crate::Error;
use crate::import::builder::{At, Import};
use crate::import::frames::Frames;
use crate::import::unpack::Budget;
use rustc_hash::FxHashMap;
use unhitch_model::{Format, Lack, MAX_SAMPLE_PERIOD_NS, Meta, Trace};

/// Reads a trace. `release` is called with each part of `bytes` that is no longer needed.
pub(in crate::import) fn load(
    bytes: &[u8],
    budget: &mut Budget,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let mut unpacked = Vec::new();
    let mut packets = Fields::new(bytes);
    let mut reader = Reader { frames: Frames::of_file(bytes.len()), ..Reader::default() };
    let mut packed = 0;
    // Interned data refers to the bytes, so unpacked packets must stay as long.
    for (_, packet) in packets.by_ref().filter(|(field, _)| *field == 1) {
        for (field, value) in packet.fields() {
            let content = match field {
                50 => budget.zlib(value.bytes()),
                133 => budget.zstd(value.bytes()),
                _ => continue,
            };
            match content {
                Some(content) => unpacked.push((packed, content)),
                None => reader.import.leave_out("damaged or too large compressed packet"),
            }
        }
        packed += 1;
    }
    if packets.is_damaged() {
        reader
            .import
            .trace
            .warnings
            .add("the file is damaged, or ends within a packet: what follows is missing");
    }
    let mut content = unpacked.iter().peekable();
    for (index, (_, packet)) in Fields::new(bytes).filter(|(field, _)| *field == 1).enumerate() {
        reader.packet(packet);
        while let Some((_, content)) = content.next_if(|(of, _)| *of == index) {
            for (_, packet) in Fields::new(content).filter(|(field, _)| *field == 1) {
                reader.packet(packet);
            }
        }
    }
    let trace = reader.finish();
    release(bytes);
    Ok(trace)
}

#[derive(Default)]
struct Reader<'a> {
    import: Import,
    frames: Frames,
    clocks: Clocks,
    ftrace: Ftrace,
    sequences: FxHashMap<u32, Sequence<'a>>,
    found: Vec<Found>,
    meta: Meta,
    recording: Recording,
}

/// The state of a sequence of packets.
#[derive(Default)]
struct Sequence<'a> {
    interned: Interned<'a>,
    defaults: Defaults,
    clock: Option<u32>,
    /// Number of times that packets were lost.
    drops: u64,
    /// The thread of a `ThreadDescriptor`, and the time of its last sample, microseconds.
    thread: (u32, u64),
}

/// The fields of a packet that others depend on.
#[derive(Default)]
struct Head<'a> {
    time: Option<u64>,
    clock: Option<u32>,
    sequence: u32,
    cleared: bool,
    dropped: bool,
    defaults: Option<Value<'a>>,
    interned: Option<Value<'a>>,
}

impl<'a> Head<'a> {
    fn of(packet: Value<'a>) -> Self {
        /// `SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED`.
        const CLEARED: u64 = 1;
        let mut head = Self::default();
        for (field, value) in packet.fields() {
            match field {
                8 => head.time = Some(value.number()),
                58 => head.clock = Some(value.u32()),
                10 => head.sequence = value.u32(),
                13 => head.cleared |= value.number() & CLEARED != 0,
                41 => head.cleared |= value.number() != 0,
                42 => head.dropped = value.number() != 0,
                59 => head.defaults = Some(value),
                12 => head.interned = Some(value),
                _ => {}
            }
        }
        head
    }
}

impl<'a> Reader<'a> {
    fn packet(&mut self, packet: Value<'a>) {
        let head = Head::of(packet);
        let sequence = self.sequences.entry(head.sequence).or_default();
        if head.cleared {
            *sequence = Sequence { drops: sequence.drops, ..Sequence::default() };
        }
        sequence.drops += u64::from(head.dropped);
        for (field, value) in head.defaults.map(Value::fields).into_iter().flatten() {
            match field {
                58 => sequence.clock = Some(value.u32()),
                12 => sequence.defaults.perf(value),
                100 => {
                    sequence.defaults.stacks(value);
                    sequence.interned.numbers_inlined = sequence.defaults.are_ours;
                }
                _ => {}
            }
        }
        if let Some(interned) = head.interned {
            sequence.interned.add(interned);
        }
        let clock = head.clock.or(sequence.clock).filter(|clock| *clock != 0);
        let of_sequence = (&sequence.defaults, clock.unwrap_or(0), head.time.unwrap_or(0));
        let (import, frames, interned) =
            (&mut self.import, &mut self.frames, &mut sequence.interned);
        let mut fields = packet.fields();
        for (field, value) in fields.by_ref() {
            match field {
                1 => self.ftrace.bundle(import, value, sequence.drops),
                2 => processes::tree(import, head.time, value),
                6 => self.clocks.add(value),
                11 => self.recording.read(value),
                44 => sequence.thread = processes::thread(import, value),
                45 => system(value, &mut self.meta, &mut self.ftrace),
                54 => {
                    let (tid, time_us) = &mut sequence.thread;
                    let of_thread = (*tid, time_us);
                    self.found
                        .extend(samples::streaming(import, frames, interned, of_thread, value));
                }
                60 => processes::track(import, value),
                66 => {
                    self.found.extend(samples::perf(import, frames, interned, of_sequence, value));
                }
                135 => {
                    self.found.extend(samples::stack(import, frames, interned, of_sequence, value));
                }
                _ => {}
            }
        }
        if fields.is_damaged() {
            import.leave_out("damaged packet");
        }
    }

    fn finish(mut self) -> Trace {
        let import = &mut self.import;
        let mut conversions = FxHashMap::default();
        for found in std::mem::take(&mut self.found) {
            let clock = if found.clock == 0 { self.clocks.primary() } else { found.clock };
            let conversion =
                conversions.entry(clock).or_insert_with(|| self.clocks.conversion(clock));
            let Some(conversion) = conversion else {
                import.leave_out("unsynchronised-clock sample");
                continue;
            };
            let time = conversion.primary(found.time);
            let Found { cpu, tid, stack, weight_ns, .. } = found;
            match found.about {
                About::Cpu => {
                    import.sample(At { time, cpu, stack }, tid);
                    if self.meta.sample_period_ns == 0 {
                        self.meta.sample_period_ns = weight_ns.min(MAX_SAMPLE_PERIOD_NS);
                    }
                }
                About::Leave => import.late_stacks.left(time, tid, stack),
                About::WaitEnd | About::Preempted => import.late_stacks.ended(time, tid, stack),
                About::Wake => import.late_stacks.woke(time, tid, stack),
                About::Other => import.count("sample of another event"),
            }
        }
        import.trace.meta = Meta {
            format: Format::Perfetto,
            clock_id: self.clocks.linux_clock(),
            epoch_ns: self.clocks.epoch_ns(),
            ..self.meta
        };
        let mut lacks = self.recording.lacks().to_vec();
        if !self.ftrace.has_contexts {
            lacks.push(Lack::WakeContexts);
        }
        let mut trace = self.import.finish(&lacks);
        self.recording.complete(&mut trace);
        trace
    }
}

/// A `SystemInfo`.
fn system(info: Value<'_>, meta: &mut Meta, ftrace: &mut Ftrace) {
    for (field, value) in info.fields() {
        match field {
            1 => {
                for (field, value) in value.fields() {
                    match field {
                        3 => meta.kernel = value.text(),
                        4 => meta.arch = value.text(),
                        _ => {}
                    }
                }
                ftrace.has_old_states = is_before_4_14(&meta.kernel);
            }
            4 => meta.producer = value.text(),
            8 => meta.cpus = u16::try_from(value.number()).unwrap_or(u16::MAX),
            16 => meta.memory_bytes = value.number(),
            17 => meta.host = value.text(),
            _ => {}
        }
    }
}

fn is_before_4_14(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    matches!(version, (Some(major), Some(minor)) if (major, minor) < (4, 14))
}
