//! The counters of one series in one worker. `begin` and `finish` are called for every request.
//! Must never search, allocate (but for a first flag) or write what another worker writes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::counter::Counter;
use crate::error::Flag;

/// Upper bound of the first duration bucket.
const BUCKET_FIRST_US: u64 = 50;
/// Bounds double from 50 µs to 13.1 s; the last bucket has none.
pub(super) const BUCKETS: usize = 20;
/// `none` for requests that ended before there was a status, then `1xx` to `5xx`.
pub(super) const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];
/// Flags other than none.
const FLAGS: usize = Flag::ALL.len() - 1;

type ByClass = [Counter; CLASSES.len()];

/// Counters of one peer in one worker, with one writer: the worker that asked for it.
// Two cache lines apart from its neighbours: adjacent lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub struct Slot {
    begun: Counter,
    answered: ByClass,
    duration_us: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    retries: Counter,
    buckets: [Counter; BUCKETS],
    /// Most peers never see a flag.
    flagged: OnceLock<Box<[ByClass; FLAGS]>>,
    retired: AtomicBool,
}

impl Slot {
    /// A request's head has arrived.
    #[inline]
    pub fn begin(&self) {
        self.begun.add(1);
    }

    /// The same request has ended, whatever way; `status` 0 if nothing was answered. Bytes are of
    /// bodies, in from and out to the downstream.
    #[inline]
    pub fn finish(&self, status: u16, flag: Flag, micros: u64, bytes_in: u64, bytes_out: u64) {
        self.by_class(flag)[class(status)].add(1);
        self.buckets[bucket(micros)].add(1);
        self.duration_us.add(micros);
        self.count(bytes_in, bytes_out);
    }

    /// Bytes were moved of what has not ended yet, which will not be among those of its end.
    #[inline]
    pub fn count(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.add(bytes_in);
        self.bytes_out.add(bytes_out);
    }

    /// The request was sent to a further endpoint, or on a further connection.
    #[inline]
    pub fn retry(&self) {
        self.retries.add(1);
    }

    /// Whether the slot was idle for so long that another has to be asked for.
    #[inline]
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    pub(super) fn retire(&self, retired: bool) {
        self.retired.store(retired, Ordering::Relaxed);
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.read()
    }

    /// Ended ones are read first, so that a request that ends meanwhile cannot make it negative.
    pub(super) fn active(&self) -> u64 {
        let ended: u64 = self.buckets.iter().map(Counter::read).sum();
        self.begun.read().saturating_sub(ended)
    }

    #[inline]
    fn by_class(&self, flag: Flag) -> &ByClass {
        match flag.index().checked_sub(1) {
            None => &self.answered,
            Some(index) => &self.flagged.get_or_init(Box::default)[index],
        }
    }
}

#[inline]
fn class(status: u16) -> usize {
    let class = usize::from(status / 100);
    if class < CLASSES.len() { class } else { 0 }
}

/// Bucket `n` ends at 50 µs · 2ⁿ inclusive: the place of the highest bit of (µs − 1) / 50.
#[inline]
pub(super) fn bucket(micros: u64) -> usize {
    let doublings = u64::BITS - (micros.saturating_sub(1) / BUCKET_FIRST_US).leading_zeros();
    (doublings as usize).min(BUCKETS - 1)
}

/// Upper bound of bucket `index` in µs, none for the last.
pub(super) fn bound_us(index: usize) -> Option<u64> {
    (index < BUCKETS - 1).then(|| BUCKET_FIRST_US << index)
}

/// Sums over the workers' slots of one series.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) active: u64,
    pub(super) duration_us: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) retries: u64,
    pub(super) buckets: [u64; BUCKETS],
    /// By flag (none first), then by class.
    pub(super) requests: [[u64; CLASSES.len()]; FLAGS + 1],
}

impl Totals {
    pub(super) fn add(&mut self, slot: &Slot) {
        self.active += slot.active();
        self.duration_us += slot.duration_us.read();
        self.bytes_in += slot.bytes_in.read();
        self.bytes_out += slot.bytes_out.read();
        self.retries += slot.retries.read();
        add_all(&mut self.buckets, &slot.buckets);
        add_all(&mut self.requests[0], &slot.answered);
        for (sums, flagged) in self.requests[1..]
            .iter_mut()
            .zip(slot.flagged.get().into_iter().flat_map(|all| all.iter()))
        {
            add_all(sums, flagged);
        }
    }
}

fn add_all(sums: &mut [u64], counters: &[Counter]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_what_is_at_most_its_bound() {
        assert_eq!(
            (bucket(0), bucket(1), bucket(u64::MAX)),
            (0, 0, BUCKETS - 1)
        );
        for index in 0..BUCKETS - 1 {
            let bound = bound_us(index).unwrap();
            assert_eq!(
                (bucket(bound), bucket(bound + 1)),
                (index, index + 1),
                "{bound} µs"
            );
        }
    }

    #[test]
    fn statuses_outside_http_count_as_none() {
        for (status, expected) in [
            (0, "none"),
            (99, "none"),
            (101, "1xx"),
            (200, "2xx"),
            (599, "5xx"),
            (600, "none"),
            (65535, "none"),
        ] {
            assert_eq!(CLASSES[class(status)], expected, "{status}");
        }
    }

    #[test]
    fn a_slot_stays_small() {
        assert!(size_of::<Slot>() <= 384, "{}", size_of::<Slot>());
    }
}
