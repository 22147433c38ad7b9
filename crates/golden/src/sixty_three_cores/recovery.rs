//! The stall and its end: when each thread wants the lock, and who hands it to whom.
//!
//! Compilers and services that want the lock exclusively get it one after another. Those that share
//! it get it together, last.

use super::script::{
    ACQUIRE, CHECKPOINT, COMPILERS, CPUS, CREATE, Compiler, EDITOR_CPU, END_NS, HOLD_FROM_NS,
    HOLD_UNTIL_NS, HOLDER_CPU, RECOVERY_NS, RECOVERY_SWITCHES, RELEASE, START_NS, WRITE, compiling,
};
use crate::machine::{Left, Machine, Thread};
use crate::split_mix64::{SplitMix64, scale};

/// Numbers of services that want to write while the lock is held: exclusively, and shared.
const ALONE: usize = 40;
const SHARED: usize = 94;
/// How long the last of them stays; then it wakes the last compiler.
const LAST_STAYS_NS: u64 = 40_000;
/// Sum of the waits of all writers: 174 times 1.184 s.
const WRITERS_WAITED_NS: u64 = 174 * 1_184_000_000;
const SERVICES: [&str; 12] = [
    "mspdbsrv",
    "MsMpEng",
    "SearchIndexer",
    "OneDrive",
    "svchost",
    "git",
    "python",
    "conhost",
    "ninja-log",
    "WmiPrvSE",
    "UIforETW",
    "chrome",
];

/// A service's thread that wants to write.
struct Service {
    thread: Thread,
    image: &'static str,
    waits: u64,
    woken: u64,
}

/// A thread of the chain: the compiler or service with this index.
#[derive(Clone, Copy)]
enum Waiter {
    Compiler(usize),
    Service(usize),
}

pub(super) fn record(
    machine: &mut Machine,
    random: &mut SplitMix64,
    holder: Thread,
    compilers: &[Compiler],
) {
    let compiling = compiling(machine);
    for compiler in compilers {
        let wait = wait(machine, "cl.exe", if compiler.creates { CREATE } else { WRITE }, ACQUIRE);
        machine.run(
            compiler.cpu,
            compiler.thread,
            (START_NS, compiler.blocks),
            &compiling,
            Left::Blocked(wait),
        );
    }
    let editor = machine.thread(9_120, 9_120, "devenv");
    let parse = machine.code.stack("devenv!main cpfe!edg_parse");
    machine.run(EDITOR_CPU, editor, (START_NS, END_NS), &[parse], Left::Sleeping(parse));
    let mut services = services(machine, random);
    let links = links();
    let (released, compilers_waited_ns) =
        let_through(machine, random, holder, compilers, &mut services, &links);
    let last = wake_shared(machine, random, &mut services, links.last().copied(), released);
    let recovered = wait_for_symbols(machine, last);
    // The compilers' waits are given. Those of the services are chosen to fit the sum.
    let mut waits: Vec<u64> = services.iter().map(|service| service.waits).collect();
    scale(&mut waits, WRITERS_WAITED_NS - compilers_waited_ns);
    services.iter_mut().zip(waits).for_each(|(service, waits)| service.waits = waits);
    arrive(machine, compilers, services);
    complete(machine, random, recovered);
}

fn wait(machine: &mut Machine, image: &str, call: &str, acquire: &str) -> crate::code::Stack {
    machine.code.stack(&format!("{image}!main {call} ntfs!NtfsAcquireVcb {acquire}"))
}

fn services(machine: &mut Machine, random: &mut SplitMix64) -> Vec<Service> {
    const MS: u64 = 1_000_000;
    let alone = (0..ALONE as u64)
        .rev()
        .map(|step| 340 * MS + step * 63 * MS + random.between(0, 60 * MS))
        .collect::<Vec<u64>>();
    let shared = (0..SHARED as u64)
        .rev()
        .map(|step| 30 * MS + step * 3_200_000 + random.between(0, 2_800_000));
    let waits: Vec<u64> = alone.into_iter().chain(shared).collect();
    let mut services = Vec::new();
    for (number, waits) in waits.into_iter().enumerate() {
        let image = SERVICES[number % SERVICES.len()];
        let pid = 10_000 + 400 * (number % SERVICES.len()) as u32;
        let tid = pid + 4 * (number / SERVICES.len()) as u32;
        services.push(Service { thread: machine.thread(pid, tid, image), image, waits, woken: 0 });
    }
    services
}

/// The chain: two compilers first, a service last.
fn links() -> Vec<Waiter> {
    let mut links = vec![Waiter::Compiler(0), Waiter::Compiler(1)];
    let places = COMPILERS - 2 + ALONE;
    for place in 0..places {
        let (service, next) = (place * ALONE / places, (place + 1) * ALONE / places);
        links.push(if next > service {
            Waiter::Service(service)
        } else {
            Waiter::Compiler(2 + place - service)
        });
    }
    links
}

/// Hands the lock to one thread after another. Returns when the last one releases it, and how long
/// the compilers had waited to write.
fn let_through(
    machine: &mut Machine,
    random: &mut SplitMix64,
    holder: Thread,
    compilers: &[Compiler],
    services: &mut [Service],
    links: &[Waiter],
) -> (u64, u64) {
    let compiling = compiling(machine);
    let mut woken = HOLD_UNTIL_NS;
    let mut waker =
        (holder, machine.code.stack(&format!("{CHECKPOINT} ntfs!NtfsReleaseVcb {RELEASE}")));
    let (mut guests, mut waited_ns) = (Vec::new(), 0);
    for (place, link) in links.iter().enumerate() {
        let on = woken + random.between(5_000, 9_000);
        let released = on + if place == 0 { 75_000 } else { random.between(92_000, 106_000) };
        let (thread, image, call) = match *link {
            Waiter::Compiler(number) => (
                compilers[number].thread,
                "cl.exe",
                if compilers[number].creates { CREATE } else { WRITE },
            ),
            Waiter::Service(number) => (services[number].thread, services[number].image, WRITE),
        };
        machine.wake(woken, waker.0, thread, waker.1);
        let inside = machine.code.stack(&format!("{image}!main {call}"));
        match *link {
            Waiter::Compiler(number) => {
                waited_ns +=
                    if compilers[number].creates { 0 } else { woken - compilers[number].blocks };
                let phases = vec![(on, vec![inside]), (released, compiling.clone())];
                machine.run_phases(
                    compilers[number].cpu,
                    thread,
                    (on, END_NS),
                    phases,
                    Left::Sleeping(inside),
                );
            }
            Waiter::Service(number) => {
                services[number].woken = woken;
                guests.push((thread, on, released + random.between(30_000, 90_000), inside, image));
            }
        }
        waker = (
            thread,
            machine.code.stack(&format!("{image}!main {call} ntfs!NtfsReleaseVcb {RELEASE}")),
        );
        woken = released;
    }
    // Free CPUs are known once all compilers have theirs again.
    for (thread, on, until, work, image) in guests {
        place(machine, thread, (on, until), work, image);
    }
    (woken, waited_ns)
}

/// Wakes the threads that share the lock, from `released` on, by the last one of the chain. Returns
/// the last of them with its wake-up.
fn wake_shared(
    machine: &mut Machine,
    random: &mut SplitMix64,
    services: &mut [Service],
    last: Option<Waiter>,
    released: u64,
) -> (Thread, &'static str, u64) {
    let Some(Waiter::Service(last)) = last else { panic!("a service is the last of the chain") };
    let (waker, image) = (services[last].thread, services[last].image);
    let release =
        machine.code.stack(&format!("{image}!main {WRITE} ntfs!NtfsReleaseVcb {RELEASE}"));
    let mut end = (waker, image, released);
    for number in 0..SHARED {
        let service = &mut services[ALONE + number];
        service.woken = released + number as u64 * 250;
        end = (service.thread, service.image, service.woken);
        machine.wake(service.woken, waker, service.thread, release);
        let on = service.woken + 5_000 + number as u64 * 6_000;
        let stays = random.between(22_000, 40_000);
        let until = on + if number + 1 == SHARED { LAST_STAYS_NS } else { stays };
        let work = machine.code.stack(&format!("{}!main {WRITE}", service.image));
        place(machine, end.0, (on, until), work, end.1);
    }
    end
}

/// A compiler waits for the symbol server, which waits for the lock. Its CPU goes to the holder,
/// and it is the last to come back. Returns when.
fn wait_for_symbols(machine: &mut Machine, (server, image, woken): (Thread, &str, u64)) -> u64 {
    let compiler = machine.thread(30_000, 30_000, "cl.exe");
    let wait = machine.code.stack(
        "cl.exe!main mspdbcore!PDBOpen kernelbase!WaitForSingleObjectEx nt!NtWaitForSingleObject",
    );
    let reply = machine.code.stack(&format!("{image}!main kernelbase!SetEvent nt!NtSetEvent"));
    let compiling = compiling(machine);
    machine.run(
        HOLDER_CPU,
        compiler,
        (START_NS, HOLD_FROM_NS - 40_000),
        &compiling,
        Left::Sleeping(wait),
    );
    let replied = woken + 5_000 + (SHARED as u64 - 1) * 6_000 + LAST_STAYS_NS - 4_000;
    let recovered = replied + 9_000;
    machine.wake(replied, server, compiler, reply);
    machine.run(HOLDER_CPU, compiler, (recovered, END_NS), &compiling, Left::Sleeping(wait));
    recovered
}

/// Runs a thread on a free CPU, or preempts one for a moment. Either makes two switches.
fn place(
    machine: &mut Machine,
    thread: Thread,
    stay: (u64, u64),
    work: crate::code::Stack,
    image: &str,
) -> usize {
    let rest = machine.code.stack(&format!(
        "{image}!main kernelbase!GetQueuedCompletionStatus nt!NtRemoveIoCompletion"
    ));
    let last = (stay.0 / 1_000) as usize % CPUS;
    if let Some(cpu) = machine.free_cpu(0..CPUS, last, stay) {
        machine.run(cpu, thread, stay, &[work], Left::Sleeping(rest));
        return cpu;
    }
    let cpu = machine.undisturbed_cpu(last, stay).expect("one of many threads can be preempted");
    machine.preempt(cpu, thread, stay, work, Left::Sleeping(rest));
    cpu
}

/// Services arrive one after another while the lock is held: woken by a timer, they run and want to
/// write.
fn arrive(machine: &mut Machine, compilers: &[Compiler], services: Vec<Service>) {
    let timer = machine.code.stack(crate::type_an_email::TIMER);
    let mut before = compilers.iter().map(|compiler| compiler.blocks).max().unwrap_or(HOLD_FROM_NS);
    for (number, service) in services.into_iter().enumerate() {
        let acquire = if number < ALONE { ACQUIRE } else { "nt!ExAcquireResourceSharedLite" };
        let wait = wait(machine, service.image, WRITE, acquire);
        let work = machine.code.stack(&format!("{0}!main {0}!Work", service.image));
        let blocks = service.woken - service.waits;
        let from = (blocks - 6_000_000).max(before + 60_000);
        let cpu =
            machine.free_cpu(0..CPUS, number, (from, blocks)).expect("hardly a CPU is in use");
        machine.interrupt(from - 7_000, cpu, service.thread, timer);
        machine.run(cpu, service.thread, (from, blocks), &[work], Left::Blocked(wait));
        before = blocks;
    }
}

/// Writes reach the disk: enough short runs of kernel threads to make the recovery's number of
/// switches.
fn complete(machine: &mut Machine, random: &mut SplitMix64, recovered: u64) {
    let disk = machine.code.stack(
        "nt!KiRetireDpcList storport!RaidUnitCompleteRequest nt!IopCompleteRequest nt!KeSetEvent",
    );
    let work = machine.code.stack("nt!PspSystemThreadStartup nt!ExpWorkerThread nt!CcWriteBehind");
    assert!(recovered < HOLD_UNTIL_NS + RECOVERY_NS, "the recovery lasts too long");
    let missing = RECOVERY_SWITCHES - machine.switches_between(HOLD_UNTIL_NS, recovered);
    assert_eq!(missing % 2, 0, "an odd number of switches is missing");
    for number in 0..missing / 2 {
        let thread = machine.thread(4, 1_000 + 4 * number as u32, "System");
        let from = HOLD_UNTIL_NS
            + 300_000
            + number * (recovered - HOLD_UNTIL_NS - 500_000) / (missing / 2)
            + random.between(0, 60_000);
        let cpu =
            place(machine, thread, (from, from + random.between(15_000, 45_000)), work, "System");
        machine.interrupt(from - 3_000, cpu, thread, disk);
    }
}
