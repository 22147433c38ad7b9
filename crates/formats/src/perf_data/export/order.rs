//! [`Kind`]: which of the events within one nanosecond comes first.

/// Order of the kinds of events within one nanosecond. Of two events on one CPU, a wake-up comes
/// before the switch; a thread's birth comes before anything it does, and its exit after that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    SideBand,
    Waking,
    Sample,
    Contention,
    Switch,
    Exit,
}
