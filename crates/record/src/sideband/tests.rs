use super::process::MAX_MAPS_PER_PROCESS;
use super::*;
use crate::procfs::{ExecutableMap, LiveThread};
use unhitch_formats::perf_data::record::exit;

fn id(pid: u32, tid: u32, time: u64) -> SampleId {
    SampleId { pid, tid, time: Time::from_nanos(time), cpu: 0, id: 1 }
}

#[derive(Default)]
struct Script(Vec<u8>);

impl Script {
    fn fork(mut self, pid: u32, ppid: u32, tid: u32, time: u64) -> Self {
        fork(&mut self.0, pid, ppid, tid, ppid, &id(ppid, ppid, time));
        self
    }
    fn comm(mut self, pid: u32, tid: u32, name: &str, exec: bool, time: u64) -> Self {
        comm(&mut self.0, pid, tid, name.as_bytes(), exec, &id(pid, tid, time));
        self
    }
    fn exit(mut self, pid: u32, tid: u32, time: u64) -> Self {
        exit(&mut self.0, pid, 1, tid, 1, &id(pid, tid, time));
        self
    }
    fn map(mut self, pid: u32, start_avma: u64, path: &str, time: u64) -> Self {
        let map = Mmap2 {
            pid,
            tid: pid,
            start_avma,
            len: 0x1000,
            path: path.as_bytes(),
            ..Mmap2::default()
        };
        mmap2(&mut self.0, &map, &id(pid, pid, time));
        self
    }
    fn log(self) -> SidebandLog {
        let mut log = SidebandLog::default();
        log.add(&self.0);
        log
    }
}

fn summary(log: &SidebandLog) -> Vec<(u64, u32, u8)> {
    log.records().iter().map(|record| (record.time.nanos(), record.tid, rank(record))).collect()
}

#[test]
fn a_process_that_exited_before_the_window_is_dropped() {
    let script = Script::default()
        .fork(7, 1, 7, 10)
        .comm(7, 7, "old", true, 11)
        .map(7, 0x1000, "/bin/old", 12)
        .exit(7, 7, 20);
    let mut log = script.fork(8, 1, 8, 30).comm(8, 8, "new", true, 31).exit(8, 8, 60).log();
    log.compact(Time::from_nanos(50));
    assert_eq!(summary(&log), [(30, 8, 1), (31, 8, 2), (60, 8, 4)]);
    log.compact(Time::from_nanos(61));
    assert_eq!((summary(&log), log.memory()), (vec![], 0));
}

#[test]
fn a_long_lived_process_keeps_its_last_state() {
    let mut script = Script::default()
        .fork(7, 1, 7, 10)
        .map(7, 0x9000, "/bin/sh", 11)
        .comm(7, 7, "app", true, 12);
    for time in 20..40 {
        script = script.comm(7, 7, "renamed", false, time).map(7, 0x5000, "/lib/plugin", time);
        script =
            script.fork(7, 7, 100, time).comm(7, 100, "worker", false, time).exit(7, 100, time);
    }
    let mut log = script.log();
    log.compact(Time::from_nanos(39));
    let kept = summary(&log);
    assert_eq!(
        kept,
        [
            (10, 7, 1),
            (38, 7, 2),
            (38, 7, 3),
            (39, 100, 1),
            (39, 7, 2),
            (39, 100, 2),
            (39, 7, 3),
            (39, 100, 4)
        ]
    );
    log.compact(Time::from_nanos(50));
    assert_eq!(summary(&log), [(10, 7, 1), (39, 7, 2), (39, 7, 3)]);
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut log = Script::default()
        .fork(7, 1, 7, 10)
        .comm(7, 7, "first", true, 11)
        .fork(7, 1, 7, 30)
        .comm(7, 7, "second", true, 31)
        .log();
    assert_eq!(log.processes(), 2);
    log.compact(Time::from_nanos(40));
    assert_eq!(summary(&log), [(30, 7, 1), (31, 7, 2)]);
}

#[test]
fn records_of_two_rings_may_come_in_any_order() {
    let mut log = SidebandLog::default();
    log.add(&Script::default().exit(7, 7, 20).0);
    log.add(&Script::default().fork(7, 1, 7, 10).comm(7, 7, "late", true, 11).0);
    assert_eq!((log.processes(), summary(&log).len()), (1, 3));
}

#[test]
fn a_daemon_inherits_the_mappings_of_its_dead_parent() {
    let script = Script::default().comm(5, 5, "daemon", true, 1).map(5, 0x4000, "/sbin/daemon", 2);
    let mut log = script.fork(6, 5, 6, 10).exit(5, 5, 12).log();
    log.compact(Time::from_nanos(20));
    let maps: Vec<Record> = log.records().into_iter().filter(|record| rank(record) == 3).collect();
    assert_eq!(maps.iter().map(|map| (map.time.nanos(), map.tid)).collect::<Vec<_>>(), [(10, 6)]);
    assert_eq!(maps[0].bytes[8..12], 6u32.to_le_bytes());
    assert!(maps[0].bytes.windows(12).any(|window| window == b"/sbin/daemon"));
}

#[test]
fn a_jit_cannot_fill_our_memory() {
    let mut script = Script::default().comm(5, 5, "jit", true, 1);
    script = script.map(5, 9 << 40, "/usr/lib/runtime.so", 5);
    for index in 0..4999 {
        script = script.map(5, index << 12, "//anon", 10 + index);
    }
    let mut log = script.log();
    log.compact(Time::ZERO);
    assert_eq!(
        (summary(&log).len(), log.dropped),
        (1 + MAX_MAPS_PER_PROCESS, 5000 - MAX_MAPS_PER_PROCESS as u64)
    );
    let mut paths = log.mappings().map(|map| map.path);
    assert!(paths.any(|path| path.ends_with("runtime.so")), "the oldest, but a file");
}

#[test]
fn proc_only_adds_what_is_not_known() {
    let thread = |tid| LiveThread {
        tid,
        name: b"x".to_vec(),
        state: b'S',
        policy: 0,
        nice: 0,
        start_ticks: 0,
    };
    let live = LiveProcess { pid: 7, parent_pid: 1, threads: vec![thread(7), thread(9)] };
    let map = |start_avma| ExecutableMap {
        start_avma,
        len: 0x1000,
        device: 1,
        inode: 2,
        file_offset: 0,
        path: b"/bin/app".to_vec(),
    };
    let space =
        AddressSpace { maps: vec![map(0x1000), map(0x2000)], command_line: "app -x".to_owned() };
    let mut log = Script::default()
        .fork(7, 1, 7, 10)
        .comm(7, 7, "app", true, 11)
        .map(7, 0x1000, "/bin/app", 12)
        .log();
    log.complete(&live, Some(&space));
    assert_eq!(
        summary(&log),
        [(10, 7, 1), (11, 9, 1), (11, 7, 2), (11, 9, 2), (11, 7, 3), (12, 7, 3)]
    );
    assert_eq!(log.command_lines(), [(7, "app -x".to_owned())]);
    assert!(log.is_complete(&live));
    log.complete(&live, Some(&space));
    assert_eq!(summary(&log).len(), 6);
    log.mark_exited(&FxHashSet::default(), Time::from_nanos(99));
    assert!(!log.is_complete(&live));
}

#[test]
fn garbage_is_not_a_record() {
    let mut log = SidebandLog::default();
    let mut bytes = Script::default().fork(7, 1, 7, 10).map(7, 1, "/x", 11).0;
    for index in 0..bytes.len() {
        bytes[index] ^= 0xff;
        log.add(&bytes);
        bytes[index] ^= 0xff;
        log.add(&bytes[..index]);
    }
    log.compact(Time::MAX);
}

/// As the kernel writes it for the second CPU: 32 bytes too long.
#[test]
fn a_ksymbol_record_ends_with_its_trailer() {
    let mut record = Vec::new();
    record.extend(17_u32.to_le_bytes());
    record.extend([0, 0, 104, 0]);
    record.extend(0xffff_ffff_c003_9564_u64.to_le_bytes());
    record.extend([0; 8]);
    record.extend(b"bpf_prog_cd60275d_on_switch\0\0\0\0\0");
    record.extend([7_u64, 4711, 1, 99].into_iter().flat_map(u64::to_le_bytes));
    record[6] = record.len() as u8;
    let expected = record.clone();
    record[6] += 32;
    record.extend([0xee; 32]);
    let (_, parsed) = Record::parse(&record).unwrap();
    assert_eq!((&*parsed.bytes, parsed.time), (&*expected, Time::from_nanos(4711)));
}
