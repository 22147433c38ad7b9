//! Landlock: which files may be opened, which ports used.
//! `Documentation/userspace-api/landlock.rst`.
//!
//! Landlock holds for the files that a path leads to in the end, and for root as for everybody.
//! Descriptors that are open stay usable.

use crate::Allowed;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// Linux 6.12: files, ports, signals and abstract sockets. Older kernels restrict what they know of
/// it.
const KNOWN: ABI = ABI::V6;

/// Forbids all but `allowed`; says so where the kernel cannot.
pub(crate) fn restrict(allowed: &Allowed) -> Option<String> {
    match try_restrict(allowed) {
        Ok(RulesetStatus::NotEnforced) => {
            Some("this kernel has no Landlock: which files are opened is not restricted".to_owned())
        }
        Ok(_) => None,
        Err(error) => Some(format!("which files are opened cannot be restricted: {error}")),
    }
}

fn try_restrict(allowed: &Allowed) -> Result<RulesetStatus, RulesetError> {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?;
    let restricted = restricted_ports(allowed);
    let rules = if restricted.is_empty() { rules } else { rules.handle_access(restricted)? };
    let rules = rules
        .create()?
        .add_rules(path_beneath_rules(&allowed.read, reading(allowed.run)))?
        .add_rules(path_beneath_rules(&allowed.write, writing()))?;
    Ok(rules.restrict_self()?.ruleset)
}

fn reading(run: bool) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    if run { read | AccessFs::Execute } else { read }
}

/// Regular files and folders only. A folder is opened for reading to be synced.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::Refer
}

fn restricted_ports(allowed: &Allowed) -> BitFlags<AccessNet> {
    let mut ports = AccessNet::from_all(KNOWN);
    ports.set(AccessNet::BindTcp, !allowed.listen);
    ports.set(AccessNet::ConnectTcp, !allowed.run);
    ports
}
