//! How cells are computed from rows: the functions behind the longer entries of the registry of
//! columns.

use super::rows::{NOWHERE, Row};
use super::source::Source;
use super::{Cell, NONE, Name};
use crate::explain::class_of;
use crate::stacks::{InterruptSource, StackKind, WakeContext, WakeSource};
use unhitch_model::{FrameId, ModuleKind, Process, ThreadId, Time, WakeFlags};

/// The cell for a point in time.
pub(super) fn time(time: Time) -> Cell {
    Cell::try_from(time.nanos()).unwrap_or(Cell::MAX)
}

pub(super) fn start(source: &Source<'_>, row: &Row) -> Cell {
    match source.name {
        Name::Lifetimes => life_of(source, row).0.map_or(NONE, time),
        _ => time(row.start),
    }
}

pub(super) fn end(source: &Source<'_>, row: &Row) -> Cell {
    match source.name {
        Name::Lifetimes => life_of(source, row).1.map_or(NONE, time),
        _ => time(row.end),
    }
}

/// The process of a row, or of its thread.
pub(super) fn process_of<'a>(source: &Source<'a>, row: &Row) -> &'a Process {
    let threads = &source.analysis.trace.threads;
    if source.name == Name::Lifetimes {
        threads.process(unhitch_model::ProcessId(row.index))
    } else {
        threads.process_of(row.thread)
    }
}

/// When the process of a row began and ended, if that was recorded.
fn life_of(source: &Source<'_>, row: &Row) -> (Option<Time>, Option<Time>) {
    let threads = &source.analysis.trace.threads;
    let (leader, process) = (threads.get(row.thread), process_of(source, row));
    if process.name.is_empty() { (leader.start, leader.end) } else { (process.start, process.end) }
}

pub(super) fn thread_name(source: &Source<'_>, thread: ThreadId, at: Time) -> Cell {
    Cell::from(source.analysis.trace.threads.name_at(thread, at).0)
}

pub(super) fn process_name(source: &Source<'_>, thread: ThreadId, at: Time) -> Cell {
    Cell::from(source.analysis.trace.process_name_id(thread, at).0)
}

pub(super) fn control_group(source: &Source<'_>, row: &Row) -> Cell {
    let trace = source.analysis.trace;
    trace.machine.group_path(&trace.threads, row.thread).map_or(NONE, |path| source.text(path))
}

/// The thread responsible for a wake-up, and the time of the wake-up.
pub(super) fn waker(source: &Source<'_>, row: &Row) -> Option<(ThreadId, Time)> {
    let (wake, context) = source.waking(row)?;
    let wakings = &source.analysis.trace.wakings;
    context.is_task().then(|| (wakings.waker[wake], wakings.time[wake]))
}

pub(super) fn woken_by(source: &Source<'_>, row: &Row) -> Cell {
    let Some((wake, _)) = source.waking(row) else { return NONE };
    let WakeSource { context, interrupt } =
        source.analysis.stacks.wake_source(source.analysis.trace, wake);
    match (waker(source, row), interrupt.and_then(InterruptSource::words)) {
        (Some((thread, at)), _) => thread_name(source, thread, at),
        (None, Some((cell, _))) => source.text(cell),
        (None, None) if context == WakeContext::Idle => source.text("(interrupt while idle)"),
        (None, None) => source.text("(interrupt)"),
    }
}

pub(super) fn wait_stack(source: &Source<'_>, row: &Row) -> Cell {
    let stack = match source.name {
        Name::Wakes if row.out == NOWHERE => return NONE,
        Name::Switches if source.is_outside(row) => return NONE,
        Name::Wakes => source.analysis.trace.switches.stack[row.out as usize],
        _ => row.stack,
    };
    Cell::from(source.same(StackKind::Wait, stack).0)
}

/// The state in which the thread left its CPU.
pub(super) fn state(source: &Source<'_>, row: &Row) -> Cell {
    let trace = source.analysis.trace;
    let state = match (row.out, source.name) {
        (NOWHERE, Name::Waits) => {
            row.sleep(source.analysis).earlier_wait(trace).map(|earlier| earlier.state)
        }
        (out, _) => trace.switches.prev_state.get(out as usize).copied(),
    };
    state.map_or(NONE, |state| source.text(state.letter()))
}

pub(super) fn reason(source: &Source<'_>, row: &Row) -> Cell {
    let flags =
        (row.wake != NOWHERE).then(|| source.analysis.trace.wakings.flags[row.wake as usize]);
    if row.slept_ns > 0 {
        source.class(class_of(source.analysis, &row.sleep(source.analysis)))
    } else if flags.is_some_and(|flags| flags.has(WakeFlags::NEW)) {
        source.text("new")
    } else if row.out != NOWHERE
        && source.analysis.trace.switches.prev_state[row.out as usize].is_runnable()
    {
        source.text("preempted")
    } else {
        NONE
    }
}

/// The frame of a row's function, module, file and address.
pub(super) fn leaf(source: &Source<'_>, row: &Row) -> Option<FrameId> {
    let kind = match source.name {
        Name::Samples | Name::Events => StackKind::Sample,
        Name::Wakes => StackKind::Wake,
        _ => StackKind::Wait,
    };
    source.frames(kind, row.stack).first().copied()
}

/// The function that holds the code, not those inlined into it.
pub(super) fn function_of(source: &Source<'_>, frame: FrameId) -> Cell {
    match source.analysis.trace.symbols.get(frame).last() {
        Some(symbol) => Cell::from(symbol.function.0),
        None => address_of(source, frame),
    }
}

/// A thread's id, if it is known.
pub(super) fn tid_of(source: &Source<'_>, thread: ThreadId) -> Cell {
    if thread.is_unknown() {
        NONE
    } else {
        Cell::from(source.analysis.trace.threads.get(thread).tid)
    }
}

pub(super) fn pid_of(process: &Process) -> Cell {
    if process.pid == Process::UNKNOWN_PID { NONE } else { Cell::from(process.pid) }
}

pub(super) fn module_of(source: &Source<'_>, frame: FrameId) -> Cell {
    let trace = source.analysis.trace;
    let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
    module.map_or(NONE, |module| Cell::from(module.path.0))
}

pub(super) fn file_of(source: &Source<'_>, frame: FrameId) -> Cell {
    match source
        .analysis
        .trace
        .symbols
        .get(frame)
        .last()
        .map(|symbol| symbol.file)
        .filter(|file| !file.is_empty())
    {
        Some(file) => Cell::from(file.0),
        None => source.text("(no source file known)"),
    }
}

pub(super) fn address_of(source: &Source<'_>, frame: FrameId) -> Cell {
    let trace = source.analysis.trace;
    let Some(at) = trace.stacks.frame(frame) else { return NONE };
    let of_file = |module: &&unhitch_model::Module| {
        matches!(module.kind, ModuleKind::File | ModuleKind::Image { .. })
    };
    let module = trace.modules.get(at.module);
    if module.is_some_and(|module| module.kind == ModuleKind::Named) {
        return NONE;
    }
    let Some(module) = module.filter(of_file) else {
        return source.text(&format!("{:#x}", at.offset));
    };
    let path = trace.name(module.path);
    source.text(&format!("{}+{:#x}", module.kind.file_name(path), at.offset))
}
