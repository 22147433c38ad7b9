//! Waits for a disk or for memory in a control group with limits: the answer says so, and what the
//! group used up meanwhile.

use crate::scene::{Desktop, judged};
use std::collections::BTreeMap;
use unhitch_analysis::Evidence;
use unhitch_analysis::patterns::{Finding, Pattern};
use unhitch_model::*;

const MS: u64 = 1_000;
const MIB: u64 = 1 << 20;

/// The event loop waits in `wait` from 100 to 600 ms, in control group `/app/web`; `accounts` are
/// those of `/app` at 0 and at 1,000 ms.
fn in_group(wait: &[&str], accounts: [GroupReading; 2]) -> (Finding, String) {
    let mut desktop = Desktop::new();
    let wait = desktop.scene.stack(wait);
    let done = desktop.scene.stack(&["|", "asm_common_interrupt", "bio_endio", "try_to_wake_up"]);
    desktop.pump_all(0, 100);
    let ui = desktop.ui;
    desktop.scene.switch(100 * MS + 50, 0, ui, TaskState::DiskSleep, ThreadId::IDLE, wait);
    desktop.scene.wake(600 * MS, 1, ThreadId::IDLE, ui, WakeFlags::HARDIRQ, done);
    let none = StackId::EMPTY;
    desktop.scene.switch(600 * MS + 9, 0, ThreadId::IDLE, TaskState::Runnable, ui, none);
    desktop.pump_all(610, 1_000);
    let mut trace = desktop.scene.finish(2, 1_000 * MS);
    let reading = |(at, account): (u64, GroupReading)| Reading {
        time: Time::from_nanos(at * 1_000_000),
        groups: [(GroupId(0), account)].into(),
        is_whole: true,
        ..Reading::default()
    };
    let group =
        |path: &str| ControlGroup { hierarchy: "unified".to_owned(), path: path.to_owned() };
    trace.machine = MachineReport {
        groups: ["/app", "/app/web"].map(group).to_vec(),
        readings: [0, 1_000].into_iter().zip(accounts).map(reading).collect(),
        members: [(ui, vec![GroupId(1)])].into_iter().collect(),
    };
    let (stall, text) = judged(&trace);
    (stall.finding, text)
}

fn wrote(bytes: u64, limits: &str) -> GroupReading {
    let io = DeviceAccount {
        device: "8:0".to_owned(),
        written_bytes: bytes,
        writes: bytes / MIB,
        limits: limits.to_owned(),
        ..DeviceAccount::default()
    };
    GroupReading { io: vec![io], ..GroupReading::default() }
}

#[test]
fn a_wait_for_a_disk_tells_the_limit_of_its_control_group() {
    let fsync = ["main", "save", "|", "ext4_sync_file", "jbd2_log_wait_commit", "io_schedule"];
    let limits = "wbps=4194304 riops=100";
    let (finding, text) = in_group(&fsync, [wrote(MIB, limits), wrote(5 * MIB, limits)]);
    let told = "Control group /app, which has ui 100, may only write 4 MiB/s to and make 100 \
                reads/s from device 8:0: it read 0 B and wrote 4 MiB there in the 1.000 s between \
                two readings of its counters.";
    assert!(finding.pattern == Pattern::IoWait && text.contains(told), "{text}");
    assert!(text.contains("or the limit on it of control group /app"), "{text}");
    assert_eq!(finding.evidence, Evidence::Inferred, "the disk may be quick: {text}");
    // Far from its limit, it waited for the disk.
    let (finding, text) = in_group(&fsync, [wrote(MIB, limits), wrote(2 * MIB, limits)]);
    assert!(text.contains("Control group /app") && !text.contains("or the limit"), "{text}");
    assert_eq!(finding.evidence, Evidence::Direct, "{text}");
    let (_, text) = in_group(&fsync, [wrote(MIB, limits), wrote(MIB, limits)]);
    assert!(!text.contains("Control group"), "it did nothing there: {text}");
    let (_, text) = in_group(&fsync, [wrote(MIB, ""), wrote(5 * MIB, "")]);
    assert!(!text.contains("Control group"), "it has no limit: {text}");
}

#[test]
fn a_wait_for_memory_tells_how_often_its_control_group_reached_a_limit() {
    let reclaim = ["main", "load", "|", "asm_exc_page_fault", "do_swap_page", "io_schedule"];
    let account = |events: &[(&str, u64)]| {
        let events = events.iter().map(|(name, count)| ((*name).to_owned(), *count));
        let memory = MemoryAccount {
            limit_bytes: Some(64 * MIB),
            used_bytes: 63 * MIB,
            events: events.collect::<BTreeMap<String, u64>>(),
        };
        GroupReading { memory: Some(memory), ..GroupReading::default() }
    };
    let (old, new) = (account(&[("high", 10), ("low", 1)]), account(&[("high", 22), ("low", 9)]));
    let (finding, text) = in_group(&reclaim, [old.clone(), new]);
    let told = "Control group /app, which has ui 100, reached limits of its memory in the 1.000 s \
                between two readings of its counters: high 12 times. It had 63 MiB of 64 MiB in use.";
    assert!(finding.pattern == Pattern::Memory && text.contains(told), "{text}");
    let (_, text) = in_group(&reclaim, [old.clone(), old]);
    assert!(!text.contains("Control group"), "it reached none: {text}");
}
