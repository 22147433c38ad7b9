//! What a tool of the lab is.

use crate::args::LabArgs;
use crate::done::Done;

/// A tool: unlike a lab program it does not hang, so there is nothing to record and it needs no
/// privilege.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) run: fn(&LabArgs) -> anyhow::Result<Done>,
}
