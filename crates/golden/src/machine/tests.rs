use super::*;

/// Two CPUs. A thread on the first one sleeps for a while.
fn machine() -> (Machine, Thread, Thread, Stack) {
    let mut machine = Machine::new(2, 1_000, 100_000, 10_000);
    let stack = machine.code.stack("a!main nt!Wait");
    let (sleeper, waker) = (machine.thread(1, 1, "sleeper"), machine.thread(2, 2, "waker"));
    machine.run(0, sleeper, (1_000, 20_000), &[stack], Left::Blocked(stack));
    machine.run(0, sleeper, (50_000, 100_000), &[stack], Left::Blocked(stack));
    machine.run(1, waker, (1_000, 90_000), &[stack], Left::Sleeping(stack));
    (machine, sleeper, waker, stack)
}

fn switches(machine: &Machine) -> Vec<(u64, usize, usize)> {
    let switch = |event: &Event| match event.action {
        Action::Switch { prev, next, .. } => Some((event.time, prev.0, next.0)),
        _ => None,
    };
    machine.finish().iter().filter_map(switch).collect()
}

#[test]
fn switches_follow_from_stays() {
    let (mut machine, sleeper, waker, stack) = machine();
    machine.wake(49_000, waker, sleeper, stack);
    let guest = machine.thread(3, 3, "guest");
    machine.interrupt(59_000, 0, guest, stack);
    machine.preempt(0, guest, (60_000, 70_000), stack, Left::Sleeping(stack));
    let (sleeper, waker, guest) = (sleeper.0, waker.0, guest.0);
    let expected = [
        (20_000, sleeper, 0),
        (50_000, 0, sleeper),
        (60_000, sleeper, guest),
        (70_000, guest, sleeper),
        (90_000, waker, 0),
    ];
    assert_eq!(switches(&machine), expected);
    assert_eq!((machine.busy_at(30_000), machine.busy_at(50_000)), (1, 2));
    assert_eq!(machine.free_cpu(0..2, 0, (25_000, 45_000)), Some(0));
    assert_eq!(machine.undisturbed_cpu(0, (25_000, 45_000)), Some(1));
}

#[test]
#[should_panic(expected = "wake-ups of")]
fn a_sleeper_does_not_come_by_itself() {
    machine().0.finish();
}

#[test]
#[should_panic(expected = "asleep")]
fn nobody_wakes_others_asleep() {
    let (mut machine, sleeper, waker, stack) = machine();
    machine.wake(95_000, sleeper, waker, stack);
    machine.wake(30_000, sleeper, sleeper, stack);
    machine.finish();
}

#[test]
#[should_panic(expected = "two threads on CPU 0")]
fn a_cpu_has_one_thread() {
    let (mut machine, _, waker, stack) = machine();
    machine.run(0, waker, (60_000, 70_000), &[stack], Left::Sleeping(stack));
    machine.finish();
}
