//! Typed indices into the tables of a [`Trace`](crate::Trace). An id is valid only in its own
//! trace.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A thread incarnation (tid and start time), an index into [`Threads`](crate::Threads). 0 is
    /// the idle thread of every CPU.
    ThreadId
);
id!(
    /// A process incarnation, an index into [`Threads`](crate::Threads)' processes. 0 is the
    /// kernel's idle process.
    ProcessId
);
id!(
    /// An interned call stack. 0 is the empty stack, which means that none was recorded.
    StackId
);
id!(
    /// An interned frame: a code location, the same for all processes that map the same file.
    FrameId
);
id!(
    /// A module: the kernel, a mapped file, or an anonymous mapping.
    ModuleId
);
id!(
    /// An interned string. 0 is the empty string.
    NameId
);

impl ThreadId {
    /// The idle thread ("swapper") of every CPU.
    pub const IDLE: Self = Self(0);

    /// True for the idle thread.
    pub const fn is_idle(self) -> bool {
        self.0 == 0
    }

    /// The first id that stands for an unknown thread, see
    /// [`Threads::unknown_of`](crate::Threads::unknown_of).
    pub(crate) const FIRST_UNKNOWN: Self = Self(1 << 31);

    /// True for an unknown thread: that of an event which names at most its process. It is in no
    /// list of threads.
    pub const fn is_unknown(self) -> bool {
        self.0 >= Self::FIRST_UNKNOWN.0
    }
}

impl ProcessId {
    /// The unknown process. It is in no list of processes.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

impl StackId {
    /// The empty stack.
    pub const EMPTY: Self = Self(0);

    /// An empty stack, too: it was not taken, because that was over the recorder's budget.
    pub const OVER_BUDGET: Self = Self(u32::MAX);

    /// True if no stack was recorded.
    pub const fn is_empty(self) -> bool {
        self.0 == Self::EMPTY.0 || self.0 == Self::OVER_BUDGET.0
    }
}

impl NameId {
    /// The empty string.
    pub const EMPTY: Self = Self(0);

    /// True for the empty string.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
