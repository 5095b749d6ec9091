//! Bytes that were read and not used yet, in buffers lent by a worker's pool: a connection holds
//! one only while something is in it. Filled by [`crate::stream`], read by everything after it.

use std::cell::RefCell;
use std::rc::Rc;

/// One TLS record with its header and expansion (RFC 8446 §5.2) always fits into a lent buffer.
pub(crate) const BUFFER_BYTES: usize = 5 + 16_384 + 256 + 1024;
/// Buffers a pool keeps for the next connection; more are given back to the allocator.
const POOLED_MAX: usize = 64;

/// The buffers of one worker.
#[derive(Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Box<[u8]>>>,
    /// Where records are sealed before they are sent: used within one call, never across.
    pub(crate) seal: RefCell<Vec<u8>>,
}

impl Pool {
    fn lend(&self) -> Box<[u8]> {
        let pooled = self.free.borrow_mut().pop();
        pooled.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice())
    }

    fn give_back(&self, bytes: Box<[u8]>) {
        let mut free = self.free.borrow_mut();
        if bytes.len() == BUFFER_BYTES && free.len() < POOLED_MAX {
            free.push(bytes);
        }
    }
}

/// What one side of a connection has sent and nobody has consumed.
///
/// Invariant: `start ≤ end ≤ raw_start ≤ raw_end ≤ bytes.len()`. The plaintext is `start..end`;
/// ciphertext that is not a whole record yet is `raw_start..raw_end` (empty without TLS).
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    raw_start: usize,
    raw_end: usize,
    pool: Rc<Pool>,
}

impl Inbox {
    /// Holds nothing, not even a buffer.
    pub(crate) fn new(pool: &Rc<Pool>) -> Self {
        let bytes = Box::default();
        Self {
            bytes,
            start: 0,
            end: 0,
            raw_start: 0,
            raw_end: 0,
            pool: Rc::clone(pool),
        }
    }

    /// The plaintext that waits.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether not even a part of a record waits.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.start == self.end && self.raw_start == self.raw_end
    }

    /// Takes `count` bytes off the front; gives the buffer back when nothing is left.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(
            count <= self.end - self.start,
            "consuming what was not read"
        );
        self.start += count;
        self.release();
    }

    /// Gives the buffer back if it holds nothing.
    pub(crate) fn release(&mut self) {
        if !self.holds_nothing() {
            return;
        }
        (self.start, self.end, self.raw_start, self.raw_end) = (0, 0, 0, 0);
        if !self.bytes.is_empty() {
            self.pool.give_back(std::mem::take(&mut self.bytes));
        }
    }

    /// Room for at least one byte more, moving or growing what is there; whoever calls bounds how
    /// much may wait.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = self.pool.lend();
        }
        if self.raw_end == self.bytes.len() {
            self.compact();
        }
        if self.raw_end == self.bytes.len() {
            self.grow();
        }
        &mut self.bytes[self.raw_end..]
    }

    /// Records `count` plain bytes read into [`Inbox::room`].
    pub(crate) fn filled(&mut self, count: usize) {
        debug_assert!(
            self.raw_start == self.raw_end,
            "plain bytes after ciphertext"
        );
        self.end += count;
        self.raw_start = self.end;
        self.raw_end = self.end;
    }

    /// Records `count` bytes of ciphertext read into [`Inbox::room`].
    pub(crate) fn filled_raw(&mut self, count: usize) {
        self.raw_end += count;
    }

    /// The ciphertext that waits.
    pub(crate) fn raw(&mut self) -> &mut [u8] {
        &mut self.bytes[self.raw_start..self.raw_end]
    }

    /// The first `record` bytes of the ciphertext were opened in place: `payload` of them, from
    /// `offset`, are plaintext; the rest is done with.
    pub(crate) fn opened(&mut self, record: usize, offset: usize, payload: usize) {
        let from = self.raw_start + offset;
        self.raw_start += record;
        if self.start == self.end {
            (self.start, self.end) = (from, from + payload);
        } else {
            self.bytes.copy_within(from..from + payload, self.end);
            self.end += payload;
        }
        if self.raw_start == self.raw_end {
            (self.raw_start, self.raw_end) = (self.end, self.end);
        }
    }

    /// Plaintext that a handshake already decrypted; it replaces ciphertext that was discarded,
    /// so there is room before what remains.
    pub(crate) fn prepend(&mut self, plaintext: &[u8]) {
        debug_assert!(self.is_empty(), "a handshake leaves no plaintext behind");
        let from = self.raw_start - plaintext.len();
        self.bytes[from..self.raw_start].copy_from_slice(plaintext);
        (self.start, self.end) = (from, self.raw_start);
    }

    /// What was read as plain bytes turns out to be ciphertext.
    pub(crate) fn plain_to_raw(&mut self) {
        (self.raw_start, self.raw_end) = (self.start, self.end);
        self.end = self.start;
    }

    /// Drops `count` bytes of ciphertext.
    pub(crate) fn discard_raw(&mut self, count: usize) {
        self.raw_start += count;
        if self.is_empty() {
            (self.start, self.end) = (self.raw_start, self.raw_start);
        }
    }

    fn compact(&mut self) {
        let (plain, raw) = (self.end - self.start, self.raw_end - self.raw_start);
        self.bytes.copy_within(self.start..self.end, 0);
        self.bytes.copy_within(self.raw_start..self.raw_end, plain);
        (self.start, self.end, self.raw_start, self.raw_end) = (0, plain, plain, plain + raw);
    }

    fn grow(&mut self) {
        let mut larger = vec![0; self.bytes.len() + BUFFER_BYTES].into_boxed_slice();
        larger[..self.raw_end].copy_from_slice(&self.bytes[..self.raw_end]);
        self.bytes = larger;
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(plain: &[u8]) -> Inbox {
        let mut inbox = Inbox::new(&Rc::default());
        inbox.room()[..plain.len()].copy_from_slice(plain);
        inbox.filled(plain.len());
        inbox
    }

    #[test]
    fn a_consumed_inbox_gives_its_buffer_back() {
        let mut inbox = inbox(b"hello");
        inbox.consume(5);
        assert!(inbox.bytes.is_empty());
        assert_eq!(inbox.pool.free.borrow().len(), 1);
    }

    #[test]
    fn growing_keeps_what_waits() {
        let mut inbox = inbox(b"head");
        for _ in 0..3 {
            let count = inbox.room().len();
            inbox.room().fill(b'x');
            inbox.filled(count);
        }
        assert!(inbox.bytes().starts_with(b"headxxx"));
        assert_eq!(inbox.bytes().len(), 3 * BUFFER_BYTES);
    }

    #[test]
    fn opened_records_join_their_plaintext() {
        let mut inbox = inbox(b"....abXX....cdXX...");
        inbox.plain_to_raw();
        inbox.opened(8, 4, 2);
        assert_eq!(inbox.bytes(), b"ab");
        inbox.opened(8, 4, 2);
        assert_eq!(inbox.bytes(), b"abcd");
        assert_eq!(inbox.raw(), b"...");
        inbox.consume(4);
        assert_eq!(inbox.raw(), b"...");
    }

    #[test]
    fn early_plaintext_stands_before_the_ciphertext_that_remains() {
        let mut inbox = inbox(b"0123456789rest");
        inbox.plain_to_raw();
        inbox.discard_raw(10);
        inbox.prepend(b"GET /");
        assert_eq!(inbox.bytes(), b"GET /");
        assert_eq!(inbox.raw(), b"rest");
    }
}
