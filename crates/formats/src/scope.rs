//! How much of a trace is read.

/// How much of a trace is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Scope {
    #[default]
    All,
    /// What [`open_stacks`](crate::open_stacks) promises.
    Stacks,
    /// What [`open_newest`](crate::open_newest) promises: so many bytes of all rings;
    /// nothing of shorter ones.
    Newest(u64),
}
