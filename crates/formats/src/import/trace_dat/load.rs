//! The loader: the file's descriptions, then the pages of each CPU.

use super::events::Decoder;
use super::file::{self, Packing};
use super::header::Header;
use super::pages::{Page, PageLayout};
use crate::Error;
use crate::cursor::Cursor;
use crate::import::builder::{At, Import};
use crate::import::unpack::Budget;
use unhitch_model::linux::{CLOCK_BOOTTIME, CLOCK_MONOTONIC};
use unhitch_model::{Format, Meta, StackId, Trace, units};

/// True if `bytes` begin as a `trace.dat` does.
pub(crate) fn is_trace_dat(bytes: &[u8]) -> bool {
    file::has_magic(bytes)
}

/// Reads a trace. `release` is called with each part of `bytes` that is no longer needed.
pub(in crate::import) fn load(
    bytes: &[u8],
    budget: &mut Budget,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let (header, packing) = file::read(bytes, budget)?;
    let Some(mut decoder) = Decoder::new(&header) else {
        return Err(Error::Unsupported(
            "the trace.dat describes no events of the scheduler; record with \
             trace-cmd record -e sched:sched_switch -e sched:sched_waking"
                .to_owned(),
        ));
    };
    let mut import = Import::default();
    import.starts_differ = header.has_overrun;
    let times = Times::of(&header, &mut import);
    let layout = PageLayout::of(&header.header_page);
    for buffer in &header.buffers {
        let mut page_size = buffer.page_size;
        if !(256..=1 << 20).contains(&page_size) {
            page_size = 4096;
        }
        for (cpu, pages) in &buffer.cpus {
            let mut ring = Ring { cpu: *cpu, layout, times, page_size };
            if buffer.is_packed {
                ring.packed(pages, packing, budget, &mut decoder, &mut import);
            } else if budget.stored(pages.len()).is_some() {
                ring.pages(pages, &mut decoder, &mut import);
            } else {
                import.leave_out(OVERLAPS);
            }
            release(pages);
        }
    }
    for (tid, name) in &header.names {
        let name = import.trace.strings.intern(name);
        import.lives.other_name(*tid, name);
    }
    if header.dropped > 0 {
        import.trace.warnings.add(format!(
            "the kernel dropped {} while it recorded",
            units::plural(header.dropped, "event")
        ));
    }
    import.trace.meta = meta(&header);
    Ok(import.finish(&[]))
}

fn meta(header: &Header<'_>) -> Meta {
    // `Linux HOST 6.1.0 #1 SMP … x86_64`, without `GNU/Linux`.
    let mut words = header.uname.split_whitespace();
    let (_system, host, kernel) = (words.next(), words.next(), words.next());
    let version = header.version.split_whitespace().next().unwrap_or_default();
    Meta {
        format: Format::TraceDat,
        host: host.unwrap_or_default().to_owned(),
        kernel: kernel.unwrap_or_default().to_owned(),
        arch: words.next_back().unwrap_or_default().to_owned(),
        cpus: u16::try_from(header.cpus).unwrap_or(u16::MAX),
        clock_id: match header.clock.as_str() {
            "mono" => Some(CLOCK_MONOTONIC),
            "mono_raw" => Some(4),
            "boot" => Some(CLOCK_BOOTTIME),
            _ => None,
        },
        producer: format!("trace-cmd {version}").trim_end().to_owned(),
        ..Meta::default()
    }
}

/// Times of the ring in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    cycles: Option<(u32, u32)>,
    offset: i64,
}

impl Times {
    fn of(header: &Header<'_>, import: &mut Import) -> Self {
        let cycles = header.cycles.filter(|_| header.clock.contains("tsc"));
        let warning = match header.clock.as_str() {
            "local" | "" => {
                "recorded with the clock \"local\", which differs between CPUs: a wake-up may seem \
                 to come after the switch that it caused; record with trace-cmd record -C mono"
            }
            "counter" | "uptime" => {
                "recorded with a clock that does not count nanoseconds: times are wrong; record \
                 with trace-cmd record -C mono"
            }
            clock if clock.contains("tsc") && cycles.is_none() => {
                "recorded with a clock that counts cycles: times are in cycles, not nanoseconds"
            }
            _ => "",
        };
        if !warning.is_empty() {
            import.trace.warnings.add(warning);
        }
        Self { cycles, offset: header.offset }
    }

    fn nanos(self, time: u64) -> u64 {
        let time = match self.cycles {
            Some((factor, shift)) => {
                ((u128::from(time) * u128::from(factor)) >> shift.min(64)) as u64
            }
            None => time,
        };
        time.saturating_add_signed(self.offset)
    }
}

const OVERLAPS: &str = "overlapping part";

/// The ring of one CPU.
struct Ring {
    cpu: u16,
    layout: PageLayout,
    times: Times,
    page_size: usize,
}

impl Ring {
    fn pages(&mut self, pages: &[u8], decoder: &mut Decoder<'_>, import: &mut Import) {
        let mut pending = None;
        for page in pages.chunks(self.page_size) {
            let Some(page) = Page::new(page, self.layout) else { continue };
            let mut missed = page.missed;
            for event in page {
                let at =
                    At { time: self.times.nanos(event.time), cpu: self.cpu, stack: StackId::EMPTY };
                if let Some(events) = missed.take()
                    && let Some(before) = import.last_time(self.cpu)
                {
                    import.lost(self.cpu, before, at.time, events);
                }
                decoder.event(import, &mut pending, at, event.data);
            }
        }
        decoder.flush(import, pending);
    }

    /// Pages in compressed chunks, each of whole pages.
    fn packed(
        &mut self,
        chunks: &[u8],
        packing: Packing,
        budget: &mut Budget,
        decoder: &mut Decoder<'_>,
        import: &mut Import,
    ) {
        let mut from = Cursor::new(chunks);
        let Some(count) = from.u32() else { return };
        for _ in 0..count {
            let (Some(packed_len), Some(_len)) = (from.u32(), from.u32()) else { break };
            let packed = from.bytes(packed_len as usize);
            if budget.stored(8 + packed.map_or(0, <[u8]>::len)).is_none() {
                return import.leave_out(OVERLAPS);
            }
            match packed.and_then(|packed| packing.unpack(packed, budget)) {
                Some(pages) => self.pages(&pages, decoder, import),
                None => import.leave_out("damaged or too large chunk of pages"),
            }
            if packed.is_none() {
                break;
            }
        }
    }
}
