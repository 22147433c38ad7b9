//! What all commands share that talk to a running recorder; `unhitch mark`, and
//! `unhitch save --on-line`.

use crate::args::{MarkArgs, SocketArgs};
use crate::done::Done;
use crate::terminal::{note, print};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::io::BufRead;
use std::path::PathBuf;
use unhitch_model::visible;
use unhitch_record::control::{self, Client};

/// Longer lines of a log are cut, bytes.
const MAX_LINE: u64 = 64 << 10;
/// Maximum length of a trigger's text, bytes.
const MAX_TEXT: usize = 256;

/// The sockets to try.
pub fn sockets(args: &SocketArgs) -> Vec<PathBuf> {
    args.socket.as_ref().map_or_else(control::sockets, |socket| vec![socket.clone()])
}

/// Sends one request to the first recorder that answers.
pub fn ask(args: &SocketArgs, request: &Value) -> anyhow::Result<Value> {
    let socket = control::find(&sockets(args))?;
    let answer = Client::connect(&socket)?.ask(request)?;
    match answer["error"].as_str() {
        Some(error) => bail!("the recorder answered: {}", visible(error)),
        None => Ok(answer),
    }
}

/// Marks this moment.
pub fn mark(args: &MarkArgs) -> anyhow::Result<Done> {
    let mark = json!({ "kind": "note", "text": args.text });
    let answer = ask(&args.recorder, &json!({ "marks": [mark] }))?;
    if answer["marks"]["taken"] != 1 {
        let reason = answer["marks"]["reason"].as_str().unwrap_or("it says no reason");
        bail!("the mark was refused: {}", visible(reason));
    }
    Ok(Done::Yes)
}

/// Asks for an automatic save at each line of standard input that matches.
pub fn on_lines(sockets: &[PathBuf], pattern: &str) -> anyhow::Result<Done> {
    let pattern = regex_lite::Regex::new(pattern).context("not a regular expression")?;
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line);
        if read.context("standard input")? == 0 {
            return Ok(Done::Yes);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if !pattern.is_match(line) {
            continue;
        }
        let end = (0..=line.len().min(MAX_TEXT)).rev().find(|end| line.is_char_boundary(*end));
        let text = &line[..end.unwrap_or(0)];
        let save = json!({ "by_hand": false, "trigger": { "kind": "log_line", "text": text } });
        let saved = control::find(sockets).and_then(|socket| control::request_save(&socket, &save));
        match saved {
            Ok(answer) => print(&format!("{}\n", unhitch_model::visible_path(&answer.path)))?,
            // Too many, or the recorder restarts: the next line may have more luck.
            Err(error) => note(&format!("unhitch: not saved: {}", error.with_causes())),
        }
    }
}
