//! The immutable, columnar [`Trace`] in the middle of Unhitch.
//!
//! Readers (`unhitch-formats`) produce it, analyses (`unhitch-analysis`) consume it; neither knows
//! the other. It holds what was observed and nothing that was concluded: states, waits and causes
//! are computed from it.
//!
//! Layout: one struct of equally long columns per kind of event ([`Switches`], [`Wakings`],
//! [`Samples`], [`Contentions`]), sorted by time; call stacks interned once ([`Stacks`]); threads
//! and processes as *incarnations* ([`Threads`]), because the kernel reuses ids. Every time is a
//! [`Time`], in nanoseconds of the trace's own clock.

mod events;
mod id;
mod layout;
mod machine;
mod meta;
mod modules;
mod provider_events;
mod stacks;
mod strings;
mod symbols;
mod tasks;
mod time;
mod trace;
pub mod units;
mod value;
mod visible;
mod warnings;

pub use events::{
    Contention, ContentionKind, Contentions, Placement, Placements, Sample, Samples, Switch,
    Switches, TaskState, WaitReason, WakeFlags, Waking, Wakings,
};
pub use id::{FrameId, ModuleId, NameId, ProcessId, StackId, ThreadId};
pub use layout::{Count, Field, FieldType, Layout};
pub use machine::{
    ControlGroup, CpuAccount, DeviceAccount, GroupId, GroupReading, MachineReport, MemoryAccount,
    Pressure, Reading, Throttling,
};
pub use meta::{Format, Meta, Origin, System};
pub use modules::{CUT, Module, ModuleKind, Modules};
pub use provider_events::{EventHead, EventKind, KindId, ProviderEvents, ValueMap};
pub use stacks::{Frame, Stacks};
pub use strings::Strings;
pub use symbols::{Symbol, Symbols};
pub use tasks::{Policy, Process, Thread, Threads};
pub use time::{Time, Window};
pub use trace::{CpuSpan, FutexWait, Loss, Recorded, Trace};
pub use value::{Value, guid_text};
pub use visible::{is_control, visible, visible_lines, visible_path};
pub use warnings::Warnings;
