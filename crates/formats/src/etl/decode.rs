//! [`Decoder`]: buffers to rows.
//!
//! One per worker: what repeats (parts of stacks, kinds of events) is stored once per worker and
//! united later. Nothing is allocated per event but for the rare ones that name something.

use super::{
    buffer::{Buffer, i64_at, u16_at, u32_at, u64_at},
    event::{Event, Events, Manifest, What, ext, extended},
    hook,
    kinds::KindTable,
    manifest,
    parts::Parts,
    rows::{Chunk, Definition, Naming, Other, PartRef, Ready, Sample, StackRecord, Switch},
};
use std::mem;

/// What the decoder must know of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    /// Number of the file.
    pub file: usize,
    /// Length of the traced machine's pointers.
    pub pointer_bytes: usize,
    /// Keep every event as it is, also those that become something else.
    pub keep_all: bool,
}

/// Windows walks up to 192 frames; a stack is cut to this many of each side, so that few bytes
/// cannot become many frames.
const MOST_FRAMES: usize = 256;

/// A cache line of kinds: hook and version, and their number.
const CACHE: usize = 256;

/// Decodes buffers one after the other.
pub(super) struct Decoder {
    pub chunks: Vec<Chunk>,
    pub parts: Parts,
    pub kinds: KindTable,
    cache: Box<[(u32, u32); CACHE]>,
    /// Where buffers are unpacked, one after the other.
    unpacked: Vec<u8>,
    /// Scheduling events whose payload hides behind hardware counters.
    pub with_counters: u64,
    /// Events too short for what they claim to be.
    pub too_short: u64,
    /// Samples that stand for more or less than one interval.
    pub miscounted: u64,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            parts: Parts::default(),
            kinds: KindTable::default(),
            cache: Box::new([(u32::MAX, 0); CACHE]),
            unpacked: Vec::new(),
            with_counters: 0,
            too_short: 0,
            miscounted: 0,
        }
    }

    pub(super) fn decode(&mut self, buffer: &Buffer<'_>, about: About) {
        let mut unpacked = mem::take(&mut self.unpacked);
        let (data, damage) = buffer.events(&mut unpacked);
        let mut chunk = Chunk {
            cpu: buffer.cpu,
            offset: buffer.offset,
            file: about.file,
            lost: buffer.lost_events(),
            ..Chunk::default()
        };
        let mut events = Events::new(data);
        for event in events.by_ref() {
            self.event(&event, &mut chunk, about);
            if !matches!(event.what, What::Unknown | What::Message) {
                widen(&mut chunk.ticks, event.ticks);
            }
        }
        let stopped = events.damage().map(|at| {
            let rest = data.len().saturating_sub(at);
            format!("holds no event {at} bytes after its header: {rest} bytes were left out")
        });
        chunk.damage = damage.or(stopped);
        self.unpacked = unpacked;
        self.chunks.push(chunk);
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>, chunk: &mut Chunk, about: About) {
        let (hook, version, counters) = match event.what {
            What::Hook { hook, version, counters } => (hook, version, counters),
            What::Classic { guid, opcode, version, .. } => match hook::of_class(guid, opcode) {
                Some(hook) => (hook, version, false),
                None => return self.other(event, &event.what, chunk),
            },
            What::Manifest(manifest) => {
                self.own_stack(&manifest, event, chunk);
                if manifest.id == manifest::EVENT_ID {
                    let payload = [&manifest.guid[..], event.payload].concat().into();
                    chunk.naming.push(Naming {
                        ticks: event.ticks,
                        hook: hook::MANIFEST,
                        version: 0,
                        pid: event.pid,
                        payload,
                    });
                }
                return self.other(event, &event.what, chunk);
            }
            What::Message | What::Unknown => {
                self.kinds.count(&event.what);
                return;
            }
        };
        let kind = self.count_hook(hook, version);
        let consumed = if counters {
            self.with_counters +=
                u64::from(matches!(hook, hook::CSWITCH | hook::READY_THREAD | hook::SAMPLE));
            true
        } else {
            self.hook(hook, version, event, chunk, about)
        };
        if !consumed || about.keep_all {
            keep(kind, event, chunk);
        }
    }

    #[inline]
    fn count_hook(&mut self, hook: u16, version: u8) -> u32 {
        let key = u32::from(hook) << 8 | u32::from(version);
        let at = (hook ^ hook >> 8 ^ u16::from(version) << 5) as usize % CACHE;
        if let Some((_, kind)) = self.cache.get(at).filter(|(known, _)| *known == key) {
            if let Some(count) = self.kinds.counts.get_mut(*kind as usize) {
                *count += 1;
            }
            return *kind;
        }
        let kind = self.kinds.count(&What::Hook { hook, version, counters: false });
        if let Some(line) = self.cache.get_mut(at) {
            *line = (key, kind);
        }
        kind
    }

    fn other(&mut self, event: &Event<'_>, what: &What<'_>, chunk: &mut Chunk) {
        let kind = self.kinds.count(what);
        keep(kind, event, chunk);
    }

    /// True when the event has become something else and need not be kept as it is.
    #[inline]
    fn hook(
        &mut self,
        hook: u16,
        version: u8,
        event: &Event<'_>,
        chunk: &mut Chunk,
        about: About,
    ) -> bool {
        let scheduling = match hook {
            hook::CSWITCH => switch(event, chunk),
            hook::READY_THREAD => ready(event, chunk),
            hook::SAMPLE => self.sample(event, chunk, about.pointer_bytes),
            hook::STACK..=hook::STACK_KEY_USER => {
                let read = self.stack(hook, event, chunk, about.pointer_bytes);
                self.too_short += u64::from(read.is_none());
                return true;
            }
            _ => return rare(hook, version, event, chunk),
        };
        match scheduling {
            Some(()) => widen(&mut chunk.scheduling, event.ticks),
            None => self.too_short += 1,
        }
        true
    }

    /// `SampledProfile`; version 1 ends with the count.
    #[inline]
    fn sample(&mut self, event: &Event<'_>, chunk: &mut Chunk, pointer_bytes: usize) -> Option<()> {
        const IN_DPC_OR_ISR: u8 = 3;
        let instruction = pointer_at(event.payload, 0, pointer_bytes)?;
        let tid = u32_at(event.payload, pointer_bytes)?;
        self.miscounted += u64::from(u16_at(event.payload, pointer_bytes + 4)? != 1);
        let in_interrupt =
            event.payload.get(pointer_bytes + 6).is_some_and(|flags| flags & IN_DPC_OR_ISR != 0);
        chunk.samples.push(Sample {
            ticks: event.ticks,
            cpu: chunk.cpu,
            tid,
            in_interrupt,
            instruction,
        });
        Some(())
    }

    /// `StackWalk` events.
    fn stack(
        &mut self,
        hook: u16,
        event: &Event<'_>,
        chunk: &mut Chunk,
        pointer_bytes: usize,
    ) -> Option<()> {
        let payload = event.payload;
        match hook {
            hook::STACK => {
                let (of, pid, tid) =
                    (i64_at(payload, 0)?, u32_at(payload, 8)?, u32_at(payload, 12)?);
                let record = StackRecord {
                    at: event.ticks,
                    of,
                    cpu: chunk.cpu,
                    pid,
                    tid,
                    part: PartRef::Here(0),
                    own: false,
                };
                self.addresses(payload.get(16..)?, pointer_bytes, record, chunk);
            }
            hook::STACK_KEY_KERNEL | hook::STACK_KEY_USER => {
                let key = pointer_at(payload, 16, pointer_bytes)?;
                let part = PartRef::Key { key, user: hook == hook::STACK_KEY_USER };
                let (of, pid, tid) =
                    (i64_at(payload, 0)?, u32_at(payload, 8)?, u32_at(payload, 12)?);
                chunk.stacks.push(StackRecord {
                    at: event.ticks,
                    of,
                    cpu: chunk.cpu,
                    pid,
                    tid,
                    part,
                    own: false,
                });
            }
            hook::STACK_KEY_CREATE | hook::STACK_KEY_DELETE | hook::STACK_KEY_RUNDOWN => {
                let key = pointer_at(payload, 0, pointer_bytes)?;
                // Which process it belongs to is said by those who refer to it.
                let part = self.parts.intern(words(payload.get(pointer_bytes..)?, pointer_bytes));
                chunk.definitions.push(Definition {
                    at: event.ticks,
                    key,
                    part,
                    first: hook == hook::STACK_KEY_CREATE,
                });
            }
            _ => {}
        }
        Some(())
    }

    /// Stores addresses, innermost first, as a kernel's and a user's part.
    fn addresses(
        &mut self,
        bytes: &[u8],
        pointer_bytes: usize,
        record: StackRecord,
        chunk: &mut Chunk,
    ) {
        let kernel_len =
            words(bytes, pointer_bytes).take_while(|word| is_kernel(*word, pointer_bytes)).count();
        let kernel = self.parts.intern(words(bytes, pointer_bytes).take(kernel_len));
        let user = self.parts.intern(words(bytes, pointer_bytes).skip(kernel_len));
        for part in [kernel, user].into_iter().filter(|part| *part != 0) {
            chunk.stacks.push(StackRecord { part: PartRef::Here(part), ..record });
        }
    }

    /// A stack among an event's extended items.
    fn own_stack(&mut self, manifest: &Manifest<'_>, event: &Event<'_>, chunk: &mut Chunk) {
        if manifest.extended.is_empty() {
            return;
        }
        for (kind, data) in extended(manifest.extended) {
            let pointer_bytes = match kind {
                ext::STACK32 => 4,
                ext::STACK64 => 8,
                _ => continue,
            };
            let (pid, tid) = (event.pid, event.tid);
            let record = StackRecord {
                at: event.ticks,
                of: event.ticks,
                cpu: chunk.cpu,
                pid,
                tid,
                part: PartRef::Here(0),
                own: true,
            };
            self.addresses(data.get(8..).unwrap_or_default(), pointer_bytes, record, chunk);
        }
    }
}

fn widen(range: &mut Option<(i64, i64)>, ticks: i64) {
    let (first, last) = range.unwrap_or((ticks, ticks));
    *range = Some((first.min(ticks), last.max(ticks)));
}

fn keep(kind: u32, event: &Event<'_>, chunk: &mut Chunk) {
    chunk.others.push(Other {
        ticks: event.ticks,
        cpu: chunk.cpu,
        tid: event.tid,
        pid: event.pid,
        kind,
        payload_start: chunk.payloads.len(),
        payload_len: event.payload.len() as u32,
    });
    chunk.payloads.extend_from_slice(event.payload);
}

/// `CSwitch`; version 1 has quanta where later ones have the C-state, the rest is the same.
#[inline]
fn switch(event: &Event<'_>, chunk: &mut Chunk) -> Option<()> {
    let [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        new_priority,
        old_priority,
        _,
        _,
        wait_reason,
        wait_mode,
        state,
        _,
    ] = *event.payload.first_chunk::<16>()?;
    let (first, second) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    chunk.switches.push(Switch {
        ticks: event.ticks,
        cpu: chunk.cpu,
        new_tid: first,
        old_tid: second,
        new_priority: new_priority as i8,
        old_priority: old_priority as i8,
        wait_reason,
        wait_mode,
        state,
    });
    Some(())
}

#[inline]
fn ready(event: &Event<'_>, chunk: &mut Chunk) -> Option<()> {
    const IN_DPC: u8 = 1;
    let flags = *event.payload.get(6)?;
    chunk.readies.push(Ready {
        ticks: event.ticks,
        cpu: chunk.cpu,
        tid: u32_at(event.payload, 0)?,
        by_tid: event.tid,
        in_dpc: flags & IN_DPC != 0,
    });
    Some(())
}

/// Events that name something are kept whole. True for those that need not be shown besides.
fn rare(hook: u16, version: u8, event: &Event<'_>, chunk: &mut Chunk) -> bool {
    let (names, consumed) = match hook {
        hook::PROCESS_START | hook::PROCESS_END | hook::PROCESS_DEFUNCT => (true, false),
        hook::PROCESS_DC_START | hook::PROCESS_DC_END => (true, true),
        hook::THREAD_START | hook::THREAD_END => (true, false),
        hook::THREAD_DC_START | hook::THREAD_DC_END | hook::THREAD_SET_NAME => (true, true),
        hook::IMAGE_LOAD | hook::IMAGE_UNLOAD => (true, false),
        hook::IMAGE_DC_START | hook::IMAGE_DC_END => (true, true),
        hook::SAMPLE_HOOKS_FIRST..=hook::SAMPLE_HOOKS_LAST => (true, true),
        // Names of file objects.
        0x0400 | 0x0420 | 0x0423 | 0x0424 => (true, true),
        hook::IMAGE_ID..=0xfeff | hook::SYS_CONFIG..=0xfdff | hook::META_DATA..=0xfcff => {
            (true, true)
        }
        hook::LOST..=0xfbff => {
            let before = chunk.ticks.map_or(event.ticks, |(_, last)| last.min(event.ticks));
            match chunk.losses.last_mut().filter(|(_, last)| *last == before) {
                // Told again.
                Some((_, last)) => *last = event.ticks,
                None => chunk.losses.push((before, event.ticks)),
            }
            (false, false)
        }
        // The session's own records, the machine's configuration, counters of processes at the
        // beginning and the end.
        hook::SESSION_FIRST..=hook::SESSION_LAST
        | 0x0b00..=0x0bff
        | 0x0320
        | 0x0321
        | 0x1421
        | 0x1422 => (hook == hook::COMPUTER, true),
        _ => (false, false),
    };
    if names {
        chunk.naming.push(Naming {
            ticks: event.ticks,
            hook,
            version,
            pid: event.pid,
            payload: event.payload.into(),
        });
    }
    consumed
}

#[inline]
pub(super) fn is_kernel(avma: u64, pointer_bytes: usize) -> bool {
    avma >> (pointer_bytes * 8 - 1) != 0
}

/// An address of the traced machine.
#[inline]
pub(super) fn pointer_at(bytes: &[u8], at: usize, pointer_bytes: usize) -> Option<u64> {
    if pointer_bytes == 4 { u32_at(bytes, at).map(u64::from) } else { u64_at(bytes, at) }
}

fn words(bytes: &[u8], pointer_bytes: usize) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(pointer_bytes.max(1))
        .take(MOST_FRAMES)
        .map(move |word| pointer_at(word, 0, pointer_bytes).unwrap_or(0))
}
