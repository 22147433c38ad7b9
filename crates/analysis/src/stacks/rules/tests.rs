//! Tests of the embedded rules: stacks of real systems, and what they are.

use super::*;

/// What the rules make of a stack, leaf first; what stands behind `""` are frames of the
/// program.
fn wait_by(rules: &Rules, frames: &[&str]) -> Wait {
    let kernel = frames.iter().position(|frame| frame.is_empty()).unwrap_or(frames.len());
    let patterns: Vec<Vec<u16>> = frames
        .iter()
        .filter(|frame| !frame.is_empty())
        .map(|frame| match frame.split_once(":").filter(|_| frame.contains(SCRIPT_END)) {
            Some((file, function)) => rules.patterns_of_script(file, function),
            None => rules.patterns_matching(frame),
        })
        .collect();
    let is_noise = |patterns: &&Vec<u16>| {
        rules.roles(patterns).iter().any(|role| matches!(role, FrameRole::Scheduler))
    };
    let noise = patterns.iter().take(kernel).take_while(is_noise).count();
    let mut matches = Matches::default();
    patterns.iter().for_each(|patterns| matches.add(patterns));
    let of_frame = |frame: usize| patterns.get(frame).map_or(&[][..], Vec::as_slice);
    rules.wait(WaitStack { matches: &matches, kernel, noise, patterns: of_frame })
}

fn wait(frames: &[&str]) -> Wait {
    static RULES: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(Rules::default);
    wait_by(&RULES, frames)
}

fn class(frames: &[&str]) -> (WaitClass, bool) {
    let wait = wait(frames);
    (wait.class, wait.pump)
}

#[test]
fn stacks_have_the_classes_an_engineer_would_give_them() {
    assert_eq!(class(&["schedule", "do_sys_poll", "__x64_sys_poll"]), (WaitClass::Idle, true));
    assert_eq!(
        class(&["futex_wait_queue", "futex_wait", "do_futex", "pthread_mutex_lock"]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        class(&["futex_wait", "do_futex", "std::sys::sync::mutex::futex::Mutex::lock_contended"]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        class(&["futex_wait", "do_futex", "pthread_cond_wait@@GLIBC_2.3.2"]),
        (WaitClass::Condition, false)
    );
    assert_eq!(class(&["futex_wait", "do_futex", "main"]), (WaitClass::Condition, false));
    // Recorded on 6.18: a file is made and written to on a frozen file system. Not recorded: writes to
    // files of the kernel's.
    let all = Rules::default();
    let words = |frames: &[&str]| wait_by(&all, frames).words.map(|at| &all.words[usize::from(at)]);
    let percpu = ["schedule", "percpu_rwsem_wait", "__percpu_down_read"];
    for writes in ["mnt_want_write", "vfs_write"] {
        let frames = [&percpu[..], &[writes, "do_syscall_64"]].concat();
        assert_eq!(words(&frames).unwrap(), "lock of a frozen file system");
    }
    for others in ["kernfs_fop_write_iter", "proc_sys_call_handler"] {
        let frames = [&percpu[..], &["cpus_read_lock", others, "vfs_write"]].concat();
        assert_eq!((class(&frames).0, words(&frames)), (WaitClass::Lock, None));
    }
    assert_eq!(
        class(&["rwsem_down_write_slowpath.isra.0", "down_write", "vm_mmap_pgoff"]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        class(&["io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault"]),
        (WaitClass::Memory, false)
    );
    assert_eq!(
        class(&["worker_thread", "kthread", "ret_from_fork"]),
        (WaitClass::KernelIdle, false)
    );
}

/// Wait places of the kernel: the class of the wait, whether it is unwanted, and the stack, leaf
/// first. Recorded on Linux 6.18 (`tests/wait_places.rs` records them again), or as 5.10 and 6.1
/// have them.
const WAIT_PLACES: &[(WaitClass, bool, &[&str])] = {
    use WaitClass::*;
    &[
        (Ipc, true, &["__schedule", "schedule", "anon_pipe_write", "vfs_write"]),
        (Ipc, true, &["__schedule", "schedule", "pipe_wait_writable", "pipe_write", "vfs_write"]),
        (Ipc, false, &["__schedule", "schedule", "anon_pipe_read", "vfs_read"]),
        (Ipc, false, &["__schedule", "schedule", "wait_for_partner", "fifo_open", "vfs_open"]),
        (
            Ipc,
            true,
            &["schedule_timeout", "sock_alloc_send_pskb", "unix_stream_sendmsg", "__sys_sendto"],
        ),
        (
            Ipc,
            true,
            &["schedule_timeout", "sock_alloc_send_pskb", "unix_dgram_sendmsg", "__sys_sendto"],
        ),
        (
            Ipc,
            true,
            &["schedule_timeout", "unix_wait_for_peer", "unix_stream_connect", "__sys_connect"],
        ),
        (
            Ipc,
            false,
            &[
                "schedule_timeout",
                "unix_stream_read_generic",
                "unix_stream_recvmsg",
                "sock_recvmsg",
            ],
        ),
        (
            Ipc,
            false,
            &[
                "schedule_timeout",
                "__skb_wait_for_more_packets",
                "skb_recv_datagram",
                "netlink_recvmsg",
            ],
        ),
        (
            Idle,
            false,
            &[
                "schedule_timeout",
                "__skb_wait_for_more_packets",
                "skb_recv_datagram",
                "unix_accept",
            ],
        ),
        (
            Idle,
            false,
            &["schedule_timeout", "inet_csk_accept", "inet_accept", "do_accept", "__sys_accept4"],
        ),
        (
            Network,
            true,
            &["schedule_timeout", "wait_woken", "__inet_stream_connect", "inet_stream_connect"],
        ),
        (
            Network,
            true,
            &["schedule_timeout", "wait_woken", "sk_stream_wait_memory", "tcp_sendmsg_locked"],
        ),
        (
            Network,
            false,
            &[
                "schedule_timeout",
                "wait_woken",
                "sk_wait_data",
                "tcp_recvmsg_locked",
                "tcp_recvmsg",
            ],
        ),
        (
            Network,
            false,
            &["schedule_timeout", "__skb_wait_for_more_packets", "__skb_recv_udp", "udp_recvmsg"],
        ),
        (Lock, true, &["__schedule", "schedule", "locks_lock_inode_wait", "__do_sys_flock"]),
        (Lock, true, &["__schedule", "schedule", "fcntl_setlk", "do_fcntl", "__x64_sys_fcntl"]),
        (Lock, true, &["schedule", "posix_lock_inode_wait", "do_lock_file_wait", "fcntl_setlk"]),
        (Condition, false, &["schedule_hrtimeout_range_clock", "__do_semtimedop", "do_semtimedop"]),
        (Ipc, false, &["__schedule", "schedule", "do_msgrcv", "do_syscall_64"]),
        (Ipc, true, &["__schedule", "schedule", "do_msgsnd", "do_syscall_64"]),
        (Ipc, true, &["schedule_hrtimeout_range_clock", "wq_sleep", "do_mq_timedsend"]),
        (
            Memory,
            true,
            &["__schedule", "schedule", "handle_userfault", "__handle_mm_fault", "exc_page_fault"],
        ),
        (Idle, false, &["__schedule", "schedule", "userfaultfd_read_iter", "vfs_read"]),
        (
            FileSystem,
            true,
            &["schedule", "request_wait_answer", "__fuse_simple_request", "fuse_lookup_name"],
        ),
        (
            Idle,
            false,
            &["schedule", "fuse_dev_do_read", "fuse_dev_read", "vfs_read", "", "fuse_session_loop"],
        ),
        (
            FileSystem,
            true,
            &["schedule", "rpc_wait_bit_killable", "__wait_on_bit", "nfs4_do_call_sync"],
        ),
        (
            FileSystem,
            true,
            &[
                "io_schedule",
                "folio_wait_bit_common",
                "filemap_get_pages",
                "filemap_read",
                "fuse_file_read_iter",
            ],
        ),
        (
            BlockIo,
            true,
            &[
                "io_schedule",
                "folio_wait_bit_common",
                "filemap_get_pages",
                "filemap_read",
                "",
                "fuse_session_loop",
            ],
        ),
        (
            Ipc,
            true,
            &[
                "schedule",
                "fanotify_handle_event",
                "fsnotify",
                "__fsnotify_parent",
                "do_dentry_open",
            ],
        ),
        (
            Memory,
            true,
            &[
                "schedule_timeout_killable",
                "__mem_cgroup_handle_over_high",
                "exit_to_user_mode_loop",
            ],
        ),
        (
            Memory,
            true,
            &[
                "schedule_timeout",
                "io_schedule_timeout",
                "balance_dirty_pages",
                "generic_perform_write",
                "ext4_file_write_iter",
            ],
        ),
        (
            KernelWork,
            false,
            &[
                "schedule_timeout",
                "__wait_for_common",
                "wait_for_completion",
                "__flush_work",
                "tty_buffer_flush_work",
            ],
        ),
        (
            KernelWork,
            false,
            &[
                "schedule_timeout",
                "wait_for_completion_state",
                "__wait_rcu_gp",
                "synchronize_rcu",
                "membarrier",
            ],
        ),
        (
            Process,
            false,
            &[
                "schedule_timeout",
                "__wait_for_common",
                "wait_for_completion_state",
                "kernel_clone",
                "__x64_sys_vfork",
            ],
        ),
        (
            Device,
            false,
            &[
                "schedule",
                "tell_host",
                "virtballoon_free_page_report",
                "page_reporting_process",
                "worker_thread",
                "kthread",
            ],
        ),
        (
            Device,
            false,
            &[
                "schedule_timeout",
                "dma_fence_default_wait",
                "dma_fence_wait_timeout",
                "drm_syncobj_array_wait_timeout",
            ],
        ),
        (KernelIdle, false, &["schedule", "worker_thread", "kthread", "ret_from_fork"]),
        (KernelIdle, false, &["schedule", "a_thread_of_some_module", "kthread", "ret_from_fork"]),
        (
            Timer,
            false,
            &["schedule_timeout", "schedule_timeout_uninterruptible", "msleep", "nothing_known"],
        ),
    ]
};

#[test]
fn regression_wait_places_have_their_classes() {
    for (class, unwanted, stack) in WAIT_PLACES {
        let found = wait(stack);
        assert_eq!((found.class, found.unwanted), (*class, *unwanted), "{stack:?}");
    }
}

#[test]
fn the_documented_wait_places_have_their_classes() {
    let docs = include_str!("../../../../../docs/wait-classes.md");
    let table = docs
        .split("<!-- wait places -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- end -->").next())
        .expect("the table");
    let mut documented = 0;
    for row in table.lines().filter(|row| row.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (class, places) =
            (cells[1].trim_start_matches('`').split('`').next().expect("a class"), cells[2]);
        for place in places.split('`').map(str::trim).filter(|place| !place.is_empty()) {
            let found = wait(&["__schedule", "schedule", place]);
            assert_eq!(found.class.name(), class, "{place}");
            assert_eq!(found.pump, cells[1].contains("pump"), "{place}: an event loop");
            assert!(!cells[1].contains("unwanted") || found.unwanted, "{place}: unwanted");
            documented += 1;
        }
    }
    assert!(documented > 100, "{documented} places");
}

#[test]
fn regression_the_innermost_place_decides() {
    use WaitClass::*;
    let below_ext4 = |inner: &[&str]| {
        class(
            &[
                inner,
                &["ext4_map_blocks", "ext4_da_write_begin", "ext4_file_write_iter", "vfs_write"],
            ]
            .concat(),
        )
        .0
    };
    assert_eq!(
        below_ext4(&["schedule_preempt_disabled", "rwsem_down_write_slowpath", "down_write"]),
        Lock
    );
    assert_eq!(
        below_ext4(&[
            "schedule_timeout",
            "reclaim_throttle",
            "shrink_node",
            "__alloc_pages_slowpath.constprop.0"
        ]),
        Memory
    );
    assert_eq!(below_ext4(&["io_schedule", "blk_mq_get_tag", "submit_bio_noacct"]), BlockIo);
    assert_eq!(
        below_ext4(&["io_schedule", "bit_wait_io", "__wait_on_bit", "ext4_read_bh"]),
        BlockIo
    );
    assert_eq!(below_ext4(&["schedule", "start_this_handle", "jbd2__journal_start"]), FileSystem);
    assert_eq!(below_ext4(&["schedule", "a_wait_nobody_knows"]), FileSystem);
    let fault = [
        "filemap_fault",
        "__do_fault",
        "handle_mm_fault",
        "exc_page_fault",
        "asm_exc_page_fault",
        "vfs_read",
    ];
    assert_eq!(
        class(
            &[&["io_schedule", "folio_wait_bit_common", "__folio_lock_or_retry"], &fault[..]]
                .concat()
        )
        .0,
        Memory
    );
    // A worker that works is not at rest, whatever its work waits for.
    assert_eq!(
        class(&[
            "schedule",
            "wb_wait_for_completion",
            "process_one_work",
            "worker_thread",
            "kthread"
        ])
        .0,
        FileSystem
    );
    // Names of the program mean nothing about the kernel.
    assert_eq!(
        class(&["schedule", "do_sys_poll", "", "fuse_loop", "tcp_server", "ext4_reader"]),
        (Idle, true)
    );
    assert_eq!(class(&["schedule", "a_wait_nobody_knows", "", "nfs_main", "msleep"]).0, Unknown);
}

/// A wait in user space: the kernel's frames of a futex wait, then the program's, leaf first.
fn futex_class(frames: &[&str]) -> (WaitClass, bool) {
    let futex = [
        "futex_do_wait",
        "__futex_wait",
        "futex_wait",
        "do_futex",
        "__x64_sys_futex",
        "do_syscall_64",
        "entry_SYSCALL_64_after_hwframe",
        "",
    ];
    class(&[&futex[..], frames].concat())
}

/// A wait on a condition variable of glibc, below the program's frames, leaf first.
fn condvar_class(frames: &[&str]) -> (WaitClass, bool) {
    let condvar = ["__futex_abstimed_wait_common", "pthread_cond_timedwait@@GLIBC_2.3.2"];
    futex_class(&[&condvar[..], frames].concat())
}

#[test]
fn waits_of_cpython_have_their_classes() {
    assert_eq!(
        condvar_class(&["take_gil", "PyEval_RestoreThread", "os_read", "_PyEval_EvalFrameDefault"]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        condvar_class(&["PyEval_RestoreThread.localalias", "time_sleep"]),
        (WaitClass::Lock, false)
    );
    let semaphore = [
        "__futex_abstimed_wait_common",
        "sem_clockwait@GLIBC_2.30",
        "PyThread_acquire_lock_timed",
        "lock_PyThread_acquire_lock",
    ];
    assert_eq!(
        futex_class(&semaphore),
        (WaitClass::Condition, false),
        "a Lock, a Queue, a Condition"
    );
    let in_script = |functions: &[&str]| futex_class(&[&semaphore[..], functions].concat()).0;
    let own = "/home/user/my program.py:save";
    assert_eq!(in_script(&[own]), WaitClass::Lock, "`with lock:`");
    assert_eq!(
        in_script(&["/usr/lib/python3.11/threading.py:Condition.wait", own]),
        WaitClass::Condition
    );
    assert_eq!(
        in_script(&["/usr/lib/python3.9/threading.py:_wait_for_tstate_lock", own]),
        WaitClass::Condition,
        "Thread.join"
    );
    assert_eq!(
        in_script(&["/usr/lib/python3.11/concurrent/futures/thread.py:_worker", own]),
        WaitClass::Condition,
        "a worker without work"
    );
    let futures = "/usr/lib/python3.11/concurrent/futures/thread.py";
    let (run, worker) = (format!("{futures}:_WorkItem.run"), format!("{futures}:_worker"));
    assert_eq!(in_script(&[own, &run, &worker]), WaitClass::Lock, "what it executes");
    assert_eq!(
        in_script(&["/usr/lib/python3.11/threading.py:Event.wait", own, &run, &worker]),
        WaitClass::Condition
    );
}

#[test]
fn waits_of_hotspot_have_their_classes() {
    assert_eq!(
        condvar_class(&[
            "ObjectMonitor::EnterI",
            "ObjectMonitor::enter",
            "ObjectSynchronizer::enter"
        ]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        condvar_class(&[
            "os::PlatformEvent::park",
            "ObjectMonitor::wait",
            "ObjectSynchronizer::wait",
            "JVM_MonitorWait"
        ]),
        (WaitClass::Ipc, false)
    );
    assert_eq!(
        condvar_class(&["ObjectMonitor::ReenterI", "ObjectMonitor::wait", "JVM_MonitorWait"]),
        (WaitClass::Lock, false)
    );
    assert_eq!(condvar_class(&["Parker::park", "Unsafe_Park"]), (WaitClass::Condition, false));
    assert_eq!(
        condvar_class(&["os::PlatformEvent::park", "JavaThread::sleep", "JVM_Sleep"]),
        (WaitClass::Timer, false),
        "Thread.sleep, recorded with HotSpot 17.0.15"
    );
    let park = [
        "Unsafe_Park",
        "jdk.internal.misc.Unsafe.park",
        "java.util.concurrent.locks.LockSupport.park",
    ];
    let locks = |last: &str| condvar_class(&[&park[..], &[last]].concat());
    assert_eq!(
        locks("void java.util.concurrent.locks.ReentrantLock.lock()"),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        locks("java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await"),
        (WaitClass::Ipc, false)
    );
}

/// As recorded with Go 1.26.
#[test]
fn waits_of_go_have_their_classes() {
    let rest = [
        "runtime.futex.abi0",
        "runtime.notesleep",
        "runtime.stopm",
        "runtime.findRunnable",
        "runtime.schedule",
        "runtime.park_m",
        "runtime.mcall",
    ];
    assert_eq!(futex_class(&rest), (WaitClass::Idle, false));
    assert_eq!(
        futex_class(&[
            "runtime.futex.abi0",
            "runtime.futexsleep",
            "runtime.lock2",
            "runtime.gcStart"
        ]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        futex_class(&[
            "runtime.futex.abi0",
            "runtime.notesleep",
            "runtime.stoplockedm",
            "runtime.schedule"
        ]),
        (WaitClass::Condition, false)
    );
    let netpoll = [
        "do_epoll_wait",
        "do_compat_epoll_pwait.part.0",
        "runtime.netpoll",
        "runtime.findRunnable",
        "runtime.schedule",
    ];
    assert_eq!(
        class(&netpoll),
        (WaitClass::Idle, false),
        "an idle thread polls the network, which makes it no event loop"
    );
    assert_eq!(
        class(&["do_nanosleep", "hrtimer_nanosleep", "runtime.usleep.abi0", "runtime.runqgrab"]),
        (WaitClass::Timer, false)
    );
}

#[test]
fn functions_that_hand_over_a_lock_are_known() {
    let rules = Rules::default();
    let unlocks = |name: &str| rules.roles(&rules.patterns_matching(name)) == [FrameRole::Unlock];
    for name in [
        "drop_gil",
        "PyEval_SaveThread",
        "_PyMutex_Unlock",
        "ObjectMonitor::exit",
        "ObjectMonitor::ExitEpilog",
        "InterpreterRuntime::monitorexit",
        "void java.util.concurrent.locks.ReentrantLock.unlock()",
        "internal/sync.(*Mutex).Unlock",
        "runtime.unlock2",
        "__lll_lock_wake_private",
    ] {
        assert!(unlocks(name), "{name}");
    }
    for name in [
        "pthread_cond_signal@@GLIBC_2.3.2",
        "PyThread_release_lock",
        "ObjectMonitor::notify",
        "runtime.notewakeup",
    ] {
        assert!(!unlocks(name), "{name}");
    }
    assert_eq!(class(&["nothing_known"]), (WaitClass::Unknown, false));
}

#[test]
fn stacks_of_windows_have_theirs() {
    // Without the scheduler's own functions, as stacks are read.
    assert_eq!(
        class(&["ExAcquirePushLockExclusiveEx", "MiCommitVadCfgBits", "VirtualAlloc"]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        class(&[
            "ExpWaitForResource",
            "ExAcquireResourceExclusiveLite",
            "NtfsAcquireVcb",
            "WriteFile"
        ]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        class(&[
            "NtWaitForAlertByThreadId",
            "RtlpWaitOnCriticalSection",
            "RtlEnterCriticalSection"
        ]),
        (WaitClass::Lock, false)
    );
    assert_eq!(
        class(&["NtWaitForAlertByThreadId", "RtlSleepConditionVariableSRW"]),
        (WaitClass::Condition, false)
    );
    assert_eq!(
        class(&["xxxRealSleepThread", "xxxSleepThread2", "NtUserGetMessage"]),
        (WaitClass::Idle, true)
    );
    assert_eq!(
        class(&["xxxRealSleepThread", "xxxInterSendMsgEx", "NtUserMessageCall"]),
        (WaitClass::Ipc, false)
    );
    assert_eq!(class(&["IoRemoveIoCompletion", "NtRemoveIoCompletion"]), (WaitClass::Idle, true));
    assert_eq!(
        class(&["ExpWorkerThread", "PspSystemThreadStartup"]),
        (WaitClass::KernelIdle, false)
    );
    assert_eq!(
        class(&["AlpcpSignalAndWait", "AlpcpReceiveSynchronousReply"]),
        (WaitClass::Ipc, false)
    );
    assert_eq!(
        class(&["MiWaitForInPageComplete", "MiIssueHardFault", "MmAccessFault", "KiPageFault"]),
        (WaitClass::Memory, false)
    );
    assert_eq!(class(&["NtfsWaitForIo", "NtfsCommonWrite"]), (WaitClass::FileSystem, false));
    assert_eq!(class(&["NtDelayExecution", "SleepEx"]), (WaitClass::Timer, false));
    assert_eq!(class(&["KiSchedulerApc", "KiDeliverApc"]), (WaitClass::Stopped, false));
    // A window procedure that was called from a message loop and waits for something else is no
    // message loop.
    assert_eq!(
        class(&["NtWaitForSingleObject", "KeUserModeCallback", "NtUserGetMessage"]),
        (WaitClass::Condition, false)
    );
}

#[test]
fn windows_reasons_classify_what_stacks_do_not() {
    let name = |number| unhitch_model::WaitReason::new(number, false).name();
    assert_eq!(
        [name(28), name(27), name(15), name(4)],
        ["WrPushLock", "WrResource", "WrQueue", "DelayExecution"]
    );
    assert_eq!(
        [28, 27, 15, 4, 6].map(WaitClass::of_reason),
        [
            WaitClass::Lock,
            WaitClass::Lock,
            WaitClass::KernelIdle,
            WaitClass::Timer,
            WaitClass::Unknown
        ]
    );
}

#[test]
fn regression_dots_of_a_language_are_part_of_the_name() {
    let rules = Rules::default();
    assert_eq!(rules.roles(&rules.patterns_matching("sync.(*Mutex).Unlock")), [FrameRole::Unlock]);
}

#[test]
fn a_users_rule_comes_first() {
    let rules =
        Rules::with_user_rules("[[wait]]\nclass = \"lock\"\nany = [\"my_lock\"]\n").expect("valid");
    assert_eq!(wait_by(&rules, &["do_sys_poll", "", "my_lock"]).class, WaitClass::Lock);
    assert!(Rules::with_user_rules("[[wait]]\nclass = \"nonsense\"\n").is_err());
}

#[test]
fn advice_is_for_the_words_of_a_rule_and_a_users_comes_first() {
    let embedded = Rules::default();
    for words in embedded.all_advice().keys() {
        assert!(embedded.all_words().contains(words), "{words}");
    }
    let (words, built_in) = embedded.all_advice().first_key_value().expect("advice");
    let text = format!("[advice]\n{words:?} = \"mine\"\n");
    let advice = Rules::with_user_rules(&text).expect("valid").all_advice()[words].clone();
    assert!(advice == "mine" && *built_in != advice, "{advice}");
}

#[test]
fn a_set_stands_for_its_names() {
    let text = "[sets]\nmine = [\"my_lock\"]\n[[wait]]\nclass = \"lock\"\nany = [\"@mine\"]\n";
    let rules = Rules::with_user_rules(text).expect("valid");
    assert_eq!(wait_by(&rules, &["do_sys_poll", "", "my_lock"]).class, WaitClass::Lock);
}

#[test]
fn an_error_repeats_nothing_of_the_file() {
    let texts = [
        "root:secret:19000:0:99999:7:::\n",
        "[[wait]]\nclass = \"secret\"\n",
        "secret = 1\n",
        "\"secret, expected more\" = 1\n",
        "[[wait]]\nclass = \"lock\"\nany = \"secret\"\n",
        "[[wait]]\nclass = \"lock\"\nsecret = 1\n",
        "[[wait]]\nclass = \"lock\"\nany = [\"@secret\"]\n",
        "[advice]\nsecret = \"\"\n",
        "[secret]\n[secret]\n",
        "secret\u{1}\n",
    ];
    for text in texts {
        let Err(error) = Rules::with_user_rules(text) else { panic!("{text}") };
        let error = error.to_string();
        assert!(
            !error.contains("secret") && error.contains("line ") && error.contains("column "),
            "{text}: {error}"
        );
        println!("{error}");
    }
    let error =
        Rules::with_user_rules("[[wait]]\nclass = \"lock\"\nany = 5\n").err().unwrap().to_string();
    assert_eq!(error, "wait rules: line 3, column 7: expected a sequence");
}

#[test]
fn a_worker_of_a_pool_without_tasks_is_idle_and_one_inside_a_task_is_not() {
    for worker in [
        "rayon_core::sleep::Sleep::sleep",
        "g_thread_pool_wait_for_new_task",
        "base::internal::WorkerThread::Delegate::WaitForWork",
        "java.util.concurrent.ThreadPoolExecutor.getTask",
    ] {
        let idle = ["futex_wait", "do_futex", "", "pthread_cond_wait", worker, "start_thread"];
        assert_eq!(class(&idle).0, WaitClass::Idle, "{worker}");
    }
    // As recorded with Node.js 20.20.
    let libuv =
        |function| ["futex_wait", "", "pthread_cond_wait", "uv_cond_wait", function, "clone3"];
    assert_eq!(class(&libuv("worker")).0, WaitClass::Idle);
    assert_eq!(class(&libuv("uv_barrier_wait")).0, WaitClass::Condition);
    let in_task = ["futex_wait", "do_futex", "", "pthread_cond_wait", "rayon_core::join", "main"];
    assert_eq!(class(&in_task).0, WaitClass::Condition);
    // As recorded with rayon-core 1.13: a task runs inside of the search for one.
    let in_worker = [
        "futex_wait",
        "",
        "parking_lot::raw_mutex::RawMutex::lock_slow",
        "thumbnails::save",
        "rayon_core::registry::WorkerThread::execute",
        "rayon_core::registry::WorkerThread::wait_until_out_of_work",
    ];
    assert_eq!(class(&in_worker).0, WaitClass::Lock);
}

#[test]
fn a_socket_with_a_timeout_is_waited_on_for_an_answer() {
    let poll = ["poll_schedule_timeout.constprop.0", "do_sys_poll", "__x64_sys_poll", "poll"];
    let class = |callers: &[&str]| class(&[&poll, callers].concat());
    // Recorded: CPython 3.11, and HotSpot 17.
    let of_python = ["sock_recv_into", "method_vectorcall_VARARGS_KEYWORDS"];
    let of_java = [
        "Java_sun_nio_ch_Net_poll",
        "sun.nio.ch.Net.poll",
        "sun.nio.ch.NioSocketImpl.park",
        "sun.nio.ch.NioSocketImpl.timedRead",
        "sun.nio.ch.NioSocketImpl.implRead",
        "java.net.Socket$SocketInputStream.read",
    ];
    assert_eq!(class(&of_python), (WaitClass::Network, false));
    assert_eq!(class(&of_java), (WaitClass::Network, false));
    let of_resolver = ["send_dg", "__res_context_send", "getaddrinfo"];
    assert_eq!(class(&of_resolver), (WaitClass::Network, false));
    // The next client is no answer.
    let accept = ["sun.nio.ch.NioSocketImpl.park", "sun.nio.ch.NioSocketImpl.accept"];
    assert_eq!(class(&accept), (WaitClass::Idle, true));
    assert_eq!(class(&["sock_accept"]), (WaitClass::Idle, true));
}
