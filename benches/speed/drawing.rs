//! How fast the page draws a big trace, in headless Chromium: a real page queries the server while
//! it is panned and zoomed (`ui/tests/speed/speed.mjs`).

use crate::page;
use crate::table::Table;
use anyhow::Context;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use unhitch_analysis::Rules;
use unhitch_server::{Config, Server, Tools, Unreadable};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/tests/speed/speed.mjs");

/// Serves the big trace from memory: a file would have several gigabytes, and reading files is
/// measured elsewhere.
fn server(folder: &Path) -> anyhow::Result<Server> {
    anyhow::ensure!(Server::has_page(), "the page is not built in (tools/page build)");
    let path = folder.join("big.hitch");
    std::fs::write(&path, b"PK\x03\x04")?;
    let made = Mutex::new(Some(page::trace()));
    let open =
        move |_: &Path| made.lock().ok().and_then(|mut made| made.take()).ok_or(Unreadable::Bug);
    let tools = Tools {
        open: Box::new(open),
        open_newest: Box::new(|_| None),
        listing: Box::new(|_, _| Err("no code".to_owned())),
        rules: Rules::default(),
        stored_verdicts: false,
    };
    Ok(Server::bind(Config { path, fleet: None, port: 0, upload_limit_bytes: 0, tools })?)
}

/// Serves the big trace until interrupted, to look at it: `speed serve-big`.
pub fn serve(folder: &Path) -> anyhow::Result<()> {
    let server = server(folder)?;
    println!("{}", server.address());
    Ok(server.run()?)
}

/// How long it takes until the timeline of a file can be used, in a browser that runs already, in
/// seconds: from a click in the list of its folder, and from the start of `unhitch view FILE`.
pub fn usable_s(unhitch: &str, file: &Path) -> anyhow::Result<[f64; 2]> {
    let output = Command::new("node")
        .arg(SCRIPT)
        .env("UNHITCH_VIEW", unhitch)
        .env("UNHITCH_TRACE", file)
        .output()
        .context("node")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = |name: &str| {
        let figure = text.lines().find_map(|line| line.strip_prefix(name)?.split(' ').next());
        figure.and_then(|figure| figure.parse().ok()).with_context(|| text.clone())
    };
    Ok([figure("page opened: ")?, figure("page started: ")?])
}

/// Measures everything here.
pub fn drawing(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let server = server(folder)?;
    let address = server.address();
    // The server runs until this process exits.
    std::thread::spawn(move || server.run());
    let output = Command::new("node")
        .arg(SCRIPT)
        .env("UNHITCH_ADDRESS", address)
        .output()
        .context("node")?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (what, figure) in
        text.lines().filter_map(|line| line.strip_prefix("page ")?.split_once(": "))
    {
        match figure.split_once(" (goal ") {
            Some((figure, goal)) => {
                let missed = goal.contains("missed");
                let goal = goal.trim_end_matches(')').trim_end_matches(", missed");
                table.ours(
                    &format!("in the browser: {what}"),
                    figure.to_owned(),
                    goal,
                    Some(!missed),
                );
            }
            None => table.ours(&format!("  {what}"), figure.to_owned(), "", None),
        }
    }
    Ok(())
}
