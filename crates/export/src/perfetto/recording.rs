//! Facts about the recording for which Perfetto has no field: an instant event on the track
//! "Unhitch", of the category `unhitch.recording`, with the facts as its arguments. Our importer
//! reads it, so that a trace which comes back is the same.

use super::fields::{ROOT, annotation, packet, track_event as field};
use super::packets::{Packets, Sequence};
use crate::job::Job;
use crate::protobuf::Message;
use std::io;
use unhitch_model::Window;

/// Writes the track and the event.
pub(super) fn write(job: &Job<'_>, packets: &mut Packets<'_>) -> io::Result<()> {
    packets.write(Sequence::Answers, None, |packet| {
        packet.nest(packet::TRACK_DESCRIPTOR, |track| {
            track.uint(1, ROOT);
            track.put(2, "Unhitch");
        });
    })?;
    let start = job.selection.window.start;
    packets.write(Sequence::Answers, Some(start), |packet| {
        packet.nest(packet::TRACK_EVENT, |event| {
            event.uint(field::TYPE, field::INSTANT);
            event.uint(field::TRACK, ROOT);
            event.put(field::NAME, "recording");
            event.put(field::CATEGORIES, "unhitch.recording");
            facts(job, event);
        });
    })
}

fn facts(job: &Job<'_>, event: &mut Message) {
    let (trace, selected) = (job.analysis.trace, job.selection.window);
    let numbers = [
        ("sample_period_ns", Some(trace.meta.sample_period_ns)),
        ("clock_id", trace.meta.clock_id.map(u64::from)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            event.nest(field::ANNOTATIONS, |fact| put_number(fact, name, number));
        }
    }
    let lacks = trace.meta.lacks.iter().map(|lack| lack.name().to_owned());
    texts(event, "lacks", lacks);
    // What is lacking is said in words again when the file is read.
    let is_lack = |line: &String| trace.meta.lacks.iter().any(|lack| lack.words() == line);
    texts(event, "warnings", trace.warnings.lines().filter(|line| !is_lack(line)));
    let spans = trace.spans.iter().map(|span| (span.cpu, span.window, None));
    windows(event, "spans", spans, selected);
    let losses = trace.losses.iter().map(|loss| (loss.cpu, loss.window, Some(loss.events)));
    windows(event, "losses", losses, selected);
}

fn put_number(message: &mut Message, name: &str, number: u64) {
    message.put(annotation::NAME, name);
    message.uint(annotation::NUMBER, number);
}

fn texts(event: &mut Message, name: &str, texts: impl Iterator<Item = String>) {
    event.nest(field::ANNOTATIONS, |fact| {
        fact.put(annotation::NAME, name);
        for text in texts {
            fact.nest(annotation::VALUES, |value| value.put(annotation::TEXT, text));
        }
    });
}

/// Windows of CPUs as far as they are selected, with a number of events.
fn windows(
    event: &mut Message,
    name: &str,
    windows: impl Iterator<Item = (u16, Window, Option<u64>)>,
    selected: Window,
) {
    event.nest(field::ANNOTATIONS, |fact| {
        fact.put(annotation::NAME, name);
        for (cpu, window, events) in windows.filter(|(_, window, _)| window.overlaps(selected)) {
            let window = window.intersect(selected);
            let numbers = [
                ("cpu", Some(u64::from(cpu))),
                ("start_ns", Some(window.start.nanos())),
                ("end_ns", Some(window.end.nanos())),
                ("events", events),
            ];
            fact.nest(annotation::VALUES, |value| {
                for (name, number) in numbers {
                    if let Some(number) = number {
                        value.nest(annotation::ENTRIES, |entry| put_number(entry, name, number));
                    }
                }
            });
        }
    });
}
