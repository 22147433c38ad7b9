//! Why a recorder saved a trace.

use crate::Window;

/// Why a trace was saved, and what else wanted to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveReason {
    /// A person asked for it.
    pub by_hand: bool,
    /// What triggered it.
    pub trigger: Option<TriggerHit>,
    /// What triggered before and was not saved.
    pub suppressed: Vec<Suppressed>,
}

/// What a trigger saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerHit {
    /// Its name in the recorder's configuration; empty for a client's.
    pub name: String,
    /// What it looks at: `wait`, `pressure`, `hot_key`, …
    pub kind: String,
    /// What it saw, in words.
    pub text: String,
    /// The process that suffered.
    pub pid: Option<u32>,
    /// The thread that suffered.
    pub tid: Option<u32>,
    /// The time in which it suffered, so far.
    pub window: Option<Window>,
}

/// How often a trigger fired without a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressed {
    /// The trigger's name.
    pub name: String,
    /// How often.
    pub times: u64,
    /// Why it was not saved.
    pub reason: String,
}
