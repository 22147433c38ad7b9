//! A self-contained HTML file for a bug report: the answers, the pictures and the main tables of a
//! trace.
//!
//! It has no scripts and no links and fetches nothing, so that it looks the same in a mail as on a
//! disk. Its own content policy forbids anything else.

use crate::page::escape;
use serde_json::Value;
use std::fmt::Write;
use unhitch_analysis::Stall;
use unhitch_analysis::table::{Name, Query, Table, Words};
use unhitch_analysis::{Analysis, answer};
use unhitch_model::units;

/// Maximum stalls shown in full, with a picture.
const MAX_STALLS: usize = 5;
/// Maximum rows of a table.
const MAX_ROWS: usize = 30;
/// Maximum functions shown of a stack, the innermost; the others can be unfolded.
const MAX_SHOWN_FUNCTIONS: usize = 4;

/// A table of the report.
struct Section {
    title: &'static str,
    table: Name,
    words: Words<'static>,
}

const fn words(by: &'static str, show: &'static str, sort: &'static str) -> Words<'static> {
    Words { by: Some(by), show: Some(show), filter: None, sort: Some(sort) }
}

/// The tables of the report, in order.
const SECTIONS: &[Section] = &[
    Section {
        title: "Waits, by reason and stack",
        table: Name::Waits,
        words: words(
            "reason,wait stack",
            "reason,count,sum:waited,max:waited,wait stack",
            "sum:waited:desc",
        ),
    },
    Section {
        title: "Who woke whom, by the waiting time that the wake-ups ended",
        table: Name::Wakes,
        words: words(
            "woken by process,woken by,process,thread",
            "woken by process,woken by,process,thread,count,sum:waited,max:waited",
            "sum:waited:desc",
        ),
    },
    Section {
        title: "CPU samples, by process and function",
        table: Name::Samples,
        words: words(
            "process,function,module",
            "process,function,module,count,sum:weight",
            "count:desc",
        ),
    },
    Section {
        title: "Threads, by time on a CPU",
        table: Name::Threads,
        words: words(
            "none",
            "thread,tid,process,pid,ran,runnable,slept,switches,sampled,policy",
            "ran:desc",
        ),
    },
    Section { title: "CPUs", table: Name::Cpus, words: words("none", "all", "cpu:asc") },
];

/// The report of a trace called `name` with its user's `notes`, as HTML.
pub fn report(analysis: &Analysis<'_>, name: &str, notes: &str, stalls: &[Stall]) -> String {
    let (trace, window) = (analysis.trace, analysis.timeline.window());
    let title = escape(name);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"content-security-policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Unhitch: {title}</title><style>\n{}</style></head><body>\n<h1>{title}</h1>\n",
        include_str!("report.css")
    );
    let meta = &trace.meta;
    let facts = [
        (!meta.host.is_empty()).then(|| format!("recorded on {}", meta.host)),
        (!meta.kernel.is_empty()).then(|| format!("kernel {}", meta.kernel)),
        Some(units::plural(analysis.cpus.seen() as u64, "CPU")),
        Some(units::duration(window.duration_ns())),
        Some(format!("{} context switches", units::count(trace.switches.len() as u64))),
        Some(format!("reported by unhitch {}", env!("CARGO_PKG_VERSION"))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let _ = writeln!(out, "<p class=\"dim\">{}</p>", escape(&facts.join(" · ")));
    if !notes.trim().is_empty() {
        let _ = writeln!(out, "<h2>Notes</h2>\n<pre>{}</pre>", escape(notes.trim()));
    }
    for warning in trace.warnings.lines() {
        let _ = writeln!(out, "<p class=\"warning\">{}</p>", escape(&warning));
    }
    answers(analysis, stalls, &mut out);
    for section in SECTIONS {
        // The queries are valid: a test checks them against the registry of columns.
        if let Ok(query) = Query::new(section.table, section.words) {
            let table = Table::new(analysis, &query, trace.extent(), MAX_ROWS);
            if let Ok(json) = serde_json::to_value(&table) {
                rows(section.title, &json, &mut out);
            }
        }
    }
    out.push_str("</body></html>\n");
    out
}

fn answers(analysis: &Analysis<'_>, stalls: &[Stall], out: &mut String) {
    // The report shows the trace's warnings above.
    let saved = answer::seen_by_trigger(analysis.trace).unwrap_or_default();
    let begin = match stalls {
        [] => format!(
            "{saved}{}",
            answer::nothing_found(analysis, &unhitch_analysis::Query::default())
        ),
        _ => saved,
    };
    if !begin.is_empty() {
        let _ = writeln!(out, "<h2>Answer</h2>\n<pre>{}</pre>", escape(begin.trim_end()));
    }
    for (index, stall) in stalls.iter().take(MAX_STALLS).enumerate() {
        let text = answer::text_of(analysis, stall);
        let heading =
            if index == 0 { "The worst stall".to_owned() } else { format!("Stall {}", index + 1) };
        let _ = writeln!(
            out,
            "<h2>{heading}</h2>\n<pre>{}</pre>\n{}",
            escape(text.trim_end()),
            answer::svg(analysis, stall)
        );
    }
    if stalls.len() > MAX_STALLS {
        let lines: Vec<String> = stalls[MAX_STALLS..]
            .iter()
            .map(|stall| escape(answer::one_line(analysis, stall).trim()))
            .collect();
        let _ = writeln!(out, "<h2>Further stalls</h2>\n<pre>{}</pre>", lines.join("\n"));
    }
}

/// A table of the analysis, from its JSON.
fn rows(title: &str, table: &Value, out: &mut String) {
    let (columns, start) = (table["columns"].as_array(), table["origin_ns"].as_i64().unwrap_or(0));
    let (Some(columns), Some(rows)) = (columns, table["rows"].as_array()) else { return };
    if rows.is_empty() {
        return;
    }
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let columns: Vec<(String, String)> =
        columns.iter().map(|column| (text(column, "name"), text(column, "type"))).collect();
    let class =
        |kind: &str| if matches!(kind, "text" | "stack") { "" } else { " class=\"number\"" };
    let _ = writeln!(out, "<h2>{}</h2>\n<table><thead><tr>", escape(title));
    for (name, kind) in &columns {
        let _ = write!(
            out,
            "<th scope=\"col\"{}>{}</th>",
            class(kind),
            escape(&name.trim_end_matches("_ns").replace('_', " "))
        );
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (name, kind) in &columns {
            let _ =
                write!(out, "<td{}>{}</td>", class(kind), cell(&row[name.as_str()], kind, start));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
    let total = table["total_rows"].as_u64().unwrap_or(0);
    if total > rows.len() as u64 {
        let more = units::plural(total - rows.len() as u64, "more row");
        let _ = writeln!(out, "<p class=\"dim\">… and {more}, not shown</p>");
    }
}

fn cell(value: &Value, kind: &str, start: i64) -> String {
    match (kind, value) {
        (_, Value::Null) => "–".to_owned(),
        ("duration", value) => units::duration(value.as_u64().unwrap_or(0)),
        ("time", value) => {
            format!("{:.6} s", value.as_i64().unwrap_or(start).saturating_sub(start) as f64 / 1e9)
        }
        ("count", value) => units::count(value.as_u64().unwrap_or(0)),
        ("stack", Value::Array(names)) => {
            let names: Vec<String> = names.iter().filter_map(Value::as_str).map(escape).collect();
            let shown = names[names.len().saturating_sub(MAX_SHOWN_FUNCTIONS)..].join(" → ");
            match names.len() {
                0 => "(no stack was recorded)".to_owned(),
                len if len <= MAX_SHOWN_FUNCTIONS => shown,
                _ => format!(
                    "<details><summary>… → {shown}</summary>{}</details>",
                    names.join("<br>")
                ),
            }
        }
        (_, Value::String(text)) => escape(text),
        (_, other) => escape(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_report_can_be_asked_for() {
        for section in SECTIONS {
            assert!(Query::new(section.table, section.words).is_ok(), "{}", section.title);
        }
    }

    #[test]
    fn names_from_a_trace_are_escaped() {
        assert_eq!(cell(&Value::from("<script>"), "text", 0), "&lt;script&gt;");
        assert_eq!(cell(&serde_json::json!(["a<b>", "c"]), "stack", 0), "a&lt;b&gt; → c");
    }
}
