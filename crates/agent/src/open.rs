//! The page, which the agent opens for the user.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// True if the user may read the trace, and so see its page.
pub fn can_open(trace: &Path) -> bool {
    File::open(trace).is_ok()
}

/// Opens the page of a trace in the browser. Its server ends with the session, or when the user
/// ends it.
pub fn open_page(trace: &Path) -> std::io::Result<()> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .arg("view")
        .arg("--open")
        .arg(trace)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::spawn(move || child.wait());
    Ok(())
}
