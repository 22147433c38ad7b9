//! What the requests to disks show about a wait for one: how long its own request took, and whom
//! the disk served meanwhile.

use super::case::Case;
use crate::facts::{Device, Operation, Request, dirtied, requests};
use crate::wording::sentence::{Sentence, duration, plural, sentence};
use crate::wording::{Event, Reference};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Window, units};

/// A request that is done wakes its waiter within this time.
const WAKE_UP_NS: u64 = 5_000_000;
/// Pages that were written to are on their way to the disk this much later, by the kernel's default
/// (`vm.dirty_expire_centisecs`).
const WRITE_BACK_NS: u64 = 30_000_000_000;
/// Less than this fills no disk, bytes.
const MIN_BYTES: u64 = 4 << 20;

/// What requests show of a wait for a disk.
pub(super) struct Shown {
    /// In words.
    pub(super) sentences: Vec<Sentence>,
    /// The disk of the longest request, if that is a file or another machine's: its time is that of
    /// whoever serves it.
    pub(super) served_elsewhere: Option<Device>,
}

/// What the requests show of the time in which `waiter` waited for a disk.
pub(super) fn shown(case: &Case<'_>, waiter: ThreadId) -> Shown {
    let window = case.explanation.window;
    let until = Window::new(window.start, window.end.plus(WAKE_UP_NS));
    let mut requests = requests(case.analysis.trace, until);
    requests.retain(|request| request.window.start < window.end);
    let own = own_requests(case, &requests, waiter);
    let disks: Vec<Device> = own.iter().map(|request| request.disk).collect();
    let longest = own.into_iter().max_by_key(|request| request.window.duration_ns());
    let disk = longest.map(|request| request.disk);
    let longest = longest.map(|request| longest_request(case, request, waiter)).into_iter();
    let others = served(case, &requests, waiter).into_iter().chain(wrote(case, &disks));
    Shown {
        sentences: longest.chain(others).collect(),
        served_elsewhere: disk.filter(|disk| disk.is_served_by_program()),
    }
}

/// What the waiter itself asked for, or, if that was nothing, what its process did.
fn own_requests<'a>(
    case: &Case<'_>,
    requests: &'a [Request],
    waiter: ThreadId,
) -> Vec<&'a Request> {
    let threads = &case.analysis.trace.threads;
    let of_thread = requests.iter().filter(|request| request.asker == waiter);
    let of_thread: Vec<&Request> = of_thread.collect();
    if !of_thread.is_empty() {
        return of_thread;
    }
    let process = threads.get(waiter).process;
    let known = requests.iter().filter(|request| is_known(request.asker));
    known.filter(|request| threads.get(request.asker).process == process).collect()
}

fn is_known(asker: ThreadId) -> bool {
    !asker.is_unknown() && !asker.is_idle()
}

/// What the longest request was, and how long it took.
fn longest_request(case: &Case<'_>, longest: &Request, waiter: ThreadId) -> Sentence {
    let whose = match longest.asker == waiter {
        true => sentence!("The longest request of {}", case.name(waiter)),
        false => sentence!(
            "No request of {} is recorded. The longest of its process, which {} asked for",
            case.name(waiter),
            case.name(longest.asker)
        ),
    };
    let (bytes, disk) = (units::bytes(longest.bytes), longest.disk);
    let what = match longest.operation {
        Operation::Read => format!("a read of {bytes} from disk {disk}"),
        Operation::Write => format!("a write of {bytes} to disk {disk}"),
        Operation::Flush => format!("a flush of disk {disk}"),
        Operation::Other => format!("to disk {disk}"),
    };
    let took = duration(longest.window.duration_ns()).seen_at(Reference {
        thread: Some(longest.asker),
        window: longest.window,
        event: Some(Event::Provider(longest.event)),
    });
    let queued = match longest.queued_ns.saturating_mul(10) >= longest.window.duration_ns() {
        true => sentence!(", of that {} before the disk got it", duration(longest.queued_ns)),
        false => Sentence::default(),
    };
    sentence!("{}, {}, took {}{}.", whose, what, took, queued)
}

/// Whom the disks served most meanwhile.
fn served(case: &Case<'_>, requests: &[Request], waiter: ThreadId) -> Option<Sentence> {
    let mut sums: FxHashMap<ThreadId, (u64, u64)> = FxHashMap::default();
    let moves = |request: &&Request| {
        is_known(request.asker) && matches!(request.operation, Operation::Read | Operation::Write)
    };
    for request in requests.iter().filter(moves) {
        let (bytes, count) = sums.entry(request.asker).or_default();
        (*bytes, *count) = (bytes.saturating_add(request.bytes), *count + 1);
    }
    let all = sums.values().fold(0_u64, |all, (bytes, _)| all.saturating_add(*bytes));
    let most = sums.into_iter().filter(|(thread, _)| *thread != waiter);
    let (thread, (bytes, count)) = most.max_by_key(|(thread, sum)| (*sum, Reverse(*thread)))?;
    (bytes >= MIN_BYTES && bytes >= all / 4).then(|| {
        sentence!(
            "Meanwhile the disks read or wrote {} for {}, in {} of at least 0.2 ms.",
            units::bytes(bytes),
            case.name(thread),
            plural(count, "request")
        )
    })
}

/// Which process wrote most to the page cache of one device, for the kernel to write back later. A
/// device counts only if it may be on one of `disks`, if any are known.
fn wrote(case: &Case<'_>, disks: &[Device]) -> Option<Sentence> {
    let window = case.explanation.window;
    let since = window.start.minus(WRITE_BACK_NS);
    let may_matter = |device: Device| {
        device.is_block() && (disks.is_empty() || disks.iter().any(|disk| device.may_be_on(*disk)))
    };
    let mut sums: FxHashMap<(ThreadId, Device), u64> = FxHashMap::default();
    for (process, device, bytes) in dirtied(case.analysis.trace, Window::new(since, window.end)) {
        if is_known(process) && may_matter(device) {
            let sum = sums.entry((process, device)).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    let most = sums.into_iter().max_by_key(|&(of, sum)| (sum, Reverse(of)));
    let ((process, device), bytes) = most.filter(|(_, bytes)| *bytes >= MIN_BYTES)?;
    Some(sentence!(
        "The process {} wrote {} to the page cache of device {} in that time or the 30 s before, for \
         the kernel to write back.",
        case.name(process),
        units::bytes(bytes),
        device.to_string()
    ))
}
