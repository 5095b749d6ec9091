//! Flow control (RFC 9113, section 5.2): how much may be sent, how much the peer may send. One pair
//! for each stream and one for the connection. Called by the connection; never writes a frame.

/// The window of both sides before any setting or update (section 6.9.2).
pub(super) const INITIAL: u32 = 65_535;

/// The peer went beyond a window, or let one grow beyond 2^31 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// What we may send.
/// Invariant: at most 2^31 - 1; below zero only by a change of settings (section 6.9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outbound(i32);

impl Outbound {
    /// Invariant: `size` is at most 2^31 - 1, as settings are checked to be.
    pub(super) fn new(size: u32) -> Self {
        Self(size as i32)
    }

    /// Bytes that may be sent now.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.0.max(0) as usize
    }

    /// Takes note of bytes sent. Invariant: `count` is at most `open()`.
    #[inline]
    pub(super) fn sent(&mut self, count: usize) {
        debug_assert!(count <= self.open());
        self.0 -= count as i32;
    }

    /// The peer lets `increment` bytes more through; whether that opened a shut window.
    pub(super) fn grow(&mut self, increment: u32) -> Result<bool, Overflow> {
        let was_shut = self.0 <= 0;
        let increment = i32::try_from(increment).map_err(|_| Overflow)?;
        self.0 = self.0.checked_add(increment).ok_or(Overflow)?;
        Ok(was_shut && self.0 > 0)
    }

    /// The peer's initial window changed. Both sizes are at most 2^31 - 1.
    pub(super) fn shift(&mut self, old: u32, new: u32) -> Result<(), Overflow> {
        let shifted = i64::from(self.0) + i64::from(new) - i64::from(old);
        self.0 = i32::try_from(shifted).map_err(|_| Overflow)?;
        Ok(())
    }
}

/// What the peer may send.
/// Invariant: `left + held + due` is the window's size: as configured, but for a change of
/// settings, and what it was enlarged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inbound {
    /// Bytes that the peer may still send; below zero only by a change of settings.
    left: i64,
    /// Bytes that came and were not given back yet.
    held: u32,
    /// Bytes that were given back and not announced yet.
    due: u32,
    /// From how many of them on they are announced: half of the window, so that updates are few
    /// and the peer seldom waits for one.
    batch: u32,
}

impl Inbound {
    /// A window of which the peer knows `left` bytes and which is to have `size`.
    pub(super) fn new(left: u32, size: u32) -> Self {
        Self {
            left: left.into(),
            held: 0,
            due: 0,
            batch: (size / 2).max(1),
        }
    }

    /// Takes note of bytes that came.
    #[inline]
    pub(super) fn charge(&mut self, count: usize) -> Result<(), Overflow> {
        let left = self.left - count as i64;
        if left < 0 {
            return Err(Overflow);
        }
        self.left = left;
        self.held += count as u32;
        Ok(())
    }

    /// Gives `count` of the held bytes back; by how much to let the peer's window grow, if it is
    /// time to.
    #[inline]
    pub(super) fn give_back(&mut self, count: usize) -> Option<u32> {
        let count = count.min(self.held as usize) as u32;
        self.held -= count;
        self.due += count;
        if self.due < self.batch {
            return None;
        }
        self.left += i64::from(self.due);
        Some(std::mem::take(&mut self.due))
    }

    /// Makes the window larger by `by` bytes; by how much to let the peer's window grow now.
    pub(super) fn enlarge(&mut self, by: u32) -> u32 {
        self.batch += by / 2;
        self.left += i64::from(by) + i64::from(self.due);
        std::mem::take(&mut self.due) + by
    }

    /// The peer has taken our setting of the initial window.
    pub(super) fn shift(&mut self, old: u32, new: u32) {
        self.left += i64::from(new) - i64::from(old);
    }

    /// Bytes that came and that the caller still owes.
    pub(super) fn held(&self) -> usize {
        self.held as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = (1 << 31) - 1;

    #[test]
    fn a_window_grows_to_31_bits_and_not_beyond() {
        let mut window = Outbound::new(MOST - 1);
        assert_eq!(window.grow(1), Ok(false));
        assert_eq!(window.grow(1), Err(Overflow));
        assert_eq!(window.open(), MOST as usize);
    }

    #[test]
    fn settings_make_a_window_negative() {
        let mut window = Outbound::new(100);
        window.sent(100);
        assert_eq!(window.shift(100, 0), Ok(()));
        assert_eq!(window.open(), 0);
        assert_eq!(window.grow(100), Ok(false), "zero is still shut");
        assert_eq!(window.grow(1), Ok(true));
        assert_eq!(window.shift(0, MOST), Err(Overflow));
        let mut lowest = Outbound::new(MOST);
        lowest.sent(MOST as usize);
        assert_eq!(lowest.shift(MOST, 0), Ok(()));
        assert_eq!(lowest.shift(0, MOST), Ok(()));
        assert_eq!(lowest, Outbound(0));
    }

    #[test]
    fn what_is_consumed_is_announced_in_batches() {
        let mut window = Inbound::new(10, 10);
        assert_eq!(window.charge(10), Ok(()));
        assert_eq!(window.charge(1), Err(Overflow));
        assert_eq!(window.give_back(4), None);
        assert_eq!(window.give_back(1), Some(5));
        assert_eq!(window.charge(5), Ok(()));
        assert_eq!(window.charge(1), Err(Overflow));
        assert_eq!(
            window.give_back(100),
            Some(10),
            "no more than came is given back"
        );
        assert_eq!(window.held(), 0);
    }

    #[test]
    fn window_that_is_enlarged_announces_at_once_and_later_in_larger_batches() {
        let mut window = Inbound::new(10, 10);
        assert_eq!(window.charge(10), Ok(()));
        assert_eq!(window.give_back(4), None);
        assert_eq!(
            window.enlarge(10),
            14,
            "with what was still to be announced"
        );
        assert_eq!(window.charge(14), Ok(()));
        assert_eq!(window.charge(1), Err(Overflow));
        assert_eq!(window.held(), 20, "twice of what it was");
        assert_eq!(window.give_back(9), None);
        assert_eq!(window.give_back(1), Some(10));
    }
}
