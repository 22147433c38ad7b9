//! Finds out what prevents recording, and which command fixes it.
//!
//! The rules are those of `Documentation/admin-guide/perf-security.rst`, `sysctl/kernel.rst`
//! (`perf_event_paranoid`, `perf_event_mlock_kb`) and kernel_lockdown(7). An errno alone does
//! not help: EACCES from `perf_event_open` has three causes and three remedies.

use crate::error::Error;
use crate::{procfs, sys};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where tracefs is mounted: now, and before Linux 4.1.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The level of lockdown that forbids tracing, as [`lockdown`] shows it.
pub(crate) const CONFIDENTIALITY: &str = "[confidentiality]";
/// The capabilities that recording needs without root; `cap_bpf` only for BPF.
/// `cap_dac_read_search` and `cap_sys_ptrace` allow reading everybody's files and memory, and
/// `cap_bpf` with `cap_perfmon` the kernel's: only a trusted group may run a binary that has them.
const CAPABILITIES: &str =
    "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_ipc_lock";

/// The tracefs folder. If it is missing and we are root, mounts it and adds that to `warnings`.
pub(crate) fn tracefs(warnings: &mut Vec<String>) -> Result<PathBuf, Error> {
    for directory in TRACEFS {
        match fs::metadata(Path::new(directory).join("events/sched")) {
            Ok(_) => return readable(PathBuf::from(directory)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(not_permitted(&format!("{directory} cannot be read")));
            }
            Err(_) => {}
        }
    }
    let directory = Path::new(TRACEFS[0]);
    let mount = format!("mount -t tracefs nodev {}", directory.display());
    if sys::effective_uid() == 0
        && sys::mount_tracefs(directory).is_ok()
        && directory.join("events/sched").exists()
    {
        warnings.push(format!("tracefs was not mounted; the recorder mounted it: {mount}"));
        return Ok(directory.to_owned());
    }
    // Under lockdown, tracefs is there, but empty.
    if lockdown().contains(CONFIDENTIALITY) {
        return Err(not_permitted(&format!("{} is empty", directory.display())));
    }
    Err(Error::Missing {
        what: "tracefs, which describes the kernel's events, is not mounted.".to_owned(),
        remedy: format!(
            "Mount it:  sudo {mount}\n(If that fails, the kernel lacks CONFIG_FTRACE.)"
        ),
    })
}

/// Checks that files can be read: a tracefs whose folders can be listed may still have unreadable
/// files.
fn readable(tracefs: PathBuf) -> Result<PathBuf, Error> {
    match fs::read(tracefs.join("events/sched/sched_switch/id")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(not_permitted(&format!("{} cannot be read", tracefs.display())))
        }
        _ => Ok(tracefs),
    }
}

/// The error when the kernel refused `what`, with the remedy.
pub(crate) fn not_permitted(what: &str) -> Error {
    Error::NotPermitted {
        what: format!("Recording is not permitted: {what}."),
        remedy: remedy(&lockdown(), sys::effective_uid()),
    }
}

/// How far the kernel is locked down: all levels, that one in brackets.
pub(crate) fn lockdown() -> String {
    fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default()
}

fn remedy(lockdown: &str, uid: u32) -> String {
    if lockdown.contains(CONFIDENTIALITY) {
        return "The kernel is locked down (confidentiality), which forbids tracing even for root.\n\
            Boot with lockdown=integrity, or without Secure Boot's lockdown."
            .to_owned();
    }
    if uid == 0 {
        return "Running as root, but without the required capabilities (in a container?).\n\
            Give the container CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYSLOG and CAP_IPC_LOCK (and CAP_BPF, to record by BPF), the host's pid namespace, and tracefs;\n\
            a seccomp profile must allow perf_event_open."
            .to_owned();
    }
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("unhitch"));
    let paranoid = procfs::number("/proc/sys/kernel/perf_event_paranoid")
        .map_or("unknown".to_owned(), |level| level.to_string());
    format!(
        "Run it with sudo: then only root can read the trace (--group GROUP lets a group read it, too).\n\
         Or allow a group to record. Its members can then see the command lines, file names and memory addresses of all users:\n  \
         sudo groupadd -f unhitch && sudo chown root:unhitch {program} && sudo chmod 0750 {program}\n  \
         sudo setcap {CAPABILITIES}+ep {program}\n  \
         sudo usermod -aG unhitch $USER    (takes effect at the next login)\n\
         Or, only on your own machine, open the kernel's events to everybody. Every user can then see what all others run:\n  \
         sudo sysctl kernel.perf_event_paranoid=-1 && sudo mount -o remount,mode=755 /sys/kernel/tracing   (now {paranoid})",
        program = program.display()
    )
}

/// Why the kernel refuses to pin a ring of `bytes` per CPU, and how to change that.
pub(crate) fn memory_limit(bytes: usize, cpus: usize) -> String {
    let per_cpu_kib = procfs::number("/proc/sys/kernel/perf_event_mlock_kb").unwrap_or(516);
    let wanted_kib = bytes / 1024 + 4;
    format!(
        "the kernel does not let this user pin a ring buffer of {wanted_kib} KiB on each of {cpus} \
         CPUs (the limits are kernel.perf_event_mlock_kb, {per_cpu_kib} KiB per CPU, plus `ulimit \
         -l` in total); to raise them:  sudo sysctl kernel.perf_event_mlock_kb={}  (for every \
         user), or give the program cap_ipc_lock with setcap",
        wanted_kib + 512
    )
}

/// True when the error means that we lack the permission, rather than that the kernel cannot do it.
pub(crate) fn is_permission(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_remedy() {
        assert!(remedy("none integrity [confidentiality]\n", 1000).contains("lockdown=integrity"));
        assert!(remedy("[none] integrity confidentiality\n", 0).contains("CAP_PERFMON"));
        let user = remedy("", 1000);
        let program = std::env::current_exe().unwrap();
        assert!(user.contains(&format!("chmod 0750 {}", program.display())), "{user}");
        assert!(user.contains(&format!("cap_ipc_lock+ep {}", program.display())), "{user}");
        assert!(user.contains("setcap cap_bpf,cap_perfmon,"), "{user}");
        assert!(
            user.contains("kernel.perf_event_paranoid=-1")
                && user.contains("only on your own machine"),
            "{user}"
        );
    }

    #[test]
    fn the_memory_limit_names_a_size_that_fits() {
        let text = memory_limit(16 << 20, 2);
        assert!(text.contains("16388 KiB") && text.contains("perf_event_mlock_kb=16900"), "{text}");
    }
}
