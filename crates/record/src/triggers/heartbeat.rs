//! A thread that wants to run again and again, and measures how late it does.

use super::hit::{Hit, Stop};
use crate::sys;
use std::sync::Arc;
use std::time::Duration;
use unhitch_model::{Time, units};

/// Bounds of the time between two beats: a quarter of the threshold.
const MIN_PERIOD: Duration = Duration::from_millis(250);
const MAX_PERIOD: Duration = Duration::from_secs(2);

pub(super) fn source(
    threshold: Duration,
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        let period = (threshold / 4).clamp(MIN_PERIOD, MAX_PERIOD);
        let mut begun = sys::monotonic_now();
        while !stop.sleep(period) {
            let now = sys::monotonic_now();
            if let Some(hit) = late(begun.plus(period.as_nanos() as u64), now, threshold) {
                report(hit);
            }
            begun = sys::monotonic_now();
        }
    })
}

/// What a beat that was due and came at these times says.
fn late(due: Time, now: Time, threshold: Duration) -> Option<Hit> {
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
        assert_eq!(late(at(1250), at(1250), threshold), None);
        assert_eq!(late(at(1250), at(1349), threshold), None);
        assert_eq!(late(at(1250), at(1200), threshold), None, "woken early");
        let hit = late(at(1250), at(1650), threshold).unwrap();
        assert_eq!(hit.seen, Some((at(1250), at(1650))));
        assert!(hit.text.contains("400"), "{}", hit.text);
    }
}
