//! seccomp: which system calls are answered. `Documentation/userspace-api/seccomp_filter.rst`.
//!
//! A forbidden call fails with EPERM rather than ending the process: libraries try what they can do
//! without.

use crate::Allowed;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// A call, and of which of its uses the filter speaks: of all where there is no rule.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// What threads, memory, clocks and transfers through open descriptors need.
const COMPUTING: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_capget,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The older names of such calls, which only this processor has.
#[cfg(target_arch = "x86_64")]
const COMPUTING_HERE: &[c_long] = &[libc::SYS_dup2, libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const COMPUTING_HERE: &[c_long] = &[];

/// What no command that answers has a use for: other processes, the kernel, mounts, namespaces,
/// keys, and calls that take a way around filters like this one.
const NEVER: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

const NETWORK: &[c_long] = &[libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen];
const RUNNING: &[c_long] = &[libc::SYS_execve, libc::SYS_execveat];

/// Answers what [`COMPUTING`] lists, and threads; says so where the kernel cannot filter.
pub(crate) fn compute_only() -> Option<String> {
    told(try_compute_only())
}

/// Refuses what is dangerous and not allowed; says so where the kernel cannot filter.
pub(crate) fn confine(allowed: &Allowed) -> Option<String> {
    told(try_confine(allowed))
}

fn told(result: Result<(), Error>) -> Option<String> {
    let error = result.err()?;
    Some(format!("which system calls are answered cannot be restricted: {error}"))
}

fn try_compute_only() -> Result<(), Error> {
    let mut rules = all_uses_of(&[COMPUTING, COMPUTING_HERE]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, when(2, libc::PROT_EXEC as u64, 0)?);
    }
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, when(0, thread, thread)?);
    // Of a descriptor. (Of a path too, but to whom owns nothing, and who may open nothing, that
    // tells little.)
    let empty_path = libc::AT_EMPTY_PATH as u64;
    rules.insert(libc::SYS_statx, when(2, empty_path, empty_path)?);
    rules.insert(libc::SYS_newfstatat, when(3, empty_path, empty_path)?);
    rules.insert(libc::SYS_prctl, when(0, u64::MAX >> 32, libc::PR_SET_NAME as u64)?);
    // How a process ends itself when it finds that it is broken.
    rules.insert(libc::SYS_tgkill, when(0, u64::MAX >> 32, u64::from(std::process::id()))?);
    // What `clone3` makes lies in memory, where a filter does not look. Told that there is none,
    // the C library uses `clone`.
    rules.insert(libc::SYS_clone3, Vec::new());
    let no_clone3 = filter(
        all_uses_of(&[&[libc::SYS_clone3]]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
    )?;
    let only = filter(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?;
    apply_filter(&no_clone3)?;
    apply_filter(&only)
}

fn try_confine(allowed: &Allowed) -> Result<(), Error> {
    let network: &[c_long] = if allowed.listen || allowed.run { &[] } else { NETWORK };
    let running: &[c_long] = if allowed.run { &[] } else { RUNNING };
    let but = filter(
        all_uses_of(&[NEVER, network, running]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
    )?;
    #[cfg(target_arch = "x86_64")]
    apply_filter(&no_x32())?;
    apply_filter(&but)
}

/// On x86-64 each call has a second number, for programs with short pointers (`__X32_SYSCALL_BIT`),
/// which a list of forbidden calls would let pass.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt, k| seccompiler::sock_filter { code: code as u16, jt, jf: 0, k };
    vec![
        // `seccomp_data.nr` is its first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ]
}

fn all_uses_of(lists: &[&[c_long]]) -> Rules {
    lists.concat().into_iter().map(|call| (call, Vec::new())).collect()
}

/// The uses of a call in which the argument's bits in `mask` are those of `value`.
fn when(argument: u8, mask: u64, value: u64) -> Result<Vec<SeccompRule>, BackendError> {
    let condition = SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(mask),
        value,
    )?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}

fn filter(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, otherwise, matched, TargetArch::try_from(std::env::consts::ARCH)?)?
        .try_into()
}
