//! Where a thread computed, by its CPU samples: the function that holds most of them; else the
//! functions and modules with the most samples, with their shares; else why nothing is known.
//! *Why one place:* it is easy to write that there are no samples where there are some without a
//! function in common.

use super::case::Case;
use super::case::runs;
use super::case::samples_of;
use crate::samples::{HotSpot, Sampled, sampled};
use crate::stacks::text::stack_text_without;
use crate::wording::sentence::{Sentence, Span, Subject, are, function, plural, sentence};
use crate::wording::{recording, units};
use unhitch_model::{FrameId, ThreadId, Window};

/// Maximum functions, and modules, that are listed with their shares.
const MAX_PLACES: usize = 4;

/// Where a thread computed.
pub(super) struct Computing {
    /// A sentence about it.
    pub(super) sentence: Sentence,
    /// The function by name; empty where no function has half of the samples.
    pub(super) function: String,
    /// The end of a sentence: ` in F`, ` mostly in the module M`; empty where not known.
    pub(super) place: Sentence,
    /// Number of samples.
    pub(super) samples: u64,
}

impl Case<'_> {
    /// Where `thread` computed during `windows`.
    pub(super) fn computing(&self, thread: ThreadId, windows: &[Window]) -> Computing {
        let sampled = sampled(self.analysis, &runs(thread, windows));
        if let Some(spot) = &sampled.hot {
            let name = self.hot_name(spot);
            let place = sentence!(" in {}", self.hot_place(spot));
            let sentence = self.samples_in(spot, &sampled);
            return Computing { sentence, function: name, place, samples: sampled.total };
        }
        let (sentence, place) = match sampled.total {
            0 => (self.no_samples(thread), Sentence::default()),
            _ => (spread(&sampled), mostly(&sampled)),
        };
        Computing { sentence, function: String::new(), place, samples: sampled.total }
    }

    /// `7,498 of 7,547 samples are in`, one of the stacks down to the function that they share, and
    /// where they are below it, unless half of them are in that function itself.
    fn samples_in(&self, spot: &HotSpot, sampled: &Sampled) -> Sentence {
        let trace = self.analysis.trace;
        let shared = if spot.callee.is_empty() { spot.function } else { spot.callee };
        let is_shared = |frame: &FrameId| {
            let symbol = trace.symbols.get(*frame).last();
            *frame == spot.frame || symbol.is_some_and(|symbol| symbol.function == shared)
        };
        let below = trace.stacks.frames_of(spot.stack).iter().position(is_shared).unwrap_or(0);
        let stack = stack_text_without(self.analysis, spot.stack, below);
        let mut sentence = sentence!(
            "{} {} in\n  {}",
            samples_of(spot),
            are(spot.inside.into()),
            Span::new(stack, Subject::Stack(spot.stack))
        );
        let is_most = |samples: u64| samples * 2 >= sampled.total;
        let is_known = |samples: u64| samples * 10 >= sampled.total;
        let own = sampled.leaves.iter().find(|(name, _)| *name == trace.name(shared));
        if !own.is_some_and(|(_, samples)| is_most(*samples))
            && sampled.leaves.first().is_some_and(|(_, samples)| is_known(*samples))
        {
            sentence.push(sentence!("\nBy function: {}.", shares(&sampled.leaves, sampled.total)));
        }
        sentence
    }

    fn no_samples(&self, thread: ThreadId) -> Sentence {
        let trace = self.analysis.trace;
        if trace.samples.is_empty() {
            return sentence!(
                "CPU samples were not recorded, so it is not known where it computed. {}",
                recording::samples(trace.meta.system)
            );
        }
        let samples = &self.analysis.samples;
        match samples.of_thread(trace, thread, self.explanation.window).len() as u64 {
            0 => Sentence::from(
                "No CPU sample was taken while it ran, so it is not known where it computed.",
            ),
            elsewhere => sentence!(
                "It was sampled only at other times ({}), so it is not known where it computed.",
                plural(elsewhere, "CPU sample")
            ),
        }
    }
}

/// The samples where no function has half of them.
fn spread(sampled: &Sampled) -> Sentence {
    let placed: u64 = sampled.modules.iter().map(|(_, samples)| samples).sum();
    let total = plural(sampled.total, "CPU sample");
    if sampled.leaves.is_empty() {
        return sentence!(
            "{} {} it on a CPU, but without a stack: it is not known where it computed.",
            total,
            if sampled.total == 1 { "shows" } else { "show" }
        );
    }
    let without = match sampled.total - placed {
        0 => Sentence::default(),
        n => {
            sentence!(" {} {} no stack.", plural(n, "sample"), if n == 1 { "has" } else { "have" })
        }
    };
    sentence!(
        "No function has half of its {}. By function: {}. By module: {}.{}",
        total,
        shares(&sampled.leaves, sampled.total),
        shares(&sampled.modules, sampled.total),
        without
    )
}

/// The places with the most samples, with their shares of `total`: `inflate 40 %, crc32 12 %, 8 others
/// 48 %`.
fn shares(places: &[(String, u64)], total: u64) -> Sentence {
    let share = |samples| units::rounded_percent(samples, total);
    let mut parts: Vec<Sentence> = (places.iter().take(MAX_PLACES))
        .map(|(name, samples)| sentence!("{} {}", function(name), share(*samples)))
        .collect();
    let rest: u64 = places.iter().skip(MAX_PLACES).map(|(_, samples)| samples).sum();
    if rest > 0 {
        let others = (places.len() - MAX_PLACES) as u64;
        parts.push(sentence!("{} {}", plural(others, "other"), share(rest)));
    }
    Sentence::join(parts, ", ")
}

/// The module that has at least half of the samples.
fn mostly(sampled: &Sampled) -> Sentence {
    match sampled.modules.first() {
        Some((name, samples)) if samples * 2 >= sampled.total => sentence!(
            " mostly in the module {} ({} of {})",
            name.as_str(),
            units::rounded_percent(*samples, sampled.total),
            plural(sampled.total, "sample")
        ),
        _ => Sentence::default(),
    }
}
