//! The loader: the metadata, then each file of events.

use super::bits::Values;
use super::events::Events;
use super::grammar;
use super::metadata::{self, Metadata};
use super::packets::Packets;
use crate::Error;
use crate::import::builder::{At, Import};
use unhitch_model::linux::CLOCK_MONOTONIC;
use unhitch_model::{Format, Lack, Meta, StackId, Trace, units};

/// Reads a trace: the content of its file `metadata`, and that of its files of events. `release` is
/// called with each part of these that is no longer needed.
///
/// # Errors
/// If the metadata cannot be read, or describe no kernel trace.
pub fn load(
    metadata: &[u8],
    streams: &[&[u8]],
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let metadata = grammar::parse(&metadata::text(metadata)?)?;
    let of = |name: &str| metadata.environment.get(name).cloned().unwrap_or_default();
    if of("domain") == "ust" {
        return Err(Error::Unsupported(
            "this is LTTng's trace of programs (UST), which has no context switches: give the \
             folder \"kernel\" of the same session"
                .to_owned(),
        ));
    }
    let mut import = Import::default();
    let mut events = Events::default();
    for stream in streams {
        file(&metadata, stream, &mut import, &mut events, release);
    }
    import.trace.meta = Meta {
        format: Format::Ctf,
        host: of("hostname"),
        kernel: of("kernel_release"),
        arch: of("architecture"),
        clock_id: (metadata.clock_name == "monotonic").then_some(CLOCK_MONOTONIC),
        epoch_ns: (metadata.clock_offset_ns != 0).then_some(metadata.clock_offset_ns),
        producer: producer(&of("tracer_name"), &of("tracer_major"), &of("tracer_minor")),
        ..Meta::default()
    };
    let lacks: &[Lack] = if events.has_contexts { &[] } else { &[Lack::WakeContexts] };
    Ok(import.finish(lacks))
}

fn producer(name: &str, major: &str, minor: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name} {major}.{minor}") }
}

/// Reads the events of one file.
fn file(
    metadata: &Metadata,
    bytes: &[u8],
    import: &mut Import,
    events: &mut Events,
    release: &(dyn Fn(&[u8]) + Sync),
) {
    let mut packets = Packets::new(metadata, bytes);
    let mut values = Values::default();
    let mut discarded = 0;
    let nanos = |ticks: u64| match metadata.clock_hertz {
        1_000_000_000 => ticks,
        hertz => (u128::from(ticks) * 1_000_000_000 / u128::from(hertz)) as u64,
    };
    loop {
        let before = packets.rest();
        let Some(head) = packets.next_packet(&mut values) else { break };
        let at = |time: u64| At { time: nanos(time), cpu: head.cpu, stack: StackId::EMPTY };
        let mut last = head.begin;
        while let Some(found) = packets.next_event(&mut values) {
            last = found.time;
            events.event(import, at(last), &found.event.name, &values);
        }
        // LTTng drops events while there is no room for the next packet, and ends this one after
        // that.
        let missing = head.discarded.saturating_sub(discarded);
        if missing > 0 {
            import.lost(head.cpu, nanos(last), nanos(head.end.max(last)), missing);
            import.trace.warnings.add(format!(
                "CPU {} lost {}: the recorder could not keep up",
                head.cpu,
                units::plural(missing, "event")
            ));
            events.forget(head.cpu);
            discarded = head.discarded;
        }
        let used = before.len() - packets.rest().len();
        release(&before[..used]);
    }
    if packets.is_damaged {
        import.leave_out("damaged or cut file");
    }
}
