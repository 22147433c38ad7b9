//! [`Condition`]: what must not happen, for machines that judge: `stall > 200ms`,
//! `pattern = lock_convoy`, `stall > 50ms and victim = ui`.

use crate::Analysis;
use crate::diagnose::Stall;
use crate::patterns::Pattern;
use std::fmt;
use unhitch_model::units::{duration, read_duration};

/// A condition that a stall may fulfil.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// It took longer than so many nanoseconds; or as long, if that counts.
    Longer { ns: u64, or_equal: bool },
    /// Its pattern is this one, or is not.
    Pattern { pattern: Pattern, is: bool },
    /// A thread or its process has this name.
    Named { whose: Whose, name: String },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Victim,
    Culprit,
}

/// Why a text is no condition.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// Not of the form that is accepted.
    #[error(
        "not a condition: {0:?}; write `stall > 200ms`, `pattern = lock_convoy`, `victim = NAME` or \
         `culprit = NAME`, joined by `and`"
    )]
    Form(String),
    /// Not a length of time.
    #[error("not a time: {0:?}; write it as 2s, 200ms or 50us")]
    Time(String),
    /// Not the name of a pattern.
    #[error("no pattern is called {0:?}; there are {known}", known = names())]
    Pattern(String),
}

fn names() -> String {
    Pattern::ALL.iter().map(|pattern| pattern.name()).collect::<Vec<_>>().join(", ")
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let parts = text.split(" and ").map(|part| Part::parse(part.trim()));
        Ok(Self { text: text.trim().to_owned(), parts: parts.collect::<Result<_, _>>()? })
    }

    /// True if a stall fulfils it.
    pub fn holds(&self, analysis: &Analysis<'_>, stall: &Stall) -> bool {
        self.parts.iter().all(|part| part.holds(analysis, stall))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, ConditionError> {
        let form = || ConditionError::Form(text.to_owned());
        let at = text.find(['>', '=', '!']).ok_or_else(form)?;
        let (field, rest) = text.split_at(at);
        let operator = [">=", "!=", ">", "="].into_iter().find(|op| rest.starts_with(op));
        let operator = operator.ok_or_else(form)?;
        let value = rest[operator.len()..].trim();
        if value.is_empty() {
            return Err(form());
        }
        match (field.trim(), operator) {
            ("stall", ">" | ">=") => {
                let time = read_duration(value);
                let time = time.ok_or_else(|| ConditionError::Time(value.to_owned()))?;
                Ok(Self::Longer { ns: time.as_nanos() as u64, or_equal: operator == ">=" })
            }
            ("pattern", "=" | "!=") => {
                let known = Pattern::ALL.into_iter().find(|pattern| pattern.name() == value);
                let pattern = known.ok_or_else(|| ConditionError::Pattern(value.to_owned()))?;
                Ok(Self::Pattern { pattern, is: operator == "=" })
            }
            ("victim", "=") => Ok(Self::Named { whose: Whose::Victim, name: value.to_owned() }),
            ("culprit", "=") => Ok(Self::Named { whose: Whose::Culprit, name: value.to_owned() }),
            _ => Err(form()),
        }
    }

    fn holds(&self, analysis: &Analysis<'_>, stall: &Stall) -> bool {
        let window = stall.explanation.window;
        match self {
            Self::Longer { ns, or_equal } => {
                let length = window.duration_ns();
                length > *ns || (*or_equal && length == *ns)
            }
            Self::Pattern { pattern, is } => (stall.finding.pattern == *pattern) == *is,
            Self::Named { whose, name } => {
                let threads = match whose {
                    Whose::Victim => stall.victims.clone(),
                    Whose::Culprit => stall.finding.culprit.into_iter().collect(),
                };
                threads.into_iter().any(|thread| {
                    let trace = analysis.trace;
                    trace.thread_name(thread, window.end) == name
                        || trace.process_name(thread, window.end) == name
                })
            }
        }
    }
}

/// A stall as the line that says that a condition holds: how long, who, why.
pub fn breach(analysis: &Analysis<'_>, stall: &Stall) -> String {
    let window = stall.explanation.window;
    let victim = crate::wording::units::thread(analysis.trace, stall.candidate.victim, window.end);
    let from = duration(window.start.since(analysis.trace.origin()));
    format!(
        "{victim} hung for {} at {from}: {}",
        duration(window.duration_ns()),
        stall.finding.cause
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_people_write_them() {
        let parts = |text: &str| Condition::parse(text).unwrap().parts;
        let longer = |ns, or_equal| Part::Longer { ns, or_equal };
        assert_eq!(parts("stall > 200ms"), [longer(200_000_000, false)]);
        assert_eq!(parts("stall>=1.5s"), [longer(1_500_000_000, true)]);
        let convoy = Part::Pattern { pattern: Pattern::LockConvoy, is: true };
        assert_eq!(parts("pattern = lock_convoy"), std::slice::from_ref(&convoy));
        let ui = Part::Named { whose: Whose::Victim, name: "ui thread".to_owned() };
        assert_eq!(
            parts("stall > 50us and victim = ui thread and pattern = lock_convoy"),
            [longer(50_000, false), ui, convoy]
        );
        for wrong in [
            "",
            "stall",
            "stall < 1s",
            "stall > soon",
            "stall > -1s",
            "pattern = nice",
            "pattern > 1s",
            "victim =",
            "stall > 1s and",
            "victim != ui",
            "stall > 1",
        ] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
    }
}
