//! Who has traces in work, and how many. Each holds memory and keeps the worker from others, so nobody
//! may have many; a member of the group takes no room of the owner and the triggers.

/// Maximum number of traces that wait to be named: of the owner and the triggers, and of all members
/// of the group. Each is on the disk already.
const MAX_JOBS: usize = 8;
/// Maximum number of them of one member.
const MAX_JOBS_OF_MEMBER: usize = 2;

/// The traces that are being named and judged, each with the member of the group who asked for it.
/// `None` is the owner or a trigger.
#[derive(Default)]
pub(super) struct InWork(Vec<Option<u32>>);

impl InWork {
    pub(super) fn begin(&mut self, member: Option<u32>) {
        self.0.push(member);
    }

    pub(super) fn end(&mut self, member: Option<u32>) {
        if let Some(at) = self.0.iter().position(|of| *of == member) {
            self.0.swap_remove(at);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if there may be no other trace of `member`.
    pub(super) fn is_full_for(&self, member: Option<u32>) -> bool {
        let of_class = self.count(|of| of.is_some() == member.is_some());
        let own = self.count(|of| of == member);
        of_class >= MAX_JOBS || (member.is_some() && own >= MAX_JOBS_OF_MEMBER)
    }

    /// True if an automatic save for `member` should rather wait. What members asked for does not
    /// count for others.
    pub(super) fn is_busy_for(&self, member: Option<u32>) -> bool {
        self.count(|of| of.is_none() || of == member) >= MAX_JOBS / 2
    }

    fn count(&self, is_counted: impl Fn(Option<u32>) -> bool) -> usize {
        self.0.iter().filter(|of| is_counted(**of)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_members_of_the_group_keep_nobody_else_from_saving() {
        let mut work = InWork::default();
        for uid in 0..4 {
            for _ in 0..MAX_JOBS_OF_MEMBER {
                assert!(!work.is_full_for(Some(uid)));
                work.begin(Some(uid));
            }
            assert!(work.is_full_for(Some(uid)));
        }
        assert!(work.is_full_for(Some(4)), "all of them together are bounded, too");
        assert!(!work.is_full_for(None) && !work.is_busy_for(None) && !work.is_busy_for(Some(4)));
        for count in 0..MAX_JOBS {
            assert_eq!(work.is_busy_for(None), count >= MAX_JOBS / 2);
            work.begin(None);
        }
        assert!(work.is_full_for(None));
        for member in [Some(3), Some(3), None] {
            work.end(member);
        }
        assert!(!work.is_full_for(Some(3)) && !work.is_full_for(None) && !work.is_empty());
    }
}
