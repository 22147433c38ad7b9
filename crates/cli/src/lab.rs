//! `unhitch lab`: programs that hang on purpose, recorded and explained in one go; and tools that
//! measure locks and fill address spaces.

mod address_space;
mod fairness;
mod tool;

use crate::args::{LabArgs, wrong_usage};
use crate::done::Done;
use crate::names::namer;
use crate::record::{report_saved, target};
use crate::terminal::{note, print};
use crate::{signals, why};
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tool::Tool;
use unhitch_lab::{Outcome, PROGRAMS, Program, program};
use unhitch_model::visible_path;
use unhitch_record::{Extras, Namer, Options, Recorder, fallback_folders};

const TOOLS: &[Tool] = &[address_space::TOOL, fairness::TOOL];

/// Runs a program or a tool, or records and explains a program; without a name, lists all.
pub fn lab(args: &LabArgs) -> anyhow::Result<Done> {
    let Some(name) = &args.name else {
        let programs = PROGRAMS.iter().map(|program| (program.name, program.summary));
        let lines = programs.chain(TOOLS.iter().map(|tool| (tool.name, tool.summary)));
        return print(
            &lines.map(|(name, summary)| format!("{name:<13} {summary}\n")).collect::<String>(),
        )
        .map(|()| Done::Yes);
    };
    if let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) {
        if args.record {
            misused(format!("{name} does not hang: there is nothing to record"));
        }
        return (tool.run)(args);
    }
    if args.quick || args.markdown || args.svg.is_some() {
        misused("--quick, --markdown and --svg only work with `lab fairness`".to_owned());
    }
    if args.address_space.any() {
        misused(
            "--layout, --bitmap, --blocks, --period and --limit only work with `lab address-space`"
                .to_owned(),
        );
    }
    let Some(program) = program(name) else {
        bail!(
            "no lab program is called {name:?}; choose from {}",
            PROGRAMS
                .iter()
                .map(|p| p.name)
                .chain(TOOLS.iter().map(|m| m.name))
                .collect::<Vec<_>>()
                .join(", ")
        );
    };
    if (args.search.is_some() || args.resume) && program.name != "long-hold" {
        misused("--search and --resume only work with `lab long-hold`".to_owned());
    }
    match args.record {
        true => record(program, args),
        false => run(program, args),
    }
}

fn misused(what: String) -> ! {
    wrong_usage("lab", &std::io::Error::other(what))
}

/// Runs the program in this process.
fn run(program: &Program, args: &LabArgs) -> anyhow::Result<Done> {
    let outcome = (program.run)(&args.options())?;
    if let Some(path) = &args.outcome {
        std::fs::write(path, serde_json::to_vec(&outcome)?).with_context(|| visible_path(path))?;
    }
    Ok(report(&outcome))
}

/// Runs the program in a process of its own, records it and explains the hang.
fn record(program: &Program, args: &LabArgs) -> anyhow::Result<Done> {
    let stop = signals::stop()?;
    let outcome_file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let mut options = Options::default();
    options.engine = args.engine.into();
    let mut recorder = Recorder::start_with(&options, namer().rule_reader())?;
    let child = Command::new(std::env::current_exe()?)
        .args(args.for_child(program.name, outcome_file.path()))
        .process_group(0)
        // Standard output is for the explanation: the program's own output goes to standard error.
        .stdout(Stdio::from(rustix::io::dup(std::io::stderr())?))
        .spawn()
        .context("cannot start the lab program")?;
    let status = wait(child, &stop)?;
    let snapshot = recorder.snapshot();
    drop(recorder);
    let outcome_json = std::fs::read(outcome_file.path())?;
    let outcome: Outcome = match serde_json::from_slice(&outcome_json) {
        Ok(outcome) => outcome,
        Err(_) => bail!("the lab program ended with {status} and reported no outcome"),
    };
    let extras = Extras {
        notes: Some(format!("lab {}: {}", program.name, program.summary)),
        entries: vec![("lab.json".to_owned(), outcome_json)],
    };
    let target = target(args.output.as_ref(), &format!("lab-{}", program.name));
    let mut saved = snapshot.prepare(&extras)?.save_anywhere(&target, &fallback_folders())?;
    saved.name(&mut namer(), &AtomicBool::new(false));
    report_saved(&saved);
    note(&saved.path.display().to_string());
    note("");
    if outcome.measured.hang.start_ns < saved.window.start.nanos() && outcome.happened {
        note(
            "note: the recording begins after the hang began, because events came too fast for \
             the ring buffers",
        );
    }
    let json = args.json.then(|| "--json".into());
    let done = why::explain(&saved.path, json.as_slice())?;
    Ok(if outcome.happened { done } else { Done::NoHang })
}

/// Waits for the program. Passes a request to stop on to it and lets it clean up.
fn wait(mut child: Child, stop: &AtomicBool) -> anyhow::Result<ExitStatus> {
    let mut is_stopping = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !is_stopping {
            is_stopping = true;
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                kill_process_group(group, Signal::TERM)?;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn report(outcome: &Outcome) -> Done {
    if let Some(reason) = &outcome.reason {
        note(&format!("note: {reason}"));
    }
    if outcome.happened { Done::Yes } else { Done::NoHang }
}
