//! What Unhitch's export says about the recording: an event of the category `unhitch.recording`
//! with facts for which Perfetto has no field.

use super::wire::Value;
use unhitch_model::{CpuSpan, Lack, Loss, MAX_SAMPLE_PERIOD_NS, Time, Trace, Window};

/// The facts, as far as the file has them.
#[derive(Default)]
pub(super) struct Recording {
    is_there: bool,
    sample_period_ns: u64,
    clock_id: Option<u32>,
    lacks: Vec<Lack>,
    warnings: Vec<String>,
    spans: Vec<CpuSpan>,
    losses: Vec<Loss>,
}

/// Maximum number of entries of each list.
const MAX_ENTRIES: usize = 1 << 16;
/// Maximum length of a warning, characters.
const MAX_WARNING_LEN: usize = 4096;

impl Recording {
    /// Reads a `TrackEvent`, if it is this one.
    pub fn read(&mut self, event: Value<'_>) {
        let mut of = event.fields().filter(|(field, _)| *field == 22);
        if !of.any(|(_, category)| category.bytes() == b"unhitch.recording") {
            return;
        }
        self.is_there = true;
        for (_, fact) in event.fields().filter(|(field, _)| *field == 4) {
            let name = last(fact, 10).map_or(&[][..], Value::bytes);
            let number = last(fact, 3).map_or(0, Value::number);
            let entries = fact.fields().filter(|(field, _)| *field == 12).map(|(_, entry)| entry);
            let entries = entries.take(MAX_ENTRIES);
            let texts = entries.clone().filter_map(|entry| Some(last(entry, 6)?.text()));
            match name {
                b"sample_period_ns" => self.sample_period_ns = number.min(MAX_SAMPLE_PERIOD_NS),
                b"clock_id" => self.clock_id = u32::try_from(number).ok(),
                b"lacks" => {
                    let lack = |name: String| Lack::ALL.into_iter().find(|it| it.name() == name);
                    self.lacks = texts.filter_map(lack).collect();
                }
                b"warnings" => {
                    let short = |text: String| text.chars().take(MAX_WARNING_LEN).collect();
                    self.warnings = texts.map(short).collect();
                }
                b"spans" => {
                    let span = |(cpu, window, _)| CpuSpan { cpu, window };
                    self.spans = entries.filter_map(window).map(span).collect();
                }
                b"losses" => {
                    let loss = |(cpu, window, events)| Loss { cpu, window, events };
                    self.losses = entries.filter_map(window).map(loss).collect();
                }
                _ => {}
            }
        }
    }

    /// What the recording lacked.
    pub fn lacks(&self) -> &[Lack] {
        &self.lacks
    }

    /// Adds the facts to the trace, instead of what was made of its events.
    pub fn complete(self, trace: &mut Trace) {
        if !self.is_there {
            return;
        }
        let Self { sample_period_ns, clock_id, warnings, mut spans, mut losses, .. } = self;
        trace.meta.is_named = true;
        trace.meta.clock_id = clock_id;
        trace.meta.sample_period_ns = sample_period_ns;
        warnings.into_iter().for_each(|warning| trace.warnings.add(warning));
        spans.sort_by_key(|span| span.cpu);
        spans.dedup_by_key(|span| span.cpu);
        if !spans.is_empty() {
            trace.spans = spans;
            trace.meta.buffers = trace.spans.len() as u64;
        }
        losses.sort_by_key(|loss| (loss.window.start, loss.cpu));
        trace.losses = losses;
    }
}

/// The last value of a field.
fn last<'a>(message: Value<'a>, of: u32) -> Option<Value<'a>> {
    message.fields().filter(|(field, _)| *field == of).map(|(_, value)| value).last()
}

/// A CPU, a window and a number of events.
fn window(entry: Value<'_>) -> Option<(u16, Window, u64)> {
    let (mut cpu, mut start, mut end, mut events) = (0, 0, 0, 0);
    for (_, entry) in entry.fields().filter(|(field, _)| *field == 11) {
        let number = last(entry, 3).map_or(0, Value::number);
        match last(entry, 10).map_or(&[][..], Value::bytes) {
            b"cpu" => cpu = number,
            b"start_ns" => start = number,
            b"end_ns" => end = number,
            b"events" => events = number,
            _ => {}
        }
    }
    let is_sound = start < end;
    let window = Window::new(Time::from_nanos(start.min(end)), Time::from_nanos(end));
    Some((u16::try_from(cpu).ok()?, window, events)).filter(|_| is_sound)
}
