//! The answer that is stored beside a trace: `NAME.verdict.json`.
//!
//! It is computed by a process without rights ([`Judge`]), at low priority, once the trace is on the
//! disk. docs/trace-file.md has the format.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use unhitch_formats::container::{Readers, SaveFile, verdict_path};
use unhitch_formats::{Existing, NewFile};

/// How long judging may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often the stop flag is looked at, milliseconds.
const LOOK_MS: i32 = 50;
/// Maximum length of an answer, bytes: it must fit into a line of the control socket.
const MAX_ANSWER: usize = 48 << 10;

/// Finds out what hung in a trace.
pub trait Judge: Send {
    /// The verdict on a trace, a JSON object; ends early if `stop` is set.
    ///
    /// # Errors
    /// Why there is none.
    fn judge(&mut self, trace: &File, stop: &AtomicBool) -> Result<Value, String>;
}

/// Judges traces in a process without rights, which gets the trace as its standard input.
pub struct JudgeProcess {
    program: PathBuf,
    argument: &'static str,
}

impl JudgeProcess {
    /// The process will run `program` with `argument`. It must give up its rights by itself.
    pub fn new(program: PathBuf, argument: &'static str) -> Self {
        Self { program, argument }
    }
}

impl Judge for JudgeProcess {
    fn judge(&mut self, trace: &File, stop: &AtomicBool) -> Result<Value, String> {
        let failed = |error: io::Error| format!("the trace was not judged: {error}");
        let trace = trace.try_clone().map_err(failed)?;
        let mut child = Command::new(&self.program)
            .arg(self.argument)
            .env_clear()
            .stdin(Stdio::from(trace))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let answer = read_answer(&mut child, stop);
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        serde_json::from_slice(&answer?)
            .map_err(|_| "the process that judges traces sent no answer".to_owned())
    }
}

fn read_answer(child: &mut Child, stop: &AtomicBool) -> Result<Vec<u8>, String> {
    let mut out = child.stdout.take().ok_or("no pipe")?;
    let (mut answer, end) = (Vec::new(), Instant::now() + TIMEOUT);
    let mut piece = [0; 4096];
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err("the recorder was stopped".to_owned());
        }
        if Instant::now() > end {
            return Err("judging the trace took too long".to_owned());
        }
        let ready = crate::sys::poll(&[out.as_fd()], LOOK_MS).map_err(|error| error.to_string())?;
        if !ready.iter().any(|ready| ready.readable || ready.hung_up) {
            continue;
        }
        match out.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(len) if answer.len() + len <= MAX_ANSWER => answer.extend_from_slice(&piece[..len]),
            Ok(_) => return Err("the verdict is too long".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// What is known of a judged trace, as it is stored.
pub(super) fn complete(
    verdict: Result<Value, String>,
    trace: &Path,
    save: &SaveFile,
    took: Duration,
) -> Value {
    let mut verdict = match verdict {
        Ok(Value::Object(verdict)) => Value::Object(verdict),
        Ok(_) => json!({ "error": "the process that judges traces sent no answer" }),
        Err(error) => json!({ "error": error }),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    verdict["version"] = json!(1);
    verdict["trace"] = json!(trace.file_name().unwrap_or_default().to_string_lossy());
    verdict["by_hand"] = json!(save.by_hand);
    verdict["trigger"] = json!(save.trigger);
    verdict["judged_epoch_ns"] = json!(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    verdict["took_ns"] = json!(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    verdict
}

/// Stores the verdict beside its trace.
pub(super) fn store(trace: &Path, readers: Readers, verdict: &Value) -> Result<(), String> {
    let failed = |error: unhitch_formats::Error| format!("the verdict was not stored: {error}");
    let path = verdict_path(trace);
    let mut file = NewFile::create(&path, readers, Existing::Replaced).map_err(failed)?;
    writeln!(file, "{verdict:#}")
        .map_err(|error| format!("the verdict was not stored: {error}"))?;
    file.publish().map_err(failed).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_asked_and_killed_if_it_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let script = |text: &str| {
            let path = folder.path().join("judge");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&path, mode).unwrap();
            JudgeProcess::new(path, "judge")
        };
        let trace = folder.path().join("a.hitch");
        std::fs::write(&trace, "{\"line\": \"it hung\"}").unwrap();
        let file = File::open(&trace).unwrap();
        let go = AtomicBool::new(false);
        // What it gets is the trace.
        let verdict = script("exec /bin/cat").judge(&file, &go).unwrap();
        assert_eq!(verdict["line"], "it hung");
        assert!(script("echo nonsense").judge(&file, &go).unwrap_err().contains("no answer"));
        assert!(script("exec /usr/bin/yes").judge(&file, &go).unwrap_err().contains("too long"));
        let stop = AtomicBool::new(true);
        assert!(script("sleep 1000").judge(&file, &stop).unwrap_err().contains("stopped"));
        let save = SaveFile { by_hand: true, ..SaveFile::default() };
        let whole = complete(Ok(verdict), &trace, &save, Duration::from_millis(5));
        store(&trace, Readers::Owner, &whole).unwrap();
        let stored = std::fs::read(folder.path().join("a.verdict.json")).unwrap();
        let stored: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!((&stored["line"], &stored["by_hand"]), (&json!("it hung"), &json!(true)));
        assert_eq!((&stored["trace"], &stored["took_ns"]), (&json!("a.hitch"), &json!(5_000_000)));
    }
}
