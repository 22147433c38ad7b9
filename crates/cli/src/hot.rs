//! `unhitch hot`: ranks functions by CPU samples, or shows the samples on each instruction of one.

mod listing;

pub use listing::Listing;

use crate::args::HotArgs;
use crate::done::Done;
use crate::load::For;
use crate::terminal::{print_answer, print_json_answer};
use crate::{load, rights, selection};
use anyhow::bail;
use serde_json::json;
use std::fmt::Write;
use unhitch_analysis::wording::{recording, units};
use unhitch_analysis::{SelfSamples, self_samples};
use unhitch_model::{FrameId, Recorded, ThreadId, Trace, Window, visible};
use unhitch_symbols::CodeOptions;

/// Maximum functions in the ranking as text; JSON has all of them.
const MAX_RANKED: usize = 20;
/// Maximum callees listed for a function that has no samples of its own.
const MAX_LISTED_CALLEES: usize = 3;

/// Which samples to use.
struct Selection {
    /// Samples of these threads; of all threads if empty.
    threads: Vec<ThreadId>,
    /// Samples in these windows.
    windows: Vec<Window>,
}

impl Selection {
    /// Indices into [`Trace::samples`], without those of idle threads.
    fn samples(&self, trace: &Trace) -> Vec<usize> {
        let is_wanted =
            |thread: &ThreadId| self.threads.is_empty() || self.threads.contains(thread);
        let mut samples: Vec<usize> =
            self.windows.iter().flat_map(|&window| trace.samples.range(window)).collect();
        samples.sort_unstable();
        samples.dedup();
        samples.retain(|&sample| {
            trace.samples.is_work(sample) && trace.samples.thread.get(sample).is_some_and(is_wanted)
        });
        samples
    }
}

/// Runs `unhitch hot`: ranks functions, or shows the instructions of one.
pub fn hot(args: &HotArgs) -> anyhow::Result<Done> {
    // Instructions are read from the files that the trace names, so the names must stay as they
    // are; they are made visible when printed.
    let trace = load::trace(&args.trace, For::of(args.json || args.function.is_some()))?;
    if let Some(lacking) =
        recording::not_recorded(&trace, Recorded::Samples, "").filter(|_| !args.json)
    {
        bail!("{}", lacking.trim_end());
    }
    let selection = Selection {
        threads: args
            .victim
            .as_deref()
            .map_or(Ok(Vec::new()), |name| selection::victims(&trace, name))?,
        windows: vec![selection::window(args.window, &trace, trace.extent())?],
    };
    match &args.function {
        None => ranking(&trace, &selection, args.json)?,
        Some(_) => {
            let options =
                CodeOptions { kernel_image: args.kernel_image.clone(), ..rights::code_options() };
            let listing =
                listing(&trace, &selection.samples(&trace), args.function.as_deref(), &options)?;
            if args.json {
                print_json_answer(&listing.json(), &trace, Some(Recorded::Samples))?
            } else {
                print_answer(&listing.text(), &trace)?
            }
        }
    }
    Ok(Done::Yes)
}

fn ranking(trace: &Trace, selection: &Selection, as_json: bool) -> anyhow::Result<()> {
    let samples = selection.samples(trace);
    let total = samples.len() as u64;
    let ranked = self_samples(trace, samples);
    let module = |place: &SelfSamples| {
        trace.modules.get(place.module).map_or("?", |module| trace.name(module.path))
    };
    if as_json {
        let functions = ranked.iter().map(|place| {
            let share = place.samples as f64 / total as f64;
            json!({ "function": place.label(trace), "module": module(place), "samples": place.samples, "share": share })
        });
        let ranking =
            json!({ "version": 1, "samples": total, "functions": functions.collect::<Vec<_>>() });
        return print_json_answer(&ranking, trace, Some(Recorded::Samples));
    }
    if ranked.is_empty() {
        return print_answer("No CPU samples in this selection.\n", trace);
    }
    let mut out =
        format!("{:>9} {:>8}  function (self samples, without callees)\n", "samples", "share");
    for place in ranked.iter().take(MAX_RANKED) {
        let share = units::rounded_percent(place.samples, total);
        let _ = writeln!(
            out,
            "{:>9} {share:>8}  {}  ({})",
            units::count(place.samples),
            place.label(trace),
            visible(module(place))
        );
    }
    let rest: u64 = ranked.iter().skip(MAX_RANKED).map(|place| place.samples).sum();
    if rest > 0 {
        let more = units::plural((ranked.len() - MAX_RANKED) as u64, "more function");
        let _ = writeln!(
            out,
            "{:>9} {:>8}  … {more}",
            units::count(rest),
            units::rounded_percent(rest, total)
        );
    }
    let _ = writeln!(
        out,
        "{:>9} {:>8}  total, without idle CPUs",
        units::count(total),
        units::rounded_percent(total, total)
    );
    print_answer(&out, trace)
}

/// The instructions of `function` with their samples; without a name, of the function with the most
/// self samples.
pub fn listing(
    trace: &Trace,
    samples: &[usize],
    function: Option<&str>,
    options: &CodeOptions,
) -> anyhow::Result<Listing> {
    let ranked = self_samples(trace, samples.iter().copied());
    let fit = |place: &SelfSamples| {
        function.map_or(Some(Fit::Exact), |wanted| Fit::of_place(trace, place, wanted))
    };
    let Some(best) = ranked.iter().filter_map(fit).min() else {
        return no_samples_in(trace, samples, function.unwrap_or_default());
    };
    let mut fitting = ranked.iter().filter(|place| fit(place) == Some(best));
    let Some(place) = fitting.next() else { bail!("no CPU samples in this selection") };
    let mut notes = Vec::new();
    if let Some(wanted) = function {
        if best == Fit::Inlined {
            notes.push(format!("{wanted} is inlined; this is a function that contains it"));
        }
        let others: Vec<String> = fitting
            .map(|other| {
                format!("{} ({})", other.label(trace), units::plural(other.samples, "sample"))
            })
            .collect();
        if !others.is_empty() {
            notes.push(format!("{wanted} could also mean {}", others.join(", ")));
        }
    }
    let inside = samples.iter().filter(|&&sample| {
        let stack = trace.samples.stack.get(sample).copied().unwrap_or_default();
        trace.stacks.frames_of(stack).iter().any(|&frame| is_in(trace, frame, place))
    });
    let inside = inside.count() as u64;
    Ok(Listing::new(trace, place, inside, samples.len() as u64, notes, options))
}

fn is_in(trace: &Trace, frame: FrameId, place: &SelfSamples) -> bool {
    let function = trace.symbols.get(frame).last().map(|symbol| symbol.function);
    let path = |module| trace.modules.get(module).map(|module| (module.path, module.kind));
    let Some(found) = trace.stacks.frame(frame) else { return false };
    path(found.module) == path(place.module)
        && function
            .map_or(place.function.is_empty() && place.span().contains(&found.offset), |function| {
                function == place.function
            })
}

fn no_samples_in(trace: &Trace, samples: &[usize], wanted: &str) -> anyhow::Result<Listing> {
    let calls = |&sample: &usize| {
        let frames =
            trace.stacks.frames_of(trace.samples.stack.get(sample).copied().unwrap_or_default());
        frames
            .iter()
            .flat_map(|&frame| trace.frame_names(frame))
            .any(|name| Fit::of_name(&name, wanted).is_some())
    };
    let above: Vec<usize> = samples.iter().copied().filter(calls).collect();
    if above.is_empty() {
        bail!(
            "no sample is in a function called {wanted:?}; `unhitch hot TRACE` lists the functions \
             that have samples"
        );
    }
    let callees = self_samples(trace, above.iter().copied());
    let callees: Vec<String> = callees
        .iter()
        .take(MAX_LISTED_CALLEES)
        .map(|place| format!("{} ({})", visible(&place.label(trace)), units::count(place.samples)))
        .collect();
    let count = units::plural(above.len() as u64, "sample");
    bail!(
        "{wanted:?} has no self samples: it is on the stacks of {count}, taken in {}",
        callees.join(", ")
    )
}

/// How well a function matches what the user wrote; the best match first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fit {
    /// The whole name, or a `file+0xOFFSET` within the range of its samples.
    Exact,
    /// The last part of the name: `find` for `map::Map::find`.
    LastPart,
    /// The name, or its last part, of a function inlined there.
    Inlined,
    /// Any part of the name.
    Part,
}

impl Fit {
    fn of_name(name: &str, wanted: &str) -> Option<Self> {
        // Functions of kernel modules are named `function [module]`.
        let bare = name.split(" [").next().unwrap_or(name);
        match () {
            () if wanted.is_empty() => None,
            () if name == wanted || bare == wanted => Some(Self::Exact),
            () if bare.strip_suffix(wanted).is_some_and(|rest| rest.ends_with("::")) => {
                Some(Self::LastPart)
            }
            () if name.contains(wanted) => Some(Self::Part),
            () => None,
        }
    }

    fn of_place(trace: &Trace, place: &SelfSamples, wanted: &str) -> Option<Self> {
        if holds_address(trace, place, wanted) {
            return Some(Self::Exact);
        }
        let outer = Self::of_name(&place.label(trace), wanted);
        if matches!(outer, Some(Self::Exact | Self::LastPart)) {
            return outer;
        }
        let mut frames = place.at.values().flat_map(|(frame, _)| trace.frame_names(*frame));
        let is_inlined = frames
            .any(|name| matches!(Self::of_name(&name, wanted), Some(Self::Exact | Self::LastPart)));
        if is_inlined { Some(Self::Inlined) } else { outer }
    }
}

/// True when `wanted` is `file+0xOFFSET` and lies within the range of the samples of `place`.
fn holds_address(trace: &Trace, place: &SelfSamples, wanted: &str) -> bool {
    let Some((file, offset)) = wanted.split("..").next().and_then(|start| start.rsplit_once("+0x"))
    else {
        return false;
    };
    let path = trace.modules.get(place.module).map_or("", |module| trace.name(module.path));
    (path == file || path.rsplit('/').next() == Some(file))
        && u64::from_str_radix(offset, 16).is_ok_and(|offset| place.span().contains(&offset))
}

#[cfg(test)]
mod tests {
    use super::Fit;

    #[test]
    fn functions_are_found_by_what_people_write() {
        assert_eq!(Fit::of_name("map::Map::find", "map::Map::find"), Some(Fit::Exact));
        assert_eq!(Fit::of_name("ext4_find [ext4]", "ext4_find"), Some(Fit::Exact));
        assert_eq!(Fit::of_name("map::Map::find", "find"), Some(Fit::LastPart));
        assert_eq!(Fit::of_name("map::Map::find_all", "find"), Some(Fit::Part));
        assert_eq!(Fit::of_name("map::Map::find", "seek"), None);
        assert_eq!(Fit::of_name("map::Map::find", ""), None);
    }
}
