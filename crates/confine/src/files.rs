//! Landlock: which files may be opened, and which ports used.
//! `Documentation/userspace-api/landlock.rst`.
//!
//! Landlock applies to the file that a path finally leads to, and also to root. Open descriptors
//! stay usable.

use crate::rights::Allowed;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// Linux 6.12: files, ports, signals and abstract sockets. Older kernels restrict what they
/// support.
const KNOWN: ABI = ABI::V6;

/// Forbids everything except `allowed`. Returns a warning if the kernel cannot do that.
pub(crate) fn restrict(allowed: &Allowed) -> Option<String> {
    match try_restrict(allowed) {
        Ok(RulesetStatus::NotEnforced) => {
            Some("this kernel has no Landlock, so file access is not restricted".to_owned())
        }
        Ok(_) => None,
        Err(error) => Some(format!("file access cannot be restricted: {error}")),
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

/// Only regular files and folders. A folder must be opened for reading to sync it.
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
