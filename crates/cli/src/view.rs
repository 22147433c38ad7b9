//! `unhitch view`: serves the page on loopback; `unhitch report`: one HTML file for a bug report.

use crate::args::{ReportArgs, ViewArgs};
use crate::done::Done;
use crate::load::For;
use crate::terminal::{note, print};
use crate::{hot, load, rights, settings};
use anyhow::{Context, bail};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use unhitch_analysis::Analysis;
use unhitch_analysis::Query;
use unhitch_model::{Trace, visible_path};
use unhitch_server::{Config, ListingQuestion, Server, Tools, UPLOAD_LIMIT_BYTES, Unreadable};

/// Serves a trace or a folder until interrupted. The first line printed is the address.
pub fn view(args: &ViewArgs) -> anyhow::Result<Done> {
    if args.path.is_dir() && !args.reading.with.is_empty() {
        bail!("{}: --with needs a trace, and this is a folder", visible_path(&args.path));
    }
    if args.fleet.is_some() && !args.path.is_dir() {
        bail!("{}: --fleet needs a folder of traces", visible_path(&args.path));
    }
    if args.path.join("fleet.json").is_file() {
        bail!(
            "{}: holds the tables of a fleet; `unhitch fleet report DIR --json > report.json` makes \
             the report for `unhitch view TRACES --fleet report.json`",
            visible_path(&args.path)
        );
    }
    let reader = Arc::new(load::Reader::new(&args.reading));
    let of_newest = Arc::clone(&reader);
    let open = move |path: &Path| {
        reader.read(path).map_err(|error| match error.downcast_ref() {
            Some(cause) => Unreadable::of(cause, format!("{error:#}")),
            None => Unreadable::Refused(format!("{error:#}")),
        })
    };
    let tools = Tools {
        open: Box::new(open),
        open_newest: Box::new(move |path: &Path| of_newest.read_newest(path)),
        listing: Box::new(listing),
        rules: load::rules(&args.rules)?,
        stored_verdicts: settings::rules_file(&args.rules).is_none(),
    };
    let config = Config {
        path: args.path.clone(),
        fleet: args.fleet.clone(),
        port: args.port,
        upload_limit_bytes: UPLOAD_LIMIT_BYTES,
        tools,
    };
    let server = Server::bind(config).with_context(|| {
        let shown = [Some(&args.path), args.fleet.as_ref()].into_iter().flatten();
        shown.map(|path| visible_path(path)).collect::<Vec<_>>().join(", ")
    })?;
    let address = server.address();
    print(&format!("{address}\n"))?;
    std::io::stdout().flush()?;
    note(&format!("Serving {} to this machine only; press Ctrl-C to stop.", args.path.display()));
    if !Server::has_page() {
        note(
            "This program was built without the web page: run `npm ci && npm run build` in ui/, \
             then build again.",
        );
    }
    if args.open {
        open_browser(&address);
    }
    server.run()?;
    Ok(Done::Yes)
}

/// Opens the address in the user's browser if there is a display. If that fails, the user still has
/// the printed address.
fn open_browser(address: &str) {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let program = match () {
        () if cfg!(target_os = "macos") => "open",
        () if cfg!(windows) => "explorer",
        () if has_display => "xdg-open",
        () => return,
    };
    if rights::is_confined() {
        return note("No browser is started as root; open the address above yourself.");
    }
    let null = Stdio::null;
    if let Err(error) =
        Command::new(program).arg(address).stdin(null()).stdout(null()).stderr(null()).spawn()
    {
        note(&format!("unhitch: {program}: {error}; open the address above yourself"));
    }
}

fn listing(trace: &Trace, question: &ListingQuestion<'_>) -> Result<serde_json::Value, String> {
    let listing =
        hot::listing(trace, question.samples, Some(question.function), &rights::code_options());
    listing.map(|listing| listing.json()).map_err(|error| format!("{error:#}"))
}

/// Writes the report.
pub fn report(args: &ReportArgs) -> anyhow::Result<Done> {
    let rules = load::rules(&args.rules)?;
    let trace = load::trace(&args.trace, For::Text)?;
    let analysis = Analysis::new(&trace, &rules);
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let name = args
        .trace
        .path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let html = unhitch_server::report(&analysis, &name, &trace.meta.notes, &stalls);
    let path = args.output.clone().unwrap_or_else(|| args.trace.path.with_extension("html"));
    std::fs::write(&path, html).with_context(|| visible_path(&path))?;
    print(&format!("{}\n", visible_path(&path)))?;
    Ok(Done::Yes)
}
