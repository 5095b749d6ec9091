//! A number with one writer and many readers. Used by slots and connection counters.
//! Must never be written by two threads: the second would undo what the first added.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adding is a plain load and store: a locked instruction would cost 5 ns for each of the dozen
/// additions that a request needs.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, amount: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(sum, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
