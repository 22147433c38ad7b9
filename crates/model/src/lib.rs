//! The immutable, columnar [`Trace`] in the middle of Unhitch.
//!
//! Readers (`unhitch-formats`) produce it and analyses (`unhitch-analysis`) consume it; neither
//! knows the other. It holds only what was observed. States, waits and causes are computed from it.
//!
//! Each kind of event is a struct of equally long columns, sorted by time ([`Switches`],
//! [`Wakings`], [`Samples`], [`Contentions`]). Call stacks are interned ([`Stacks`]). Threads and
//! processes are *incarnations* ([`Threads`]), because the kernel reuses ids. Every time is a
//! [`Time`], in nanoseconds of the trace's own clock.
//!
//! Build a trace with one context switch:
//!
//! ```
//! use unhitch_model::{Process, StackId, Switch, TaskState, Thread, ThreadId, Time, Trace};
//!
//! let mut trace = Trace::default();
//! let name = trace.strings.intern("worker");
//! let process = trace.threads.add_process(Process { pid: 40, ..Process::default() });
//! let worker = trace.threads.add(Thread {
//!     tid: 41,
//!     process,
//!     names: vec![(Time::ZERO, name)],
//!     start: None,
//!     end: None,
//!     policy: None,
//!     nice: None,
//! });
//! trace.switches.push(Switch {
//!     time: Time::from_nanos(1_000),
//!     cpu: 0,
//!     prev: worker,
//!     next: ThreadId::IDLE,
//!     prev_state: TaskState::Sleeping,
//!     prev_reason: None,
//!     prev_prio: 120,
//!     next_prio: 120,
//!     stack: StackId::EMPTY,
//! });
//! assert_eq!(trace.thread_name(trace.switches.prev[0], Time::ZERO), "worker");
//! assert_eq!(trace.extent().duration_ns(), 1);
//! ```

mod address_spaces;
mod calendar;
mod descriptors;
mod events;
mod id;
mod layout;
pub mod linux;
mod machine;
mod marks;
mod meta;
mod modules;
mod provider_events;
mod save;
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

pub use address_spaces::{AddressSpace, AddressSpaces, Mapping};
pub use calendar::Date;
pub use descriptors::{Descriptor, DescriptorKind, Holder, Polled};
pub use events::{
    Contention, ContentionKind, Contentions, Placement, Placements, Sample, Samples, Switch,
    Switches, TaskState, WaitReason, WakeFlags, Waking, Wakings,
};
pub use id::{FrameId, ModuleId, NameId, ProcessId, StackId, ThreadId};
pub use layout::{Count, Field, FieldType, Layout};
pub use machine::{
    ControlGroup, CpuAccount, DeviceAccount, DiskAccount, GroupId, GroupReading, MachineReport,
    MemoryAccount, Pressure, Reading, Throttling,
};
pub use marks::{InputMarks, MARK_PROVIDER, MarkEvent};
pub use meta::{Format, Lack, MAX_SAMPLE_PERIOD_NS, Meta, Origin, System};
pub use modules::{CUT, Module, ModuleKind, Modules};
pub use provider_events::{EventHead, EventKind, KindId, ProviderEvents, ValueMap};
pub use save::{SaveReason, Suppressed, TriggerHit};
pub use stacks::{Frame, Stacks};
pub use strings::Strings;
pub use symbols::{Symbol, Symbols};
pub use tasks::{Policy, Process, Thread, Threads};
pub use time::{Time, Window};
pub use trace::{CpuSpan, EarlierWait, FutexWait, KeptWait, KeptWake, Loss, Recorded, Trace};
pub use value::{Value, guid_text};
pub use visible::{is_control, visible, visible_json, visible_lines, visible_path};
pub use warnings::Warnings;
