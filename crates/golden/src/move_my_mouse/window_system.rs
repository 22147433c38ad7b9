//! The window system's lock: the order of its owners, and what they do before and after.
//!
//! First all grants are planned, as a script rather than a simulation: exiting processes in turn,
//! with drawing threads in between. Their stays on CPUs follow from the plan. The sum of all waits
//! then depends only on when each thread comes back, and can be set exactly.

use super::script::{
    CPUS, END_NS, HANG_FROM_NS, HANG_UNTIL_NS, INSIDE_NS, LONGEST_WAIT_NS, START_NS, WAKES,
};
use crate::code::Stack;
use crate::machine::{Left, Machine, Note, Thread};
use crate::split_mix64::SplitMix64;
use crate::type_an_email::TIMER;

/// The result of the storm.
pub(super) struct Storm {
    pub taskmgr: Thread,
    /// Waits that ended inside `NtGdiCloseProcess`, in sum.
    pub waited_ns: u64,
    /// Number of these that began with a process coming back for the lock.
    pub returns: u64,
}

/// Number of processes that exit at a time, and how often each needs the lock for that.
const ENDING: usize = 58;
const TURNS: usize = 24;
/// The CPUs of the build's compilers. The build service has the next one.
const COMPILER_CPUS: std::ops::Range<usize> = 0..20;
const SERVICE_CPU: usize = 20;
const TASKMGR_CPU: usize = 21;
/// Each thread that draws or reads input has a CPU of its own, from this one on.
const FIRST_DRAWING_CPU: usize = 22;
const ENDING_CPUS: std::ops::Range<usize> = 31..CPUS;
/// When the UI thread gets the lock, milliseconds after the hang's start.
const TASKMGR_MS: [u64; 17] =
    [14, 52, 131, 158, 229, LONG, 391, 437, 529, 602, 655, 701, 792, 838, 916, 1_003, 1_066];
/// Stands for the grant after its longest wait.
const LONG: u64 = 0;
/// Image and tid of the threads that draw or read input, and the function that they call.
const DRAWING: [(&str, u32, &str); 9] = [
    ("conhost", 66_520, "NtUserCallTwoParam"),
    ("UIforETW", 33_140, "NtUserSetTimer"),
    ("TabTip", 9_656, "NtUserFindWindowEx"),
    ("mstsc", 20_492, "NtUserPostMessage"),
    ("conhost", 41_208, "NtUserSetWindowLongPtr"),
    ("csrss", 744, "NtUserRawInputThread"),
    ("dwm", 1_400, "NtUserRemoteGetWindow"),
    ("explorer", 7_012, "NtUserSetWindowPos"),
    ("chrome", 27_300, "NtUserPeekMessage"),
];
/// Number of these that are ahead of the UI thread, in this order, in its longest wait.
const IN_CHAIN: usize = 5;

const EXIT: &str = "gomacc!main ucrtbase!exit ntdll!RtlExitUserProcess nt!NtTerminateProcess nt!PspExitThread nt!PspExitProcess win32k!W32pProcessCallout";
const DISK: &str = "nt!KiIdleLoop nt!KiRetireDpcList storport!RaidUnitCompleteRequest nt!IopCompleteRequest nt!KeSetEvent";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// A slot in the round of exiting processes, and the number of its turn.
    Ending(usize, usize),
    Drawing(usize),
    Taskmgr,
}

/// `who` is woken, comes on a CPU owning the lock, and releases it, which wakes the next one.
#[derive(Clone, Copy)]
struct Grant {
    who: Who,
    woken: u64,
    on: u64,
    released: u64,
}

pub(super) fn record(machine: &mut Machine, delay_ns: u64, longer: u64) -> Storm {
    compile(machine);
    let mut random = SplitMix64::new(2017);
    let grants = plan(&mut random);
    machine.thread(72_392, 72_392, "Taskmgr");
    let taskmgr = machine.thread(72_392, 69_196, "Taskmgr");
    let mut emitter =
        Emitter { machine, random, grants, threads: Vec::new(), since: Vec::new(), returns: 0 };
    emitter.threads.resize(emitter.grants.len(), taskmgr);
    emitter.since.resize(emitter.grants.len(), 0);
    emitter.ending(delay_ns, longer);
    emitter.drawing();
    emitter.taskmgr(taskmgr);
    let waited_ns = emitter.hand_over();
    Storm { taskmgr, waited_ns, returns: emitter.returns }
}

/// All grants, one after another without a pause.
fn plan(random: &mut SplitMix64) -> Vec<Grant> {
    const MS: u64 = 1_000_000;
    let holds = random.with_sum(WAKES, 120_000, 256_000, INSIDE_NS);
    let mut grants: Vec<Grant> = Vec::new();
    let mut due: Vec<u64> =
        (0..DRAWING.len()).map(|_| HANG_FROM_NS + random.between(12 * MS, 70 * MS)).collect();
    let mut targets = TASKMGR_MS.iter().peekable();
    let mut taskmgr_released = 0;
    for (number, hold) in holds.into_iter().enumerate() {
        let who = Who::Ending(number % ENDING, number / ENDING);
        // For the first one, the lock is free.
        match grants.last().map(|before| before.released) {
            None => {
                let on = HANG_FROM_NS + 30_000;
                grants.push(Grant { who, woken: on, on, released: on + hold });
            }
            Some(woken) => {
                let on = woken + random.between(5_000, 8_200);
                grants.push(Grant { who, woken, on, released: on + hold });
            }
        }
        let now = grants.last().map_or(0, |grant| grant.released);
        let long = (targets.peek() == Some(&&LONG))
            .then_some(taskmgr_released + LONGEST_WAIT_NS + 100_000);
        let next = match long {
            Some(long) if now >= long => {
                (0..IN_CHAIN).map(Who::Drawing).chain([Who::Taskmgr]).collect()
            }
            // Before the longest wait ends, no thread of its chain has had the lock recently.
            Some(long) if now + 8 * MS >= long => Vec::new(),
            _ => {
                let mut next: Vec<Who> = (0..DRAWING.len())
                    .filter(|drawing| due[*drawing] <= now)
                    .map(Who::Drawing)
                    .collect();
                let target = targets
                    .peek()
                    .filter(|target| ***target != LONG)
                    .map(|target| HANG_FROM_NS + **target * MS);
                next.extend(target.filter(|target| *target <= now).map(|_| Who::Taskmgr));
                next
            }
        };
        // The UI thread comes last.
        let next = if number + 1 == WAKES { vec![Who::Taskmgr] } else { next };
        for who in next {
            let woken = grants.last().map_or(0, |grant| grant.released);
            let on = woken + random.between(5_000, 8_200);
            let released = on + random.between(3_000, 9_000);
            match who {
                Who::Drawing(drawing) => {
                    due[drawing] = released + random.between(75 * MS, 120 * MS)
                }
                _ => {
                    targets.next();
                    taskmgr_released = released;
                }
            }
            grants.push(Grant { who, woken, on, released });
        }
    }
    assert!(
        grants.iter().all(|grant| grant.released < HANG_UNTIL_NS - 50_000),
        "the storm lasts too long"
    );
    grants
}

/// The build itself: compilers on nearly half of the CPUs, which sometimes wait for a file.
fn compile(machine: &mut Machine) {
    let code = &mut machine.code;
    let disk = code.stack(DISK);
    let read = code.stack(
        "clang-cl!main clang-cl!clang::FileManager::getBufferForFile kernelbase!ReadFile nt!NtReadFile nt!IopSynchronousServiceTail",
    );
    let work = [
        "clang::Sema::InstantiateFunctionDefinition",
        "clang::Parser::ParseTopLevelDecl",
        "llvm::SelectionDAGISel::runOnMachineFunction",
    ]
    .map(|function| code.stack(&format!("clang-cl!main clang-cl!{function}")));
    let mut random = SplitMix64::new(17);
    for cpu in COMPILER_CPUS {
        let compiler = machine.thread(50_000 + 4 * cpu as u32, 50_000 + 4 * cpu as u32, "clang-cl");
        let mut from = START_NS;
        loop {
            let to = from + random.between(3_000_000, 14_000_000);
            if to > END_NS - 20_000_000 {
                machine.run(cpu, compiler, (from, END_NS), &work, Left::Sleeping(read));
                break;
            }
            machine.run(cpu, compiler, (from, to), &work, Left::Sleeping(read));
            let read_at = to + random.between(90_000, 400_000);
            machine.interrupt(read_at, cpu, compiler, disk);
            from = read_at + random.between(5_000, 9_000);
        }
    }
}

struct Emitter<'a> {
    machine: &'a mut Machine,
    random: SplitMix64,
    grants: Vec<Grant>,
    /// For each grant: its thread, and since when that waited.
    threads: Vec<Thread>,
    since: Vec<u64>,
    returns: u64,
}

impl Emitter<'_> {
    fn numbers(&self, is: impl Fn(Who) -> bool) -> Vec<usize> {
        (0..self.grants.len()).filter(|number| is(self.grants[*number].who)).collect()
    }

    /// Exiting processes: each wants the lock a few times, then the next process follows.
    fn ending(&mut self, delay_ns: u64, longer: u64) {
        let code = &mut self.machine.code;
        let close = format!("{EXIT} win32k!GdiProcessCallout win32k!NtGdiCloseProcess");
        let functions = [
            "HmgSafeNextObjt",
            "vCleanupSurfaces",
            "HmgSafeNextObjt",
            "vCleanupDCs",
            "HmgSafeNextObjt",
            "vCleanupFonts",
        ];
        let closing =
            functions.map(|function| code.stack(&format!("{close} win32k!{function}"))).to_vec();
        let wait = code.stack(&format!("{EXIT} win32k!UserProcessCallout win32k!EnterCrit"));
        let between =
            code.stack(&format!("{EXIT} win32k!UserProcessCallout win32k!DestroyProcessInfo"));
        let exit = code.stack("gomacc!main ucrtbase!exit ntdll!RtlExitUserProcess");
        let gone = code.stack("gomacc!main ucrtbase!exit ntdll!RtlExitUserProcess nt!NtTerminateProcess nt!PspExitThread");
        let reply = code.stack("compiler_proxy!WorkerThread compiler_proxy!SendReply kernelbase!WriteFile nt!NtWriteFile");
        let serve = code
            .stack("compiler_proxy!WorkerThread compiler_proxy!CompileTask::ProcessFileRequest");
        let service = self.machine.thread(5_012, 5_012, "compiler_proxy");
        self.machine.run(SERVICE_CPU, service, (START_NS, END_NS), &[serve], Left::Sleeping(serve));

        let mut pid = 80_000;
        for place in 0..ENDING {
            let turns = self.numbers(|who| matches!(who, Who::Ending(at, _) if at == place));
            let mut called = HANG_FROM_NS - 12_000 + place as u64 * 9_000;
            let mut thread = service;
            for (turn, &number) in turns.iter().enumerate() {
                let grant = self.grants[number];
                // The slots begin with processes at different points of their exit.
                let is_first = turn == 0 || (turn + place) % TURNS == 0;
                let is_last = turn + 1 == turns.len() || (turn + 1 + place) % TURNS == 0;
                let mut on = grant.on;
                if is_first {
                    pid += 4;
                    thread = self.machine.thread(pid, pid, "gomacc");
                    self.machine.wake(called, service, thread, reply);
                    let begins = called + self.random.between(5_000, 8_200);
                    if number == 0 {
                        on = begins;
                    } else {
                        let since = begins + self.random.between(50_000, 90_000);
                        self.run_ending(
                            thread,
                            (begins, since),
                            vec![(begins, vec![exit])],
                            Left::Blocked(wait),
                        );
                        self.since[number] = since;
                    }
                }
                let mut phases =
                    vec![(grant.on, closing.clone()), (grant.released + 200, vec![between])];
                self.threads[number] = thread;
                if on < grant.on {
                    phases.insert(0, (on, vec![exit]));
                }
                let after = grant.released + self.random.between(30_000, 60_000);
                if is_last {
                    self.run_ending(thread, (on, after), phases, Left::Dead(gone));
                    self.machine.exits.push((after - 2_000, thread));
                    called = after + 8_000;
                } else {
                    let next = turns[turn + 1];
                    let counts = matches!(self.grants[next - 1].who, Who::Ending(..));
                    let since = after
                        + if counts { delay_ns + u64::from(self.returns < longer) } else { 0 };
                    self.returns += u64::from(counts);
                    self.run_ending(thread, (on, since), phases, Left::Blocked(wait));
                    self.since[next] = since;
                }
            }
        }
    }

    fn run_ending(
        &mut self,
        thread: Thread,
        stay: (u64, u64),
        phases: Vec<(u64, Vec<Stack>)>,
        left: Left,
    ) {
        let last = ENDING_CPUS.start + (stay.0 / 1_000) as usize % ENDING_CPUS.len();
        let cpu = self.machine.free_cpu(ENDING_CPUS, last, stay).expect("one CPU of many is free");
        self.machine.run_phases(cpu, thread, stay, phases, left);
    }

    /// Threads that draw or read input: woken by a timer, each wants the lock once.
    fn drawing(&mut self) {
        for (drawing, (image, tid, function)) in DRAWING.into_iter().enumerate() {
            let code = &mut self.machine.code;
            let timer = code.stack(TIMER);
            let rest = code
                .stack(&format!("{image}!MessageLoop user32!GetMessageW win32k!NtUserGetMessage"));
            let work = code.stack(&format!("{image}!MessageLoop {image}!WindowProc"));
            let wait = code.stack(&format!(
                "{image}!MessageLoop {image}!WindowProc win32k!{function} win32k!EnterCrit"
            ));
            let thread = self.machine.thread(tid, tid, image);
            let cpu = FIRST_DRAWING_CPU + drawing;
            let mut free_from = HANG_FROM_NS + 100_000;
            for number in self.numbers(|who| who == Who::Drawing(drawing)) {
                let grant = self.grants[number];
                let waits = self
                    .random
                    .between(5_000_000, 52_000_000)
                    .min(grant.woken - free_from - 100_000);
                let since = grant.woken - waits;
                let on = since - self.random.between(20_000, 60_000);
                self.machine.interrupt(on - 7_000, cpu, thread, timer);
                self.machine.run(cpu, thread, (on, since), &[work], Left::Blocked(wait));
                free_from = grant.released + self.random.between(20_000, 200_000);
                self.machine.run(cpu, thread, (grant.on, free_from), &[work], Left::Sleeping(rest));
                (self.threads[number], self.since[number]) = (thread, since);
            }
        }
    }

    /// The UI thread: woken at the start of the hang, it needs the lock again and again before it
    /// is done.
    fn taskmgr(&mut self, taskmgr: Thread) {
        let code = &mut self.machine.code;
        let timer = code.stack(TIMER);
        let rest = code.stack("taskmgr!wWinMain user32!GetMessageW win32k!NtUserGetMessage");
        let work = code.stack(
            "taskmgr!wWinMain user32!DispatchMessageW taskmgr!TaskManagerWindow::UpdateView",
        );
        let wait = code.stack(
            "taskmgr!wWinMain user32!DispatchMessageW taskmgr!TaskManagerWindow::UpdateView user32!SendMessageW win32k!NtUserMessageCall win32k!EnterCrit",
        );
        // Before and after the hang it is woken often, and is soon done.
        for step in (1..16)
            .flat_map(|step| [START_NS + step * 17_000_000, HANG_UNTIL_NS + step * 17_000_000])
        {
            self.machine.interrupt(step, TASKMGR_CPU, taskmgr, timer);
            self.machine.run(
                TASKMGR_CPU,
                taskmgr,
                (step + 7_000, step + 900_000),
                &[work],
                Left::Sleeping(rest),
            );
        }
        self.machine.interrupt(HANG_FROM_NS, TASKMGR_CPU, taskmgr, timer);
        let numbers = self.numbers(|who| who == Who::Taskmgr);
        let mut on = HANG_FROM_NS + 7_000;
        for (index, &number) in numbers.iter().enumerate() {
            let grant = self.grants[number];
            let before = index
                .checked_sub(1)
                .map_or(HANG_FROM_NS + 20_000, |before| self.grants[numbers[before]].released);
            let is_long = TASKMGR_MS.get(index) == Some(&LONG);
            let since = if is_long {
                grant.woken - LONGEST_WAIT_NS
            } else {
                before + self.random.between(80_000, 400_000)
            };
            assert!(since > before + 20_000, "no time to run before the wait {index}");
            self.machine.run(TASKMGR_CPU, taskmgr, (on, since), &[work], Left::Blocked(wait));
            (self.threads[number], self.since[number]) = (taskmgr, since);
            on = grant.on;
        }
        self.machine.run(TASKMGR_CPU, taskmgr, (on, HANG_UNTIL_NS), &[work], Left::Sleeping(rest));
        self.machine.note(
            HANG_UNTIL_NS - 2_000,
            taskmgr,
            Note::UiDelay(((HANG_UNTIL_NS - HANG_FROM_NS) / 1_000_000) as u32),
        );
    }

    /// Every release wakes the next thread of the plan. Returns the sum of the waits that ended
    /// inside `NtGdiCloseProcess`.
    fn hand_over(&mut self) -> u64 {
        let leave = "win32k!LeaveCrit nt!ExReleaseResourceLite";
        let code = &mut self.machine.code;
        let by_ending = code
            .stack(&format!("{EXIT} win32k!GdiProcessCallout win32k!NtGdiCloseProcess {leave}"));
        let by_taskmgr = code.stack(&format!(
            "taskmgr!wWinMain user32!DispatchMessageW taskmgr!TaskManagerWindow::UpdateView user32!SendMessageW win32k!NtUserMessageCall {leave}"
        ));
        let by_drawing = DRAWING.map(|(image, _, function)| {
            code.stack(&format!("{image}!MessageLoop {image}!WindowProc win32k!{function} {leave}"))
        });
        let mut waited_ns = 0;
        for number in 1..self.grants.len() {
            let stack = match self.grants[number - 1].who {
                Who::Ending(..) => {
                    waited_ns += self.grants[number].woken - self.since[number];
                    by_ending
                }
                Who::Drawing(drawing) => by_drawing[drawing],
                Who::Taskmgr => by_taskmgr,
            };
            self.machine.wake(
                self.grants[number].woken,
                self.threads[number - 1],
                self.threads[number],
                stack,
            );
        }
        waited_ns
    }
}
