//! What a recording by BPF has beside switches and wake-ups, in answers: signals, requests to disks,
//! who wrote to the page cache, what waits were about and who had the other end, locks on files that were
//! refused.

use crate::scene::Scene;
use TaskState::{DiskSleep, Runnable, Sleeping, Stopped};
use unhitch_analysis::answer::text_for;
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Query, Rules, Stall};
use unhitch_model::*;

const MS: u64 = 1_000;
const MIB: u64 = 1 << 20;
const IDLE: ThreadId = ThreadId::IDLE;

/// What is said about `victim` from 100 to 600 ms.
fn asked(trace: &Trace, victim: ThreadId) -> (Stall, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let query = Query {
        victims: vec![victim],
        window: Some(Window::new(at(100), at(600))),
        ..Query::default()
    };
    let stalls = unhitch_analysis::diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    (stalls.into_iter().next().unwrap_or_else(|| panic!("no answer:\n{text}")), text)
}

/// An event: at which ms, whose, and its numbers.
type Fact<'a> = (u64, ThreadId, &'a [u64]);

/// Adds events of one kind, whose fields are 64-bit numbers.
fn add(trace: &mut Trace, [provider, name]: [&str; 2], fields: &[&str], facts: &[Fact<'_>]) {
    trace.meta.notes_facts = true;
    let of = FieldType::Int { bytes: 8, signed: false, hex: false };
    let fields = fields.iter().map(|name| Field::new(trace.strings.intern(name), of)).collect();
    let kind = trace.events.intern_kind(EventKind {
        provider: trace.strings.intern(provider),
        name: trace.strings.intern(name),
        layout: Layout { fields, pointer_bytes: 8 },
        ..EventKind::default()
    });
    for &(ms, thread, numbers) in facts {
        let time = Time::from_nanos(ms * 1_000_000);
        let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let head = EventHead { time, cpu: 0, thread, kind, stack: StackId::EMPTY };
        trace.events.push(head, &payload);
    }
}

/// "worker" runs from 10 ms on, with a pause from 20 to 99 ms unless it `keeps_running`. It stops at
/// 100 ms, and "shell" continues it at 600 ms. `signals` have their number and target.
fn stopped(keeps_running: bool, signals: impl Fn([ThreadId; 2]) -> Vec<Fact<'static>>) -> String {
    let mut scene = Scene::default();
    let (worker, shell) = (scene.thread(300, 300, "worker"), scene.thread(400, 400, "shell"));
    let stop = scene.stack(&["main", "work", "|", "get_signal", "do_signal_stop", "schedule"]);
    let rest = scene.stack(&["main", "rest", "|", "do_nanosleep", "schedule"]);
    let go_on = scene.stack(&["main", "kill", "|", "kill_something_info", "try_to_wake_up"]);
    scene.switch(10 * MS, 1, IDLE, Runnable, worker, StackId::EMPTY);
    if !keeps_running {
        scene.switch(20 * MS, 1, worker, Sleeping, IDLE, rest);
        scene.switch(99 * MS, 1, IDLE, Runnable, worker, StackId::EMPTY);
    }
    scene.switch(100 * MS, 1, worker, Stopped, shell, stop);
    scene.wake(600 * MS, 1, shell, worker, WakeFlags::default(), go_on);
    scene.switch(600 * MS + 10, 1, shell, Sleeping, worker, rest);
    let mut trace = scene.finish(2, 700 * MS);
    let names = ["signal", "signal_generate"];
    add(&mut trace, names, &["sig", "tid"], &signals([worker, shell]));
    let (stall, text) = asked(&trace, worker);
    assert_eq!(stall.finding.pattern, Pattern::Stopped, "{text}");
    text
}

const NOT_SHOWN: &str = "REMEDY    The recording does not show which signal stopped it.";
const STOP: &[u64] = &[19, 300];
const TERMINAL_STOP: &[u64] = &[20, 300];
const CONTINUE: &[u64] = &[18, 300];

#[test]
fn the_sender_of_the_signal_that_stopped_a_thread_is_named() {
    let text = stopped(false, |[_, shell]| vec![(15, shell, CONTINUE), (60, shell, STOP)]);
    assert!(text.contains("shell 400 sent it SIGSTOP in"), "{text}");
    assert!(text.contains("CAUSE     worker 300 was stopped by SIGSTOP."), "{text}");
    assert!(!text.contains("REMEDY"), "{text}");
}

#[test]
fn a_job_in_the_background_that_reads_from_its_terminal_is_told_what_to_do() {
    const READS: &[u64] = &[21, 300];
    let text = stopped(false, |[worker, _]| vec![(99, worker, READS)]);
    assert!(text.contains("CAUSE     worker 300 was stopped by SIGTTIN."), "{text}");
    assert!(text.contains("REMEDY    A job in the background is stopped when it reads"), "{text}");
}

#[test]
fn regression_a_signal_that_was_taken_back_or_did_not_stop_is_not_the_one() {
    let text = stopped(false, |[_, shell]| vec![(50, shell, STOP), (60, shell, CONTINUE)]);
    assert!(!text.contains("SIGSTOP in") && text.contains(NOT_SHOWN), "{text}");
    // It ran for 80 ms with it.
    let text = stopped(true, |[_, shell]| vec![(20, shell, TERMINAL_STOP)]);
    assert!(!text.contains("sent it") && text.contains(NOT_SHOWN), "{text}");
    let text = stopped(true, |_| Vec::new());
    assert!(text.contains(NOT_SHOWN), "a recorder that notes signals:\n{text}");
}

#[test]
fn regression_an_unknown_sender_is_not_the_idle_thread() {
    let text = stopped(false, |_| vec![(60, IDLE, STOP)]);
    assert!(text.contains("worker 300 was stopped by SIGSTOP."), "{text}");
    assert!(
        !text.contains("sent it") && text.contains("Who sent the signal is not known."),
        "{text}"
    );
}

#[test]
fn regression_a_signal_to_an_earlier_thread_of_the_same_number_is_not_the_one() {
    let mut scene = Scene::default();
    let at = |ms: u64| Some(Time::from_nanos(ms * 1_000_000));
    let (before, shell) = (scene.thread(300, 300, "before"), scene.thread(400, 400, "shell"));
    scene.trace.threads.get_mut(before).unwrap().end = at(50);
    let stop = scene.stack(&["main", "work", "|", "get_signal", "do_signal_stop", "schedule"]);
    let process = scene.trace.threads.add_process(Process {
        pid: 300,
        leader: ThreadId(3),
        ..Process::default()
    });
    let name = scene.trace.strings.intern("worker");
    let names = vec![(Time::ZERO, name)];
    let worker =
        Thread { tid: 300, process, names, start: at(60), end: None, policy: None, nice: None };
    let worker = scene.trace.threads.add(worker);
    scene.switch(90 * MS, 1, IDLE, Runnable, worker, StackId::EMPTY);
    scene.switch(100 * MS, 1, worker, Stopped, IDLE, stop);
    let mut trace = scene.finish(2, 700 * MS);
    add(&mut trace, ["signal", "signal_generate"], &["sig", "tid"], &[(40, shell, STOP)]);
    let text = asked(&trace, worker).1;
    assert!(!text.contains("sent it") && text.contains(NOT_SHOWN), "{text}");
}

/// "saver", a thread of "db", waits for a disk from 100 to 600 ms. `facts` has the threads "saver",
/// "worker" of "db", and "cp" of "copier".
fn slow_disk(facts: impl Fn(&mut Trace, [ThreadId; 3])) -> String {
    let mut scene = Scene::default();
    scene.thread(300, 300, "db");
    let threads = [(300, 301, "saver"), (300, 302, "worker"), (500, 501, "cp")];
    scene.thread(500, 500, "copier");
    let threads = threads.map(|(pid, tid, name)| scene.thread(pid, tid, name));
    let wait = scene.stack(&["main", "save", "|", "ext4_sync_file", "io_schedule"]);
    let done = scene.stack(&["|", "blk_mq_complete_request", "bio_endio", "try_to_wake_up"]);
    scene.switch(50 * MS, 0, IDLE, Runnable, threads[0], StackId::EMPTY);
    scene.switch(100 * MS, 0, threads[0], DiskSleep, IDLE, wait);
    scene.wake(600 * MS, 1, IDLE, threads[0], WakeFlags::HARDIRQ, done);
    scene.switch(600 * MS + 9, 0, IDLE, Runnable, threads[0], StackId::EMPTY);
    let mut trace = scene.finish(2, 700 * MS);
    facts(&mut trace, threads);
    let (stall, text) = asked(&trace, threads[0]);
    assert_eq!(stall.finding.pattern, Pattern::IoWait, "{text}");
    text
}

/// Adds requests: when they were done, who asked, and disk, operation, length, ms in the disk.
fn add_requests(trace: &mut Trace, requests: &[(u64, ThreadId, [u64; 4])]) {
    let of = |[disk, op, bytes, ms]: [u64; 4]| [disk, op, bytes, 0, ms * 1_000_000];
    let numbers: Vec<_> = requests.iter().map(|(at, asker, of4)| (*at, *asker, of(*of4))).collect();
    let facts: Vec<Fact<'_>> = numbers.iter().map(|(at, who, of)| (*at, *who, &of[..])).collect();
    let fields = ["dev", "op", "bytes", "queued_ns", "device_ns"];
    add(trace, ["block", "block_rq_complete"], &fields, &facts);
}

const SDA: u64 = 8 << 20;
const SDB: u64 = 8 << 20 | 16;
const SYNC: u64 = 1 << 11;

#[test]
fn regression_discards_and_flushes_are_no_reads() {
    let longest = |operation: u64| {
        slow_disk(|trace, [saver, ..]| {
            add_requests(trace, &[(590, saver, [SDA, operation | SYNC, 1024 * MIB, 400])]);
        })
    };
    for (operation, words) in [
        (0, ", a read of 1 GiB from disk 8:0, took 400.0 ms."),
        (1, ", a write of 1 GiB to disk 8:0, took 400.0 ms."),
        (2, ", a flush of disk 8:0, took 400.0 ms."),
        (3, ", to disk 8:0, took 400.0 ms."),
        (9, ", to disk 8:0, took 400.0 ms."),
    ] {
        let text = longest(operation);
        let whole = format!("The longest request of saver 301 (db 300){words}");
        assert!(text.contains(&whole), "{text}");
    }
    // What others discard moves no data.
    let text = slow_disk(|trace, [_, _, cp]| {
        add_requests(trace, &[(590, cp, [SDA, 3, 1024 * MIB, 400])]);
    });
    assert!(!text.contains("Meanwhile the disks"), "{text}");
}

#[test]
fn regression_a_request_of_another_thread_is_not_the_waiters() {
    let text = slow_disk(|trace, [saver, worker, cp]| {
        let own = (300, saver, [SDA, 1, MIB, 100]);
        let others = [(500, worker, [SDA, 0, MIB, 400]), (600, cp, [SDA, 0, 8 * MIB, 450])];
        add_requests(trace, &[own, others[0], others[1]]);
    });
    assert!(
        text.contains("The longest request of saver 301 (db 300), a write of 1 MiB to disk 8:0, took 100.0 ms."),
        "{text}"
    );
    assert!(
        text.contains("Meanwhile the disks read or wrote 8 MiB for cp 501 (copier 500), in 1 request of at least 0.2 ms."),
        "{text}"
    );
    let text = slow_disk(|trace, [_, worker, _]| {
        add_requests(trace, &[(500, worker, [SDA, 0, MIB, 400])]);
    });
    assert!(
        text.contains("No request of saver 301 (db 300) is recorded. The longest of its process, which worker 302 (db 300) asked for, a read of 1 MiB from disk 8:0, took 400.0 ms."),
        "{text}"
    );
    // A request that nobody is known to have asked for, or that began after the wait.
    let text = slow_disk(|trace, [saver, ..]| {
        add_requests(trace, &[(590, IDLE, [SDA, 0, 8 * MIB, 400]), (604, saver, [SDA, 0, 9, 2])]);
    });
    assert!(!text.contains("request of") && !text.contains("nobody"), "{text}");
}

#[test]
fn regression_who_writes_to_another_disk_did_not_fill_this_one() {
    let text = |written: &[(u64, u64)], request: bool| {
        slow_disk(|trace, [saver, worker, cp]| {
            let numbers: Vec<[u64; 2]> =
                written.iter().map(|&(dev, mib)| [dev, mib * MIB]).collect();
            let writers = [cp, worker].into_iter().cycle();
            let facts: Vec<Fact<'_>> =
                numbers.iter().zip(writers).map(|(of, who)| (90, who, &of[..])).collect();
            add(trace, ["writeback", "writeback_dirty_folio"], &["dev", "bytes"], &facts);
            if request {
                add_requests(trace, &[(590, saver, [SDA, 1, MIB, 400])]);
            }
        })
    };
    // The process has written, whichever of its threads was noted: 45 is NFS, 17 on the second disk.
    let all = text(&[(45, 900), (SDA | 1, 8), (SDB | 1, 100), (SDA | 1, 5)], true);
    assert!(
        all.contains("The process db 300 wrote 13 MiB to the page cache of device 8:1 in that time or the 30 s before"),
        "{all}"
    );
    let unknown = text(&[(45, 900), (SDA | 1, 8), (SDB | 1, 100)], false);
    assert!(
        unknown.contains("The process copier 500 wrote 100 MiB to the page cache of device 8:17"),
        "{unknown}"
    );
    for elsewhere in [[(45, 900)], [(SDB | 1, 100)], [(259 << 20, 100)]] {
        let text = text(&elsewhere, true);
        assert!(!text.contains("page cache"), "{text}");
    }
}

#[test]
fn regression_a_recording_by_bpf_is_not_told_to_use_bpf() {
    let advice = "`--engine bpf` records them";
    assert!(slow_disk(|_, _| ()).contains(advice));
    assert!(!slow_disk(|trace, _| trace.meta.notes_facts = true).contains(advice));
    assert!(!slow_disk(|trace, _| trace.meta.system = System::Windows).contains(advice));
}

#[test]
fn a_disk_that_is_a_file_is_no_direct_evidence() {
    const LOOP: u64 = 7 << 20;
    let text = |disk: u64| {
        slow_disk(|trace, [saver, ..]| add_requests(trace, &[(600, saver, [disk, 1, 4096, 500])]))
    };
    assert!(!text(SDA).contains("loop device"), "{}", text(SDA));
    let file = text(LOOP);
    assert!(file.contains("EVIDENCE  inferred: disk 7:0 is a file (a loop device)"), "{file}");
}

/// "reader" waits from 100 ms to the end of the recording in the system call `syscall` on `on`, of
/// which `holders` (its own process, "writer", "other") are known: who, reads, writes.
fn waits_on(
    syscall: u16,
    on: Descriptor,
    holders: &[(usize, bool, bool)],
    change: impl Fn(&mut Trace),
) -> (Option<ThreadId>, String) {
    let mut scene = Scene::default();
    let names = [(100, "reader"), (200, "writer"), (300, "other")];
    let threads = names.map(|(tid, name)| scene.thread(tid, tid, name));
    let wait = scene.stack(&["main", "read", "|", "ksys_read", "anon_pipe_read", "schedule"]);
    scene.switch(50 * MS, 0, IDLE, Runnable, threads[0], StackId::EMPTY);
    scene.switch(100 * MS, 0, threads[0], Sleeping, IDLE, wait);
    let mut trace = scene.finish(1, 600 * MS);
    trace.kept_waits = vec![KeptWait {
        thread: threads[0],
        time: Time::from_nanos(100_000_000),
        syscall: Some(syscall),
        descriptor: Some(Box::new(on)),
        ..KeptWait::default()
    }];
    let holder = |&(who, reads, writes): &(usize, bool, bool)| {
        let inode = on.peer_inode.unwrap_or(on.inode);
        Holder { inode, process: threads[who], fd: 3, reads, writes }
    };
    trace.holders = holders.iter().map(holder).collect();
    trace.has_all_holders = true;
    change(&mut trace);
    let (stall, text) = asked(&trace, threads[0]);
    assert_eq!(stall.finding.pattern, Pattern::DeadEnd, "{text}");
    (stall.finding.culprit, text)
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const READS: (bool, bool) = (true, false);
const WRITES: (bool, bool) = (false, true);

fn pipe() -> Descriptor {
    Descriptor { kind: DescriptorKind::Pipe, inode: 7, ..Descriptor::default() }
}

#[test]
fn regression_a_pipes_other_end_is_the_one_of_the_other_direction() {
    let both = [(1, WRITES.0, WRITES.1), (2, READS.0, READS.1)];
    let (culprit, text) = waits_on(READ, pipe(), &both, |_| ());
    assert_eq!(culprit, Some(ThreadId(2)), "{text}");
    assert!(
        text.contains("It waited on a pipe whose other end is open in writer 200, in"),
        "{text}"
    );
    assert!(text.contains("no answer from writer 200, which has the other end."), "{text}");
    assert_eq!(waits_on(WRITE, pipe(), &both, |_| ()).0, Some(ThreadId(3)));
    // Another reader; a descriptor of which the direction is not known; a call without one.
    let (writer, reader, unknown) = ([both[0]], [both[1]], [(1, false, false)]);
    for (syscall, holders) in [(READ, &reader), (READ, &unknown), (72, &writer)] {
        let (culprit, text) = waits_on(syscall, pipe(), holders, |_| ());
        assert_eq!(culprit, None, "{text}");
        assert!(text.contains(", too, in") && !text.contains("other end"), "{text}");
    }
}

#[test]
fn a_poll_says_itself_for_what_it_waits() {
    const POLL: u16 = 7;
    let both = [(1, WRITES.0, WRITES.1), (2, READS.0, READS.1)];
    let polled = |to_read, to_write| {
        let polled = Some(Polled { to_read, to_write });
        waits_on(POLL, Descriptor { polled, ..pipe() }, &both, |_| ()).0
    };
    assert_eq!(polled(true, false), Some(ThreadId(2)));
    assert_eq!(polled(false, true), Some(ThreadId(3)));
    assert_eq!(polled(true, true), None);
    assert_eq!(waits_on(POLL, pipe(), &both, |_| ()).0, None);
}

#[test]
fn regression_others_that_may_have_the_other_end_make_nobody_the_culprit() {
    let writer = (1, WRITES.0, WRITES.1);
    // Its own process, which may be the one to write.
    let own = (0, WRITES.0, WRITES.1);
    assert_eq!(waits_on(READ, pipe(), &[own, writer], |_| ()).0, None);
    let (culprit, text) = waits_on(READ, pipe(), &[writer], |trace| trace.has_all_holders = false);
    assert_eq!(culprit, None, "{text}");
    assert!(text.contains("open in writer 200,"), "{text}");
}

#[test]
fn regression_a_fifo_is_no_nameless_pipe() {
    let (culprit, text) = waits_on(READ, pipe(), &[(1, WRITES.0, WRITES.1)], |trace| {
        let name = trace.strings.intern("orders.fifo");
        trace.kept_waits[0].descriptor.as_mut().unwrap().name = name;
    });
    assert_eq!(culprit, None, "{text}");
    assert!(
        text.contains("It waited on the FIFO orders.fifo in") && !text.contains("writer"),
        "{text}"
    );
}

#[test]
fn a_sockets_other_end_is_who_has_it_open() {
    let socket = Descriptor {
        kind: DescriptorKind::UnixSocket,
        inode: 7,
        peer_inode: Some(8),
        ..Descriptor::default()
    };
    let (culprit, text) = waits_on(READ, socket, &[(1, true, true)], |_| ());
    assert_eq!(culprit, Some(ThreadId(2)), "{text}");
    let (culprit, text) = waits_on(READ, socket, &[], |_| ());
    assert_eq!(culprit, None, "{text}");
    assert!(text.contains("It waited on a Unix socket in"), "{text}");
}

/// "client" waits for "server", which waits for a lock of "holder", which is stopped from 40 to 600 ms.
#[test]
fn a_lock_on_the_way_to_a_stopped_thread_is_told() {
    let mut scene = Scene::default();
    let [client, server, holder, shell] =
        [(300, "client"), (400, "server"), (500, "holder"), (600, "shell")]
            .map(|(id, name)| scene.thread(id, id, name));
    let receive = scene.stack(&["main", "recv", "|", "tcp_recvmsg", "sk_wait_data", "schedule"]);
    let lock = ["main", "serve", "pthread_mutex_lock", "|", "do_futex", "futex_wait", "schedule"];
    let lock = scene.stack(&lock);
    let stop = scene.stack(&["main", "work", "|", "get_signal", "do_signal_stop", "schedule"]);
    let rest = scene.stack(&["main", "rest", "|", "do_nanosleep", "schedule"]);
    let go_on = scene.stack(&["main", "kill", "|", "kill_something_info", "try_to_wake_up"]);
    let unlock = ["main", "pthread_mutex_unlock", "|", "do_futex", "futex_wake", "try_to_wake_up"];
    let unlock = scene.stack(&unlock);
    let send = scene.stack(&["main", "send", "|", "tcp_sendmsg", "sock_def_readable"]);
    let none = StackId::EMPTY;
    let woken = WakeFlags::default();
    scene.switch(40 * MS, 1, IDLE, Runnable, holder, none);
    scene.switch(41 * MS, 1, holder, Stopped, IDLE, stop);
    scene.switch(50 * MS, 0, IDLE, Runnable, client, none);
    scene.switch(51 * MS, 0, client, Sleeping, server, receive);
    scene.switch(52 * MS, 0, server, Sleeping, IDLE, lock);
    scene.switch(599 * MS, 1, IDLE, Runnable, shell, none);
    scene.wake(600 * MS, 1, shell, holder, woken, go_on);
    scene.switch(600 * MS + 10, 1, shell, Sleeping, holder, rest);
    scene.wake(601 * MS, 1, holder, server, woken, unlock);
    scene.switch(601 * MS + 10, 0, IDLE, Runnable, server, none);
    scene.wake(602 * MS, 0, server, client, woken, send);
    scene.switch(602 * MS + 10, 0, server, Sleeping, client, rest);
    let (stall, text) = asked(&scene.finish(2, 700 * MS), client);
    assert_eq!(stall.finding.pattern, Pattern::Stopped, "{text}");
    assert!(text.contains("server 400 waited for a lock in\n  serve → pthread"), "{text}");
}

/// "client" connects from 101 to 101 + `ms` ms, when a soft interrupt ends its wait; before, it was
/// served at the same address by `served`, and `listens` waited on a socket with that port.
fn connects(
    ms: u64,
    address: [u8; 4],
    served: &[usize],
    listens: Option<usize>,
) -> (Stall, String) {
    let mut scene = Scene::default();
    let names = [(300, "client"), (400, "shop"), (500, "bank")];
    let threads = names.map(|(id, name)| scene.thread(id, id, name));
    let client = threads[0];
    let tcp = ["__inet_stream_connect", "inet_stream_connect"];
    let connect = scene.stack(&[&["main", "order", "|"][..], &tcp, &["wait_woken"]].concat());
    let read = scene.stack(&["main", "order", "|", "tcp_recvmsg", "sk_wait_data", "wait_woken"]);
    let network = [
        "|",
        "handle_softirqs",
        "tcp_rcv_synsent_state_process",
        "sock_def_wakeup",
        "try_to_wake_up",
    ];
    let network = scene.stack(&network);
    let softirq = WakeFlags::SOFTIRQ;
    let none = StackId::EMPTY;
    scene.switch(50 * MS, 0, IDLE, Runnable, client, none);
    scene.switch(60 * MS, 0, client, Sleeping, IDLE, read);
    scene.wake(61 * MS, 0, IDLE, client, softirq, network);
    scene.switch(61 * MS + 5, 0, IDLE, Runnable, client, none);
    scene.switch(101 * MS, 0, client, Sleeping, IDLE, connect);
    scene.wake((101 + ms) * MS, 0, IDLE, client, softirq, network);
    scene.switch((101 + ms) * MS + 5, 0, IDLE, Runnable, client, none);
    let mut trace = scene.finish(1, (200 + ms) * MS);
    let wait = |ms: u64, inode: u64| KeptWait {
        thread: client,
        time: Time::from_nanos(ms * 1_000_000),
        syscall: Some(42),
        descriptor: Some(Box::new(Descriptor {
            kind: DescriptorKind::InternetSocket,
            inode,
            peer_inode: (inode == 7).then_some(8),
            peer_address: Some((address.into(), 8080)),
            ..Descriptor::default()
        })),
        ..KeptWait::default()
    };
    trace.kept_waits = vec![wait(60, 7), wait(101, 9)];
    trace.kept_waits.extend(listens.map(|who| KeptWait {
        thread: threads[who],
        descriptor: Some(Box::new(Descriptor {
            kind: DescriptorKind::InternetSocket,
            inode: 10,
            local_port: 8080,
            ..Descriptor::default()
        })),
        ..KeptWait::default()
    }));
    let holder =
        |who: &usize| Holder { inode: 8, process: threads[*who], fd: 3, reads: true, writes: true };
    trace.holders = served.iter().map(holder).collect();
    trace.has_all_holders = true;
    asked(&trace, client)
}

#[test]
fn a_connection_that_took_a_second_was_asked_for_twice() {
    let local = [127, 0, 0, 1];
    let (stall, text) = connects(1_008, local, &[1], None);
    let found = &stall.finding;
    assert_eq!(
        (found.pattern, found.culprit),
        (Pattern::SynRetransmit, Some(ThreadId(2))),
        "{text}"
    );
    assert!(
        text.contains("the queue of shop 400, which listens there, was full, as it seems"),
        "{text}"
    );
    insta::assert_snapshot!("syn_retransmit", text);
    // Nobody, or too many, are known to serve that address.
    for served in [&[][..], &[1, 2]] {
        let (stall, text) = connects(1_008, local, served, None);
        assert_eq!(stall.finding.culprit, None, "{text}");
        assert!(text.contains("the queue of who listens there was full, as it seems"), "{text}");
    }
    let (stall, text) = connects(1_008, local, &[], Some(1));
    assert_eq!(stall.finding.culprit, Some(ThreadId(2)), "{text}");
    let (stall, text) = connects(1_008, local, &[1], Some(2));
    assert_eq!(stall.finding.culprit, None, "one of two: {text}");
    let (stall, text) = connects(3_030, [10, 0, 0, 3], &[], Some(1));
    assert_eq!(stall.finding.culprit, None, "that is another machine's port: {text}");
    assert!(text.contains("it was lost on the way, or"), "{text}");
    let (stall, text) = connects(700, local, &[1], None);
    assert_ne!(stall.finding.pattern, Pattern::SynRetransmit, "a slow network: {text}");
}

/// A thread that looks for a lock on a file from 100 ms on, ten times, every 50 ms, while "builder" 500
/// and "other" 600 run. Each time it is refused because of one of `holders` (0: it is not known whom). It
/// began to look `before` the recording.
fn polls_for_lock(holders: [u64; 10], before: bool) -> (Trace, ThreadId, [ThreadId; 2]) {
    let mut scene = Scene::default();
    let (poller, others) = poller_and_others(&mut scene);
    let build = scene.stack(&["main", "build_all"]);
    for (cpu, other) in (1..).zip(others) {
        scene.switch(0, cpu, IDLE, Runnable, other, StackId::EMPTY);
        for at in (1..600).step_by(5) {
            scene.sample(at * MS, cpu, other, build);
        }
    }
    (looks_for_lock(scene, poller, holders, before), poller, others)
}

fn poller_and_others(scene: &mut Scene) -> (ThreadId, [ThreadId; 2]) {
    let poller = scene.thread(300, 300, "poller");
    (poller, [(500, "builder"), (600, "other")].map(|(pid, name)| scene.thread(pid, pid, name)))
}

/// The rest of [`polls_for_lock`]: what the poller does.
fn looks_for_lock(mut scene: Scene, poller: ThreadId, holders: [u64; 10], before: bool) -> Trace {
    let nap = scene.stack(&["main", "take_lock", "|", "do_nanosleep", "schedule"]);
    let rest = scene.stack(&["main", "serve", "|", "do_epoll_wait", "schedule"]);
    let entry = "asm_sysvec_apic_timer_interrupt";
    let timer = scene.stack(&["|", entry, "hrtimer_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    let begin = if before { 1 } else { 100 };
    scene.switch(0, 0, IDLE, Runnable, poller, StackId::EMPTY);
    for round in 0..10 {
        let (from, to) = (begin + round * 50, begin + (round + 1) * 50);
        scene.switch(from * MS + 50, 0, poller, Sleeping, IDLE, nap);
        scene.wake(to * MS - 9, 0, IDLE, poller, WakeFlags::HARDIRQ, timer);
        scene.switch(to * MS - 5, 0, IDLE, Runnable, poller, StackId::EMPTY);
    }
    scene.switch(602 * MS, 0, poller, Sleeping, IDLE, rest);
    let mut trace = scene.finish(3, 700 * MS);
    let numbers: Vec<[u64; 1]> = holders.into_iter().map(|holder| [holder]).collect();
    let times = (0..).map(|round| begin + round * 50);
    let facts: Vec<Fact<'_>> =
        times.zip(&numbers).map(|(at, number)| (at, poller, &number[..])).collect();
    add(&mut trace, ["filelock", "flock_lock_inode"], &["holder"], &facts);
    trace
}

/// "builder" reads from "poller", which writes when it has the lock: neither is kept by the other's wait.
#[test]
fn who_has_a_polled_lock_is_not_kept_by_who_polls_for_it() {
    let mut scene = Scene::default();
    let (poller, [builder, _]) = poller_and_others(&mut scene);
    let read = scene.stack(&["main", "read", "|", "anon_pipe_read", "schedule"]);
    let write = scene.stack(&["main", "write", "|", "anon_pipe_write", "try_to_wake_up"]);
    scene.switch(0, 1, IDLE, Runnable, builder, StackId::EMPTY);
    scene.switch(2 * MS, 1, builder, Sleeping, IDLE, read);
    scene.wake(601 * MS, 0, poller, builder, WakeFlags::default(), write);
    scene.switch(602 * MS, 1, IDLE, Runnable, builder, StackId::EMPTY);
    let trace = looks_for_lock(scene, poller, [500; 10], false);
    let (stall, text) = asked(&trace, poller);
    assert_eq!(stall.finding.culprit, Some(builder), "{text}");
    assert!(!text.contains("What kept"), "{text}");
}

#[test]
fn regression_who_has_a_polled_lock_may_wait_for_another_process() {
    let mut scene = Scene::default();
    let (poller, [builder, _]) = poller_and_others(&mut scene);
    let compiler = scene.thread(510, 510, "compiler");
    let wait = scene.stack(&["main", "run_compiler", "wait4", "|", "do_wait", "schedule"]);
    let compile = scene.stack(&["main", "compile_all"]);
    let exit = scene.stack(&["main", "|", "do_exit", "do_notify_parent", "try_to_wake_up"]);
    scene.switch(0, 1, IDLE, Runnable, builder, StackId::EMPTY);
    scene.switch(2 * MS, 1, builder, Sleeping, IDLE, wait);
    scene.switch(3 * MS, 1, IDLE, Runnable, compiler, StackId::EMPTY);
    for at in (5..598).step_by(5) {
        scene.sample(at * MS, 1, compiler, compile);
    }
    scene.wake(598 * MS, 1, compiler, builder, WakeFlags::default(), exit);
    scene.switch(598 * MS + 5, 1, compiler, TaskState::Dead, builder, exit);
    let trace = looks_for_lock(scene, poller, [500; 10], false);
    let (stall, text) = asked(&trace, poller);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::LongHold, Some(compiler)), "{text}");
    assert_eq!(finding.function, "compile_all", "{text}");
    assert!(
        text.contains("What kept builder 500, which had it:\nIt waited (process) in"),
        "{text}"
    );
    let cause = "builder 500 had the lock on a file, for which it polled; what kept that one: the computation \
                 of compiler 510";
    assert!(text.contains(cause), "{text}");
}

#[test]
fn who_polls_for_a_lock_on_a_file_waits_for_the_process_that_has_it() {
    let (trace, poller, [builder, _]) = polls_for_lock([500; 10], false);
    let (stall, text) = asked(&trace, poller);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::LongHold, Some(builder)), "{text}");
    assert_eq!((finding.evidence, &*finding.function), (Evidence::Direct, "build_all"), "{text}");
    let told = "Meanwhile it asked for a lock on a file, and the kernel refused it 10 times, each time \
                because of builder 500.";
    assert!(text.contains(told) && text.contains("lock on a file, for which it polled"), "{text}");
    // One sleep and one refusal are told as such.
    let analysis = Analysis::new(&trace, &Rules::default());
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let window = Some(Window::new(at(150), at(200)));
    let query = Query { victims: vec![poller], window, ..Query::default() };
    let stalls = unhitch_analysis::diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    assert!(text.contains("and the kernel refused it because of builder 500."), "{text}");
    assert!(text.contains("It slept for 49.") && !text.contains("1 times"), "{text}");
    // Nobody has to ask.
    let analysis = Analysis::new(&trace, &Rules::default());
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let first = stalls.first().expect("it is found");
    assert_eq!((first.candidate.victim, first.finding.culprit), (poller, Some(builder)));
    let window = first.candidate.window;
    let ms = [window.start, window.end].map(|time| time.nanos() / 1_000_000);
    assert_eq!(ms, [100, 599]);
}

#[test]
fn several_holders_of_a_polled_lock_are_inferred_and_none_is_not_invented() {
    let (trace, poller, [builder, _]) =
        polls_for_lock([600, 500, 500, 600, 500, 500, 500, 500, 600, 500], false);
    let (stall, text) = asked(&trace, poller);
    assert_eq!(stall.finding.culprit, Some(builder), "{text}");
    assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
    assert!(text.contains("refused it 10 times, 7 times because of builder 500."), "{text}");
    let (trace, poller, _) = polls_for_lock([0; 10], false);
    let (stall, text) = asked(&trace, poller);
    assert_eq!(stall.finding.pattern, Pattern::TimerSleep, "{text}");
}

/// A program that stands by for another does so all its life.
#[test]
fn who_has_polled_for_a_lock_since_before_the_recording_is_no_stall_unasked() {
    let (trace, poller, _) = polls_for_lock([500; 10], true);
    let analysis = Analysis::new(&trace, &Rules::default());
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    assert!(stalls.iter().all(|stall| stall.candidate.victim != poller));
}
