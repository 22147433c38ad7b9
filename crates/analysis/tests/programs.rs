//! Waits of real programs, as they were recorded: what they are for, in which words, and whose
//! function the answer names.

use crate::scene::Scene;
use unhitch_analysis::{Analysis, Query, Rules, WaitClass, text};
use unhitch_model::{
    Frame, FrameId, Module, ModuleKind, NameId, StackId, Symbol, TaskState, ThreadId, Time, Window,
};

/// A recorded stack, leaf first: functions of the kernel, and after `""` those of the process as
/// `FILE!function`, `FILE+0x1234` where the file has no name for it, or `!function` where a runtime
/// compiled it.
fn recorded(scene: &mut Scene, frames: &[&str]) -> StackId {
    let trace = &mut scene.trace;
    let kernel = frames.iter().position(|frame| frame.is_empty()).unwrap_or(frames.len());
    let mut ids: Vec<FrameId> = Vec::new();
    for (at, frame) in frames.iter().enumerate().filter(|(_, frame)| !frame.is_empty()) {
        let (file, function) = match (at < kernel, frame.split_once('!')) {
            (true, _) => ("[kernel]", *frame),
            (false, Some(named)) => named,
            (false, None) => (frame.split_once('+').map_or(*frame, |(file, _)| file), ""),
        };
        let kind = match file {
            "[kernel]" => ModuleKind::Kernel,
            "" => ModuleKind::Anonymous { pid: 1 },
            script if script.ends_with(".py") => ModuleKind::Script,
            _ => ModuleKind::File,
        };
        let path = trace.strings.intern(&match kind {
            // What comes with the interpreter is given with its folder.
            ModuleKind::File if !file.contains('/') => format!("/usr/lib/{file}"),
            ModuleKind::File | ModuleKind::Script => format!("/usr/{file}"),
            _ => file.to_owned(),
        });
        let module = trace.modules.intern(Module { path, kind, build_id: Vec::new() });
        let id = trace.stacks.intern_frame(Frame { module, offset: 0x1000 + at as u64 });
        if !function.is_empty() {
            let function = trace.strings.intern(function);
            let file = if kind == ModuleKind::Script { path } else { NameId::EMPTY };
            trace.symbols.set(id, &[Symbol { function, file, line: 0 }]);
        }
        ids.push(id);
    }
    trace.stacks.intern(&ids, kernel as u16)
}

/// The class of a recorded wait, what it is called, and the function that an answer names.
pub(crate) fn wait(frames: &[&[&str]]) -> (WaitClass, String, String) {
    let mut scene = Scene::default();
    let stack = recorded(&mut scene, &frames.concat());
    let trace = scene.finish(1, 1000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let words = analysis.stacks.words(stack).unwrap_or_default().to_owned();
    (analysis.stacks.class(stack), words, text::own_function(&analysis, stack))
}

pub(crate) fn lock(frames: &[&[&str]]) -> (String, String) {
    let (class, words, function) = wait(frames);
    assert_eq!(class, WaitClass::Lock, "{frames:?}");
    (words, function)
}

pub(crate) fn named(words: &str, function: &str) -> (String, String) {
    (words.to_owned(), function.to_owned())
}

pub(crate) const EPOLL: [&str; 9] = [
    "__schedule",
    "schedule",
    "schedule_hrtimeout_range_clock",
    "do_epoll_wait",
    "__x64_sys_epoll_wait",
    "do_syscall_64",
    "entry_SYSCALL_64_after_hwframe",
    "",
    "libc.so.6!epoll_wait",
];
pub(crate) const FUTEX: [&str; 10] = [
    "__schedule",
    "schedule",
    "futex_do_wait",
    "__futex_wait",
    "futex_wait",
    "do_futex",
    "__x64_sys_futex",
    "do_syscall_64",
    "entry_SYSCALL_64_after_hwframe",
    "",
];
pub(crate) const CONDITION: [&str; 4] = [
    "libc.so.6!__futex_abstimed_wait_common64",
    "libc.so.6!__futex_abstimed_wait_common",
    "libc.so.6!__pthread_cond_wait_common",
    "libc.so.6!pthread_cond_timedwait",
];
pub(crate) const POLL: [&str; 8] = [
    "__schedule",
    "schedule",
    "schedule_hrtimeout_range_clock",
    "poll_schedule_timeout.constprop.0",
    "do_sys_poll",
    "__x64_sys_poll",
    "",
    "libc.so.6!poll",
];
pub(crate) const SLEEP: [&str; 11] = [
    "__schedule",
    "schedule",
    "do_nanosleep",
    "hrtimer_nanosleep",
    "common_nsleep",
    "__x64_sys_clock_nanosleep",
    "do_syscall_64",
    "entry_SYSCALL_64_after_hwframe",
    "",
    "libc.so.6!clock_nanosleep",
    "libc.so.6!nanosleep",
];

/// curl 7.88: the program has no names, and the library's function is the one that it called to wait.
#[test]
fn regression_what_a_program_without_names_called_to_wait_is_named() {
    let perform =
        ["libcurl.so.4.8.0+0x2b1c3", "libcurl.so.4.8.0!curl_easy_perform", "curl+0x1bcc1"];
    assert_eq!(wait(&[&POLL, &perform]).2, "curl_easy_perform");
}

/// OpenJDK 17.0.15 of Debian 12.
#[test]
fn hotspot_names_its_locks() {
    let monitor = [
        "libjvm.so!os::PlatformEvent::park",
        "libjvm.so!ObjectMonitor::EnterI",
        "libjvm.so!ObjectMonitor::enter",
        "libjvm.so!ObjectSynchronizer::enter",
        "libjvm.so!InterpreterRuntime::monitorenter",
        "!Interpreter",
        "!Account.deposit",
    ];
    assert_eq!(lock(&[&FUTEX, &CONDITION, &monitor]), named("Java monitor", "Account.deposit"));
    let safepoint = [
        "libc.so.6!syscall",
        "libjvm.so!LinuxWaitBarrier::wait",
        "libjvm.so!SafepointSynchronize::block",
        "libjvm.so!SafepointMechanism::process",
        "libjvm.so!JavaThread::sleep",
    ];
    assert_eq!(lock(&[&FUTEX, &safepoint]).0, "safepoint of the JVM");
    let polls = [
        "libjvm.so!os::naked_short_sleep",
        "libjvm.so!SafepointSynchronize::synchronize_threads",
        "libjvm.so!SafepointSynchronize::begin",
        "libjvm.so!VMThread::run",
    ];
    assert_eq!(
        lock(&[&SLEEP, &polls]),
        named("Java thread that still ran", "SafepointSynchronize::begin")
    );
    let park =
        ["libjvm.so!Parker::park", "libjvm.so!Unsafe_Park", "!jdk.internal.misc.Unsafe.park"];
    let reentrant =
        ["!java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire", "!Hangs.beat"];
    assert_eq!(
        lock(&[&FUTEX, &CONDITION, &park, &reentrant]),
        named("lock of java.util.concurrent", "Hangs.beat")
    );
    let latch = [
        "!java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire",
        "!java.util.concurrent.CountDownLatch.await",
        "!Hangs.beat",
    ];
    assert_eq!(wait(&[&FUTEX, &CONDITION, &park, &latch]).0, WaitClass::Condition, "no lock");
    assert_eq!(wait(&[&FUTEX, &CONDITION, &park, &["!Interpreter"]]).0, WaitClass::Condition);
}

/// CPython 3.11.2 of Debian 12, whose binary has no name for `take_gil`.
#[test]
fn cpython_waits_for_its_interpreter_lock() {
    let gil = [
        "python3.11+0xf94ed",
        "python3.11!PyEval_RestoreThread",
        "python3.11+0x1d64bd",
        "python3.11!_PyEval_EvalFrameDefault",
    ];
    assert_eq!(lock(&[&FUTEX, &CONDITION, &gil]).0, "the interpreter lock GIL");
    let in_loop = ["python3.11+0xf94ed", "python3.11!_PyEval_EvalFrameDefault"];
    assert_eq!(lock(&[&FUTEX, &CONDITION, &in_loop]).0, "the interpreter lock GIL");
    let library = ["_queue.cpython-311-x86_64-linux-gnu.so+0x1234"];
    assert_eq!(wait(&[&FUTEX, &CONDITION, &library, &in_loop]).0, WaitClass::Condition);
}

/// The innermost frames of a function of a script, below what it called.
fn in_script<'a>(called: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let interpreter = ["python3.11!_PyEval_EvalFrameDefault", "python3.11!PyEval_EvalCode"];
    [called, &[script], &interpreter].concat()
}

/// CPython 3.11.2: whose function an answer names is the script's, however it waits.
#[test]
fn the_functions_of_scripts_are_the_programs() {
    let sleep = ["python3.11+0x1d64b3", "python3.11!PyObject_Vectorcall"];
    let keeps = in_script(&sleep, "srv/shop.py!Cart.save");
    assert_eq!(wait(&[&SLEEP, &keeps]).2, "Cart.save");
    let lock_of = ["libc.so.6!sem_clockwait", "python3.11!PyThread_acquire_lock_timed"];
    let saves = in_script(&lock_of, "srv/shop.py!Cart.save");
    assert_eq!(lock(&[&FUTEX, &saves]), named("lock of Python", "Cart.save"));
}

/// `multiprocessing` of CPython 3.11.2.
#[test]
fn processes_of_python_share_locks_and_queues() {
    let semaphore = [
        "libc.so.6!__new_sem_wait_slow64",
        "_multiprocessing.cpython-311-x86_64-linux-gnu.so+0x2e16",
    ];
    let with_lock =
        in_script(&semaphore, "lib/python3.11/multiprocessing/synchronize.py!SemLock.__enter__");
    let adds = in_script(&[], "srv/shop.py!Cart.add");
    assert_eq!(
        lock(&[&FUTEX, &with_lock, &adds]),
        named("lock of Python's multiprocessing", "Cart.add")
    );
    let acquires = in_script(&semaphore, "srv/shop.py!Cart.add");
    assert_eq!(lock(&[&FUTEX, &acquires]), named("lock of Python's multiprocessing", "Cart.add"));
    let gets = in_script(&semaphore, "lib/python3.11/multiprocessing/queues.py!Queue.get");
    assert_eq!(wait(&[&FUTEX, &gets]).0, WaitClass::Condition, "until somebody puts");
}

/// glibc 2.36, and Linux 6.1.
#[test]
fn a_semaphore_is_a_lock_or_a_message() {
    let posix = ["libc.so.6!__new_sem_wait_slow64.constprop.0", "shop!take_a_place"];
    let semaphore = |name: &str| (WaitClass::Condition, name.to_owned(), "take_a_place".to_owned());
    assert_eq!(wait(&[&FUTEX, &posix]), semaphore("POSIX semaphore"));
    let system = ["__schedule", "schedule", "__do_semtimedop", "do_semtimedop", ""];
    let own = ["libc.so.6!semop", "shop!take_a_place"];
    assert_eq!(wait(&[&system, &own]), semaphore("System V semaphore"));
}

/// flock of util-linux, and Go 1.26.
#[test]
fn a_lock_on_a_file_is_one_in_any_program() {
    let flock = ["__schedule", "schedule", "locks_lock_inode_wait", "__do_sys_flock", ""];
    assert_eq!(lock(&[&flock, &["libc.so.6!flock", "flock+0x2809"]]).0, "file lock");
    let go = [
        "shop!internal/runtime/syscall/linux.Syscall6",
        "shop!syscall.Syscall",
        "shop!syscall.Flock",
        "shop!main.exportCart",
        "shop!net/http.HandlerFunc.ServeHTTP",
        "shop!runtime.goexit.abi0",
    ];
    assert_eq!(lock(&[&flock, &go]), named("file lock", "main.exportCart"));
}

#[test]
fn libraries_that_call_the_futex_themselves_are_known() {
    let of = |frame: &'static str| lock(&[&FUTEX, &[frame, "app!save_document"]]);
    assert_eq!(
        of("libglib-2.0.so.0!g_mutex_lock_slowpath"),
        named("mutex of GLib", "save_document")
    );
    assert_eq!(
        of("libQt5Core.so.5!QBasicMutex::lockInternal"),
        named("mutex of Qt", "save_document")
    );
    // Qt 5.15.8, in PyQt 5.15: a slot of Python that wants a QMutex.
    let slot = [
        "libc.so.6!syscall",
        "libQt5Core.so.5.15.8!QBasicMutex::lockInternal",
        "QtCore.abi3.so+0x15c789",
        "python3.11+0x147bb7",
        "python3.11!_PyObject_MakeTpCall",
        "camera.py!show_picture",
        "python3.11!_PyEval_EvalFrameDefault",
    ];
    assert_eq!(lock(&[&FUTEX, &slot]), named("mutex of Qt", "show_picture"));
    assert_eq!(of("app!parking_lot::raw_mutex::RawMutex::lock_slow"), named("", "save_document"));
}

/// GLib 2.74.6 and GStreamer 1.22: a queue that is full.
#[test]
fn a_condition_of_glib_is_one() {
    let push = [
        "libc.so.6!syscall",
        "libglib-2.0.so.0.7400.6!g_cond_wait",
        "libgstcoreelements.so+0x465da",
        "libgstreamer-1.0.so.0.2200.0+0x89368",
        "libgstreamer-1.0.so.0.2200.0!gst_pad_push",
        "libglib-2.0.so.0.7400.6+0x7f639",
        "libc.so.6!start_thread",
    ];
    let (class, _, function) = wait(&[&FUTEX, &push]);
    assert_eq!((class, function.as_str()), (WaitClass::Condition, "gst_pad_push"));
}

/// glibc 2.36, called by libcurl 7.88 in a thread of its own: of the code without names, what it called.
#[test]
fn regression_what_a_library_without_names_called_is_named_and_not_the_kernels_function() {
    let resolve = [
        "libc.so.6!send_dg",
        "libc.so.6!__res_context_send",
        "libc.so.6!gaih_inet",
        "libc.so.6!getaddrinfo",
        "libcurl.so.4.8.0+0x1ed12",
        "libcurl.so.4.8.0+0x2265a",
        "libc.so.6!start_thread",
    ];
    assert_eq!(wait(&[&POLL, &resolve]).2, "getaddrinfo");
}

/// A program of one function, which its compiler inlined into `main`.
#[test]
fn regression_what_was_inlined_into_the_code_that_starts_a_program_is_named() {
    let mut scene = Scene::default();
    let stack = recorded(&mut scene, &[&FUTEX[..], &["libc.so.6!syscall", "ledger!main"]].concat());
    let [main, ..] = scene.trace.stacks.user_frames(stack)[1..] else { panic!("two frames") };
    let symbols = ["update_ledger", "main"].map(|name| {
        let function = scene.trace.strings.intern(name);
        Symbol { function, file: NameId::EMPTY, line: 0 }
    });
    scene.trace.symbols.set(main, &symbols);
    let trace = scene.finish(1, 1000);
    let analysis = Analysis::new(&trace, &Rules::default());
    assert_eq!(text::own_function(&analysis, stack), "update_ledger");
    assert!(text::stack_text(&analysis, stack).starts_with("update_ledger → "));
}

/// GTK 3.24, by Python: its loop without anything to do.
#[test]
fn the_loop_of_gtk_is_idle() {
    let main = [
        "libglib-2.0.so.0.7400.6+0x5491d",
        "libglib-2.0.so.0.7400.6!g_main_loop_run",
        "libgtk-3.so.0.2406.32!gtk_main",
        "libffi.so.8.1.2+0x6f79",
        "libffi.so.8.1.2!ffi_call",
        "_gi.cpython-311-x86_64-linux-gnu.so+0x27de5",
        "chooser.py!<module>",
        "python3.11!_PyEval_EvalFrameDefault",
    ];
    assert_eq!(wait(&[&POLL, &main]).0, WaitClass::Idle);
}

/// What an event handler waits for is its own, though the toolkit's loop called it.
#[test]
fn regression_a_loop_that_called_the_program_does_not_wait_for_it() {
    let handler = [
        "libc.so.6!clock_nanosleep",
        "app!Window::load_preview",
        "libQt5Core.so.5!QObject::event",
        "libQt5Core.so.5!QCoreApplication::exec",
        "app!main",
    ];
    assert_eq!(wait(&[&SLEEP, &handler]).2, "Window::load_preview");
}

#[test]
fn the_functions_of_a_runtime_are_not_the_programs() {
    let layers: [(&[&str], &str); 9] = [
        (
            &["", "node!v8::internal::RegExpImpl::Exec", "!validateEmail", "node!main"],
            "validateEmail",
        ),
        (&["", "node!node::Start"], "node::Start"),
        (&["", "shop!crypto/sha256.block", "shop!main.fill"], "main.fill"),
        (&["", "shop!core::str::count", "shop!shop::render_report"], "shop::render_report"),
        (&["", "libc.so.6!qsort_r", "xz!sort_blocks"], "sort_blocks"),
        (&["", "!java.util.HashMap.resize", "!io.shop.Cart.fill"], "io.shop.Cart.fill"),
        (&["", "game!core::physics::step", "game!std::thread::run"], "core::physics::step"),
        (
            &["", "libcrypto.so.3!sha512_block_data_order", "node!uv__work"],
            "sha512_block_data_order",
        ),
        (&["", "python3.11/lib-dynload/mmap.so!mmap_subscript", "!look_up"], "look_up"),
    ];
    for (stack, function) in layers {
        assert_eq!(wait(&[stack]).2, function, "{stack:?}");
    }
}

/// The program's function is told, and what of its runtime it called; the kernel's stays the kernel's.
#[test]
fn a_computation_is_told_by_the_programs_function_and_what_it_called() {
    let hot = |leaf: &[&str]| {
        let mut scene = Scene::default();
        let node = scene.thread(1, 1, "node");
        let root = ["!validateEmail", "node!v8::internal::Execution::Call", "node!main"];
        let stack = recorded(&mut scene, &[leaf, &root].concat());
        let poll = scene.stack(&["main", "|", "do_epoll_wait", "schedule"]);
        scene.switch(1_000, 0, ThreadId::IDLE, TaskState::Runnable, node, StackId::EMPTY);
        for ms in 0..400 {
            scene.sample(1_500 + ms * 1_000, 0, node, stack);
        }
        scene.switch(401_900, 0, node, TaskState::Sleeping, ThreadId::IDLE, poll);
        let trace = scene.finish(1, 500_000);
        let analysis = Analysis::new(&trace, &Rules::default());
        let window = Window::new(Time::from_nanos(1_000_000), Time::from_nanos(401_000_000));
        let query = Query { victims: vec![node], window: Some(window), ..Query::default() };
        let finding = unhitch_analysis::diagnose(&analysis, &query).swap_remove(0).finding;
        (finding.function, finding.cause.to_string())
    };
    let (function, cause) = hot(&["", "node!v8::internal::RegExpImpl::Exec"]);
    assert_eq!(function, "validateEmail");
    assert!(cause.contains("in validateEmail → … → v8::internal::RegExpImpl::Exec"), "{cause}");
    let (function, cause) = hot(&["smaps_pte_range", ""]);
    assert_eq!(function, "smaps_pte_range", "{cause}");
}

/// Perl 5.36 of Debian 12: `lock` of a shared variable waits on a condition, and so does `cond_wait`.
#[test]
fn perl_names_its_locks_of_shared_variables() {
    let wait_in = ["libc.so.6!pthread_cond_wait", "perl/5.36/auto/threads/shared/shared.so+0x2ac2"];
    let run = ["perl!Perl_runops_standard", "perl!perl_run", "perl!main"];
    let of_lock = [&FUTEX[..], &CONDITION[..3], &wait_in, &["perl!Perl_pp_lock"], &run];
    let (words, _) = lock(&of_lock);
    assert_eq!(words, "lock of a shared variable of Perl");
    let of_message = [&FUTEX[..], &CONDITION[..3], &wait_in, &["perl!Perl_pp_entersub"], &run];
    assert_eq!(wait(&of_message).0, WaitClass::Condition);
}

/// Its name is the program's own word for what it does with a lock.
#[test]
fn regression_a_function_of_a_script_is_named_whatever_it_is_called() {
    let sleep = ["hrtimer_nanosleep", "do_syscall_64", "", "libc.so.6!clock_nanosleep"];
    let script = ["python3.11+0x1", "srv/jobs.py!keep_lock", "srv/jobs.py!run"];
    let (_, _, function) = wait(&[&sleep, &script]);
    assert_eq!(function, "keep_lock");
}

/// Ruby's sort is the C library's, and Debian's Ruby has few names.
#[test]
fn regression_a_runtimes_function_is_named_before_the_c_librarys() {
    let mut scene = Scene::default();
    let thread = scene.thread(1, 1, "ruby");
    let frames = ["", "libc.so.6!msort", "libc.so.6!qsort_r", "libruby-3.1.so.3.1!rb_ary_sort"];
    let stack = recorded(&mut scene, &frames);
    scene.sample(10, 0, thread, stack);
    let trace = scene.finish(1, 1000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let window = Window::new(Time::ZERO, Time::MAX);
    let hot = unhitch_analysis::samples::sampled(&analysis, &[(thread, window)]).hot.unwrap();
    assert_eq!([hot.function, hot.callee].map(|name| trace.name(name)), ["rb_ary_sort", "msort"]);
}

/// Functions of other programs may have the same names as those of PostgreSQL, MariaDB and the JVM.
#[test]
fn a_function_of_another_program_is_no_lock_of_a_database() {
    for function in ["LWLockAcquire", "thr_lock", "lock_wait", "Mutex::lock", "handler::ha_open"] {
        let frame = format!("game!{function}");
        let (_, words, _) = wait(&[&FUTEX, &["libc.so.6!sem_wait", &frame, "game!main"]]);
        assert_eq!(words, "POSIX semaphore", "{function}");
    }
    let (_, words, _) = wait(&[&FUTEX, &["libc.so.6!sem_wait", "libjvm.so!Mutex::lock"]]);
    assert_eq!(words, "mutex of the JVM");
}
