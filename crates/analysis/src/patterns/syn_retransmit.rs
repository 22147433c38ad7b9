//! SYN retransmission: nobody answered the first request for a TCP connection.
//!
//! The kernel repeats a request (SYN) that gets no answer after a second, so a `connect` that took
//! longer lost at least one. On its way to another machine it may get lost; within one machine,
//! that is a listener whose queue of connections is full.

use super::case::{Case, in_function};
use super::finding::{Evidence, Finding, Pattern};
use crate::Analysis;
use crate::explain::other_end::{descriptor, other_end};
use crate::explain::{Cause, Piece};
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, sentence};
use rustc_hash::FxHashSet;
use std::net::{IpAddr, SocketAddr};
use unhitch_model::{DescriptorKind, StackId, ThreadId};

/// The kernel's `TCP_TIMEOUT_INIT`, nanoseconds, less what a timer's tick may lack.
const RETRY_NS: u64 = 990_000_000;

/// Where a thread is connected to.
type Address = (IpAddr, u16);

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let analysis = case.analysis;
    let is_late = |piece: &Piece| piece.cause == Cause::Message && is_late(analysis, piece);
    let (waiter, ns) = case.most_of(|piece, _| is_late(piece))?;
    if !case.is_most(ns) {
        return None;
    }
    let late = case.pieces(|piece, _| piece.thread == waiter && is_late(piece));
    let segment = &late.max_by_key(|piece| piece.window.duration_ns())?.segment;
    let address = descriptor(analysis, segment).and_then(|(_, on)| on.peer_address);
    let listener = address.and_then(|address| listener(analysis, address));
    let listener_name = listener.map(|listener| case.name(listener));
    let to = address.map_or_else(Sentence::default, |address| {
        sentence!(" to {}", SocketAddr::from(address).to_string())
    });
    let mut sentences = if waiter == case.candidate.victim { Vec::new() } else { case.waits() };
    sentences.push(sentence!(
        "{} waited for a connection{} for {}, in\n  {}",
        case.it_or_name(waiter),
        to.clone(),
        case.part(ns),
        case.segment_stack(waiter, segment)
    ));
    sentences.push(Sentence::from(
        "Nobody answered the first request for it (SYN), which the kernel repeats after 1 s.",
    ));
    if let Some(name) = listener_name.clone() {
        sentences.push(sentence!("{} serves that address.", name));
    }
    let function = own_function(analysis, segment.wait_stack(analysis.trace));
    let is_here = listener.is_some() || address.is_some_and(|(ip, _)| ip.is_loopback());
    let why = match (listener_name, is_here) {
        (Some(name), _) => {
            sentence!("the queue of {}, which listens there, was full, as it seems", name)
        }
        (None, true) => Sentence::from("the queue of who listens there was full, as it seems"),
        (None, false) => {
            Sentence::from("it was lost on the way, or the queue of who listens there was full")
        }
    };
    let cause = sentence!(
        "a request for a connection{} that nobody answered{}: {}.",
        to,
        in_function(", asked for in ", &function),
        why
    );
    let found = case.finding(Pattern::SynRetransmit, cause);
    let is_lost = found.evidence == Evidence::Lost;
    Some(Finding {
        culprit: listener,
        function,
        sentences,
        evidence: if is_lost { Evidence::Lost } else { Evidence::Inferred },
        evidence_words: match is_lost {
            true => found.evidence_words.clone(),
            false => Sentence::from(
                "packets are not recorded, and a filter that drops them looks the same",
            ),
        },
        advice:
            "`ss -ltn` shows the queue of each listener (Recv-Q, of at most Send-Q), and `nstat \
                 -az TcpExtListenOverflows TcpRetransSegs` counts what was dropped and repeated."
                .into(),
        ..found
    })
}

/// True for a sleep in `connect` that lasted until the kernel had repeated the request.
fn is_late(analysis: &Analysis<'_>, piece: &Piece) -> bool {
    let (trace, sleep) = (analysis.trace, &piece.segment);
    let began = sleep.left(trace).unwrap_or(sleep.window.start);
    let ended = analysis.timeline.end_of_sleep(trace, piece.thread, sleep);
    ended.since(began) >= RETRY_NS && connects(analysis, sleep.wait_stack(trace))
}

/// True for the wait stack of a `connect` by TCP.
fn connects(analysis: &Analysis<'_>, wait_stack: StackId) -> bool {
    let trace = analysis.trace;
    trace.stacks.kernel_frames(wait_stack).iter().any(|frame| {
        let function = trace.symbols.get(*frame).last().map(|symbol| trace.name(symbol.function));
        function == Some("__inet_stream_connect")
    })
}

/// The only process that is known to serve `address`: it waited on a socket with that port, if the
/// address is this machine's own, or has the other end of connections to it.
fn listener(analysis: &Analysis<'_>, address: Address) -> Option<ThreadId> {
    let trace = analysis.trace;
    let is_own = address.0.is_loopback();
    let mut served: Vec<ThreadId> = Vec::new();
    // One connection may be waited for a million times, and its other end be open anywhere.
    let mut seen: FxHashSet<Option<u64>> = FxHashSet::default();
    for wait in &trace.kept_waits {
        let Some(on) = wait.descriptor.as_deref() else { continue };
        if on.peer_address == Some(address) {
            if seen.insert(on.peer_inode) {
                served.extend(other_end(analysis, wait, on));
            }
        } else if is_own && on.kind == DescriptorKind::InternetSocket && on.local_port == address.1
        {
            served.push(trace.threads.process_of(wait.thread).leader);
        }
    }
    served.sort_unstable();
    served.dedup();
    match served[..] {
        [only] => Some(only),
        _ => None,
    }
}
