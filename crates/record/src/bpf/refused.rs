//! Why BPF cannot record here: checks what is known to be needed, and shortens what the kernel says.
//!
//! The needs are those of `Documentation/bpf/btf.rst` (type information) and capabilities(7).

use crate::error::Error;
use crate::permission;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;

/// The kernel's type information.
pub(super) const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Bits of `CapEff` in `/proc/PID/status`.
const CAPABILITIES: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
const SYS_ADMIN: u32 = 21;
/// The first version of Linux that has what the programs call (`bpf_task_pt_regs`).
const MIN_VERSION: [u32; 2] = [5, 15];
/// Maximum length of what is quoted from the kernel, in characters.
const MAX_QUOTED: usize = 200;

/// Checks what the programs need from the kernel and from this process. Without this, the kernel
/// would only answer EPERM or ENOENT.
pub(super) fn check() -> Result<(), Error> {
    let lockdown = permission::lockdown();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    check_that(&lockdown, &status, Path::new(BTF).exists())
}

fn check_that(lockdown: &str, status: &str, has_btf: bool) -> Result<(), Error> {
    let refused =
        |what: String, remedy: &str| Err(Error::NotPermitted { what, remedy: remedy.to_owned() });
    if lockdown.contains(permission::CONFIDENTIALITY) {
        return refused(
            "the kernel is locked down (confidentiality).".to_owned(),
            "Boot with lockdown=integrity, or without Secure Boot's lockdown.",
        );
    }
    let missing = missing_capabilities(status);
    if !missing.is_empty() {
        return refused(
            format!("this process does not have {}.", missing.join(" and ")),
            "Run it with sudo, or give the program cap_bpf and cap_perfmon with setcap \
             (docs/privacy.md says what that opens to whom).",
        );
    }
    if !has_btf {
        return Err(Error::Missing {
            what: format!("the kernel has no type information ({BTF} is missing)."),
            remedy: "Boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as most distributions' are."
                .to_owned(),
        });
    }
    Ok(())
}

/// Of a kernel that is too old the verifier's reason says little: the version says more.
pub(super) fn by_version(error: Error) -> Error {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !is_old(&release) {
        return error;
    }
    Error::Missing {
        what: format!("the kernel is Linux {}, too old for these programs.", release.trim()),
        remedy: format!("Boot Linux {}.{} or newer.", MIN_VERSION[0], MIN_VERSION[1]),
    }
}

/// Why watching failed, on one line.
pub(super) fn reason_of(error: impl Display) -> String {
    match by_version(failed_with("watch waits", reason_in(&error.to_string()))) {
        Error::System { source, .. } => source.to_string(),
        old => old.to_string().replace('\n', " "),
    }
}

/// Whether a release such as `5.10.0-32-amd64` is older than [`MIN_VERSION`].
fn is_old(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return false };
    [major, minor] < MIN_VERSION
}

/// The capabilities that are missing, by the text of `/proc/self/status`; none if it does not say.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) else {
        return Vec::new();
    };
    let has = |bit: u32| effective & 1 << bit != 0;
    let missing = CAPABILITIES.iter().filter(|(bit, _)| !has(*bit) && !has(SYS_ADMIN));
    missing.map(|(_, name)| *name).collect()
}

/// Makes an error of the loader ours: on one line, with the verifier's reason instead of its log.
pub(super) fn failed<E: std::error::Error>(action: &'static str) -> impl Fn(E) -> Error {
    move |error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
        let mut texts: Vec<String> = causes.map(|cause| reason_in(&cause.to_string())).collect();
        // Many errors quote their source.
        texts.dedup_by(|cause, text| text.contains(cause.as_str()));
        failed_with(action, texts.join(": "))
    }
}

/// The error that `action` failed for the given reason.
pub(super) fn failed_with(action: &'static str, reason: impl Display) -> Error {
    Error::System { action, source: io::Error::other(reason.to_string()) }
}

/// How the lines of a verifier's statistics begin. They end its log.
const STATISTICS: [&str; 3] = ["processed ", "verification time ", "stack depth "];

/// The first line; of a verifier's log, the line before its statistics, which says why.
fn reason_in(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.first().copied().unwrap_or_default();
    let verdict = lines
        .iter()
        .position(|line| STATISTICS.iter().any(|begin| line.starts_with(begin)))
        .and_then(|at| at.checked_sub(1))
        .filter(|&at| at > 0);
    let reason = match verdict.and_then(|at| lines.get(at)) {
        Some(verdict) => format!("the kernel's verifier says: {verdict}"),
        None => first.to_owned(),
    };
    reason.chars().take(MAX_QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "Name:\tunhitch\nCapEff:\t000001ffffffffff\n";
    const NONE: &str = "CapEff:\t0000000000000000\n";
    const PERFMON: &str = "CapEff:\t0000004000000000\n";
    const ADMIN: &str = "CapEff:\t0000000000200000\n";

    fn refusal(lockdown: &str, status: &str, has_btf: bool) -> String {
        check_that(lockdown, status, has_btf).unwrap_err().to_string()
    }

    #[test]
    fn each_thing_that_is_missing_is_named() {
        let open = "[none] integrity confidentiality\n";
        assert!(check_that(open, ROOT, true).is_ok());
        assert!(check_that("", ADMIN, true).is_ok());
        assert!(check_that("", "", true).is_ok());
        assert!(refusal(open, NONE, true).contains("CAP_PERFMON and CAP_BPF"));
        assert!(refusal(open, PERFMON, true).contains("does not have CAP_BPF."));
        assert!(refusal(open, ROOT, false).contains("CONFIG_DEBUG_INFO_BTF"));
        let locked = "none integrity [confidentiality]\n";
        assert!(refusal(locked, ROOT, true).contains("lockdown=integrity"));
    }

    #[test]
    fn an_old_kernel_is_known_by_its_version() {
        for old in ["5.10.0-32-cloud-amd64\n", "5.14.21", "4.19"] {
            assert!(is_old(old), "{old}");
        }
        for new in ["5.15.0", "6.1.0-56-amd64", "6.18.44-fc-v669\n", "7.3.4+deb13", "", "x"] {
            assert!(!is_old(new), "{new}");
        }
    }

    #[test]
    fn of_a_verifiers_log_the_reason_is_quoted() {
        let log = "the BPF_PROG_LOAD syscall returned Permission denied (os error 13). Verifier \
                   output: 0: (79) r6 = *(u64 *)(r1 +24)\nfunc 'sched_switch' doesn't have 4-th \
                   argument\nverification time 40 usec\nstack depth 0\nprocessed 1 insns (limit 1000000)\n";
        let reason = "the kernel's verifier says: func 'sched_switch' doesn't have 4-th argument";
        assert_eq!(reason_in(log), reason);
        assert_eq!(reason_in("one\ntwo"), "one");
        assert_eq!(reason_in(""), "");
        assert_eq!(reason_in(&"x".repeat(5000)).len(), MAX_QUOTED);
    }
}
