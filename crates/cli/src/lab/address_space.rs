//! `unhitch lab address-space`: an address space filled on purpose, for `unhitch scan` to look at.

use super::tool::Tool;
use crate::args::LabArgs;
use crate::done::Done;
use std::time::Duration;
use unhitch_lab::{AddressSpace, Layout};

pub(super) const TOOL: Tool = Tool {
    name: "address-space",
    summary: "fills an address space on purpose, for `unhitch scan` to look at",
    run,
};

/// Fills the address space of this process.
fn run(args: &LabArgs) -> anyhow::Result<Done> {
    let own = &args.address_space;
    let plan = AddressSpace {
        layout: if own.bitmap { Layout::Bitmap } else { own.layout.unwrap_or(Layout::FewBig) },
        blocks: own.blocks,
        period: own.period.unwrap_or(Duration::from_millis(500)),
        limit: own.limit.unwrap_or(Duration::from_millis(1)),
        run: Duration::try_from_secs_f64(args.seconds).unwrap_or(Duration::MAX),
    };
    plan.run()?;
    Ok(Done::Yes)
}
