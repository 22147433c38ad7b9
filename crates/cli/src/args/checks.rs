//! Options of commands that judge for a machine: `record` and `why`.

use clap::Args as ClapArgs;
#[cfg(target_os = "linux")]
use std::ffi::OsString;
use std::path::PathBuf;
use unhitch_analysis::conditions::{Condition, ConditionError};

const CHECKS: &str = "Checks";

#[derive(ClapArgs, Default, Debug)]
pub struct CheckArgs {
    /// End with exit code 5 if a stall fulfils this condition: `stall > 200ms`,
    /// `pattern = lock_convoy`, `victim = NAME`, `culprit = NAME`, or several joined by `and`; can
    /// be repeated
    #[arg(long, value_name = "CONDITION", value_parser = parse, help_heading = CHECKS)]
    pub fail_on: Vec<Condition>,
    /// Write the outcome to this file, as JUnit XML
    #[arg(long, value_name = "FILE", requires = "fail_on", help_heading = CHECKS)]
    pub junit: Option<PathBuf>,
    /// Print what breaks a condition as annotations of GitHub Actions
    #[arg(long, requires = "fail_on", help_heading = CHECKS)]
    pub github: bool,
}

impl CheckArgs {
    /// The same options for another process.
    #[cfg(target_os = "linux")]
    pub fn words(&self) -> Vec<OsString> {
        let conditions = self.fail_on.iter();
        let mut words: Vec<OsString> =
            conditions.map(|condition| format!("--fail-on={condition}").into()).collect();
        if let Some(junit) = &self.junit {
            words.extend(["--junit".into(), junit.into()]);
        }
        words.extend(self.github.then(|| "--github".into()));
        words
    }
}

fn parse(text: &str) -> Result<Condition, ConditionError> {
    Condition::parse(text)
}
