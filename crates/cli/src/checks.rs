//! `--fail-on`: judges the stalls of a recording for a machine.

mod github;
mod junit;
mod outcome;

use crate::args::CheckArgs;
use crate::terminal::print;
use anyhow::{Context, bail};
use outcome::Checked;
use unhitch_analysis::conditions::breach;
use unhitch_analysis::stalls::descendants;
use unhitch_analysis::{Analysis, Stall};
use unhitch_formats::{Existing, NewFile, Readers};
use unhitch_model::{Recorded, visible_path};

/// Judges `stalls`, those of process `pid` and of what it started if given. Prints the outcome, and
/// returns true if a condition holds.
pub fn check(
    args: &CheckArgs,
    analysis: &Analysis<'_>,
    stalls: &[Stall],
    pid: Option<u32>,
    answer: &str,
) -> anyhow::Result<bool> {
    if !analysis.trace.has(Recorded::Switches) {
        bail!("no context switches were recorded, so no condition can be checked");
    }
    let family = pid.map(|pid| descendants(analysis.trace, pid));
    let is_ours = |stall: &&Stall| {
        family.as_ref().is_none_or(|family| {
            let process = |thread| analysis.trace.threads.get(thread).process;
            stall.victims.iter().any(|victim| family.contains(&process(*victim)))
        })
    };
    let ours: Vec<&Stall> = stalls.iter().filter(is_ours).collect();
    let checked: Vec<Checked> = args
        .fail_on
        .iter()
        .map(|condition| {
            let broken = ours.iter().filter(|stall| condition.holds(analysis, stall));
            let breaches = broken.map(|stall| breach(analysis, stall)).collect();
            Checked { condition: condition.to_string(), breaches }
        })
        .collect();
    for Checked { condition, breaches } in &checked {
        match breaches.as_slice() {
            [] => print(&format!("PASSED  {condition}: no stall\n"))?,
            [first, rest @ ..] => {
                let more = match rest.len() {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                print(&format!("FAILED  {condition}: {first}{more}\n"))?;
            }
        }
    }
    if args.github {
        print(&github::annotations(&checked))?;
    }
    if let Some(path) = &args.junit {
        let mut file = NewFile::create(path, Readers::Owner, Existing::Replaced)?;
        junit::write(&mut file, &checked, answer).with_context(|| visible_path(path))?;
        file.publish()?;
    }
    Ok(checked.iter().any(|checked| !checked.breaches.is_empty()))
}
