//! trace-cmd.

use super::rows::{switches, wakes};
use super::trace_dat_writer::{PACKINGS, Ring, version_6, version_7};
use unhitch_formats::read_bytes;
use unhitch_model::{Format, Lack, TaskState, Time, Trace, WakeFlags};

/// Two CPUs; the first has three pages, and events are missing before its second.
pub fn rings() -> [Ring; 2] {
    let mut first = Ring::new(1000);
    first.switch(1005, (0, "swapper/0"), TaskState::Runnable, (5, "main"));
    first.stack(1006, 0, &[0xffff_ffff_8100_1010, 0xffff_ffff_8100_0001, u64::MAX]);
    first.waking(1010, 5, WakeFlags::HARDIRQ, 7);
    first.waking(1020, 5, WakeFlags::NEW, 8);
    first.page(2000, 1 << 31);
    first.switch(2000 + (1 << 28), (5, "main"), TaskState::Sleeping, (0, "swapper/0"));
    first.page(3 << 28, 0);
    first.switch((3 << 28) + 1, (0, "swapper/0"), TaskState::Runnable, (5, "main"));
    let mut second = Ring::new(1001);
    second.switch(1015, (0, "swapper/1"), TaskState::Runnable, (7, "worker"));
    [first, second]
}

fn check(trace: &Trace) {
    assert_eq!(trace.meta.format, Format::TraceDat);
    let late = 2000 + (1 << 28);
    assert_eq!(
        switches(trace),
        [(1005, 0, "R", 5), (1015, 0, "R", 7), (late, 5, "S", 0), ((3 << 28) + 1, 0, "R", 5)]
    );
    assert_eq!(wakes(trace), [(1010, 5, 7), (1020, 5, 8)]);
    assert_eq!(trace.wakings.flags, [WakeFlags::HARDIRQ, WakeFlags::NEW]);
    assert_eq!(trace.stack_names(trace.switches.stack[0]), ["start", "schedule"]);
    assert_eq!(trace.stacks.kernel_len(trace.switches.stack[0]), 2);
    assert!(trace.switches.stack[1].is_empty());
    let losses: Vec<(u64, u64)> = trace
        .losses
        .iter()
        .map(|loss| (loss.window.start.nanos(), loss.window.end.nanos()))
        .collect();
    assert_eq!(losses, [(1020, late)]);
    assert_eq!((trace.meta.host.as_str(), trace.meta.kernel.as_str()), ("box", "6.1.0"));
    assert_eq!((trace.meta.arch.as_str(), trace.meta.clock_id), ("x86_64", Some(1)));
    let worker = trace.threads.incarnations(7)[0];
    assert_eq!(trace.thread_name(worker, Time::MAX), "worker", "not its saved name");
    assert!(trace.meta.lacks.contains(&Lack::Processes));
    assert!(trace.meta.lacks.contains(&Lack::WakeStacks));
    assert!(!trace.meta.lacks.contains(&Lack::WaitStacks));
}

#[test]
fn version_6_is_read() {
    let trace = read_bytes(&version_6("mono", &rings())).unwrap();
    check(&trace);
    assert!(
        trace.warnings.lines().any(|line| line == "the kernel dropped 2 events while it recorded")
    );
    // Each CPU's oldest events were overwritten.
    assert_eq!(trace.common_window().start.nanos(), 1015);
}

#[test]
fn version_7_is_read_however_it_is_compressed() {
    for packing in PACKINGS {
        let trace = read_bytes(&version_7(packing, &rings())).unwrap();
        check(&trace);
        assert_eq!(trace.common_window().start.nanos(), 1005, "{}", packing.0);
    }
}

#[test]
fn a_clock_that_differs_between_cpus_is_said() {
    let trace = read_bytes(&version_6("local", &rings())).unwrap();
    assert!(trace.warnings.lines().any(|line| line.contains("clock \"local\"")));
    assert_eq!(trace.meta.clock_id, None);
}

#[test]
fn other_versions_and_machines_get_one_error() {
    let good = version_6("mono", &rings());
    for (at, byte, expected) in [(10, b'8', "version 8"), (12, 1, "big-endian")] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let error = read_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let lz4 = version_7(("lz4", <[u8]>::to_vec), &rings());
    assert!(read_bytes(&lz4).unwrap_err().to_string().contains("lz4"));
}

/// The pages of each CPU are all pages of the file.
#[test]
fn pages_are_read_once() {
    const CPUS: u32 = 2000;
    let mut ring = Ring::new(1000);
    for time in 0..50 {
        ring.switch(1001 + time, (5, "main"), TaskState::Sleeping, (7, "worker"));
    }
    let mut bytes = version_6("mono", &vec![ring; CPUS as usize]);
    let head = bytes.windows(10).position(|window| window == b"flyrecord\0").unwrap() + 10;
    let (len, places) = (bytes.len() as u64, head..head + 16 * CPUS as usize);
    let first: [u8; 8] = bytes[head..head + 8].try_into().unwrap();
    for place in bytes[places].chunks_exact_mut(16) {
        place[..8].copy_from_slice(&first);
        place[8..].copy_from_slice(&len.to_le_bytes());
    }
    let trace = read_bytes(&bytes).unwrap();
    assert_eq!(trace.switches.len(), 50 * CPUS as usize);
    let warnings = trace.warnings.lines().collect::<Vec<_>>().join("\n");
    assert!(warnings.contains("left out 1,999 overlapping parts"), "{warnings}");
}
