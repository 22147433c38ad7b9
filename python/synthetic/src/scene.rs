//! One recording: an editor with an event loop, somebody who types, and the rest of the machine.

use crate::causes::{Cause, How};
use unhitch_golden::{Golden, Left, Machine, SplitMix64, Stack, Thread};

/// Microseconds and milliseconds, in nanoseconds.
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const START_NS: u64 = 50_000_000_000;
const LENGTH_MS: u64 = 3_000;
const SAMPLE_NS: u64 = 2_000_000;
const CPUS: usize = 4;
/// The CPUs of the editor, of who types, of the editor's helper, and of everything else.
mod cpu {
    pub const MAIN: usize = 0;
    pub const INPUT: usize = 1;
    pub const HELPER: usize = 2;
    pub const REST: usize = 3;
}

const LOOP: &str = "editor!main editor!EventLoop::run";
const TIMER: &str = "nt!asm_sysvec_apic_timer_interrupt nt!hrtimer_interrupt nt!hrtimer_wakeup \
                     nt!try_to_wake_up";
const DISK: &str = "nt!asm_common_interrupt nt!handle_irq_event nt!nvme_irq \
                    nt!blk_mq_complete_request nt!bio_endio nt!wake_up_bit nt!try_to_wake_up";
const FUTEX: &str =
    "libc.so.6!pthread_mutex_lock nt!do_syscall_64 nt!do_futex nt!futex_wait nt!schedule";
const UNLOCK: &str =
    "libc.so.6!pthread_mutex_unlock nt!do_syscall_64 nt!do_futex nt!futex_wake nt!try_to_wake_up";
const SEND: &str = "libc.so.6!send nt!do_syscall_64 nt!unix_stream_sendmsg nt!sock_def_readable \
                    nt!try_to_wake_up";

/// Who is in the scene.
struct Cast {
    main: Thread,
    helper: Thread,
    input: Thread,
    service: Thread,
    pump: Stack,
    rest: Stack,
}

/// What to record.
pub struct Wanted<'w> {
    pub host: String,
    pub wall_ns: u64,
    /// 0 for version 1, 1 for version 2.
    pub version: usize,
    pub cause: Option<&'w Cause>,
    /// Meaningless waits per second.
    pub filler: u64,
}

/// The build id of a version of the editor.
pub fn build_id(version: usize) -> [u8; 20] {
    [0xe0 + version as u8; 20]
}

/// A recording, and how long its hang took, nanoseconds.
pub fn record(wanted: &Wanted<'_>, random: &mut SplitMix64) -> Golden<u64> {
    let mut machine = Machine::new(CPUS, START_NS, START_NS + LENGTH_MS * MS, SAMPLE_NS);
    machine.host.clone_from(&wanted.host);
    "6.12.0-synthetic".clone_into(&mut machine.kernel);
    machine.wall_ns = wanted.wall_ns;
    machine.build_ids.insert("editor".to_owned(), build_id(wanted.version));
    let cast = Cast {
        main: machine.thread(2_000, 2_000, "editor"),
        helper: machine.thread(2_000, 2_001, "editor-helper"),
        input: machine.thread(900, 900, "seatd"),
        service: machine.thread(1_200, 1_200, "desktop-service"),
        pump: machine
            .code
            .stack(&format!("{LOOP} libc.so.6!epoll_wait nt!do_syscall_64 nt!ep_poll nt!schedule")),
        rest: machine
            .code
            .stack("helper!main libc.so.6!poll nt!do_syscall_64 nt!do_sys_poll nt!schedule"),
    };
    let hang_from = START_NS + random.between(500 * MS, 800 * MS);
    let hang_ns = match wanted.cause {
        Some(cause) => random.between(cause.ms.0 * MS, cause.ms.1 * MS),
        None => 0,
    };
    type_keys(&mut machine, random, &cast, (hang_from, hang_ns), wanted.cause);
    filler(&mut machine, random, wanted.filler);
    Golden::of(machine, hang_ns)
}

/// The stacks of typing.
struct Typing {
    timer: Stack,
    see: Stack,
    idle: Stack,
    post: Stack,
    handle: Stack,
}

impl Typing {
    fn new(machine: &mut Machine) -> Self {
        let code = &mut machine.code;
        Self {
            timer: code.stack(TIMER),
            see: code.stack("seatd!main seatd!dispatch_key"),
            idle: code
                .stack("seatd!main libc.so.6!read nt!do_syscall_64 nt!evdev_read nt!schedule"),
            post: code.stack(
                "seatd!main seatd!dispatch_key libc.so.6!write nt!do_syscall_64 \
                 nt!eventfd_write nt!ep_poll_callback nt!try_to_wake_up",
            ),
            handle: code.stack(&format!("{LOOP} editor!Editor::on_key")),
        }
    }

    /// A key wakes the main thread, which is on its CPU from the returned time on.
    fn press(&self, machine: &mut Machine, cast: &Cast, key: u64) -> u64 {
        machine.interrupt(key, cpu::INPUT, cast.input, self.timer);
        let stay = (key + 8 * US, key + 90 * US);
        machine.run(cpu::INPUT, cast.input, stay, &[self.see], Left::Sleeping(self.idle));
        machine.wake(key + 60 * US, cast.input, cast.main, self.post);
        key + 70 * US
    }
}

/// Keys wake the main thread; the first one from `hang_from` on makes it hang.
fn type_keys(
    machine: &mut Machine,
    random: &mut SplitMix64,
    cast: &Cast,
    (hang_from, hang_ns): (u64, u64),
    mut cause: Option<&Cause>,
) {
    let typing = Typing::new(machine);
    let (mut key, mut pause) = (START_NS + 50 * MS, false);
    while key < START_NS + (LENGTH_MS - 20) * MS {
        let begin = typing.press(machine, cast, key);
        match cause.take_if(|_| key >= hang_from) {
            Some(cause) => {
                hang(machine, cast, cause, begin, hang_ns);
                key = begin + hang_ns + 20 * MS;
            }
            None => {
                let stay = (begin, begin + random.between(MS, 4 * MS));
                let work = &[typing.handle];
                machine.run(cpu::MAIN, cast.main, stay, work, Left::Sleeping(cast.pump));
                // Nobody types like a clock.
                pause = !pause;
                key += match pause {
                    true => random.between(150 * MS, 300 * MS),
                    false => random.between(20 * MS, 50 * MS),
                };
            }
        }
    }
}

/// The hang: the main thread is away from its loop from `begin` for `ns`.
fn hang(machine: &mut Machine, cast: &Cast, cause: &Cause, begin: u64, ns: u64) {
    let code = &mut machine.code;
    let own = format!("{LOOP} editor!{}", cause.operation);
    let (prepare, finish) = (code.stack(&own), code.stack(&format!("{LOOP} editor!Editor::paint")));
    let function = cause.function;
    let (asleep, awake) = (begin + 300 * US, begin + ns - MS);
    let own_wait = |machine: &mut Machine, wait: Stack| {
        machine.run(cpu::MAIN, cast.main, (begin, asleep), &[prepare], Left::Sleeping(wait));
        machine.run(
            cpu::MAIN,
            cast.main,
            (awake, begin + ns),
            &[finish],
            Left::Sleeping(cast.pump),
        );
    };
    match cause.how {
        How::Compute => {
            let work = code.stack(&format!("{own} editor!{function}"));
            machine.run(
                cpu::MAIN,
                cast.main,
                (begin, begin + ns),
                &[work],
                Left::Sleeping(cast.pump),
            );
        }
        How::Disk => {
            let wait = code.stack(&format!("{own} editor!{function} libc.so.6!fsync nt!do_syscall_64 nt!ext4_sync_file nt!folio_wait_writeback nt!io_schedule"));
            let disk = code.stack(DISK);
            own_wait(machine, wait);
            machine.interrupt(awake - 9 * US, cpu::HELPER, cast.main, disk);
        }
        How::Sleep => {
            let wait = code.stack(&format!("{own} editor!{function} libc.so.6!clock_nanosleep nt!do_syscall_64 nt!hrtimer_nanosleep nt!do_nanosleep nt!schedule"));
            let timer = code.stack(TIMER);
            own_wait(machine, wait);
            machine.interrupt(awake - 9 * US, cpu::MAIN, cast.main, timer);
        }
        How::Hold | How::HoldDisk => {
            let wait = code.stack(&format!("{own} {FUTEX}"));
            own_wait(machine, wait);
            hold(machine, cast, cause, (begin - 2 * MS, awake - 9 * US));
        }
        How::Reply => {
            let wait = code.stack(&format!("{own} libc.so.6!recv nt!do_syscall_64 nt!unix_stream_read_generic nt!unix_stream_data_wait nt!schedule"));
            let ask = code.stack(&format!("{own} {SEND}"));
            let work = code.stack(&format!("service!main service!{function}"));
            let reply = code.stack(&format!("service!main service!{function} {SEND}"));
            own_wait(machine, wait);
            machine.wake(asleep - 50 * US, cast.main, cast.service, ask);
            machine.run(
                cpu::HELPER,
                cast.service,
                (asleep - 40 * US, awake - 5 * US),
                &[work],
                Left::Sleeping(cast.rest),
            );
            machine.wake(awake - 9 * US, cast.service, cast.main, reply);
        }
    }
}

/// The helper holds the lock in between, and releases it at the end.
fn hold(machine: &mut Machine, cast: &Cast, cause: &Cause, (from, until): (u64, u64)) {
    let code = &mut machine.code;
    let own = format!("editor!Helper::run editor!{}", cause.function);
    let (work, release) = (code.stack(&own), code.stack(&format!("{own} {UNLOCK}")));
    let (timer, disk) = (code.stack(TIMER), code.stack(DISK));
    let write = code.stack(&format!("{own} libc.so.6!fdatasync nt!do_syscall_64 nt!ext4_sync_file nt!folio_wait_writeback nt!io_schedule"));
    machine.interrupt(from - 9 * US, cpu::REST, cast.helper, timer);
    let last = (until - 200 * US, until + 40 * US);
    if cause.how == How::HoldDisk {
        machine.run(
            cpu::HELPER,
            cast.helper,
            (from, from + 500 * US),
            &[work],
            Left::Blocked(write),
        );
        machine.interrupt(last.0 - 9 * US, cpu::HELPER, cast.helper, disk);
        machine.run(cpu::HELPER, cast.helper, last, &[work], Left::Sleeping(cast.rest));
    } else {
        machine.run(cpu::HELPER, cast.helper, (from, last.1), &[work], Left::Sleeping(cast.rest));
    }
    machine.wake(until, cast.helper, cast.main, release);
}

/// Meaningless waits of other programs, different ones on every host.
fn filler(machine: &mut Machine, random: &mut SplitMix64, per_second: u64) {
    if per_second == 0 {
        return;
    }
    let timer = machine.code.stack(TIMER);
    let threads: Vec<(Thread, Stack, Stack)> = (0..4)
        .map(|number| {
            let name = format!("daemon{}", random.between(0, 30));
            let tid = 5_000 + number;
            let thread = machine.thread(tid, tid, &name);
            let work = format!("{name}!main {name}!step_{}", random.between(0, 9));
            let wait = format!("{work} libc.so.6!poll nt!do_syscall_64 nt!do_sys_poll nt!schedule");
            (thread, machine.code.stack(&work), machine.code.stack(&wait))
        })
        .collect();
    let gap = 1_000 * MS / per_second;
    let mut at = START_NS + MS;
    for turn in 0.. {
        let (thread, work, wait) = threads[turn % threads.len()];
        let ran = random.between(5 * US, (gap / 2).clamp(6 * US, 200 * US));
        if at + ran + MS > START_NS + LENGTH_MS * MS {
            break;
        }
        machine.interrupt(at, cpu::REST, thread, timer);
        machine.run(
            cpu::REST,
            thread,
            (at + 6 * US, at + 6 * US + ran),
            &[work],
            Left::Sleeping(wait),
        );
        at += gap.max(ran + 20 * US);
    }
}
