//! The two clocks of a run: monotonic time and this thread's CPU time, both in nanoseconds.
//! Everything that stamps a request reads them here; nothing else asks the kernel for time.

use rustix::time::{ClockId, Timespec, clock_gettime};

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the monotonic clock.
#[inline]
pub(crate) fn now() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// CPU time that the calling thread has used, in nanoseconds.
pub(crate) fn thread_cpu() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Time that the calling thread was ready to run but had no CPU, in nanoseconds; 0 where the
/// kernel does not tell.
pub(crate) fn thread_wait() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

/// A duration in nanoseconds, at most 584 years.
pub(crate) fn duration(value: std::time::Duration) -> u64 {
    u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn timespec(nanos: u64) -> Timespec {
    let seconds = i64::try_from(nanos / SECOND).expect("584 years of nanoseconds are few seconds");
    let rest = i64::try_from(nanos % SECOND).expect("less than a second");
    Timespec {
        tv_sec: seconds,
        tv_nsec: rest,
    }
}

#[inline]
fn nanos(time: Timespec) -> u64 {
    // Both clocks start at or after zero.
    time.tv_sec.unsigned_abs() * SECOND + time.tv_nsec.unsigned_abs()
}
