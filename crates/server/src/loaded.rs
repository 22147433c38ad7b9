//! A trace with what is computed from it, and how its parts are told to the page.

use crate::{Error, Tools};
use rayon::ThreadPool;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use unhitch_analysis::lod::Lanes;
use unhitch_analysis::table::{Name, Stored};
use unhitch_analysis::{Analysis, Cancel, Wanted, answer};
use unhitch_analysis::{Query, Stall};
use unhitch_model::{Process, StackId, Thread, ThreadId, Time, Trace, Window};

/// So many tables are kept,
const MOST_TABLES: usize = 8;
/// and of large ones fewer.
const MOST_TABLE_BYTES: usize = 1 << 30;

/// What questions are asked of.
pub(crate) struct Loaded<'t> {
    pub trace: &'t Trace,
    pub analysis: &'t Analysis<'t>,
    pub tools: &'t Tools,
    pub lanes: Lanes,
    stalls: OnceLock<Arc<Vec<Stall>>>,
    uses: OnceLock<Vec<[bool; 3]>>,
    /// Tables that were asked about, most recently last.
    tables: Mutex<Vec<(Name, Window, Arc<Stored<'t>>)>>,
    /// For questions about lanes: they must not wait behind others on the shared threads.
    screens: ThreadPool,
    /// For the search for stalls, which keeps all threads that it has busy for long, and yields to
    /// all others.
    judging: ThreadPool,
}

/// Whose stack it is, which decides which of its frames mean something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StackOf {
    Wait,
    Wake,
    Sample,
}

impl StackOf {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Wake => "wake",
            Self::Sample => "sample",
        }
    }

    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Wait, Self::Wake, Self::Sample].into_iter().find(|of| of.word() == word)
    }
}

impl<'t> Loaded<'t> {
    pub fn new(
        trace: &'t Trace,
        analysis: &'t Analysis<'t>,
        tools: &'t Tools,
    ) -> Result<Self, String> {
        let pool = |begin: fn(usize)| {
            rayon::ThreadPoolBuilder::new()
                .start_handler(begin)
                .build()
                .map_err(|error| error.to_string())
        };
        let (lanes, stalls) = (Lanes::new(analysis), OnceLock::new());
        Ok(Self {
            trace,
            analysis,
            tools,
            lanes,
            stalls,
            uses: OnceLock::new(),
            tables: Mutex::default(),
            screens: pool(|_| ())?,
            judging: pool(|_| yield_to_others())?,
        })
    }

    /// Works out what is to be seen next, beside everything else that is going on.
    pub fn at_once<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.screens.install(work)
    }

    /// Builds what the first screen shows.
    pub fn prepare(&self) {
        // Never given up: whoever opened the trace wants to see it.
        let _ = self.lanes.prepare_cpus(self.analysis, &Cancel::never());
    }

    /// A table of a window, kept for the next question about it.
    pub fn table(&self, name: Name, window: Window, cancel: &Cancel) -> Wanted<Arc<Stored<'t>>> {
        let find = |kept: &mut Vec<(Name, Window, Arc<Stored<'t>>)>| {
            let at = kept.iter().position(|(known, of, _)| (*known, *of) == (name, window))?;
            let entry = kept.remove(at);
            kept.push(entry);
            kept.last().map(|(.., stored)| Arc::clone(stored))
        };
        let tables = || self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = find(&mut tables()) {
            return Ok(stored);
        }
        cancel.check()?;
        let stored = Arc::new(match name {
            // The same that the answers are about, whatever the window: a search takes long.
            Name::Stalls => {
                Stored::of_stalls(self.analysis, Arc::clone(self.find_stalls()), window)
            }
            _ => Stored::new(self.analysis, name, window),
        });
        let mut kept = tables();
        if let Some(stored) = find(&mut kept) {
            return Ok(stored);
        }
        kept.push((name, window, Arc::clone(&stored)));
        let bytes = |kept: &[(Name, Window, Arc<Stored<'t>>)]| {
            kept.iter().map(|(.., stored)| stored.bytes()).sum::<usize>()
        };
        while kept.len() > MOST_TABLES || kept.len() > 1 && bytes(&kept) > MOST_TABLE_BYTES {
            kept.remove(0);
        }
        Ok(stored)
    }

    /// What the list of traces says of it.
    pub fn facts(&self) -> Map<String, Value> {
        let meta = &self.trace.meta;
        let facts = [
            ("format", json!(meta.format.name())),
            ("host", json!(meta.host)),
            ("kernel", json!(meta.kernel)),
            ("duration_ns", json!(self.window().duration_ns())),
            ("cpus", json!(self.cpus())),
        ];
        facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// CPUs of the machine, as far as is known.
    pub fn cpus(&self) -> usize {
        self.analysis.cpus.cpus().max(usize::from(self.trace.meta.cpus))
    }

    /// The stalls, looked for once; who asks meanwhile waits.
    fn find_stalls(&self) -> &Arc<Vec<Stall>> {
        self.stalls.get_or_init(|| {
            self.judging.install(|| {
                // While somebody looks at the first screen: whichever thread is scrolled to next is
                // then there.
                let _ = self.lanes.prepare_threads(self.analysis, &Cancel::never());
                Arc::new(unhitch_analysis::diagnose(self.analysis, &Query::default()))
            })
        })
    }

    /// Finds the stalls; what the list of traces says of the worst.
    pub fn judge(&self) -> Value {
        let Some(worst) = self.find_stalls().first() else {
            return json!({ "text": null, "severity": 0 });
        };
        let (hung, whole) =
            (worst.explanation.window.duration_ns(), self.window().duration_ns().max(1));
        json!({
            "text": answer::one_line(self.analysis, worst).trim(),
            "pattern": worst.finding.pattern.name(),
            "duration_ns": hung,
            "severity": hung as f64 / whole as f64,
        })
    }

    /// There will be none.
    pub fn judge_failed(&self) -> Value {
        self.stalls.get_or_init(Arc::default);
        json!({ "text": "the search for stalls failed", "severity": 0 })
    }

    /// The stalls, worst first; none before they were found.
    pub fn stalls(&self) -> Option<&[Stall]> {
        self.stalls.get().map(|stalls| stalls.as_slice())
    }

    /// The stall with an id of the page: 1 is the worst.
    pub fn stall(&self, id: usize) -> Result<&Stall, Error> {
        let stalls = self.stalls().ok_or(Error::NotReady)?;
        id.checked_sub(1).and_then(|index| stalls.get(index)).ok_or(Error::NotFound("stall"))
    }

    /// The window that the page shows: the one that all CPUs cover.
    pub fn window(&self) -> Window {
        self.analysis.timeline.window()
    }

    /// A time as the page has it.
    pub fn at(&self, time: Time) -> i64 {
        offset(self.trace.origin(), time)
    }

    /// A time of the page as the trace has it.
    pub fn time(&self, offset_ns: i64) -> Time {
        Time::from_nanos(self.trace.origin().nanos().saturating_add_signed(offset_ns))
    }

    /// For each stack whether it is one of waits, of wake-ups, of samples.
    pub fn stack_uses(&self) -> &[[bool; 3]] {
        self.uses.get_or_init(|| {
            let mut uses = vec![[false; 3]; self.trace.stacks.len()];
            let Trace { switches, wakings, samples, .. } = self.trace;
            let waits = switches.stack.iter().map(|stack| (0, stack));
            let wakes = wakings.stack.iter().map(|stack| (1, stack));
            let work = samples
                .stack
                .iter()
                .enumerate()
                .filter(|(sample, _)| samples.is_work(*sample))
                .map(|(_, stack)| (2, stack));
            for (kind, stack) in waits.chain(wakes).chain(work) {
                if let Some(used) = uses.get_mut(stack.index()) {
                    used[kind] = true;
                }
            }
            uses
        })
    }

    /// A thread as it is told; ids that nobody knows are -1.
    pub fn who(&self, thread: ThreadId, at: Time) -> Value {
        let process = self.trace.threads.process_of(thread);
        // As tools on Windows have it.
        let number = |id: u32, unknown: u32| if id == unknown { -1 } else { i64::from(id) };
        json!({
            "thread": thread.0,
            "tid": number(self.trace.threads.get(thread).tid, Thread::UNKNOWN_TID),
            "pid": number(process.pid, Process::UNKNOWN_PID),
            "process_id": self.trace.threads.get(thread).process.0,
            "name": self.trace.thread_name(thread, at),
            "process": self.trace.process_name(thread, at),
        })
    }

    /// A stack as it is told; null for none.
    pub fn stack(&self, of: StackOf, stack: StackId) -> Value {
        if stack == StackId::EMPTY {
            return Value::Null;
        }
        json!({ "stack": stack.0, "kind": of.word(), "told": self.told(of, stack) })
    }

    /// A stack on one line.
    pub fn told(&self, of: StackOf, stack: StackId) -> String {
        match of {
            StackOf::Wait | StackOf::Sample => {
                unhitch_analysis::text::stack_text(self.analysis, stack)
            }
            StackOf::Wake => {
                let own = self.analysis.stacks.own_frames(self.trace, stack);
                if own.len() == self.trace.stacks.frames_of(stack).len() {
                    return unhitch_analysis::text::stack_text(self.analysis, stack);
                }
                // Of an interrupt, not what it interrupted.
                let mut names: Vec<String> =
                    own.iter().filter_map(|&frame| self.trace.frame_names(frame).pop()).collect();
                names.reverse();
                names.join(" → ")
            }
        }
    }

    /// A stack as a cell of a table: the innermost functions.
    pub fn briefly(&self, of: StackOf, stack: StackId) -> Value {
        let facts = &self.analysis.stacks;
        let all = match of {
            StackOf::Wake => facts.own_frames(self.trace, stack),
            StackOf::Wait | StackOf::Sample => self.trace.stacks.frames_of(stack),
        };
        let noise = if of == StackOf::Sample { 0 } else { facts.noise_len(stack).min(all.len()) };
        let kernel_len = self.trace.stacks.kernel_len(stack).saturating_sub(noise);
        json!({ "stack": stack.0, "kind": of.word(), "told": unhitch_analysis::text::brief_stack_text(self.analysis, &all[noise..], kernel_len) })
    }

    /// A thread of this trace.
    pub fn thread(&self, id: u32) -> Result<ThreadId, Error> {
        if (id as usize) < self.trace.threads.len() {
            Ok(ThreadId(id))
        } else {
            Err(Error::NotFound("thread"))
        }
    }
}

/// Leaves the calling thread a tenth of the CPU time that others want as well, where threads have a
/// priority of their own.
fn yield_to_others() {
    // Refused, it takes more from the others.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Nanoseconds from `start` to `time`, negative before it.
pub(crate) fn offset(start: Time, time: Time) -> i64 {
    let clamp = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    if time >= start { clamp(time.since(start)) } else { -clamp(start.since(time)) }
}
