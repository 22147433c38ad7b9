//! The corpus of real Windows traces, and TraceEvent's printed baselines of them.

#![allow(dead_code, reason = "each test takes what it needs")]

pub mod explained;
pub mod names;
pub mod synthetic;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use unhitch_model::{Trace, Value, units};

/// A file of the corpus; `None`, which is reported, if there is no corpus. The harness keeps what a
/// test prints, but not what it writes itself: `tools/test` counts it.
pub fn corpus(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("UNHITCH_CORPUS") else {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or(module_path!());
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: UNHITCH_CORPUS names no folder with real Windows traces"
        );
        return None;
    };
    let path = PathBuf::from(folder).join("etl").join(name);
    assert!(path.exists(), "{} is missing", path.display());
    Some(path)
}

/// The content of an `.etl` file, out of its zip.
pub fn content(name: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(corpus(name)?).unwrap();
    if !name.ends_with(".zip") {
        return Some(bytes);
    }
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let entry = zip
        .file_names()
        .map(|name| name.unwrap().into_owned())
        .find(|name| name.ends_with(".etl"))
        .unwrap();
    let mut out = Vec::new();
    zip.by_name(&entry).unwrap().read_to_end(&mut out).unwrap();
    Some(out)
}

/// One printed event.
#[derive(Debug)]
pub struct Printed {
    /// Milliseconds with three decimals, without separators.
    pub ms: String,
    pub kind: String,
    pub pid: String,
    pub cpu: u16,
    pub len: usize,
    pub fields: Vec<(String, String)>,
}

/// A baseline: its events, and its counts by kind.
pub fn baseline(name: &str) -> Option<(Vec<Printed>, BTreeMap<String, u64>)> {
    let text = std::fs::read_to_string(corpus(name)?).unwrap();
    let (mut events, mut counts) = (Vec::new(), BTreeMap::new());
    for line in text.trim_start_matches('\u{feff}').lines() {
        if let Some(rest) = line.strip_prefix("EVENT ") {
            let (ms, rest) = rest.split_once(": ").unwrap();
            let (kind, rest) = rest.split_once(" PID=").unwrap();
            let mut all = format!("PID={rest}")
                .split("; ")
                .filter_map(|field| field.split_once('=').map(owned))
                .collect::<Vec<_>>();
            let fields = all.split_off(5);
            let value = |index: usize| all[index].1.replace(',', "");
            events.push(Printed {
                ms: ms.replace(',', ""),
                kind: kind.to_owned(),
                pid: value(0),
                cpu: value(3).parse().unwrap(),
                len: value(4).parse().unwrap(),
                fields,
            });
        } else if let Some((kind, count)) =
            line.strip_prefix("COUNT ").and_then(|rest| rest.rsplit_once(':'))
        {
            counts.insert(kind.to_owned(), count.parse().unwrap());
        }
    }
    Some((events, counts))
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A text, cut as by TraceEvent.
pub fn cut(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() <= 20 {
        text
    } else {
        text.chars().take(20).collect::<String>() + "..."
    }
}

/// A printed text, which is cut already, as [`cut`] leaves it.
pub fn cut_again(printed: &str) -> String {
    printed.to_owned()
}

/// The ways in which TraceEvent may write a value of ours.
pub fn renderings(trace: &Trace, value: &Value<'_>, map: Option<u32>) -> Vec<String> {
    let mut out = Vec::new();
    let mut number = |n: i128| {
        let commas = if n < 0 {
            format!("-{}", units::count(n.unsigned_abs() as u64))
        } else {
            units::count(n as u64)
        };
        out.extend([cut(&commas), commas, n.to_string()]);
        if n >= 0 {
            out.extend([format!("{n:#x}"), format!("{n:#010x}")]);
        }
    };
    match value {
        Value::Unsigned(n) | Value::Hex(n) => {
            number(i128::from(*n));
            number(i128::from(*n as i64));
            if let Ok(small) = u32::try_from(*n) {
                number(i128::from(small as i32));
            }
        }
        Value::Signed(n) => {
            number(i128::from(*n));
            number(i128::from(*n as u32));
        }
        Value::Bool(yes) => {
            out.extend([if *yes { "True" } else { "False" }.to_owned(), u8::from(*yes).to_string()])
        }
        Value::FileTime(_) | Value::SystemTime(_) => {
            let text = value.to_string();
            out.push(cut(&text.replace('-', "/")[2..]));
        }
        Value::Float(ms) => out.push(format!("{ms:.3}")),
        other => out.push(cut(&other.to_string())),
    }
    let n = value.as_u64().unwrap_or(u64::MAX);
    if let Some(map) = map.and_then(|map| trace.events.map(map)) {
        if let Some((_, name)) = map.entries.iter().find(|(value, _)| *value == n) {
            out.push(cut(trace.name(*name)));
        }
        let bits: Vec<&str> = map
            .entries
            .iter()
            .filter(|(value, _)| *value != 0 && n & value == *value)
            .map(|(_, name)| trace.name(*name))
            .collect();
        out.push(cut(&bits.join(", ")));
    }
    out
}
