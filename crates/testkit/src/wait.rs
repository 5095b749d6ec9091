//! Bounded waiting on what can be observed. Used by everything in this crate and by tests.

use std::time::{Duration, Instant};

/// How long anything may take before a test fails. Generous: an emulated or busy machine is slow.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Asks again and again until `observe` gives a value.
///
/// # Panics
/// After [`DEADLINE`], with `what`.
#[track_caller]
pub fn eventually<T>(what: &str, mut observe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = observe() {
            return value;
        }
        assert!(
            started.elapsed() < DEADLINE,
            "did not happen within {DEADLINE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks again and again until `observe` is true.
///
/// # Panics
/// After [`DEADLINE`], with `what`.
#[track_caller]
pub fn until(what: &str, mut observe: impl FnMut() -> bool) {
    eventually(what, || observe().then_some(()));
}
