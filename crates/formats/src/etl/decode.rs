//! [`Decoder`]: decodes buffers to rows.
//!
//! Each worker has one. Stack parts and kinds of events, which repeat, are stored once per worker
//! and merged later. Only the rare events that name something allocate memory of their own.

use super::{
    buffer::{Buffer, i64_at, pointer_at, u16_at, u32_at},
    event::{Event, EventClass, Events, Manifest, ext, extended},
    hook,
    kinds::KindTable,
    manifest,
    parts::Parts,
    rows::{Chunk, Definition, Naming, PartRef, ProviderEvent, Ready, Sample, StackRecord, Switch},
    space_id::is_kernel_avma,
};
use std::mem;

/// What the decoder must know about a buffer's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileContext {
    /// Number of the file, from 0.
    pub number: usize,
    /// Length of a pointer on the recorded machine, bytes.
    pub pointer_bytes: usize,
    /// Keep every event unchanged, even those that become something else.
    pub keep_all: bool,
}

/// Maximum number of frames that are kept of each side of a stack, so that a few bytes cannot
/// become many frames. Windows walks up to 192.
const MAX_FRAMES: usize = 256;

/// Number of entries in the cache from hook and version to the kind's number.
const CACHE: usize = 256;

/// Decodes one buffer after another.
pub(super) struct Decoder {
    pub chunks: Vec<Chunk>,
    pub parts: Parts,
    pub kinds: KindTable,
    cache: Box<[(u32, u32); CACHE]>,
    /// Memory for unpacking, reused for each buffer.
    unpacked: Vec<u8>,
    /// Number of scheduling events that carry hardware counters, which hide the payload.
    pub with_counters: u64,
    /// Number of events that are shorter than their layout.
    pub too_short: u64,
    /// Number of samples that do not count exactly one interval.
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

    pub(super) fn decode(&mut self, buffer: &Buffer<'_>, file: FileContext) {
        let mut unpacked = mem::take(&mut self.unpacked);
        let (data, damage) = buffer.events(&mut unpacked);
        let mut chunk = Chunk {
            cpu: buffer.cpu,
            offset: buffer.offset,
            file: file.number,
            lost: buffer.lost_events(),
            ..Chunk::default()
        };
        let mut events = Events::new(data);
        for event in events.by_ref() {
            self.event(&event, &mut chunk, file);
            if !matches!(event.class, EventClass::Unknown | EventClass::Message) {
                widen(&mut chunk.ticks, event.ticks);
            }
        }
        let stopped = events.damage().map(|at| {
            let rest = data.len().saturating_sub(at);
            format!("has no event {at} bytes after its header: {rest} bytes were left out")
        });
        chunk.damage = damage.or(stopped);
        self.unpacked = unpacked;
        self.chunks.push(chunk);
    }

    #[inline]
    fn event(&mut self, event: &Event<'_>, chunk: &mut Chunk, file: FileContext) {
        let (hook, version, counters) = match event.class {
            EventClass::Hook { hook, version, counters } => (hook, version, counters),
            EventClass::Classic { guid, opcode, version, .. } => match hook::of_class(guid, opcode)
            {
                Some(hook) => (hook, version, false),
                None => return self.other(event, &event.class, chunk),
            },
            EventClass::Manifest(manifest) => {
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
                return self.other(event, &event.class, chunk);
            }
            EventClass::Message | EventClass::Unknown => {
                self.kinds.count(&event.class);
                return;
            }
        };
        let kind = self.count_hook(hook, version);
        let consumed = if counters {
            self.with_counters +=
                u64::from(matches!(hook, hook::CSWITCH | hook::READY_THREAD | hook::SAMPLE));
            true
        } else {
            self.hook(hook, version, event, chunk, file)
        };
        if !consumed || file.keep_all {
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
        let kind = self.kinds.count(&EventClass::Hook { hook, version, counters: false });
        if let Some(line) = self.cache.get_mut(at) {
            *line = (key, kind);
        }
        kind
    }

    fn other(&mut self, event: &Event<'_>, class: &EventClass<'_>, chunk: &mut Chunk) {
        let kind = self.kinds.count(class);
        keep(kind, event, chunk);
    }

    /// True if the event became something else and need not be kept unchanged.
    #[inline]
    fn hook(
        &mut self,
        hook: u16,
        version: u8,
        event: &Event<'_>,
        chunk: &mut Chunk,
        file: FileContext,
    ) -> bool {
        let scheduling = match hook {
            hook::CSWITCH => switch(event, chunk),
            hook::READY_THREAD => ready(event, chunk),
            hook::SAMPLE => self.sample(event, chunk, file.pointer_bytes),
            hook::STACK..=hook::STACK_KEY_USER => {
                let read = self.stack(hook, event, chunk, file.pointer_bytes);
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
                // The records that refer to the key have the process.
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

    /// Stores addresses, innermost first, as a kernel part and a user part.
    fn addresses(
        &mut self,
        bytes: &[u8],
        pointer_bytes: usize,
        record: StackRecord,
        chunk: &mut Chunk,
    ) {
        let kernel_len = words(bytes, pointer_bytes)
            .take_while(|word| is_kernel_avma(*word, pointer_bytes))
            .count();
        let kernel = self.parts.intern(words(bytes, pointer_bytes).take(kernel_len));
        let user = self.parts.intern(words(bytes, pointer_bytes).skip(kernel_len));
        for part in [kernel, user].into_iter().filter(|part| *part != 0) {
            chunk.stacks.push(StackRecord { part: PartRef::Here(part), ..record });
        }
    }

    /// Reads a stack among an event's extended items.
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
    chunk.provider_events.push(ProviderEvent {
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

/// `CSwitch`. Version 1 has quanta where later ones have the C-state; the rest is the same.
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

/// Keeps events that name something. True for those that need not be shown as events as well.
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
                // A second report of the same loss.
                Some((_, last)) => *last = event.ticks,
                None => chunk.losses.push((before, event.ticks)),
            }
            (false, false)
        }
        // The session's own records, the machine's configuration, and the process counters at the
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

fn words(bytes: &[u8], pointer_bytes: usize) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(pointer_bytes.max(1))
        .take(MAX_FRAMES)
        .map(move |word| pointer_at(word, 0, pointer_bytes).unwrap_or(0))
}
