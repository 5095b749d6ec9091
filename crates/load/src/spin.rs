//! How long a generating thread sleeps before a send. A sleeping CPU takes some tens of
//! microseconds to wake, which is no delay of the target: before a send after a long pause the
//! thread polls. Asked by both engines' loops; does nothing itself.

use crate::clock::MICROSECOND;

/// Before a send after a pause of `SPIN_AFTER`, the last `SPIN` is polled through: at most a
/// quarter of a CPU, five percent at 1000 sends a second.
const SPIN: u64 = 50 * MICROSECOND;
const SPIN_AFTER: u64 = 4 * SPIN;

/// Remembers the send before which the thread polls.
#[derive(Default)]
pub(crate) struct Spin {
    before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Look for events without waiting.
    Poll,
    /// Wait for events until this instant.
    Until(u64),
}

impl Spin {
    /// How to wait for a send at `send`; `u64::MAX` if none is planned.
    #[inline]
    pub(crate) fn pause(&mut self, now: u64, send: u64) -> Pause {
        let pause = send.saturating_sub(now);
        if pause <= SPIN && send == self.before {
            return Pause::Poll;
        }
        if pause < SPIN_AFTER {
            return Pause::Until(send);
        }
        self.before = send;
        Pause::Until(send - SPIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_only_before_a_send_after_a_long_pause() {
        let mut spin = Spin::default();
        let mut check = |now, send, expected| assert_eq!(spin.pause(now, send), expected);
        check(0, SPIN, Pause::Until(SPIN));
        check(0, 10 * SPIN, Pause::Until(9 * SPIN));
        check(9 * SPIN, 10 * SPIN, Pause::Poll);
        check(10 * SPIN, 11 * SPIN, Pause::Until(11 * SPIN));
    }
}
