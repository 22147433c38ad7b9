//! Runs jobs on several threads, and abandons those that make no progress.
//!
//! *Why threads that can be abandoned*: reading a file on a dead server, or on a file system that
//! its owner stopped, never returns and cannot be cancelled. *Why the process's own CPU time is the
//! measure*: on a busy machine work is slow, but only waiting must end.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum time without progress: no job ends, and the process uses no CPU.
const MAX_IDLE: Duration = Duration::from_millis(1200);
/// Minimum CPU time that counts as progress. Less may come from unrelated threads.
const MIN_PROGRESS: Duration = Duration::from_millis(5);
/// The time between two checks for progress.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Threads beyond the number of CPUs: this many jobs may wait without holding up the others. One is
/// started when nothing makes progress. *Why not before*: each thread holds the tables of a file.
const SPARE_THREADS: usize = 2;

/// Runs `work` on each job, in their order, and `meanwhile` on this thread. Returns the jobs that
/// ended. `effort` is the maximum CPU time for all jobs together. With it, this also returns when
/// the effort is used up or when there is no progress; jobs that still run are abandoned then.
pub(crate) fn run<J: Send + 'static>(
    jobs: Vec<J>,
    work: impl Fn(&mut J) + Send + Sync + 'static,
    effort: Option<Duration>,
    meanwhile: impl FnOnce(),
) -> Vec<J> {
    let wanted = jobs.len();
    let (sender, receiver) = channel();
    let queue = Arc::new(Mutex::new(VecDeque::from(jobs)));
    let mut workers = Workers { queue, work: Arc::new(work), sender, threads: Vec::new() };
    let begun = cpu_time();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    (0..cpus.min(wanted)).for_each(|_| workers.start());
    meanwhile();
    let mut done = Vec::with_capacity(wanted);
    let mut spare = SPARE_THREADS;
    let mut progress = (Instant::now(), cpu_time());
    while done.len() < wanted {
        // They end early only if they could not be started, or a job panicked.
        let ended = workers.have_ended();
        if let Ok(job) = receiver.recv_timeout(if ended { Duration::ZERO } else { CHECK_INTERVAL })
        {
            done.push(job);
            progress = (Instant::now(), cpu_time());
        } else if ended {
            break;
        } else if cpu_time().saturating_sub(progress.1) > MIN_PROGRESS {
            progress = (Instant::now(), cpu_time());
        } else if spare > 0 {
            spare -= 1;
            workers.start();
        }
        let is_over =
            |effort| cpu_time().saturating_sub(begun) > effort || progress.0.elapsed() > MAX_IDLE;
        if effort.is_some_and(is_over) {
            workers.queue.lock().map(|mut queue| queue.clear()).unwrap_or_default();
            done.extend(receiver.try_iter());
            break;
        }
    }
    done
}

/// Threads that take jobs from one queue.
struct Workers<J, F> {
    queue: Arc<Mutex<VecDeque<J>>>,
    work: Arc<F>,
    sender: Sender<J>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static, F: Fn(&mut J) + Send + Sync + 'static> Workers<J, F> {
    /// Starts another thread, if the system allows it.
    fn start(&mut self) {
        let (queue, work) = (Arc::clone(&self.queue), Arc::clone(&self.work));
        let sender = self.sender.clone();
        let worker = thread::Builder::new().name("unhitch-namer".to_owned()).spawn(move || {
            while let Some(mut job) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                work(&mut job);
                if sender.send(job).is_err() {
                    return;
                }
            }
        });
        self.threads.extend(worker);
    }

    fn have_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// CPU time that this process has used so far.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// No limit is set on this system.
#[cfg(not(unix))]
fn cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_jobs_are_abandoned_and_the_rest_is_done() {
        let (hold, held) = channel::<()>();
        let held = Mutex::new(held);
        // As many wait as there are spare threads; then their number must not matter either.
        let work = move |job: &mut (usize, bool)| {
            if job.0 < SPARE_THREADS {
                let _ = held.lock().map(|held| held.recv());
            }
            job.1 = true;
        };
        let done =
            run((0..100).map(|number| (number, false)).collect(), work, Some(Duration::MAX), || {});
        let numbers: Vec<usize> = done.iter().filter(|job| job.1).map(|job| job.0).collect();
        assert_eq!(numbers.len(), 100 - SPARE_THREADS, "{numbers:?}");
        assert!(numbers.iter().all(|&number| number >= SPARE_THREADS));
        drop(hold);
    }

    #[cfg(unix)]
    #[test]
    fn an_effort_has_its_limit() {
        let burn = |_: &mut u32| {
            let begun = cpu_time();
            while cpu_time() < begun + Duration::from_millis(200) {}
        };
        let done = run((0..1000).collect(), burn, Some(Duration::from_millis(500)), || {});
        assert!(done.len() < 100, "{}", done.len());
        assert_eq!(run(vec![1, 2], |job| *job += 1, None, || {}).len(), 2);
    }
}
