//! "I can't type an email": a lock that its releaser takes again before the woken waiter arrives.
//!
//! A management service scans the address space of a browser's renderer and holds its lock for
//! milliseconds per call. The renderer's main thread wants the lock once, and gets it when the scan
//! ends.

use crate::code::{Code, Stack};
use crate::golden::Golden;
use crate::machine::{Action, Left, Machine, Note, Thread};
use crate::split_mix64::SplitMix64;

/// The figures that an answer about [`type_an_email()`] must have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TypeFigures {
    /// CPUs of the machine.
    pub cpus: usize,
    /// When the call first went to sleep, nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// From then to the switch-in after which it owned the lock.
    pub hang_ns: u64,
    /// Process and thread that hung.
    pub victim: (u32, u32),
    /// Number of its switch-ins during the hang, of which the last one was successful.
    pub switch_ins: u64,
    /// Number of switch-ins in vain.
    pub in_vain: u64,
    /// Process and thread that woke it every time.
    pub waker: (u32, u32),
    /// Number of these wake-ups.
    pub wakes_by_waker: u64,
    /// From a release until the releaser owns the lock again, except for the last release. It comes
    /// from the script; no event shows it.
    pub retake_ns: u64,
    /// The shortest time from a wake-up to the victim's switch-in.
    pub shortest_arrival_ns: u64,
    /// How long the victim slept during the hang.
    pub asleep_ns: u64,
    /// Time from its wake-ups to its switch-ins, in sum.
    pub late_ns: u64,
    /// How long it checked the lock, in sum.
    pub look_ns: u64,
    /// CPU samples of the waker during the hang.
    pub waker_samples: u64,
    /// Those in `NtQueryVirtualMemory`.
    pub waker_samples_inside: u64,
    /// Those of them taken while the victim slept.
    pub waker_samples_asleep: u64,
    /// CPU time of all threads during the hang.
    pub busy_ns: u64,
    /// Keys pressed in the whole trace.
    pub keys: u64,
    /// Those pressed during the hang.
    pub keys_meanwhile: u64,
}

impl TypeFigures {
    /// The idle share of all CPUs' time, 0.0 to 1.0.
    pub fn idle_share(&self) -> f64 {
        1.0 - self.busy_ns as f64 / (self.hang_ns * self.cpus as u64) as f64
    }
}

const CPUS: usize = 48;
const START_NS: u64 = 100_000_000_000;
const END_NS: u64 = START_NS + 3_800_000_000;
const HANG_NS: u64 = 2_810_000_000;
const WAKES: u64 = 440;
/// From a release until the releaser is back in the kernel and owns the lock.
const RETAKE_NS: u64 = 1_400;

const MAIN: &str = "chrome!content::RendererMain chrome!base::MessagePumpDefault::Run";
const ALLOCATE: &str = "chrome!blink::ScriptController::ExecuteScript chrome!v8::internal::Compiler::Compile kernelbase!VirtualAlloc \
    nt!NtAllocateVirtualMemory nt!MiAllocateVirtualMemory nt!MiCommitVadCfgBits nt!ExAcquirePushLockExclusiveEx";
const SCAN: &str =
    "wmiprvse!ProviderThread perfproc!CollectSysProcessObjectData perfproc!GetProcessVaData";
pub(crate) const TIMER: &str = "nt!KiIdleLoop nt!KiRetireDpcList nt!KiProcessExpiredTimerList";
pub(crate) const WORKER_REST: &str =
    "nt!PspSystemThreadStartup nt!ExpWorkerThread nt!KeRemoveQueueEx";

/// CPUs of the threads in the script.
mod cpu {
    pub const DWM: usize = 2;
    pub const BROWSER: usize = 3;
    pub const KEYS: usize = 4;
    pub const MAIN: usize = 6;
    pub const IO: usize = 9;
    pub const WMI: usize = 21;
}

struct Roles {
    keys: Thread,
    main: Thread,
    io: Thread,
    browser: Thread,
    wmi: Thread,
}

/// The trace.
pub fn type_an_email() -> Golden<TypeFigures> {
    let mut machine = Machine::new(CPUS, START_NS, END_NS, 1_000_000);
    let mut random = SplitMix64::new(2018);
    machine.thread(27_368, 27_368, "chrome");
    let roles = Roles {
        keys: machine.thread(33_136, 33_136, "UIforETW"),
        main: machine.thread(27_368, 27_372, "CrRendererMain"),
        io: machine.thread(27_368, 27_376, "Chrome_ChildIOT"),
        browser: machine.thread(27_300, 27_300, "chrome"),
        wmi: machine.thread(5_824, 31_640, "WmiPrvSE"),
    };
    machine.thread(5_824, 5_824, "WmiPrvSE");
    let hang_from = type_keys(&mut machine, &mut random, &roles);
    starve(&mut machine, &mut random, &roles, hang_from);
    rest(&mut machine, &mut random);

    let events = machine.finish();
    let until = hang_from + HANG_NS;
    let mut figures = TypeFigures {
        cpus: CPUS,
        start_ns: hang_from,
        hang_ns: until - hang_from,
        victim: (27_368, 27_372),
        switch_ins: 0,
        in_vain: 0,
        waker: (5_824, 31_640),
        wakes_by_waker: 0,
        retake_ns: RETAKE_NS,
        shortest_arrival_ns: u64::MAX,
        asleep_ns: 0,
        late_ns: 0,
        look_ns: 0,
        waker_samples: 0,
        waker_samples_inside: 0,
        waker_samples_asleep: 0,
        busy_ns: machine.busy_ns(hang_from, until),
        keys: events
            .iter()
            .filter(|event| matches!(event.action, Action::Note { note: Note::Key, .. }))
            .count() as u64,
        keys_meanwhile: 0,
    };
    // Since when the victim has been in its state: asleep, woken, or on a CPU.
    let (mut since, mut asleep) = (hang_from, true);
    for event in events.iter().filter(|event| event.time >= hang_from && event.time <= until) {
        match event.action {
            Action::Switch { next, .. } if next == roles.main => {
                figures.switch_ins += 1;
                figures.late_ns += event.time - since;
                figures.shortest_arrival_ns = figures.shortest_arrival_ns.min(event.time - since);
                since = event.time;
            }
            Action::Switch { prev, .. } if prev == roles.main && event.time > hang_from => {
                figures.in_vain += 1;
                figures.look_ns += event.time - since;
                (since, asleep) = (event.time, true);
            }
            Action::Waking { waker, wakee, .. } if wakee == roles.main => {
                figures.wakes_by_waker += u64::from(waker == roles.wmi);
                figures.asleep_ns += event.time - since;
                (since, asleep) = (event.time, false);
            }
            Action::Note { note: Note::Key, .. } => {
                figures.keys_meanwhile += u64::from(event.time < until)
            }
            Action::Sample { thread, stack } if thread == roles.wmi => {
                let inside = machine.code.is_inside(stack, "NtQueryVirtualMemory");
                figures.waker_samples += 1;
                figures.waker_samples_inside += u64::from(inside);
                figures.waker_samples_asleep += u64::from(inside && asleep);
            }
            _ => {}
        }
    }
    let notes = "Synthetic, after \u{201c}24-core CPU and I can\u{2019}t type an email\u{201d}. \
                 Was typing in the renderer, PID 27368, when the text stopped coming.";
    Golden::new(machine, events, notes, figures)
}

/// The stacks of typing.
struct TypingStacks {
    timer: Stack,
    rest: Stack,
    browse: Stack,
    send: Stack,
    io_rest: Stack,
    io_work: Stack,
    post: Stack,
    main_rest: Stack,
    script: Stack,
    layout: Stack,
    allocate: Stack,
    hook_rest: Stack,
    hook: Stack,
}

impl TypingStacks {
    fn new(code: &mut Code) -> Self {
        let timer = code.stack(TIMER);
        let rest = code.stack("chrome!BrowserMain user32!MsgWaitForMultipleObjectsEx win32k!NtUserMsgWaitForMultipleObjectsEx");
        let browse = code
            .stack("chrome!BrowserMain chrome!content::RenderWidgetHostImpl::ForwardKeyboardEvent");
        let send =
            code.stack("chrome!BrowserMain chrome!content::RenderWidgetHostImpl::ForwardKeyboardEvent kernelbase!WriteFile nt!NtWriteFile");
        let io_rest = code.stack("chrome!base::MessagePumpForIO::DoRunLoop kernelbase!GetQueuedCompletionStatus nt!NtRemoveIoCompletion");
        let io_work = code.stack(
            "chrome!base::MessagePumpForIO::DoRunLoop chrome!mojo::core::NodeChannel::OnChannelMessage",
        );
        let post = code.stack("chrome!base::MessagePumpForIO::DoRunLoop chrome!base::WaitableEvent::Signal kernelbase!SetEvent nt!NtSetEvent");
        let main_rest =
            code.stack(&format!("{MAIN} chrome!base::WaitableEvent::TimedWait kernelbase!WaitForSingleObjectEx nt!NtWaitForSingleObject"));
        let script = code.stack(&format!(
            "{MAIN} chrome!blink::ScriptController::ExecuteScript chrome!v8::internal::Execution::Call"
        ));
        let layout = code.stack(&format!("{MAIN} chrome!blink::LocalFrameView::UpdateLayout"));
        let allocate = code.stack(&format!("{MAIN} {ALLOCATE}"));

        let hook_rest = code.stack("UIforETW!wWinMain user32!GetMessageW win32k!NtUserGetMessage");
        let hook = code.stack("UIforETW!wWinMain user32!GetMessageW UIforETW!LowLevelKeyboardHook");
        Self {
            timer,
            rest,
            browse,
            send,
            io_rest,
            io_work,
            post,
            main_rest,
            script,
            layout,
            allocate,
            hook_rest,
            hook,
        }
    }
}

/// Key presses reach the browser, the renderer's I/O thread and, except during the hang, its main
/// thread. Returns when the hang begins.
fn type_keys(machine: &mut Machine, random: &mut SplitMix64, roles: &Roles) -> u64 {
    let stacks = TypingStacks::new(&mut machine.code);
    let mut hang_from = 0;
    let mut key = START_NS + 40_000_000;
    while key < END_NS - 20_000_000 {
        // The tracer sees a key first.
        machine.interrupt(key - 90_000, cpu::KEYS, roles.keys, stacks.timer);
        machine.note(key - 60_000, roles.keys, Note::Key);
        machine.run(
            cpu::KEYS,
            roles.keys,
            (key - 82_000, key - 40_000),
            &[stacks.hook],
            Left::Sleeping(stacks.hook_rest),
        );
        machine.interrupt(key, cpu::BROWSER, roles.browser, stacks.timer);
        machine.run(
            cpu::BROWSER,
            roles.browser,
            (key + 8_000, key + 302_000),
            &[stacks.browse],
            Left::Sleeping(stacks.rest),
        );
        machine.wake(key + 250_000, roles.browser, roles.io, stacks.send);
        machine.run(
            cpu::IO,
            roles.io,
            (key + 261_000, key + 333_000),
            &[stacks.io_work],
            Left::Sleeping(stacks.io_rest),
        );
        if hang_from == 0 || key > hang_from + HANG_NS + 2_000_000 {
            machine.wake(key + 310_000, roles.io, roles.main, stacks.post);
            let work_until = key + 323_000 + random.between(1_800_000, 4_200_000);
            if hang_from == 0 && key > START_NS + 480_000_000 {
                hang_from = key + 760_000;
                machine.run(
                    cpu::MAIN,
                    roles.main,
                    (key + 323_000, hang_from),
                    &[stacks.script],
                    Left::Blocked(stacks.allocate),
                );
                // After the hang, the stacks.rest of the work for this key.
                let (from, to) = (hang_from + HANG_NS, hang_from + HANG_NS + 1_740_000);
                machine.run(
                    cpu::MAIN,
                    roles.main,
                    (from, to),
                    &[stacks.script, stacks.layout],
                    Left::Sleeping(stacks.main_rest),
                );
            } else {
                machine.run(
                    cpu::MAIN,
                    roles.main,
                    (key + 323_000, work_until),
                    &[stacks.script, stacks.layout],
                    Left::Sleeping(stacks.main_rest),
                );
            }
        }
        key += random.between(70_000_000, 130_000_000);
    }
    hang_from
}

/// The service releases the lock and takes it again before the renderer arrives to check it.
fn starve(machine: &mut Machine, random: &mut SplitMix64, roles: &Roles, hang_from: u64) {
    let code = &mut machine.code;
    let timer = code.stack(TIMER);
    let wait = code.stack(&format!("{MAIN} {ALLOCATE}"));
    let release = code.stack(&format!("{SCAN} nt!NtQueryVirtualMemory nt!ExfTryToWakePushLock"));
    let outside = code.stack(SCAN);
    let collect = code.stack("wmiprvse!ProviderThread perfproc!CollectSysProcessObjectData");
    let pause = code.stack("wmiprvse!ProviderThread kernelbase!Sleep nt!NtDelayExecution");
    let query = code.stack(&format!("{SCAN} nt!NtQueryVirtualMemory"));
    let walk = code.stack(&format!("{SCAN} nt!NtQueryVirtualMemory nt!MiQueryAddressState"));
    let next = code.stack(&format!(
        "{SCAN} nt!NtQueryVirtualMemory nt!MiQueryAddressState nt!MiGetNextPageTable"
    ));
    let mut hold = [[query; 6].as_slice(), &[walk; 2], &[next; 2]].concat();
    random.shuffle(&mut hold);

    let until = hang_from + HANG_NS;
    let scan_from = hang_from - 18_000_000;
    let mut phases = vec![(scan_from, vec![outside]), (scan_from + RETAKE_NS, hold.clone())];
    let mut last_release = 0;
    for number in 1..=WAKES {
        let arrival_after = random.between(28_000, 70_000);
        let look = random.between(4_000, 9_000);
        let released = match number {
            WAKES => until - arrival_after,
            _ => hang_from + number * HANG_NS / WAKES + random.between(0, 800_000) - 400_000,
        };
        machine.wake(released, roles.wmi, roles.main, release);
        phases.push((released + 100, vec![outside]));
        if number < WAKES {
            phases.push((released + RETAKE_NS, hold.clone()));
            let arrived = released + arrival_after;
            machine.run(
                cpu::MAIN,
                roles.main,
                (arrived, arrived + look),
                &[wait],
                Left::Blocked(wait),
            );
        }
        last_release = released;
    }
    // The scan of this address space is over, so the lock stays free.
    phases.push((last_release + 40_000, vec![collect]));
    machine.interrupt(scan_from - 9_000, cpu::WMI, roles.wmi, timer);
    machine.run_phases(
        cpu::WMI,
        roles.wmi,
        (scan_from, last_release + 4_100_000),
        phases,
        Left::Sleeping(pause),
    );
}

/// The background of an idle machine: a worker per CPU from time to time, and the compositor.
fn rest(machine: &mut Machine, random: &mut SplitMix64) {
    let code = &mut machine.code;
    let (timer, sleep) = (code.stack(TIMER), code.stack(WORKER_REST));
    let work = code.stack("nt!PspSystemThreadStartup nt!ExpWorkerThread nt!MmWorkingSetManager");
    let compose = code.stack(
        "dwmcore!CPartitionVerticalBlankScheduler::Run dwmcore!CComposition::ProcessComposition",
    );
    let wait = code.stack(
        "dwmcore!CPartitionVerticalBlankScheduler::Run win32k!NtGdiDdDDIWaitForVerticalBlankEvent",
    );
    let dwm = machine.thread(1_400, 1_400, "dwm");
    machine.thread(4, 4, "System");
    for frame in 0.. {
        let time = START_NS + 5_000_000 + frame * 16_666_700;
        if time > END_NS - 2_000_000 {
            break;
        }
        machine.interrupt(time, cpu::DWM, dwm, timer);
        machine.run(
            cpu::DWM,
            dwm,
            (time + 7_000, time + 7_000 + random.between(250_000, 500_000)),
            &[compose],
            Left::Sleeping(wait),
        );
    }
    for cpu in (0..CPUS).filter(|cpu| {
        ![cpu::DWM, cpu::BROWSER, cpu::KEYS, cpu::MAIN, cpu::IO, cpu::WMI].contains(cpu)
    }) {
        let worker = machine.thread(4, 100 + 4 * cpu as u32, "System");
        let mut time = START_NS + random.between(1_000_000, 90_000_000);
        while time < END_NS - 1_000_000 {
            machine.interrupt(time, cpu, worker, timer);
            machine.run(
                cpu,
                worker,
                (time + 6_000, time + 6_000 + random.between(15_000, 60_000)),
                &[work],
                Left::Sleeping(sleep),
            );
            time += random.between(60_000_000, 120_000_000);
        }
    }
}
