//! Counters of one thread: what a sidecar keeps per request, so that its cost is in the figures.

use std::cell::Cell;
use std::time::Duration;

const BUCKETS: usize = 32;

#[derive(Default)]
pub(super) struct Stats {
    open: Cell<u64>,
    requests: Cell<u64>,
    micros: Cell<u64>,
    buckets: [Cell<u64>; BUCKETS],
}

fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get() + count);
}

impl Stats {
    pub(super) fn opened(&self) {
        add(&self.open, 1);
    }

    /// Reports to stderr when the last connection has gone.
    pub(super) fn closed(&self) {
        self.open.set(self.open.get() - 1);
        if self.open.get() == 0 {
            let buckets = self.buckets.iter().map(Cell::get).collect::<Vec<_>>();
            eprintln!(
                "{} requests, {} us, {buckets:?}",
                self.requests.get(),
                self.micros.get()
            );
        }
    }

    pub(super) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.requests, 1);
        add(&self.micros, micros);
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        add(&self.buckets[bucket.min(BUCKETS - 1)], 1);
    }
}
