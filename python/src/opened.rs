//! [`Opened`]: a trace with its analysis.

use crate::content_id::ContentIds;
use crate::failure::{Failure, Outcome, because, check_fork, of_file};
use self_cell::self_cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use unhitch_analysis::table::{Query, Table, Words};
use unhitch_analysis::{Analysis, Rules, Stall, diagnose};
use unhitch_model::{Format, Time, Trace, Window, visible_path};
use unhitch_symbols::{Options, Symbolizer};

self_cell!(
    struct Analysed {
        owner: Trace,
        #[covariant]
        dependent: Analysis,
    }
);

/// A trace, read, with everything that is computed from it once.
pub struct Opened {
    analysed: Analysed,
    /// The file, as the user named it.
    pub file: String,
    stalls: OnceLock<Arc<Vec<Stall>>>,
    ids: OnceLock<ContentIds>,
}

/// How to read a trace.
#[derive(Clone, Default)]
pub struct Reading {
    /// The other sessions of the same Windows recording.
    pub with: Vec<PathBuf>,
    /// The user's wait rules.
    pub rules: Option<PathBuf>,
    /// Whether functions that the file does not name are named from this machine's files.
    pub names: bool,
}

impl Opened {
    /// Reads the trace at `path`.
    pub fn new(path: &Path, reading: &Reading) -> Outcome<Self> {
        check_fork()?;
        let file = path.display().to_string();
        let rules = match &reading.rules {
            Some(rules) => {
                let words = std::fs::read_to_string(rules)
                    .map_err(|error| of_file(&rules.display().to_string(), error))?;
                Rules::with_user_rules(&words)
                    .map_err(|error| of_file(&rules.display().to_string(), error))?
            }
            None => Rules::default(),
        };
        let mut trace = unhitch_formats::open_with(path, &reading.with)
            .map_err(|error| of_file(&visible_path(path).to_string(), because(&error).words()))?;
        unhitch_analysis::repair(&mut trace);
        if reading.names {
            name(&mut trace);
        }
        let analysed = Analysed::new(trace, |trace| Analysis::new(trace, &rules));
        Ok(Self { analysed, file, stalls: OnceLock::new(), ids: OnceLock::new() })
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        self.analysed.borrow_owner()
    }

    /// Its analysis.
    pub fn analysis(&self) -> &Analysis<'_> {
        self.analysed.borrow_dependent()
    }

    /// The stalls of the whole recording, worst first.
    pub fn stalls(&self) -> &Arc<Vec<Stall>> {
        let all = || Arc::new(diagnose(self.analysis(), &unhitch_analysis::Query::default()));
        self.stalls.get_or_init(all)
    }

    /// The content ids of its functions and stacks.
    pub fn ids(&self) -> &ContentIds {
        self.ids.get_or_init(|| ContentIds::new(self.trace()))
    }

    /// The part of `whole` between two times in seconds since the trace's origin.
    pub fn window(&self, from: Option<f64>, to: Option<f64>, whole: Window) -> Outcome<Window> {
        let origin = self.trace().origin();
        let at = |seconds: f64| -> Outcome<Time> {
            let offset = Duration::try_from_secs_f64(seconds)
                .map_err(|_| Failure::new(format!("{seconds} is no time in seconds")))?;
            Ok(origin.plus(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX)))
        };
        let start = from.map_or(Ok(whole.start), at)?;
        let end = to.map_or(Ok(whole.end), at)?;
        let wanted = Window::new(start, end).intersect(whole);
        if wanted.is_empty() && (from.is_some() || to.is_some()) {
            let [from, to] = [whole.start, whole.end].map(|time| time.since(origin) as f64 / 1e9);
            return Err(Failure::new(format!(
                "there is nothing in this time range: the trace covers {from:.3} s to {to:.3} s"
            )));
        }
        Ok(wanted)
    }

    /// Answers a query.
    pub fn table(&self, query: &Query, window: Window, top: usize) -> Table<'_> {
        Table::new(self.analysis(), query, window, top)
    }
}

/// Names frames that the file does not name, from this machine's files, where those are the ones
/// that were recorded.
fn name(trace: &mut Trace) {
    let is_own = trace.meta.format == Format::Hitch && !trace.meta.is_interrupted;
    if is_own {
        return;
    }
    let mut symbolizer = Symbolizer::new(Options::default());
    if trace.meta.format == Format::Etl || is_this_machine(trace) {
        symbolizer.resolve(trace);
    } else {
        symbolizer.resolve_by_build_id(trace);
        trace.warnings.add(format!(
            "function names are missing: the trace was recorded on {} with kernel {}",
            trace.meta.host, trace.meta.kernel
        ));
    }
}

fn is_this_machine(trace: &Trace) -> bool {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default()
    };
    let same = |recorded: &str, here: String| recorded.is_empty() || recorded == here.trim();
    same(&trace.meta.kernel, read("osrelease")) && same(&trace.meta.host, read("hostname"))
}

/// Checks a query's words.
pub fn query(table: &str, words: Words<'_>) -> Outcome<Query> {
    let name = unhitch_analysis::table::Name::of_word(table).ok_or_else(|| {
        let known: Vec<&str> =
            unhitch_analysis::table::TABLES.iter().map(|table| table.word).collect();
        Failure::new(format!("there is no table `{table}`; there are {}", known.join(", ")))
    })?;
    // The program's options are this package's arguments.
    Query::new(name, words).map_err(|error| {
        let words = error.to_string();
        Failure::new(words.strip_prefix("--").map_or(words.clone(), str::to_owned))
    })
}
