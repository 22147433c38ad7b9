//! Where a thread computed, by its CPU samples: the function that holds most of them; else the
//! functions and modules with the most samples, with their shares; else why nothing is known.
//! *Why one place:* it is easy to write that there are no samples where there are some without a
//! function in common.

use super::case::Case;
use super::case::runs;
use crate::samples::{Sampled, sampled};
use crate::wording::sentence::{Sentence, function, plural, sentence};
use crate::wording::{recording, units};
use unhitch_model::{ThreadId, Window};

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
            let sentence = self.samples_in(spot);
            return Computing { sentence, function: name, place, samples: sampled.total };
        }
        let (sentence, place) = match sampled.total {
            0 => (self.no_samples(thread), Sentence::default()),
            _ => (spread(&sampled), mostly(&sampled)),
        };
        Computing { sentence, function: String::new(), place, samples: sampled.total }
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
    let list = |places: &[(String, u64)]| {
        let share = |samples| units::rounded_percent(samples, sampled.total);
        let mut parts: Vec<Sentence> = (places.iter().take(MAX_PLACES))
            .map(|(name, samples)| sentence!("{} {}", function(name), share(*samples)))
            .collect();
        let rest: u64 = places.iter().skip(MAX_PLACES).map(|(_, samples)| samples).sum();
        if rest > 0 {
            let others = (places.len() - MAX_PLACES) as u64;
            parts.push(sentence!("{} {}", plural(others, "other"), share(rest)));
        }
        Sentence::join(parts, ", ")
    };
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
        list(&sampled.leaves),
        list(&sampled.modules),
        without
    )
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
