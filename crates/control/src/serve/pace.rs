//! How often something may happen: a burst, and then one at a time. Pure.

use std::time::{Duration, Instant};

/// What is left of a burst, as the time at which it is whole again.
#[derive(Debug)]
pub struct Pace {
    burst: Duration,
    interval: Duration,
    whole_at: Option<Instant>,
}

impl Pace {
    /// `burst` at once, then one in each `interval`.
    #[must_use]
    pub fn new(burst: u32, interval: Duration) -> Self {
        Self {
            burst: interval * burst,
            interval,
            whole_at: None,
        }
    }

    /// How long until the next one may happen.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        let owed = self
            .whole_at
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        (owed + self.interval).saturating_sub(self.burst)
    }

    /// One happens.
    pub fn take(&mut self, now: Instant) {
        let from = self.whole_at.map_or(now, |at| at.max(now));
        self.whole_at = Some(from + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_grows_again_with_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::new(3, Duration::from_millis(10));
        for _ in 0..3 {
            assert_eq!(pace.wait(at(0)), Duration::ZERO);
            pace.take(at(0));
        }
        assert_eq!(pace.wait(at(0)), Duration::from_millis(10));
        assert_eq!(pace.wait(at(4)), Duration::from_millis(6));
        pace.take(at(10));
        assert_eq!(pace.wait(at(10)), Duration::from_millis(10));
        for _ in 0..3 {
            assert_eq!(pace.wait(at(1000)), Duration::ZERO);
            pace.take(at(1000));
        }
        assert_eq!(pace.wait(at(1000)), Duration::from_millis(10));
    }
}
