//! seccomp: which system calls are allowed. `Documentation/userspace-api/seccomp_filter.rst`.
//!
//! A forbidden call fails with EPERM instead of killing the process: libraries try calls that they
//! can do without.

use crate::rights::Allowed;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// System calls, and the uses that a filter matches: all uses if there is no rule.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Calls for threads, memory, clocks and I/O on open descriptors.
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

/// Older variants of such calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const COMPUTING_HERE: &[c_long] = &[libc::SYS_dup2, libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const COMPUTING_HERE: &[c_long] = &[];

/// Calls that no command that reads traces needs: for other processes, the kernel, mounts,
/// namespaces and keys, and calls that bypass filters like this one.
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

/// Allows only the calls in [`COMPUTING`], and creating threads. Returns a warning if the kernel
/// cannot filter.
pub(crate) fn compute_only() -> Option<String> {
    warning(try_compute_only())
}

/// Forbids dangerous calls that are not in `allowed`. Returns a warning if the kernel cannot
/// filter.
pub(crate) fn confine(allowed: &Allowed) -> Option<String> {
    warning(try_confine(allowed))
}

fn warning(result: Result<(), Error>) -> Option<String> {
    let error = result.err()?;
    Some(format!("system calls cannot be restricted: {error}"))
}

fn try_compute_only() -> Result<(), Error> {
    let mut rules = all_uses_of(&[COMPUTING, COMPUTING_HERE]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, when(2, libc::PROT_EXEC as u64, 0)?);
    }
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, when(0, thread, thread)?);
    // Allow this for descriptors. (It also works for paths, but that reveals little to a process
    // that owns nothing and may open nothing.)
    let empty_path = libc::AT_EMPTY_PATH as u64;
    rules.insert(libc::SYS_statx, when(2, empty_path, empty_path)?);
    rules.insert(libc::SYS_newfstatat, when(3, empty_path, empty_path)?);
    rules.insert(libc::SYS_prctl, when(0, u64::MAX >> 32, libc::PR_SET_NAME as u64)?);
    // A process uses this to abort itself.
    rules.insert(libc::SYS_tgkill, when(0, u64::MAX >> 32, u64::from(std::process::id()))?);
    // The arguments of `clone3` are in memory, which a filter cannot read. If it fails with ENOSYS,
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

/// Forbids x32 calls. On x86-64, each call has a second number, for programs with short pointers
/// (`__X32_SYSCALL_BIT`), which a list of forbidden calls would not match.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt, k| seccompiler::sock_filter { code: code as u16, jt, jf: 0, k };
    vec![
        // The first word of `seccomp_data` is `nr`.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ]
}

fn all_uses_of(lists: &[&[c_long]]) -> Rules {
    lists.concat().into_iter().map(|call| (call, Vec::new())).collect()
}

/// Matches calls in which the bits of the argument in `mask` equal those of `value`.
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
