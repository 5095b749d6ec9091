//! Randomness for balancing and request ids: fast, seeded from the kernel, not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// A seed that differs between workers and processes.
pub(crate) fn seed() -> u64 {
    // The standard library seeds its hash maps from the kernel.
    RandomState::new().hash_one(0) | 1
}

/// The next number of a xorshift sequence (Marsaglia 2003).
pub(crate) fn next(state: &Cell<u64>) -> u64 {
    let mut x = state.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    state.set(x);
    x.wrapping_mul(0x2545_f491_4f6c_dd1d)
}
