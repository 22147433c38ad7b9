//! A synthetic trace of any size: as many switches, CPUs, threads and distinct stacks as asked, the
//! same in every run.
//!
//! Every thread has a home CPU; what sleeps is woken before it comes back, by whoever runs
//! elsewhere. Half of the switches fall to an eighth of the CPUs, and each thread comes half as
//! often as the one before it in its CPU's list, so that lanes differ. The stacks are the paths of
//! a binary tree of functions, under each of which a few ways into the kernel hang.

use unhitch_model::*;

/// How big.
#[derive(Clone, Copy)]
pub struct Size {
    pub switches: usize,
    pub cpus: u16,
    pub threads: u32,
    pub stacks: u32,
    pub samples: usize,
}

/// The ways into the kernel, leaf first.
const WAYS: [&[&str]; 6] = [
    &["schedule", "futex_wait_queue", "futex_wait", "do_futex", "__x64_sys_futex"],
    &["schedule", "schedule_hrtimeout_range", "do_sys_poll", "__x64_sys_poll"],
    &["schedule", "io_schedule", "folio_wait_bit_common", "filemap_fault"],
    &["schedule", "do_nanosleep", "hrtimer_nanosleep", "__x64_sys_clock_nanosleep"],
    &["schedule", "pipe_read", "vfs_read", "__x64_sys_read"],
    &["schedule", "rwsem_down_read_slowpath", "down_read", "do_user_addr_fault"],
];

/// Linear congruential (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// The trace.
pub fn trace(size: &Size) -> Trace {
    let mut trace = Trace::default();
    trace.meta.sample_period_ns = 1_000_000;
    for index in 0..size.threads {
        // Ten threads are a process.
        let (tid, leader) = (1000 + index, index / 10 * 10 + 1);
        let name = trace.strings.intern(&format!("worker-{}", index % 50));
        let process = match index % 10 {
            0 => trace.threads.add_process(Process {
                pid: tid,
                leader: ThreadId(leader),
                command_line: name,
                ..Process::default()
            }),
            _ => trace.threads.get(ThreadId(leader)).process,
        };
        let names = vec![(Time::ZERO, name)];
        trace.threads.add(Thread {
            tid,
            process,
            names,
            start: None,
            end: None,
            policy: None,
            nice: None,
        });
    }
    let stacks = stacks(&mut trace, size.stacks);
    events(&mut trace, size, &stacks);
    trace
}

fn stacks(trace: &mut Trace, count: u32) -> Vec<StackId> {
    let module = |trace: &mut Trace, path: &str, kind| {
        let path = trace.strings.intern(path);
        trace.modules.intern(Module { path, kind, build_id: Vec::new() })
    };
    let kernel = module(trace, "[kernel]", ModuleKind::Kernel);
    let program = module(trace, "/usr/bin/worker", ModuleKind::File);
    let frame = |trace: &mut Trace, module, name: &str| {
        let function = trace.strings.intern(name);
        let frame = trace.stacks.intern_frame(Frame { module, offset: u64::from(function.0) * 16 });
        if trace.symbols.get(frame).is_empty() {
            trace.symbols.set(frame, &[Symbol { function, file: NameId::EMPTY, line: 0 }]);
        }
        frame
    };
    let ways: Vec<Vec<FrameId>> = WAYS
        .iter()
        .map(|way| way.iter().map(|name| frame(trace, kernel, name)).collect())
        .collect();
    let functions: Vec<FrameId> = (0..20_000)
        .map(|index| frame(trace, program, &format!("app::part_{}::work_{index}", index % 97)))
        .collect();
    let depth = count.max(2).ilog2() + 1;
    let mut frames = Vec::new();
    let stack = |index: u32| {
        let way = &ways[index as usize % ways.len()];
        frames.clear();
        frames.extend_from_slice(way);
        for level in (0..depth).rev() {
            // The function of a node of the tree: its path's bits decide which.
            let node = u64::from(index & ((1 << level) - 1)) + (1 << level);
            frames.push(
                functions
                    [(node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % functions.len()],
            );
        }
        trace.stacks.intern(&frames, way.len() as u16)
    };
    (0..count).map(stack).collect()
}

fn events(trace: &mut Trace, size: &Size, stacks: &[StackId]) {
    let mut dice = Dice(1);
    let cpus = usize::from(size.cpus.max(1));
    let homes: Vec<Vec<ThreadId>> = (0..cpus)
        .map(|cpu| {
            (1..=size.threads).filter(|id| *id as usize % cpus == cpu).map(ThreadId).collect()
        })
        .collect();
    let mut current = vec![ThreadId::IDLE; cpus];
    let mut ready = vec![false; size.threads as usize + 1];
    let mut time = 1_000;
    let stack = |dice: &mut Dice| stacks[dice.below(stacks.len() as u64) as usize];
    let every = (size.switches / size.samples.max(1)).max(1);
    for number in 0..size.switches {
        let busy = dice.below(2) == 0;
        let cpu = dice.below(if busy { cpus.div_ceil(8) } else { cpus } as u64) as usize;
        let prev = current[cpu];
        time += 200 + dice.below(2_600);
        let home = &homes[cpu];
        let rank = (dice.below(1 << 16).max(1).leading_zeros() - 48
            + dice.below(home.len() as u64) as u32 / 2) as usize;
        let chosen = home
            .get(rank % home.len().max(1))
            .copied()
            .filter(|&thread| thread != prev && dice.below(4) > 0);
        let next = chosen.unwrap_or(if prev.is_idle() {
            home.first().copied().unwrap_or_default()
        } else {
            ThreadId::IDLE
        });
        if !next.is_idle() && !ready[next.index()] {
            let by = dice.below(cpus as u64) as usize;
            let wakings = &mut trace.wakings;
            wakings.time.push(Time::from_nanos(time - 100));
            wakings.cpu.push(by as u16);
            wakings.waker.push(current[by]);
            wakings.wakee.push(next);
            wakings.target_cpu.push(cpu as u16);
            wakings.flags.push(if current[by].is_idle() {
                WakeFlags::HARDIRQ
            } else {
                WakeFlags::default()
            });
            wakings.stack.push(stack(&mut dice));
        }
        let preempted = !next.is_idle() && dice.below(8) == 0;
        ready[prev.index()] = preempted && !prev.is_idle();
        ready[next.index()] = false;
        let switches = &mut trace.switches;
        switches.time.push(Time::from_nanos(time));
        switches.cpu.push(cpu as u16);
        switches.prev.push(prev);
        switches.next.push(next);
        switches.prev_state.push(if preempted || prev.is_idle() {
            TaskState::Runnable
        } else {
            TaskState::Sleeping
        });
        switches.prev_prio.push(120);
        switches.next_prio.push(120);
        switches.stack.push(if prev.is_idle() { StackId::EMPTY } else { stack(&mut dice) });
        current[cpu] = next;
        if number % every == 0 && !next.is_idle() {
            trace.samples.time.push(Time::from_nanos(time + 50));
            trace.samples.cpu.push(cpu as u16);
            trace.samples.thread.push(next);
            trace.samples.stack.push(stack(&mut dice));
        }
    }
    let window = Window::new(Time::ZERO, Time::from_nanos(time + 1_000));
    trace.spans = (0..size.cpus).map(|cpu| CpuSpan { cpu, window }).collect();
}
