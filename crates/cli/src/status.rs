//! `unhitch status`: what the running recorder does.

use crate::args::StatusArgs;
use crate::client::ask;
use crate::done::Done;
use crate::terminal::{print, print_json};
use serde_json::{Value, json};
use std::fmt::Write;
use unhitch_model::{units, visible};

/// Prints the status.
pub fn status(args: &StatusArgs) -> anyhow::Result<Done> {
    let answer = ask(&args.recorder, &json!({ "status": {} }))?;
    if args.json {
        print_json(&answer["status"])?;
    } else {
        print(&text(&answer["status"]))?;
    }
    Ok(Done::Yes)
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or(0)
}

/// The status in words. What this user may not see is left out.
fn text(status: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<11} {}", visible(&text));
    };
    let engine = status["engine"].as_str().unwrap_or_default();
    let up = number(&status["now_ns"]).saturating_sub(number(&status["started_ns"]));
    line("recorder", format!("pid {}, {engine}, up {}", status["pid"], long(up)));
    let events = units::count(number(&status["events_per_s"]));
    line(
        "reaches",
        format!("{} back; {events} events/s", units::duration(number(&status["held_ns"]))),
    );
    line(
        "lost",
        match number(&status["lost"]) {
            0 => "nothing".to_owned(),
            lost => units::plural(lost, "record"),
        },
    );
    if let Some(cpu) = status["cpu_ns"].as_u64() {
        let share = cpu as f64 / up.max(1) as f64 * 100.0;
        let memory = units::bytes(number(&status["memory_bytes"]));
        let cpu = units::duration(cpu);
        line("cost", format!("{cpu} of CPU time ({share:.2} % of one CPU), {memory}"));
    }
    let saves = &status["saves"];
    let saved = ["by_hand", "automatic", "suppressed", "failed"]
        .map(|how| format!("{} {}", number(&saves[how]), how.replace('_', " ")));
    let working = if status["saving"] == true { "; saving now" } else { "" };
    line("saves", format!("{}{working}", saved.join(", ")));
    let disk = &status["disk"];
    let traces = units::plural(number(&disk["traces"]), "trace");
    let (bytes, free) =
        (units::bytes(number(&disk["bytes"])), units::bytes(number(&disk["free_bytes"])));
    let folder = status["folder"].as_str().map_or(String::new(), |folder| format!(" in {folder}"));
    line("disk", format!("{traces}, {bytes}{folder}; {free} free"));
    let input = |of: &str| status[of].as_str().unwrap_or("off");
    let devices = match input("marks_devices") {
        "off" => String::new(),
        devices => format!(", of the machine's devices {devices}"),
    };
    line("marks", format!("input {}{devices}", input("marks_input")));
    if let Some(error) = status["configuration_error"].as_str() {
        line("WARNING", format!("the newest configuration is not in use: {error}"));
    }
    for (index, trigger) in list(&status["triggers"]).enumerate() {
        let name = if index == 0 { "triggers" } else { "" };
        line(name, trigger_text(trigger));
    }
    for (index, save) in list(&status["last_saves"]).enumerate() {
        let name = if index == 0 { "last saves" } else { "" };
        line(name, save_text(save, number(&status["now_ns"])));
    }
    for warning in list(&status["warnings"]).filter_map(Value::as_str) {
        line("WARNING", warning.to_owned());
    }
    out
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn trigger_text(trigger: &Value) -> String {
    let of = |name: &str| trigger[name].as_str().unwrap_or_default();
    let counts =
        ["fired", "saved", "suppressed"].map(|name| format!("{} {name}", number(&trigger[name])));
    let state = match trigger["reason"].as_str() {
        Some(reason) => format!("NOT ARMED: {reason}"),
        None => counts.join(", "),
    };
    format!("{}: {} ({state})", of("name"), of("text"))
}

fn save_text(save: &Value, now: u64) -> String {
    let ago = long(now.saturating_sub(number(&save["time_ns"])));
    let path = save["path"].as_str().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    let line = save["line"].as_str().map_or(String::new(), |line| format!(": {}", line.trim()));
    format!("{ago} ago, {file}{line}")
}

/// A time that may be days.
fn long(ns: u64) -> String {
    let minutes = ns / 60_000_000_000;
    match minutes {
        0 => units::duration(ns),
        1..60 => format!("{minutes} min"),
        60..1440 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days {} h", minutes / 1440, minutes / 60 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_the_group_sees_a_part_and_nothing_strange() {
        let brief = json!({
            "pid": 7, "engine": "bpf", "started_ns": 0, "now_ns": 7_200_000_000_000_u64,
            "held_ns": 30_000_000_000_u64, "events_per_s": 1234.0, "lost": 0, "marks_input": "off",
            "saves": {"by_hand": 1, "automatic": 2, "suppressed": 3, "failed": 0},
            "disk": {"traces": 3, "bytes": 4096, "free_bytes": 1 << 30},
        });
        let shown = text(&brief);
        assert!(shown.contains("pid 7, bpf, up 2 h 0 min"), "{shown}");
        assert!(shown.contains("1 by hand, 2 automatic, 3 suppressed, 0 failed"), "{shown}");
        assert!(!shown.contains("cost") && !shown.contains("triggers"), "{shown}");
        let mut whole = brief;
        whole["cpu_ns"] = json!(72_000_000_000_u64);
        whole["triggers"] = json!([{"name": "a\u{1b}[2J", "text": "x", "reason": "no BPF"}]);
        whole["last_saves"] = json!([{"path": "/a/b.hitch", "time_ns": 0, "line": "it hung"}]);
        let shown = text(&whole);
        assert!(shown.contains("(1.00 % of one CPU)"), "{shown}");
        assert!(shown.contains("a\\x1b[2J: x (NOT ARMED: no BPF)"), "{shown}");
        assert!(shown.contains("2 h 0 min ago, b.hitch: it hung"), "{shown}");
    }
}
