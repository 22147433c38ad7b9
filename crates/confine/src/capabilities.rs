//! Capabilities and user ids of the calling thread: capabilities(7).

use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

/// User and group id that own nothing.
const NOBODY: u32 = 65534;

/// True if any capability is effective or permitted.
pub(crate) fn any() -> std::io::Result<bool> {
    let sets = thread::capabilities(None)?;
    Ok(!sets.effective.is_empty() || !sets.permitted.is_empty())
}

/// Empties the bounding set, which limits what an executed program can get. This needs a
/// capability; if it is missing, `no_new_privs` makes the set irrelevant.
pub(crate) fn empty_bounding_set() -> Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match thread::remove_capability_from_bounding_set(capability) {
            // The kernel has no more capabilities.
            Err(Errno::INVAL) => break,
            Err(Errno::PERM) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Empties all sets.
pub(crate) fn empty() -> Result<()> {
    empty_bounding_set()?;
    match thread::clear_ambient_capability_set() {
        // Before Linux 4.3 there is no such set.
        Err(Errno::INVAL) | Ok(()) => {}
        Err(error) => return Err(error),
    }
    let none = CapabilitySet::empty();
    thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// Turns root into a user that owns nothing; does not change other users.
pub(crate) fn become_nobody() -> Result<()> {
    if !is_root() {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    thread::set_thread_groups(&[])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid)
}

/// True if the process runs as root: even without capabilities, it owns root's files.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
