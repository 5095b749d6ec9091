//! How long to wait before something is started again: each time a little longer. Pure.

use std::time::{Duration, Instant};

/// The first wait; doubled with every end in a row.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// What ran this long has not failed in a row.
const HELD: Duration = Duration::from_secs(60);

/// Ends in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    begun: Option<Instant>,
    failures: u32,
}

impl Backoff {
    /// It was started.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
    }

    /// It has ended, or could not be started: how long to wait.
    pub(crate) fn next(&mut self, now: Instant) -> Duration {
        let ran = self.begun.take().map(|begun| now.duration_since(begun));
        if ran.is_some_and(|ran| ran >= HELD) {
            self.failures = 0;
        }
        let wait = WAIT_MIN.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        wait.min(WAIT_MAX)
    }

    /// How often in a row it has ended.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_after_each_end_until_it_has_held() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let waits: Vec<_> = (0..9).map(|_| backoff.next(start).as_millis()).collect();
        assert_eq!(
            waits,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        backoff.begin(start);
        assert_eq!(backoff.next(start + HELD), WAIT_MIN);
        assert_eq!(backoff.failures(), 1);
    }
}
