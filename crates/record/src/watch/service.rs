//! The loop of the always-on recorder.

use super::config::Config;
use super::events::{Signals, WatchEvent, WatchOptions};
use super::gate::{Gate, reason};
use super::in_work::InWork;
use super::notify::notify;
use super::recovery::Recovery;
use super::retention::{Keeper, has_free, newest_bytes};
use super::unsaved::Unsaved;
use super::worker::{Job, Progress, Task};
use crate::control::{self, Class, ClientId, Server};
use crate::error::Error;
use crate::input_devices::InputDevices;
use crate::marks::Marks;
use crate::naming::RuleReader;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::save::{Extras, Saved};
use crate::sys;
use crate::triggers::{Hit, Reporter, Sources};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use unhitch_formats::container::{SaveFile, TriggerFacts};
use unhitch_model::{InputMarks, Time, units};

/// How long to sleep when nothing happens: a client that takes too long is dropped then.
const SLEEP: Duration = Duration::from_secs(10);
/// The same while there are clients, or if nothing tells of signals.
const SHORT_SLEEP: Duration = Duration::from_millis(500);
/// How many of the last saves the status lists.
const LAST_SAVES: usize = 8;
/// How often marks are forgotten that no trace would hold any more.
const MARKS_INTERVAL: Duration = Duration::from_secs(5);
/// For how many of the last saves it is known who asked for them.
const MAX_ASKED: usize = 256;

/// The always-on recorder.
pub(super) struct Service<'a> {
    pub(super) config: Config,
    pub(super) file: Option<PathBuf>,
    /// Why the newest version of the file is not in use.
    pub(super) config_error: Option<String>,
    pub(super) server: Server,
    pub(super) recorder: Recorder,
    pub(super) started: Time,
    pub(super) marks: Marks,
    /// The machine's input devices, or why they are not read.
    pub(super) devices: Result<InputDevices, String>,
    pub(super) gate: Gate,
    pub(super) sources: Sources,
    pub(super) counts: Counts,
    pub(super) last_saves: VecDeque<LastSave>,
    /// The last traces with the user who asked for them, oldest first.
    pub(super) asked: VecDeque<(PathBuf, u32)>,
    pub(super) in_work: InWork,
    pub(super) wanted: Vec<Wanted>,
    pub(super) reporter: Reporter,
    pub(super) hits: Receiver<Hit>,
    wake: UnixStream,
    keeper: Keeper,
    /// Whether the traces that are never deleted leave no room for others.
    pub(super) is_filled_by_kept: bool,
    unsaved: Unsaved<SaveFile>,
    jobs: Option<Sender<Task>>,
    progress: Receiver<Progress>,
    pub(super) report: &'a mut dyn FnMut(WatchEvent<'_>),
    signals: Signals<'a>,
    pub(super) status_interval: Option<Duration>,
    pub(super) status_due: Instant,
    pub(super) metrics_due: Instant,
    pub(super) groups_due: Instant,
    marks_due: Instant,
}

/// What the user must know then.
pub(super) const FILLED_BY_KEPT: &str = "traces saved by hand or with notes, which are never deleted, take all that retention.max_traces \
     and max_bytes allow: of the automatic ones, only the newest stays";

/// Saves of this recorder.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) by_hand: u64,
    pub(super) automatic: u64,
    pub(super) failed: u64,
}

/// A save that the status lists.
pub(super) struct LastSave {
    pub(super) path: PathBuf,
    pub(super) time: Time,
    pub(super) save: SaveFile,
    pub(super) line: Option<String>,
}

/// A save that is wanted, perhaps a moment later.
pub(super) struct Wanted {
    pub(super) due: Instant,
    pub(super) by_hand: bool,
    pub(super) notes: Option<String>,
    pub(super) trigger: Option<TriggerFacts>,
    /// What its limits are counted by.
    pub(super) key: String,
    pub(super) client: Option<ClientId>,
    /// The client's user.
    pub(super) uid: Option<u32>,
    /// The same, if that is a member of the group, and not the owner.
    pub(super) member: Option<u32>,
    pub(super) wants_verdict: bool,
}

impl<'a> Service<'a> {
    pub(super) fn start(
        options: WatchOptions,
        reader: Box<dyn RuleReader>,
        jobs: Sender<Task>,
        progress: Receiver<Progress>,
        report: &'a mut dyn FnMut(WatchEvent<'_>),
        signals: Signals<'a>,
    ) -> Result<Self, Error> {
        let WatchOptions { config, file, status_interval } = options;
        let started = sys::monotonic_now();
        // This comes first so that a second recorder is refused before it costs anything.
        let server = Server::bind(&config.socket_folder, config.group)?;
        let options = Options { watch_waits: true, ..config.recorder.clone() };
        let recorder = Recorder::start_with(&options, reader)?;
        let system = |action| move |source| Error::System { action, source };
        let (wake, waker) = UnixStream::pair().map_err(system("create a socket pair"))?;
        wake.set_nonblocking(true).map_err(system("set up a socket"))?;
        let (sender, hits) = channel();
        let reporter = Reporter::new(sender, waker).map_err(system("set up a socket"))?;
        let sources =
            Sources::start(&config.triggers, &reporter, &|watches| recorder.watch(watches));
        let devices = InputDevices::start(config.devices);
        let now = Instant::now();
        let service = Self {
            gate: Gate::new(config.limits, config.trigger_names(), now),
            unsaved: Unsaved::new(&config.folder),
            config,
            file,
            config_error: None,
            server,
            recorder,
            started,
            marks: Marks::default(),
            devices,
            sources,
            counts: Counts::default(),
            last_saves: VecDeque::new(),
            asked: VecDeque::new(),
            in_work: InWork::default(),
            wanted: Vec::new(),
            reporter,
            hits,
            wake,
            keeper: Keeper::default(),
            is_filled_by_kept: false,
            jobs: Some(jobs),
            progress,
            report,
            signals,
            status_interval,
            status_due: now,
            metrics_due: now,
            groups_due: now,
            marks_due: now,
        };
        let warnings: Vec<String> =
            service.recorder.warnings().iter().cloned().chain(service.gaps()).collect();
        let socket = service.server.path().to_owned();
        (service.report)(WatchEvent::Started { socket: &socket, warnings: &warnings });
        notify("READY=1");
        Ok(service)
    }

    /// What ends this recorder's sleep.
    pub(super) fn waker(&self) -> Reporter {
        self.reporter.clone()
    }

    /// What to look after when a recorder before this one was killed.
    pub(super) fn recovery(&self) -> Recovery {
        Recovery {
            folder: self.config.folder.clone(),
            readers: self.config.verdict_readers(),
            judge: self.config.verdict,
        }
    }

    /// Works until told to stop.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        let result = self.work();
        notify("STOPPING=1");
        // The worker ends when there are no more jobs.
        self.jobs.take();
        while let Ok(progress) = self.progress.recv() {
            self.progressed(progress);
        }
        result?;
        // We were asked to stop: there is no time for names.
        let report = &mut self.report;
        match self.unsaved.retry(|saved, _| report(WatchEvent::Saved(&saved))) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        while !self.signals.stop.load(Ordering::Relaxed) {
            let mut fds = self.server.fds();
            let clients = fds.len() > 1;
            fds.push(self.wake.as_fd());
            fds.extend(self.signals.wake.map(|wake| wake.as_fd()));
            let sleep = i32::try_from(self.sleep(clients).as_millis()).unwrap_or(i32::MAX);
            sys::poll(&fds, sleep)
                .map_err(|source| Error::System { action: "wait for requests", source })?;
            drain(&self.wake);
            self.signals.wake.map(drain);
            while let Ok(progress) = self.progress.try_recv() {
                self.progressed(progress);
            }
            while let Ok(hit) = self.hits.try_recv() {
                self.hit(hit);
            }
            if self.signals.reload.swap(false, Ordering::Relaxed) {
                let answer = self.reload();
                (self.report)(WatchEvent::Note(&reloaded(&answer)));
            }
            if self.signals.save.swap(false, Ordering::Relaxed) {
                self.wanted.push(Wanted::by_hand());
            }
            for incoming in self.server.accept() {
                self.answer(incoming);
            }
            self.save_what_is_due();
            self.tell_status();
            self.follow_groups();
            self.forget_marks();
        }
        Ok(())
    }

    fn sleep(&self, clients: bool) -> Duration {
        let now = Instant::now();
        let no_signals = self.signals.wake.is_none();
        let longest = if clients || no_signals { SHORT_SLEEP } else { SLEEP };
        let dues = self.wanted.iter().map(|wanted| wanted.due);
        let dues = dues.chain(self.status_interval.map(|_| self.status_due));
        let dues = dues.chain(self.config.metrics.as_ref().map(|_| self.metrics_due));
        let dues = dues.chain(self.groups_due()).chain(self.server.due());
        let next = dues.map(|due| due.saturating_duration_since(now)).min();
        // Rounded up, so that what is due is not just not due yet.
        next.map_or(longest, |next| (next + Duration::from_millis(1)).min(longest))
    }

    /// A trigger fired.
    fn hit(&mut self, hit: Hit) {
        let Some(trigger) = self.config.triggers.get(hit.trigger).cloned() else { return };
        self.gate.suppress(&trigger.name, reason::REPEATED, hit.unreported);
        let (name, now) = (&trigger.name, Instant::now());
        let busy = self.is_busy_for(None);
        if self.gate.pass(name, Class::Owner, trigger.min_interval, busy, now).is_err() {
            return;
        }
        let facts = TriggerFacts {
            name: name.clone(),
            kind: trigger.what.kind().to_owned(),
            text: hit.text,
            pid: hit.pid,
            tid: hit.tid,
            from_ns: hit.seen.map(|(from, _)| from.nanos()),
            to_ns: hit.seen.map(|(_, to)| to.nanos()),
        };
        self.wanted.push(Wanted {
            due: now + trigger.delay,
            by_hand: false,
            trigger: Some(facts),
            key: trigger.name,
            ..Wanted::by_hand()
        });
    }

    /// True while an automatic save would only repeat another. What a member of the group asked for
    /// holds back nobody else's.
    pub(super) fn is_busy_for(&self, member: Option<u32>) -> bool {
        let counts = |of: Option<u32>| of.is_none() || of == member;
        self.in_work.is_busy_for(member)
            || self.wanted.iter().any(|wanted| !wanted.by_hand && counts(wanted.member))
    }

    /// Forgets the marks that are older than what the rings hold: no trace would have them.
    fn forget_marks(&mut self) {
        let now = Instant::now();
        if self.marks_due > now {
            return;
        }
        self.marks_due = now + MARKS_INTERVAL;
        if let Ok(devices) = &self.devices {
            self.marks.add_own(devices.take());
        }
        if !self.marks.is_empty() {
            let held_from = self.recorder.session().held_from().into_iter().max();
            self.marks.forget_before(held_from.unwrap_or_default());
        }
    }

    fn save_what_is_due(&mut self) {
        let now = Instant::now();
        if self.unsaved.is_due() {
            self.retry();
        }
        let (due, later): (Vec<Wanted>, Vec<Wanted>) =
            self.wanted.drain(..).partition(|wanted| wanted.due <= now);
        self.wanted = later;
        for wanted in due {
            self.save(wanted);
        }
    }

    fn count(&mut self, save: &SaveFile) {
        match save.by_hand {
            true => self.counts.by_hand += 1,
            false => self.counts.automatic += 1,
        }
    }

    fn retry(&mut self) {
        let mut written = Vec::new();
        self.unsaved.retry(|saved, save| written.push((saved, save)));
        for (saved, save) in written {
            self.count(&save);
            self.enqueue(saved, save, None, None, false);
        }
    }

    fn save(&mut self, wanted: Wanted) {
        if !self.unsaved.is_empty() {
            self.retry();
        }
        let refused = if self.in_work.is_full_for(wanted.member) {
            Some((reason::BUSY, "too many traces are being saved: try again later"))
        } else if !self.make_room(&wanted) {
            Some((reason::DISK, "too little of the disk is free (retention.min_free)"))
        } else {
            None
        };
        if let Some((reason, error)) = refused {
            if !wanted.by_hand {
                self.gate.suppress(&wanted.key, reason, 1);
            }
            if let Some(client) = wanted.client {
                let answer = json!({ "error": error, "suppressed": true, "retry_after_ms": 0 });
                self.server.answer(client, &answer);
            }
            return;
        }
        let save = SaveFile {
            version: 1,
            by_hand: wanted.by_hand,
            trigger: wanted.trigger,
            suppressed: self.gate.suppressed(),
        };
        let snapshot = self.recorder.snapshot_until(self.signals.stop);
        let mut sent: Vec<InputMarks> = self.server.input_of_agents().collect();
        if let Ok(devices) = &self.devices {
            self.marks.add_own(devices.take());
            sent.push(devices.mode());
        }
        let input = self.input();
        let marks = self.marks.of_trace(snapshot.window(), input, sent.into_iter());
        let entries = marks.entry().into_iter().chain(save.entry()).collect();
        let what = if wanted.by_hand { "save" } else { "auto" };
        let (result, kept) = match snapshot.prepare(&Extras { notes: wanted.notes, entries }) {
            Ok(prepared) => {
                let prepared = prepared.for_readers(self.config.recorder.readers);
                self.unsaved.save(prepared, what, &save)
            }
            Err(error) => (Err(error), false),
        };
        drop(snapshot);
        if result.is_ok() || kept {
            self.gate.forget_suppressed();
        }
        match result {
            Ok(saved) => {
                self.count(&save);
                self.gate.note_saved(&wanted.key);
                if let Some(uid) = wanted.uid {
                    self.asked.push_back((saved.path.clone(), uid));
                    self.asked.drain(..self.asked.len().saturating_sub(MAX_ASKED));
                }
                let Wanted { client, member, wants_verdict, .. } = wanted;
                self.enqueue(saved, save, client, member, wants_verdict);
            }
            Err(error) => {
                self.counts.failed += 1;
                if !kept && !save.by_hand {
                    self.gate.suppress(&wanted.key, reason::FAILED, 1);
                }
                if let Some(client) = wanted.client {
                    self.server.answer(client, &control::failed(&error.with_causes()));
                }
                (self.report)(WatchEvent::SaveFailed { error: &error, kept });
            }
        }
    }

    /// Deletes old automatic traces until there is room for another; false if there is none. A
    /// person's request fails only if the disk is full, and the owner's not even then: the trace
    /// may fit elsewhere.
    fn make_room(&mut self, wanted: &Wanted) -> bool {
        let (folder, limits) = (&self.config.folder, &self.config.retention);
        let guess = self.last_saves.front().and_then(|last| Some(last.path.metadata().ok()?.len()));
        let guess = guess.or_else(|| newest_bytes(folder)).unwrap_or(0);
        let (deleted, has_room) = self.keeper.make_room(folder, limits, 1, guess);
        for path in &deleted {
            let name = unhitch_model::visible_path(path);
            (self.report)(WatchEvent::Note(&format!("deleted {name} to make room")));
        }
        let is_free = has_free(folder, limits, guess);
        let is_filled = !has_room && is_free;
        if is_filled && !self.is_filled_by_kept {
            (self.report)(WatchEvent::Note(FILLED_BY_KEPT));
        }
        self.is_filled_by_kept = is_filled;
        let is_by_owner = wanted.by_hand && wanted.member.is_none();
        has_room || is_by_owner || is_free
    }

    fn enqueue(
        &mut self,
        saved: Saved,
        save: SaveFile,
        client: Option<ClientId>,
        member: Option<u32>,
        wants_verdict: bool,
    ) {
        let job = Job {
            saved,
            save,
            readers: self.config.verdict_readers(),
            client,
            member,
            wants_verdict,
            judged: self.config.verdict,
        };
        if self.give(Task::Finish(Box::new(job))) {
            self.in_work.begin(member);
        }
    }

    /// Gives the worker something to do; false if it has ended.
    pub(super) fn give(&self, task: Task) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(task).is_ok())
    }

    /// The worker is a step further.
    fn progressed(&mut self, progress: Progress) {
        match progress {
            Progress::Named(job) => {
                let Job { saved, save, client, member, wants_verdict, judged, .. } = *job;
                if let Some(client) = client {
                    // They name programs of all users.
                    let warnings = if self.may_read(client) { &saved.warnings[..] } else { &[] };
                    let answer = control::saved(&saved.path, warnings);
                    match wants_verdict {
                        true => self.server.answer_first(client, &answer),
                        false => self.server.answer(client, &answer),
                    }
                    if wants_verdict && !judged {
                        let error = "verdicts are switched off in this recorder";
                        self.server.answer(client, &json!({ "verdict": { "error": error } }));
                    }
                }
                (self.report)(WatchEvent::Saved(&saved));
                self.publish_saved(&saved, &save);
                if !judged {
                    self.in_work.end(member);
                }
                let time = sys::monotonic_now();
                let path = saved.path;
                self.last_saves.push_front(LastSave { path, time, save, line: None });
                self.last_saves.truncate(LAST_SAVES);
            }
            Progress::Judged(job, verdict, error) => {
                self.in_work.end(job.member);
                if let Some(error) = error {
                    (self.report)(WatchEvent::Note(&error));
                }
                self.judged(*job, &verdict);
            }
            Progress::Noted(client, result) => {
                let answer = match result {
                    Ok(()) => json!({ "noted": true }),
                    Err(error) => control::failed(&format!("the note was not stored: {error}")),
                };
                self.server.answer(client, &answer);
            }
            Progress::Removed(count) => {
                let files = units::plural(count as u64, "file");
                let text = format!("removed {files} that an earlier recorder had begun to write");
                (self.report)(WatchEvent::Note(&text));
            }
            Progress::JudgedLate(path, verdict, error) => {
                if let Some(error) = error {
                    (self.report)(WatchEvent::Note(&error));
                }
                // Not published: its moment has passed.
                (self.report)(WatchEvent::Judged { path: &path, verdict: &verdict });
            }
        }
    }

    fn judged(&mut self, job: Job, verdict: &Value) {
        let path = &job.saved.path;
        if let Some(client) = job.client.filter(|_| job.wants_verdict) {
            let answer = self.verdict_for(client, verdict);
            self.server.answer(client, &json!({ "verdict": answer }));
        }
        (self.report)(WatchEvent::Judged { path, verdict });
        self.publish_judged(path, &job.save, verdict);
        if let Some(last) = self.last_saves.iter_mut().find(|last| last.path == *path) {
            let line = verdict["line"].as_str().or(verdict["error"].as_str());
            last.line = line.map(str::to_owned);
        }
    }
}

impl Wanted {
    /// A person wants a save, now.
    pub(super) fn by_hand() -> Self {
        Self {
            due: Instant::now(),
            by_hand: true,
            notes: None,
            trigger: None,
            key: String::new(),
            client: None,
            uid: None,
            member: None,
            wants_verdict: false,
        }
    }
}

/// What came of reading the configuration again, by the answer to a client who asks for that.
fn reloaded(answer: &Value) -> String {
    if let Some(error) = answer["error"].as_str() {
        return format!("the old configuration goes on: {error}");
    }
    let restart = answer["reload"]["restart"].as_array().into_iter().flatten();
    let restart: Vec<&str> = restart.filter_map(Value::as_str).collect();
    let later = match restart.is_empty() {
        true => String::new(),
        false => format!("; at the next start only: {}", restart.join(", ")),
    };
    format!("the configuration was read again{later}")
}

/// Empties a stream that only ends a sleep.
fn drain(mut wake: &UnixStream) {
    let mut bytes = [0; 256];
    while wake.read(&mut bytes).is_ok_and(|len| len == bytes.len()) {}
}
