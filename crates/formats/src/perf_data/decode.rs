//! Decodes samples to rows: the loader's inner loop, which runs on many chunks of a file at once.
//!
//! Rows hold the kernel's thread ids and the stack's number in the decoder's own [`StackTable`].
//! What these mean depends on other chunks, so it is resolved when all chunks are decoded.

use super::{
    events::{ContentionFields, Event, Events, Role, SwitchFields, WakingFields},
    record::{kind, misc},
    records::{Record, Records},
    rows::{Contention, Placement, Row, Rows, Sample, Switch, Waking},
    sample::SampleFields,
    stack_table::StackTable,
    tasks::{Hints, Life},
    tracepoints::{task_state, wake_flags},
};
use crate::{cursor::until_nul, ring::Decoded, tracepoint::Field};
use rayon::prelude::*;
use std::mem;
use unhitch_model::{TaskState, Time, WakeFlags};

/// Decodes chunks in the order of the file, and keeps their rows.
pub(crate) struct Decoder<'a> {
    events: &'a Events,
    /// By the number of the chunk.
    pub chunks: Vec<(usize, Rows)>,
    rows: Rows,
    pub stacks: StackTable<'a>,
    /// Number of samples of each event; the last entry counts samples of unknown events.
    pub counts: Vec<u64>,
    /// First and last time by CPU; an empty window where the CPU has none.
    pub covered: Vec<(u64, u64)>,
    pub hints: Hints,
    /// The stacks of the rings' chains.
    pub of_chains: Vec<u32>,
    /// Samples that could not be read.
    pub damaged: u64,
    /// The last name of a thread that went to the hints.
    named: Vec<(u32, [u8; 16])>,
    /// The last process of a thread that went to the hints.
    owned: Vec<(u32, u32)>,
}

/// Number of recently seen threads that are remembered, by the low bits of their id.
const SEEN: usize = 1024;

impl<'a> Decoder<'a> {
    pub(crate) fn new(events: &'a Events) -> Self {
        Self {
            events,
            chunks: Vec::new(),
            rows: Rows::default(),
            stacks: StackTable::new(),
            counts: vec![0; events.list().len() + 1],
            covered: Vec::new(),
            hints: Hints::default(),
            of_chains: Vec::new(),
            damaged: 0,
            named: vec![(u32::MAX, [0; 16]); SEEN],
            owned: vec![(u32::MAX, 0); SEEN],
        }
    }

    /// What was decoded from `rings`, as if it were chunks.
    pub(crate) fn of_rings(events: &'a Events, parts: Vec<Rows>, rings: &'a Decoded<'_>) -> Self {
        let mut decoder = Self::new(events);
        let chains = rings.chains.iter().map(|(pid, words)| decoder.stacks.intern(pid, words));
        // Number 0 is the empty chain in both.
        let numbers: Vec<u32> = std::iter::once(0).chain(chains).collect();
        let number = |stack: &mut u32| *stack = numbers.get(*stack as usize).copied().unwrap_or(0);
        let mut parts = parts;
        parts.par_iter_mut().for_each(|rows| {
            rows.samples.iter_mut().for_each(|row| number(&mut row.stack));
            rows.facts.iter_mut().for_each(|row| number(&mut row.stack));
            rows.earlier_waits.iter_mut().for_each(|row| number(&mut row.stack));
        });
        decoder.hints.lives.extend(rings.exits.iter().map(|&(time, tid)| (time, tid, Life::Gone)));
        let births = rings.births.iter().map(|&(time, tid)| (time, tid, Life::FirstWake));
        decoder.hints.lives.extend(births);
        decoder.covered.clone_from(&rings.covered);
        decoder.of_chains = numbers;
        // Their order is that of the numbers, which are above those of chunks.
        let first = usize::MAX - parts.len();
        decoder.chunks.extend((first..).zip(parts));
        decoder
    }

    /// Decodes the samples of a chunk and its `PERF_RECORD_SWITCH` records.
    pub(crate) fn decode(&mut self, index: usize, chunk: &'a [u8]) {
        let events = self.events;
        for record in Records::new(chunk) {
            match record.kind {
                kind::SAMPLE => {}
                kind::SWITCH | kind::SWITCH_CPU_WIDE if record.misc & misc::SWITCH_OUT == 0 => {
                    self.arrival(&record);
                    continue;
                }
                _ => continue,
            }
            let number = events.of_sample(record.body).map_or(events.list().len(), usize::from);
            self.counts[number] += 1;
            if let Some(event) = events.list().get(number)
                && self.sample(event, &record).is_none()
            {
                self.damaged += 1;
            }
        }
        self.chunks.push((index, mem::take(&mut self.rows)));
    }

    /// `None` when the sample is damaged.
    #[inline]
    fn sample(&mut self, event: &Event, record: &Record<'a>) -> Option<()> {
        let fields = event.layout.read(record.body)?;
        if !event.layout.has_time_and_cpu() {
            return Some(());
        }
        let cpu = u16::try_from(fields.cpu).ok()?;
        // A tracepoint has the current thread's global id, even while the thread is exiting and
        // has no other id any more.
        let tid = event
            .common_pid
            .and_then(|field| field.value(fields.raw))
            .map_or(fields.tid, |tid| tid as u32);
        if tid == fields.tid && fields.pid != u32::MAX {
            self.owner(fields.time, tid, fields.pid);
        } else {
            self.owner(fields.time, tid, u32::MAX);
        }
        match &event.role {
            Role::Switch(at) => self.switch(at, &fields, cpu)?,
            Role::Waking(at) => self.waking(at, &fields, cpu, tid)?,
            Role::Contention(at) => self.contention(at, &fields, cpu, tid)?,
            Role::Clock => {
                // Address 0 is that of a sample without one.
                let leaf = if fields.ip == [0; 8] { &[] } else { fields.ip };
                let chain = if fields.call_chain.is_empty() { leaf } else { fields.call_chain };
                let stack = self.stacks.intern(fields.pid, chain);
                self.rows.samples.push(Row { time: fields.time, stack, cpu, of: Sample { tid } });
            }
            Role::Born(child) => {
                let child = child.value(fields.raw)? as u32;
                self.hints.lives.push((fields.time, child, Life::Born { parent: tid }));
            }
            Role::Gone(pid) => {
                self.hints.lives.push((fields.time, pid.value(fields.raw)? as u32, Life::Gone))
            }
            Role::Renamed(pid, name) => {
                let name = Life::Renamed(comm(*name, fields.raw)?);
                self.hints.lives.push((fields.time, pid.value(fields.raw)? as u32, name));
            }
            Role::Migrated(pid, dest) => {
                let of = Placement { tid: pid.value(fields.raw)? as u32 };
                self.rows.migrations.push(Row {
                    time: fields.time,
                    stack: 0,
                    cpu: u16::try_from(dest.value(fields.raw)?).ok()?,
                    of,
                });
            }
            Role::Ignored => {}
        }
        self.cover(cpu, fields.time);
        Some(())
    }

    /// `None` if the record lacks the thread, the time or the CPU.
    fn arrival(&mut self, record: &Record<'a>) -> Option<()> {
        let trailer =
            Some(self.events.trailer(record.body)).filter(|trailer| trailer.time != Time::ZERO)?;
        let (time, cpu) = (trailer.time.nanos(), u16::try_from(trailer.cpu?).ok()?);
        self.rows.arrivals.push(Row { time, stack: 0, cpu, of: Placement { tid: trailer.tid? } });
        self.cover(cpu, time);
        Some(())
    }

    #[inline]
    fn switch(&mut self, at: &SwitchFields, sample: &SampleFields<'a>, cpu: u16) -> Option<()> {
        let raw = sample.raw;
        let prio = |field: Option<Field>| {
            field.and_then(|field| field.value(raw)).map_or(0, |prio| prio as i16)
        };
        let of = Switch {
            prev: at.prev_pid.value(raw)? as u32,
            next: at.next_pid.value(raw)? as u32,
            prev_prio: prio(at.prev_prio),
            next_prio: prio(at.next_prio),
            prev_state: task_state(at.prev_state.value(raw)?),
        };
        self.name(sample.time, of.prev, at.prev_comm, raw);
        self.name(sample.time, of.next, at.next_comm, raw);
        if of.prev_state == TaskState::Dead {
            self.hints.lives.push((sample.time, of.prev, Life::Gone));
        }
        let stack = self.stacks.intern(sample.pid, sample.call_chain);
        self.rows.switches.push(Row { time: sample.time, stack, cpu, of });
        Some(())
    }

    #[inline]
    fn waking(
        &mut self,
        at: &WakingFields,
        sample: &SampleFields<'a>,
        cpu: u16,
        waker: u32,
    ) -> Option<()> {
        let raw = sample.raw;
        let wakee = at.pid.value(raw)? as u32;
        let target_cpu = at
            .target_cpu
            .and_then(|field| field.value(raw))
            .and_then(|cpu| u16::try_from(cpu).ok())
            .unwrap_or(cpu);
        let mut flags = at
            .common_flags
            .and_then(|field| field.value(raw))
            .map_or(WakeFlags::default(), wake_flags);
        if at.new {
            flags = flags.with(WakeFlags::NEW);
            self.hints.lives.push((sample.time, wakee, Life::FirstWake));
            // The name seen so far belonged to an earlier thread with this id.
            self.named[wakee as usize % SEEN] = (u32::MAX, [0; 16]);
        }
        let stack = self.stacks.intern(sample.pid, sample.call_chain);
        self.name(sample.time, wakee, at.comm, raw);
        self.rows.wakings.push(Row {
            time: sample.time,
            stack,
            cpu,
            of: Waking { waker, wakee, target_cpu, flags },
        });
        Some(())
    }

    fn contention(
        &mut self,
        at: &ContentionFields,
        sample: &SampleFields<'a>,
        cpu: u16,
        tid: u32,
    ) -> Option<()> {
        let of = Contention {
            lock_avma: at.lock_addr.value(sample.raw)?,
            tid,
            flags: at.detail.and_then(|field| field.value(sample.raw)).unwrap_or(0) as u32,
            end: !at.begin,
        };
        let stack = self.stacks.intern(sample.pid, sample.call_chain);
        self.rows.contentions.push(Row { time: sample.time, stack, cpu, of });
        Some(())
    }

    #[inline]
    fn name(&mut self, time: u64, tid: u32, field: Option<Field>, raw: &[u8]) {
        let name = field.and_then(|field| comm(field, raw)).unwrap_or_default();
        let seen = &mut self.named[tid as usize % SEEN];
        if *seen != (tid, name) {
            *seen = (tid, name);
            self.hints.names.push((time, tid, name));
        }
    }

    #[inline]
    fn owner(&mut self, time: u64, tid: u32, pid: u32) {
        let seen = &mut self.owned[tid as usize % SEEN];
        if tid != u32::MAX && *seen != (tid, pid) {
            *seen = (tid, pid);
            self.hints.owners.push((time, tid, pid));
        }
    }

    #[inline]
    fn cover(&mut self, cpu: u16, time: u64) {
        let cpu = usize::from(cpu);
        if self.covered.len() <= cpu {
            self.covered.resize(cpu + 1, (u64::MAX, 0));
        }
        let (first, last) = &mut self.covered[cpu];
        *first = time.min(*first);
        *last = time.max(*last);
    }
}

/// A name field: 16 bytes, or fewer.
#[inline]
fn comm(field: Field, raw: &[u8]) -> Option<[u8; 16]> {
    let bytes = field.bytes(raw)?;
    if let Ok(whole) = <[u8; 16]>::try_from(bytes) {
        return Some(whole);
    }
    let text = until_nul(bytes);
    let mut name = [0; 16];
    let len = text.len().min(name.len());
    name[..len].copy_from_slice(&text[..len]);
    Some(name)
}
