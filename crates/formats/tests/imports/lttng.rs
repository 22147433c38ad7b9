//! Recordings of LTTng's own kernel modules (2.13.9), made by `tools/test-lttng` under Debian's Linux
//! 6.1.192 with two emulated CPUs. The figures are those of babeltrace2 2.0.4.

use std::path::Path;
use unhitch_model::{Loss, StackId, Time, Trace, WakeFlags};

/// `chain` has all events of `unhitch lab chain`; `lossy` is from buffers of twice 4 KiB.
fn open(name: &str) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let zip = include_bytes!("lttng.zip");
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    zip.extract(folder.path()).unwrap();
    unhitch_formats::open(&folder.path().join(Path::new(name))).unwrap()
}

fn kinds(trace: &Trace) -> Vec<(&str, u64)> {
    let named = trace.by_kind.iter().filter(|(kind, _)| !kind.contains(' '));
    named.map(|(kind, count)| (kind.as_str(), *count)).collect()
}

#[test]
fn all_events_of_a_session_are_read() {
    let trace = open("chain");
    assert_eq!(
        kinds(&trace),
        [
            ("lttng_statedump_process_state", 83),
            ("sched_migrate_task", 73),
            ("sched_process_exit", 6),
            ("sched_process_fork", 6),
            ("sched_switch", 1203),
            ("sched_wakeup", 620),
            ("sched_wakeup_new", 6),
            ("sched_waking", 620),
        ]
    );
    assert_eq!((trace.switches.len(), trace.wakings.len()), (1203, 626));
    assert!(trace.losses.is_empty());
    assert_eq!(trace.meta.producer, "lttng-modules 2.13");
    assert_eq!(trace.meta.kernel, "6.1.0-56-cloud-amd64");
    assert_eq!(trace.meta.lacks, []);
    let epoch_ns = trace.meta.epoch_ns.unwrap();
    let times = [trace.common_window().start, trace.common_window().end];
    let seconds = times.map(|time| (epoch_ns + i128::from(time.nanos())) / 1_000_000_000);
    assert_eq!(seconds, [1_795_722_846, 1_795_722_849]);
}

/// The program `chain` hangs for 729 ms by its own clock.
#[test]
fn the_hang_is_there() {
    let trace = open("chain");
    let of = &trace.switches;
    let name = |tid: u32| {
        let thread = trace.threads.incarnations(tid)[0];
        let process = trace.threads.process_of(thread).pid;
        (trace.thread_name(thread, Time::from_nanos(u64::MAX)), process)
    };
    assert_eq!(name(151), ("ui", 148));
    assert_eq!(name(149), ("lab-spooler", 149));
    assert_eq!(name(150), ("lab-printer", 150));
    let ui = trace.threads.incarnations(151)[0];
    let longest = |row: usize| {
        let back = (row..of.len()).find(|back| of.next[*back] == ui)?;
        Some((of.time[back].nanos() - of.time[row].nanos(), row, back))
    };
    let waits = (0..of.len()).filter(|row| of.prev[*row] == ui);
    let (slept_ns, row, back) = waits.filter_map(longest).max().unwrap();
    assert_eq!((slept_ns / 1_000_000, of.prev_state[row].letter()), (728, "S"));
    let woken = (0..trace.wakings.len())
        .find(|waking| {
            trace.wakings.wakee[*waking] == ui
                && (of.time[row]..of.time[back]).contains(&trace.wakings.time[*waking])
        })
        .unwrap();
    assert_eq!(trace.threads.get(trace.wakings.waker[woken]).tid, 149);
}

#[test]
fn regression_stacks_of_switches_begin_where_the_kernel_switches() {
    let trace = open("chain");
    let begins = |stacks: &[StackId]| {
        let mut begins: Vec<_> = stacks
            .iter()
            .map(|stack| *trace.stacks.kernel_frames(*stack).first().expect("a kernel stack"))
            .collect();
        begins.sort_unstable();
        begins.dedup();
        begins.len()
    };
    // In `__schedule` alone; and in `try_to_wake_up` or `wake_up_new_task`.
    assert_eq!((begins(&trace.switches.stack), begins(&trace.wakings.stack)), (1, 2));
}

#[test]
fn regression_threads_that_were_interrupted_woke_no_ksoftirqd() {
    let trace = open("chain");
    let of = &trace.wakings;
    let mut found = 0;
    for row in 0..of.len() {
        if trace.thread_name(of.wakee[row], of.time[row]).starts_with("ksoftirqd/") {
            assert_ne!(of.flags[row], WakeFlags::default(), "at {:?}", of.time[row]);
            found += 1;
        }
    }
    assert_eq!(found, 9);
}

#[test]
fn regression_lost_events_are_where_there_are_none() {
    let trace = open("lossy");
    let lost = trace.losses.iter().map(|loss| loss.events).sum::<u64>();
    assert_eq!(lost, 11_137);
    let events = (trace.switches.time.iter().zip(&trace.switches.cpu))
        .chain(trace.wakings.time.iter().zip(&trace.wakings.cpu));
    for (time, cpu) in events {
        let mut losses = trace.losses.iter().filter(|loss| loss.cpu == *cpu);
        let inside = |loss: &Loss| loss.window.start < *time && loss.window.contains(*time);
        assert!(!losses.any(inside), "CPU {cpu} at {time:?}");
    }
    let all_ns = trace.common_window().duration_ns();
    let lost_ns = trace.losses.iter().map(|loss| loss.window.duration_ns()).sum::<u64>();
    assert!(lost_ns > all_ns, "of two CPUs, {lost_ns} of {all_ns} ns");
}
