//! Numbers for people. Pure; called by outputs.

/// Bytes as MiB.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52 bytes")]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Nanoseconds as microseconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "latencies are far below 2^52 ns"
)]
pub(crate) fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn count(value: u64) -> f64 {
    value as f64
}
