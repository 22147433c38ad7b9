//! Event loops between the victim and the culprit: which of their events mattered.

use crate::scene;
use crate::scene::Scene;
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::explain::explain;
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Query, Rules, Stall, answer, diagnose};
use unhitch_model::{StackId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const NONE: StackId = StackId::EMPTY;

/// "client" reads the answer of "broker", an event loop, from 50 ms on. "worker" computes all the
/// time, and "ticker" wakes the broker now and then.
struct Office {
    scene: Scene,
    client: ThreadId,
    broker: ThreadId,
    worker: ThreadId,
    ticker: ThreadId,
    poll: StackId,
    write: StackId,
}

impl Office {
    fn new() -> Self {
        let mut scene = Scene::default();
        let client = scene.thread(300, 300, "client");
        let broker = scene.thread(400, 400, "broker");
        let worker = scene.thread(500, 500, "worker");
        let ticker = scene.thread(600, 600, "ticker");
        let read = scene.stack(&["main", "ask", "read", "|", "pipe_read", "schedule"]);
        let poll = scene.stack(&[
            "main",
            "serve",
            "epoll_wait",
            "|",
            "ep_poll",
            "do_epoll_wait",
            "schedule",
        ]);
        let write =
            scene.stack(&["main", "tell", "write", "|", "pipe_write", "__wake_up_sync_key"]);
        let compute = scene.stack(&["main", "compute", "sum_up"]);
        scene.switch(10 * MS, 1, IDLE, Runnable, worker, NONE);
        for ms in 20..700 {
            scene.sample(ms * MS, 1, worker, compute);
        }
        scene.switch(40 * MS, 0, IDLE, Runnable, client, NONE);
        scene.wake(50 * MS, 0, client, broker, WakeFlags::default(), write);
        scene.switch(50 * MS + 10, 0, client, Sleeping, broker, read);
        Self { scene, client, broker, worker, ticker, poll, write }
    }

    /// The broker waits from `from` on until `by` wakes it, and then runs.
    fn wait(&mut self, from: u64, to: u64, by: ThreadId) {
        let cpu = if by == self.worker { 1 } else { 2 };
        if by == self.ticker {
            self.scene.switch(to - 5, 2, IDLE, Runnable, self.ticker, NONE);
        }
        self.scene.switch(from, 0, self.broker, Sleeping, IDLE, self.poll);
        self.scene.wake(to, cpu, by, self.broker, WakeFlags::default(), self.write);
        self.scene.switch(to + 1, 0, IDLE, Runnable, self.broker, NONE);
        if by == self.ticker {
            let nap = self.scene.stack(&["main", "tick", "|", "do_nanosleep", "schedule"]);
            self.scene.switch(to + 5, 2, self.ticker, Sleeping, IDLE, nap);
        }
    }

    /// The ticker wakes the broker every 50 ms, and at 600 ms `last` does.
    fn wait_beside_ticks(&mut self, last: ThreadId) {
        let mut from = 50 * MS + 100;
        for tick in 2..12 {
            self.wait(from, tick * 50 * MS, self.ticker);
            from = tick * 50 * MS + 30;
        }
        self.wait(from, 600 * MS, last);
    }

    /// The broker answers; the client's wait is explained.
    fn answered(self, at: u64) -> (Stall, String) {
        self.answered_by(at, |_| ())
    }

    /// The same, with something else about the trace.
    fn answered_by(mut self, at: u64, change: impl FnOnce(&mut Trace)) -> (Stall, String) {
        self.scene.wake(at, 0, self.broker, self.client, WakeFlags::default(), self.write);
        self.scene.switch(at + 1, 0, self.broker, Sleeping, self.client, self.poll);
        let mut trace = self.scene.finish(3, 800 * MS);
        change(&mut trace);
        let analysis = Analysis::new(&trace, &Rules::default());
        let window = Window::new(Time::from_nanos(50 * MS * 1000), Time::from_nanos(at * 1000));
        let query = Query { victims: vec![self.client], window: Some(window), ..Query::default() };
        let stalls = diagnose(&analysis, &query);
        let text = answer::text(&analysis, &stalls, 1);
        (stalls.into_iter().next().unwrap(), text)
    }
}

#[test]
fn the_last_event_of_an_idle_loop_is_the_one_that_mattered() {
    let mut office = Office::new();
    let worker = office.worker;
    office.wait_beside_ticks(worker);
    let (stall, text) = office.answered(600 * MS + 40);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::CpuBound, Some(worker)));
    assert_eq!(stall.finding.function, "sum_up");
    let events = "it is inferred which event mattered: broker 400 waited for any, and those before \
                  that of worker 500 are left out";
    assert!(text.contains(events) && stall.finding.evidence == Evidence::Inferred, "{text}");
}

/// PulseAudio's clients ask for the time again and again while they wait for the server to take samples.
#[test]
fn regression_a_loop_that_asks_again_by_its_timer_still_waits_for_the_first_answer() {
    for asks_at_once in [true, false] {
        let mut office = Office::new();
        let (broker, worker, write) = (office.broker, office.worker, office.write);
        let timer = office.scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
        let ask = |scene: &mut Scene, at: u64| {
            scene.wake(at, 0, broker, worker, WakeFlags::default(), write);
        };
        if asks_at_once {
            ask(&mut office.scene, 50 * MS + 50);
        }
        let mut from = 50 * MS + 100;
        for at in [250 * MS, 450 * MS] {
            office.scene.switch(from, 0, broker, Sleeping, IDLE, office.poll);
            office.scene.wake(at, 0, IDLE, broker, WakeFlags::HARDIRQ, timer);
            office.scene.switch(at + 1, 0, IDLE, Runnable, broker, NONE);
            if asks_at_once || at == 450 * MS {
                ask(&mut office.scene, at + 20);
            }
            from = at + 30;
        }
        office.wait(from, 600 * MS, worker);
        let (stall, text) = office.answered(600 * MS + 40);
        let culprit = if asks_at_once { worker } else { broker };
        assert_eq!(stall.finding.culprit, Some(culprit), "{text}");
    }
}

#[test]
fn regression_the_last_work_of_a_pools_worker_is_what_it_waited_for() {
    let mut office = Office::new();
    office.poll = office.scene.stack(&[
        "start_thread",
        "next_job",
        "pthread_cond_timedwait",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let worker = office.worker;
    office.wait_beside_ticks(worker);
    let (stall, text) = office.answered(600 * MS + 40);
    assert_eq!(stall.finding.culprit, Some(worker), "{text}");
    assert_eq!(stall.finding.function, "sum_up");
}

#[test]
fn a_loop_that_computed_and_then_asked_has_itself_to_blame() {
    let mut office = Office::new();
    let (broker, worker, ticker) = (office.broker, office.worker, office.ticker);
    office.wait(51 * MS, 60 * MS, ticker);
    office.wait(500 * MS, 510 * MS, worker);
    let (stall, text) = office.answered(510 * MS + 40);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuBound, Some(broker)),
        "{text}"
    );
}

#[test]
fn time_before_the_senders_birth_belongs_to_events_of_others() {
    let mut office = Office::new();
    let worker = office.worker;
    let late = office.scene.thread(700, 700, "late");
    let from = 450 * MS + 30;
    office.wait(50 * MS + 100, 450 * MS, worker);
    office.scene.switch(450 * MS + 20, 2, IDLE, Runnable, late, NONE);
    office.wait(from, 500 * MS, late);
    let (stall, text) = office.answered_by(500 * MS + 40, |trace| {
        trace.threads.get_mut(late).unwrap().start = Some(Time::from_nanos(450_010_000));
    });
    assert_eq!(stall.finding.culprit, Some(worker), "{text}");
    assert!(stall.finding.evidence != Evidence::Lost, "{text}");
}

#[test]
fn regression_clients_of_a_loop_that_waits_for_the_network_are_not_to_blame() {
    for client_gets_answers in [true, false] {
        let mut office = Office::new();
        let ticker = office.ticker;
        let mut from = 50 * MS + 100;
        for tick in 2..12 {
            let at = tick * 50 * MS;
            office.wait(from, at, ticker);
            if client_gets_answers {
                let (broker, write) = (office.broker, office.write);
                office.scene.wake(at + 20, 0, broker, ticker, WakeFlags::default(), write);
            }
            from = at + 30;
        }
        let packet = ["|", "asm_common_interrupt", "net_rx_action", "e1000_clean"];
        let packet = office.scene.stack(&[&packet[..], &["sock_def_readable"]].concat());
        office.scene.switch(from, 0, office.broker, Sleeping, IDLE, office.poll);
        office.scene.wake(600 * MS, 2, IDLE, office.broker, WakeFlags::SOFTIRQ, packet);
        office.scene.switch(600 * MS + 1, 0, IDLE, Runnable, office.broker, NONE);
        let (stall, text) = office.answered(600 * MS + 40);
        // Who got no answer may have brought what the broker then asked the network for.
        let expected = if client_gets_answers { Pattern::DeadEnd } else { Pattern::TimerSleep };
        assert_eq!(stall.finding.pattern, expected, "{text}");
        assert_eq!(text.contains("a message from the network"), client_gets_answers, "{text}");
    }
}

#[test]
fn regression_who_waited_for_a_server_got_no_lock() {
    // "client" waits for the broker, which waits for a lock of "worker".
    let mut office = Office::new();
    let (broker, worker) = (office.broker, office.worker);
    let lock = ["main", "serve", "pthread_mutex_lock", "|", "futex_wait", "schedule"];
    let lock = office.scene.stack(&lock);
    let unlock = ["main", "compute", "pthread_mutex_unlock", "|", "do_futex", "futex_wake"];
    let unlock = office.scene.stack(&unlock);
    office.scene.switch(51 * MS, 0, broker, Sleeping, IDLE, lock);
    office.scene.wake(600 * MS, 1, worker, broker, WakeFlags::default(), unlock);
    office.scene.switch(600 * MS + 1, 0, IDLE, Runnable, broker, NONE);
    let (stall, text) = office.answered(600 * MS + 40);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(worker)));
    assert!(!text.contains("It waited for a lock") && !text.contains("It got the lock"), "{text}");
    assert!(text.contains("broker 400 waited for a lock in"), "{text}");
}

#[test]
fn regression_a_named_part_does_not_replace_the_whole_absence() {
    // The event loop is away for 2 s: on a CPU, waiting for several disks and locks. No cause has
    // half of it, and each wait for a disk is a stall with a cause of its own.
    let mut desktop = scene::Desktop::new();
    let disk = ["main", "open", "|", "ext4_file_read_iter", "filemap_get_pages", "io_schedule"];
    let disk = desktop.scene.stack(&disk);
    let done = ["|", "asm_common_interrupt", "blk_mq_complete_request", "bio_endio"];
    let done = desktop.scene.stack(&done);
    let unknown = desktop.scene.stack(&["main", "open", "|", "strange_wait", "schedule"]);
    desktop.pump_all(0, 100);
    for part in 0..5 {
        let (at, ui) = ((100 + part * 400) * MS + 50, desktop.ui);
        desktop.scene.switch(at, 0, ui, TaskState::DiskSleep, IDLE, disk);
        desktop.scene.wake(at + 120 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, done);
        desktop.scene.switch(at + 120 * MS + 5, 0, IDLE, Runnable, ui, NONE);
        desktop.scene.switch(at + 250 * MS, 0, ui, Sleeping, IDLE, unknown);
        desktop.scene.wake(at + 390 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, NONE);
        desktop.scene.switch(at + 390 * MS + 5, 0, IDLE, Runnable, ui, NONE);
    }
    desktop.pump_all(2_110, 2_300);
    let trace = desktop.scene.finish(2, 2_300 * MS);
    let stalls = diagnose(&Analysis::new(&trace, &Rules::default()), &Query::default());
    let longest = stalls.iter().map(|stall| stall.explanation.window.duration_ns()).max();
    assert!(longest.unwrap_or(0) > 1_900_000_000, "{stalls:#?}");
}

#[test]
fn regression_the_event_before_one_from_outside_may_have_led_to_it() {
    // The broker is woken now and then by the ticker, at last by the worker; then it asks the network,
    // which answers at once.
    let mut office = Office::new();
    let worker = office.worker;
    office.wait_beside_ticks(worker);
    let packet = ["|", "asm_common_interrupt", "net_rx_action", "sock_def_readable"];
    let packet = office.scene.stack(&packet);
    office.scene.switch(600 * MS + 50, 0, office.broker, Sleeping, IDLE, office.poll);
    office.scene.wake(600 * MS + 250, 2, IDLE, office.broker, WakeFlags::SOFTIRQ, packet);
    office.scene.switch(600 * MS + 251, 0, IDLE, Runnable, office.broker, NONE);
    let (stall, text) = office.answered(600 * MS + 300);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuBound, Some(worker)),
        "{text}"
    );
}

/// A loop asks "worker" three hundred thousand times, and each time waits in two parts, the first of which
/// "ticker" ends.
#[test]
fn a_loop_may_have_any_number_of_waits_that_each_depend_on_the_one_before() {
    const TURNS: u64 = 300_000;
    const TURN: u64 = 50;
    let mut office = Office::new();
    let Office { client, broker, worker, ticker, poll, write, .. } = office;
    let scene = &mut office.scene;
    let begin = 50 * MS + 10;
    for at in (0..TURNS).map(|turn| begin + turn * TURN) {
        scene.wake(at + 1, 0, broker, worker, WakeFlags::default(), write);
        scene.switch(at + 2, 0, broker, Sleeping, IDLE, poll);
        scene.wake(at + 20, 2, ticker, broker, WakeFlags::default(), write);
        scene.switch(at + 20, 0, IDLE, Runnable, broker, NONE);
        scene.switch(at + 21, 0, broker, Sleeping, IDLE, poll);
        scene.wake(at + TURN, 1, worker, broker, WakeFlags::default(), write);
        scene.switch(at + TURN, 0, IDLE, Runnable, broker, NONE);
    }
    let end = begin + TURNS * TURN;
    scene.wake(end + 1, 0, broker, client, WakeFlags::default(), write);
    scene.switch(end + 2, 0, broker, Sleeping, client, poll);
    let trace = office.scene.finish(3, end + 10);
    let analysis = Analysis::new(&trace, &Rules::default());
    let [from, to] = [begin, end + 1].map(|us| Time::from_nanos(us * 1_000));
    let explanation = explain(&analysis, client, Window::new(from, to));
    let of_worker = explanation.pieces.iter().filter(|piece| piece.thread == worker);
    let worked_ns: u64 = of_worker.map(|piece| piece.window.duration_ns()).sum();
    assert_eq!(worked_ns, TURNS * (TURN - 2) * 1_000);
}
