//! A trace with everything computed from it, and its parts as JSON for the page.

use crate::{Error, Tools, verdict};
use rayon::ThreadPool;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use unhitch_analysis::lod::Lanes;
use unhitch_analysis::table::{Name, Stored};
use unhitch_analysis::{Analysis, Cancel, Query, StackKind, Stall, Wanted, text};
use unhitch_model::{Process, StackId, Thread, ThreadId, Time, Trace, Window};

/// Maximum tables kept.
const MAX_TABLES: usize = 8;
/// Maximum memory of the tables kept, bytes; one table is kept whatever its size.
const MAX_TABLE_BYTES: usize = 1 << 30;

/// An opened trace, which answers questions.
pub(crate) struct Loaded<'t> {
    pub trace: &'t Trace,
    pub analysis: &'t Analysis<'t>,
    pub tools: &'t Tools,
    pub lanes: Lanes,
    stalls: OnceLock<Arc<Vec<Stall>>>,
    uses: OnceLock<Vec<[bool; 3]>>,
    /// Tables in the order of their last use, the most recent last.
    tables: Mutex<Vec<(Name, Window, Arc<Stored<'t>>)>>,
    /// Threads for questions about lanes, which must not queue behind others on the shared threads.
    screens: ThreadPool,
    /// Threads for the search for stalls, which keeps all of them busy for long, and yields to
    /// everything else.
    judging: ThreadPool,
}

/// A thread's id as JSON; -1 if it is unknown, as Windows tools show it.
pub fn tid(thread: &Thread) -> i64 {
    if thread.tid == Thread::UNKNOWN_TID { -1 } else { thread.tid.into() }
}

/// A process's id as JSON; -1 if it is unknown.
pub fn pid(process: &Process) -> i64 {
    if process.pid == Process::UNKNOWN_PID { -1 } else { process.pid.into() }
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

    /// Computes what the user waits to see, in parallel with everything else.
    pub fn at_once<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.screens.install(work)
    }

    /// Builds what the first screen shows.
    pub fn prepare(&self) {
        // Never cancelled: the user who opened the trace wants to see it.
        let _ = self.lanes.prepare_cpus(self.analysis, &Cancel::never());
    }

    /// The table of a window, kept for the next question about it. That of the stalls waits until
    /// they are found.
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
            // The stalls already found, whatever the window: a new search would take long.
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
        while kept.len() > MAX_TABLES || kept.len() > 1 && bytes(&kept) > MAX_TABLE_BYTES {
            kept.remove(0);
        }
        Ok(stored)
    }

    /// What the list of traces shows of it.
    pub fn facts(&self) -> Map<String, Value> {
        verdict::facts(self.analysis)
    }

    /// The number of CPUs of the machine, as far as known.
    pub fn cpus(&self) -> usize {
        verdict::cpus(self.analysis)
    }

    /// The stalls, searched for once. A question that comes meanwhile waits.
    fn find_stalls(&self) -> &Arc<Vec<Stall>> {
        self.stalls.get_or_init(|| {
            self.judging.install(|| {
                // While the user looks at the first screen, build the lanes of all threads: any of
                // them may be scrolled to next.
                let _ = self.lanes.prepare_threads(self.analysis, &Cancel::never());
                Arc::new(unhitch_analysis::diagnose(self.analysis, &Query::default()))
            })
        })
    }

    /// Finds the stalls; returns what the list of traces shows of the worst.
    pub fn judge(&self) -> Value {
        verdict::verdict(self.analysis, self.find_stalls())
    }

    /// The search failed: there are no stalls.
    pub fn judge_failed(&self) -> Value {
        self.stalls.get_or_init(Arc::default);
        json!({ "text": "the search for stalls failed", "severity": 0 })
    }

    /// The stalls, worst first; none until they are found.
    pub fn stalls(&self) -> Option<&[Stall]> {
        self.stalls.get().map(|stalls| stalls.as_slice())
    }

    /// The stall with the page's id: 1 is the worst.
    pub fn stall(&self, id: usize) -> Result<&Stall, Error> {
        let stalls = self.stalls().ok_or(Error::NotReady)?;
        id.checked_sub(1).and_then(|index| stalls.get(index)).ok_or(Error::NotFound("stall"))
    }

    /// The window that the page shows: the span that all CPUs cover.
    pub fn window(&self) -> Window {
        self.analysis.timeline.window()
    }

    /// A time as the page has it.
    pub fn at(&self, time: Time) -> i64 {
        offset(self.trace.origin(), time)
    }

    /// A time of the page on the trace's clock.
    pub fn time(&self, offset_ns: i64) -> Time {
        Time::from_nanos(self.trace.origin().nanos().saturating_add_signed(offset_ns))
    }

    /// For each stack, whether waits, wake-ups and samples have it.
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

    /// A thread as JSON; unknown ids are -1.
    pub fn who(&self, thread: ThreadId, at: Time) -> Value {
        let process = self.trace.threads.process_of(thread);
        json!({
            "thread": thread.0,
            "tid": tid(self.trace.threads.get(thread)),
            "pid": pid(process),
            "process_id": self.trace.threads.get(thread).process.0,
            "name": self.trace.thread_name(thread, at),
            "process": self.trace.process_name(thread, at),
        })
    }

    /// A stack as JSON; null for none.
    pub fn stack(&self, kind: StackKind, stack: StackId) -> Value {
        if stack == StackId::EMPTY {
            return Value::Null;
        }
        let text = self.stack_text(kind, stack);
        json!({ "stack": stack.0, "kind": kind.word(), "told": text })
    }

    /// A stack on one line.
    pub fn stack_text(&self, kind: StackKind, stack: StackId) -> String {
        let own = self.analysis.stacks.own_frames(self.trace, stack);
        let is_whole = own.len() == self.trace.stacks.frames_of(stack).len();
        if kind != StackKind::Wake || is_whole {
            return text::stack_text(self.analysis, stack);
        }
        // The interrupt without the bystander.
        let mut names: Vec<String> =
            own.iter().filter_map(|&frame| self.trace.frame_names(frame).pop()).collect();
        names.reverse();
        names.join(" → ")
    }

    /// A stack as a cell of a table: the innermost functions.
    pub fn brief_stack(&self, kind: StackKind, stack: StackId) -> Value {
        let (frames, kernel_len) = self.analysis.stacks.trimmed(self.trace, kind, stack);
        let text = text::brief_stack_text(self.analysis, stack, frames, kernel_len);
        json!({ "stack": stack.0, "kind": kind.word(), "told": text })
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

/// Reduces the calling thread to about a tenth of the CPU time that others compete for, where
/// threads have priorities of their own.
pub(crate) fn yield_to_others() {
    // If refused, the thread takes more from the others.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Nanoseconds from `start` to `time`, negative before it.
pub(crate) fn offset(start: Time, time: Time) -> i64 {
    let clamp = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    if time >= start { clamp(time.since(start)) } else { -clamp(start.since(time)) }
}
