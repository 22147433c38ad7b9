//! A thread that wants to run every quarter of a second, and measures how late it does.

use super::hit::{Hit, Stop};
use crate::sys;
use std::sync::Arc;
use std::time::Duration;
use unhitch_model::{Time, units};

/// Time between two beats.
const PERIOD: Duration = Duration::from_millis(250);

pub(super) fn source(
    threshold: Duration,
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        let mut begun = sys::monotonic_now();
        while !stop.sleep(PERIOD) {
            let now = sys::monotonic_now();
            if let Some(hit) = late(begun, now, threshold) {
                report(hit);
            }
            begun = sys::monotonic_now();
        }
    })
}

/// What a beat that began to sleep at `begun` and was back at `now` says.
fn late(begun: Time, now: Time, threshold: Duration) -> Option<Hit> {
    let due = begun.plus(PERIOD.as_nanos() as u64);
    let late = now.since(due);
    (late >= threshold.as_nanos() as u64).then(|| Hit {
        text: format!("a thread that was to run came on {} late", units::duration(late)),
        pid: Some(std::process::id()),
        seen: Some((due, now)),
        ..Hit::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_late_counts() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let threshold = Duration::from_millis(100);
        assert_eq!(late(at(1000), at(1250), threshold), None);
        assert_eq!(late(at(1000), at(1349), threshold), None);
        assert_eq!(late(at(1000), at(1200), threshold), None, "woken early");
        let hit = late(at(1000), at(1650), threshold).unwrap();
        assert_eq!(hit.seen, Some((at(1250), at(1650))));
        assert!(hit.text.contains("400"), "{}", hit.text);
    }
}
