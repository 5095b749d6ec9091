//! Bounds on what a peer can make us do for nothing (RFC 9113, section 10.5). Called by the
//! connection for each frame that costs more than it brings. Never looks at a clock: budgets
//! refill with useful work, so honest peers never meet them, however long they stay.

use super::config::Dialect;

/// Streams that a peer may make us give up before we answered, by resetting them (rapid reset,
/// CVE-2023-44487) or by breaking the protocol so that we must (made you reset, CVE-2025-8671).
/// Twice the streams of a connection: a client may cancel all it has, and once more.
const RESETS_MAX: u32 = 500;

/// The same on the hop, where one connection carries the requests of all clients of a sidecar, and
/// all may leave at once, again and again. Each costs the peer, who is known, as much as us.
const RESETS_MAX_HOP: u32 = 50_000;

/// What an answered stream gives back of that: as many cancelled as answered is a busy client
/// with short timeouts; more is an attack, or a client that should open another connection.
const RESETS_REFILL: u32 = 1;

/// Frames without use in a row: PING, SETTINGS, PRIORITY, empty DATA, small window updates,
/// frames of unknown kinds and on closed streams. A browser starts with ten or so.
const IDLE_FRAMES_MAX: u32 = 1000;

/// What a useful frame gives back of that, in either direction: each DATA frame we send may be
/// answered by a few window updates and a ping that measures the line.
const IDLE_FRAMES_REFILL: u32 = 10;

/// Increment from which on a window update is useful: all that can come sum up to what we sent
/// and 2^31, so there cannot be many of this size.
pub(super) const USEFUL_INCREMENT: u32 = 1024;

/// Bytes of answers (acknowledgements, resets) that the peer may leave unread: some 60,000 PINGs.
/// Who does not read what it asked for makes us keep it.
pub(super) const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// CONTINUATION frames of one block. The largest block we take fills eight; honest senders fill
/// frames before they begin another.
pub(super) const CONTINUATIONS_MAX: u32 = 32;

/// Bytes of a header block for each byte of a decoded head we take: a block within this is decoded
/// and answered even if its head is too large; beyond, the connection is not worth the work.
pub(super) const BLOCK_BYTES_FACTOR: usize = 2;

/// Something that may be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    left: u32,
    max: u32,
    refill: u32,
}

impl Budget {
    /// For streams given up.
    pub(super) fn resets(dialect: Dialect) -> Self {
        let max = match dialect {
            Dialect::Public => RESETS_MAX,
            Dialect::Hop => RESETS_MAX_HOP,
        };
        Self::new(max, RESETS_REFILL)
    }

    /// For frames without use.
    pub(super) fn idle_frames() -> Self {
        Self::new(IDLE_FRAMES_MAX, IDLE_FRAMES_REFILL)
    }

    fn new(max: u32, refill: u32) -> Self {
        Self {
            left: max,
            max,
            refill,
        }
    }

    /// Takes one; `false` if none is left.
    #[inline]
    pub(super) fn spend(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// Something useful happened.
    #[inline]
    pub(super) fn earn(&mut self) {
        self.left = self.max.min(self.left + self.refill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_refills_with_useful_work_and_never_overflows() {
        let mut budget = Budget::new(3, 2);
        budget.earn();
        assert!((0..3).all(|_| budget.spend()) && !budget.spend());
        budget.earn();
        assert!((0..2).all(|_| budget.spend()) && !budget.spend());
    }
}
