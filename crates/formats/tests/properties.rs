//! Properties of every trace, whatever the order of its records.

use crate::synthetic::{At, Chain, SyntheticTrace, Task};
use proptest::prelude::*;
use unhitch_formats::read_bytes;

/// CPU, nanoseconds since the CPU's last event, the threads, one of a few stacks.
type Event = (u32, u64, u32, u32, u64);

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec((0u32..4, 0u64..50, 0u32..6, 0u32..6, 0u64..5), 1..200)
}

fn task(tid: u32) -> Task {
    Task { pid: tid, tid, comm: "any" }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_and_all_is_sorted(events in events(), order in any::<u64>()) {
        let mut clocks = [0; 4];
        let mut synthetic = SyntheticTrace::default();
        let mut expected = Vec::new();
        for (cpu, after, prev, next, stack) in &events {
            clocks[*cpu as usize] += after;
            let at = At { ns: clocks[*cpu as usize], cpu: *cpu };
            let kernel = [0xffff_ffff_8100_0000 + stack];
            synthetic.switch(at, task(*prev), order % 3, task(*next), Chain { kernel: &kernel[..(*stack as usize).min(1)], user: &[] });
            expected.push((at.ns, at.cpu as u16, *prev, *next, *stack));
        }
        let file = synthetic.file();
        let trace = read_bytes(&file).unwrap();
        prop_assert!(trace.switches.time.is_sorted());
        let tid = |id| trace.threads.get(id).tid;
        let offset = |id| trace.stacks.frames_of(id).first().map_or(0, |frame| trace.stacks.frame(*frame).unwrap().offset - 0xffff_ffff_8100_0000);
        let switches = &trace.switches;
        let mut found: Vec<_> = (0..switches.len())
            .map(|n| (switches.time[n].nanos(), switches.cpu[n], tid(switches.prev[n]), tid(switches.next[n]), offset(switches.stack[n])))
            .collect();
        // One CPU's events keep their order, those of the same instant too.
        for cpu in 0..4 {
            prop_assert!(found.iter().filter(|row| row.1 == cpu).eq(expected.iter().filter(|row| row.1 == cpu)));
        }
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);

        let again = read_bytes(&file).unwrap();
        prop_assert_eq!(&again.switches.stack, &switches.stack);
        prop_assert_eq!(&again.switches.next, &switches.next);
        prop_assert_eq!(again.warnings, trace.warnings);
    }
}
