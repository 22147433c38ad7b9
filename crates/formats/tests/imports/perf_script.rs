//! The text of `perf script`.

use super::rows::{switches, wakes};
use unhitch_formats::read_bytes;
use unhitch_model::{Format, Lack};

/// What `perf script --header -F +pid` prints, shortened.
pub const TEXT: &str = "\
# ========
# captured on    : Tue Nov 24 12:00:00 2026
# hostname : box
# os release : 6.1.0
# perf version : 6.1.90
# arch : x86_64
# nrcpus online : 2
# total memory : 1024 kB
# ========
#
swapper     0/0     [000]     1.000000100: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my app next_pid=41 next_prio=120
\tffffffff81000010 __schedule+0x10 ([kernel.kallsyms])
\tffffffff81000120 schedule+0x20 ([kernel.kallsyms])

my app    40/41    [000]     1.000000200: sched:sched_waking: comm=worker pid=43 prio=120 target_cpu=001
\tffffffff81000230 try_to_wake_up+0x30 ([kernel.kallsyms])
\t          450011 helper (inlined)
\t          450011 unlock+0x11 (/usr/bin/my app)
\t          460012 main+0x12 (/usr/bin/my app)
\t    7f00000123 [unknown] (/usr/lib/libc.so.6)

my app    40/41    [000]     1.000000300:     250000 cpu-clock:ppp:
\t          450015 unlock+0x15 (/usr/bin/my app)

my app    40/41    [000]     1.000000300:     250000 cycles:
\t          450015 unlock+0x15 (/usr/bin/my app)

my app    40/41    [000]     1.000000400: sched:sched_switch: my app:41 [120] D ==> swapper/0:0 [120]

swapper     0/0     [000]     1.000000450: PERF_RECORD_LOST lost 7

worker    40/43    [001]     1.000000500: task:task_newtask: pid=44 comm=worker clone_flags=3d0f00 oom_score_adj=0
worker    40/43    [001]     1.000000600: sched:sched_wakeup_new: comm=worker pid=44 prio=120 target_cpu=000
";

#[test]
fn events_and_their_stacks_are_read() {
    let trace = read_bytes(TEXT.as_bytes()).unwrap();
    assert_eq!(trace.meta.format, Format::PerfScript);
    assert_eq!(switches(&trace), [(1_000_000_100, 0, "R", 41), (1_000_000_400, 41, "D", 0)]);
    assert_eq!(wakes(&trace), [(1_000_000_200, 41, 43), (1_000_000_600, 43, 44)]);
    assert_eq!(trace.stack_names(trace.switches.stack[0]), ["schedule", "__schedule"]);
    let stack = trace.wakings.stack[0];
    assert_eq!(
        trace.stack_names(stack),
        ["libc.so.6+0x7f00000122", "main", "unlock", "helper", "try_to_wake_up"]
    );
    assert_eq!(trace.stacks.kernel_len(stack), 1);
    let frame = trace.stacks.frame(trace.stacks.user_frames(stack)[0]).unwrap();
    assert_eq!(trace.name(trace.modules.get(frame.module).unwrap().path), "/usr/bin/my app");
    assert_eq!(trace.samples.len(), 1, "a second clock would count the time twice");
    assert_eq!(trace.stack_names(trace.samples.stack[0]), ["unlock"]);
    let thread = |tid: u32| trace.threads.process_of(trace.threads.incarnations(tid)[0]).pid;
    assert_eq!([41, 43, 44].map(thread), [40, 40, 40]);
    let meta = &trace.meta;
    assert_eq!((meta.host.as_str(), meta.kernel.as_str(), meta.cpus), ("box", "6.1.0", 2));
    assert_eq!((meta.memory_bytes, meta.producer.as_str()), (1 << 20, "perf 6.1.90"));
    assert_eq!(meta.lacks, [Lack::WakeContexts, Lack::CodeAddresses]);
    assert_eq!(trace.losses.iter().map(|loss| loss.events).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_text_without_processes_says_so() {
    let text = TEXT.replace("40/", "").replace("0/0 ", "0 ");
    let trace = read_bytes(text.as_bytes()).unwrap();
    assert_eq!((trace.switches.len(), trace.wakings.len()), (2, 2));
    assert!(trace.meta.lacks.contains(&Lack::Processes));
}

#[test]
fn a_text_without_cpus_has_only_samples() {
    let text = "a 7 1.000000: cycles: \n\t55 f+0x1 (/bin/a)\n\na 7 2.000000: sched:sched_switch: a:7 [120] S ==> b:8 [120]\n";
    let trace = read_bytes(text.as_bytes()).unwrap();
    assert_eq!((trace.samples.len(), trace.switches.len()), (1, 0));
    assert!(trace.warnings.lines().any(|line| line.contains("CPU-less")));
}

#[test]
fn hostile_names_do_not_move_fields() {
    let text = "x ==> next_comm=y 7/7 [000] 1.000000: sched:sched_switch: \
                prev_comm=x prev_pid=1 prev_prio=1 prev_pid=7 prev_prio=120 prev_state=S ==> \
                next_comm=y next_pid=3 next_prio=1 next_pid=8 next_prio=120\n";
    let trace = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(switches(&trace), [(1_000_000_000, 7, "S", 8)]);
}

/// Addresses that are in no mapping are no frames; code of a JIT, which is in no file either, is.
#[test]
fn regression_a_stack_is_cut_at_what_is_no_code() {
    let stack = |frames: &str| {
        let text = format!("a 7 1.000000:     250000 cpu-clock: \n{frames}\n");
        let trace = read_bytes(text.as_bytes()).unwrap();
        assert_eq!(trace.samples.len(), 1, "{text}");
        trace.stack_names(trace.samples.stack[0])
    };
    let cut =
        "\t7f00 f+0x1 (/bin/a)\n\tffffffffffffffff [unknown] ([unknown])\n\t55 g+0x1 (/bin/a)\n";
    assert_eq!(stack(cut), ["(cut)", "f"]);
    let data = "\t7f00 f+0x1 (/bin/a)\n\t41 [unknown] ([unknown])\n\t55 g+0x1 (/bin/a)\n";
    assert_eq!(stack(data), ["(cut)", "f"]);
    let jit = "\t7f00 f+0x1 (/bin/a)\n\t42 [unknown] (//anon)\n\t43 g+0x1 (/tmp/perf-7.map)\n";
    assert_eq!(stack(jit).len(), 3, "{:?}", stack(jit));
    // The mappings of this process were not recorded.
    let unmapped = "\t7f00 [unknown] ([unknown])\n\t7f01 [unknown] ([unknown])\n";
    assert_eq!(stack(unmapped).len(), 2, "{:?}", stack(unmapped));
    assert!(!stack(unmapped).contains(&"(cut)".to_owned()));
}
