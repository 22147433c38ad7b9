//! Where somebody computed, by its CPU samples: the function that most of them are in; else the
//! functions and modules in which most were taken, with their shares; else why nothing is known.
//! *Why one place:* a sentence that there are no samples is easily written where there are some
//! without a function in common.

use super::Case;
use crate::answer::{recording, units};
use crate::{HotSpot, Sampled};
use unhitch_model::{ThreadId, Window};

/// Maximum functions, and modules, that are listed with their shares.
const MAX_PLACES: usize = 4;

/// Where somebody computed.
pub(super) struct Computing {
    /// A sentence about it.
    pub(super) sentence: String,
    /// The function by name; empty where no function has half of the samples.
    pub(super) function: String,
    /// Where, as the end of a sentence: ` in F`, ` mostly in the module M`; empty where that is not
    /// known.
    pub(super) place: String,
    /// Samples.
    pub(super) samples: u64,
}

impl Case<'_> {
    /// Where `thread` computed during `windows`.
    pub(super) fn computing(&self, thread: ThreadId, windows: &[Window]) -> Computing {
        let runs: Vec<(ThreadId, Window)> =
            windows.iter().map(|&window| (thread, window)).collect();
        let sampled = self.analysis.sampled(&runs);
        if let Some(spot) = &sampled.hot {
            let function = self.hot_name(spot);
            let (sentence, place) = (self.spot_sentence(spot), format!(" in {function}"));
            return Computing { sentence, function, place, samples: sampled.total };
        }
        let (sentence, place) = match sampled.total {
            0 => (self.no_samples(thread), String::new()),
            _ => (spread(&sampled), mostly(&sampled)),
        };
        Computing { sentence, function: String::new(), place, samples: sampled.total }
    }

    /// How many samples are in a function, with one of its stacks.
    pub(super) fn spot_sentence(&self, spot: &HotSpot) -> String {
        let (inside, total) = (units::count(spot.inside.into()), units::count(spot.total.into()));
        format!("{inside} of {total} samples are in\n  {}", self.told(spot.stack))
    }

    fn no_samples(&self, thread: ThreadId) -> String {
        let trace = self.analysis.trace;
        if trace.samples.is_empty() {
            let advice = recording::samples(trace.meta.format);
            return format!(
                "CPU samples were not recorded, so where it computed is not known. {advice}"
            );
        }
        let elsewhere =
            self.analysis.samples.of_thread(trace, thread, self.explanation.window).len() as u64;
        match elsewhere {
            0 => "No CPU sample was taken while it ran, so where it computed is not known."
                .to_owned(),
            _ => format!(
                "None of its {} in this window was taken in that time, so where it computed is not known.",
                units::plural(elsewhere, "CPU sample")
            ),
        }
    }
}

/// The samples where no function has half of them.
fn spread(sampled: &Sampled) -> String {
    let list = |places: &[(String, u64)]| {
        let shown = places.iter().take(MAX_PLACES);
        let mut words: Vec<String> = shown
            .map(|(name, samples)| {
                format!("{name} {}", units::rounded_percent(*samples, sampled.total))
            })
            .collect();
        let rest: u64 = places.iter().skip(MAX_PLACES).map(|(_, samples)| samples).sum();
        if rest > 0 {
            words.push(format!(
                "{} others {}",
                places.len() - MAX_PLACES,
                units::rounded_percent(rest, sampled.total)
            ));
        }
        words.join(", ")
    };
    let unplaced = sampled.total - sampled.modules.iter().map(|(_, samples)| samples).sum::<u64>();
    let count = units::plural(sampled.total, "CPU sample");
    if sampled.leaves.is_empty() {
        return format!(
            "{count} show it on a CPU, but without a stack: where it computed is not known."
        );
    }
    let without = match unplaced {
        0 => String::new(),
        n => format!(" {} have no stack.", units::count(n)),
    };
    format!(
        "No function has half of its {count}. By function: {}. By module: {}.{without}",
        list(&sampled.leaves),
        list(&sampled.modules)
    )
}

/// The module that has at least half of the samples.
fn mostly(sampled: &Sampled) -> String {
    match sampled.modules.first() {
        Some((name, samples)) if samples * 2 >= sampled.total => {
            format!(
                " mostly in the module {name} ({} of {})",
                units::rounded_percent(*samples, sampled.total),
                { units::plural(sampled.total, "sample") }
            )
        }
        _ => String::new(),
    }
}
