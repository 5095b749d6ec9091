//! When a certificate is renewed. Called by the sidecar and by the control plane for its own.
//! Pure: the caller has the clock, the randomness and the timer.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;

/// A certificate is renewed after at least this share of its life, in thousandths.
const SHARE_MIN: u128 = 400;
/// And this much later at most: a fleet that started together must not ask together.
const SHARE_SPREAD: u128 = 200;

/// How long from `now` until a certificate that is valid in this time should be renewed: at a
/// moment between 40 % and 60 % of its life that `random` chooses; nothing if that is over.
#[must_use]
pub fn due(
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
    now: SystemTime,
    random: u64,
) -> Duration {
    let life = Duration::try_from(not_after - not_before).unwrap_or_default();
    let share = SHARE_MIN + u128::from(random) % (SHARE_SPREAD + 1);
    // Nanoseconds of 64 bits are 584 years.
    let age = Duration::from_nanos(u64::try_from(life.as_nanos() * share / 1000).unwrap_or(0));
    let left = (not_before + age) - OffsetDateTime::from(now);
    Duration::try_from(left).unwrap_or_default()
}

/// A moment within `spread` that `random` chooses: for what all sidecars learn at once, as that
/// there is a newer authority.
#[must_use]
pub fn soon(spread: Duration, random: u64) -> Duration {
    let nanos = spread.as_nanos() * u128::from(random) / (u128::from(u64::MAX) + 1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn check(age: Duration, random: u64, left: Duration) {
        let start = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let now = SystemTime::from(start + age);
        assert_eq!(due(start, start + 100 * HOUR, now, random), left);
    }

    #[test]
    fn renewal_is_due_at_about_half_life() {
        check(Duration::ZERO, 0, 40 * HOUR);
        check(Duration::ZERO, 100, 50 * HOUR);
        check(Duration::ZERO, 200, 60 * HOUR);
        check(Duration::ZERO, 201, 40 * HOUR);
        check(49 * HOUR, 100, HOUR);
    }

    #[test]
    fn overdue_renewal_is_due_at_once() {
        check(50 * HOUR, 100, Duration::ZERO);
        check(1000 * HOUR, 100, Duration::ZERO);
        let moment = OffsetDateTime::UNIX_EPOCH;
        let (before, after) = (moment + HOUR, moment);
        assert!(due(before, after, SystemTime::UNIX_EPOCH, 7) <= HOUR);
    }

    #[test]
    fn what_all_learn_at_once_is_spread_evenly() {
        assert_eq!(soon(HOUR, 0), Duration::ZERO);
        assert_eq!(soon(HOUR, 1 << 63), HOUR / 2);
        assert!(soon(HOUR, u64::MAX) < HOUR);
        assert_eq!(soon(Duration::ZERO, u64::MAX), Duration::ZERO);
    }
}
