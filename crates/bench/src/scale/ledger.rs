//! What the simulated sidecars have come to: who is served, which changes have arrived when, how
//! long first uses took. Written by the sidecars' threads, read by `measure`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shared by all sidecars.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Sidecars that have a certificate.
    pub(super) enrolled: AtomicUsize,
    /// Sidecars that have all that they want.
    pub(super) served: AtomicUsize,
    /// Bytes that came and went, TLS and all.
    pub(super) received: AtomicU64,
    /// See `received`.
    pub(super) sent: AtomicU64,
    /// Resources that came.
    pub(super) resources: AtomicU64,
    /// Connections that came to an end, or to nothing.
    pub(super) ended: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    served_at: Option<Instant>,
    changes: Vec<Change>,
    /// Changes of each Service that not all have yet.
    pending: BTreeMap<usize, Vec<u32>>,
    deliveries: Vec<Duration>,
    first_uses: Vec<Duration>,
    failure: String,
}

/// One change of an endpoint.
#[derive(Debug, Clone)]
pub(super) struct Change {
    begun: Instant,
    /// Sidecars that do not have it yet.
    awaited: usize,
    /// When the last of those that were awaited had it.
    last: Option<Duration>,
}

impl Ledger {
    /// A change of `service` that `awaited` sidecars are to hear of; its number. It counts from
    /// [`Self::begin`] on.
    pub(super) fn open(&self, service: usize, awaited: usize) -> u32 {
        let mut log = self.log();
        let number = u32::try_from(log.changes.len()).unwrap_or(u32::MAX);
        log.changes.push(Change {
            begun: Instant::now(),
            awaited,
            last: None,
        });
        if awaited > 0 {
            log.pending.entry(service).or_default().push(number);
        }
        number
    }

    /// The change is made now.
    pub(super) fn begin(&self, number: u32) {
        self.log().changes[number as usize].begun = Instant::now();
    }

    /// One sidecar has acknowledged all changes of `service` up to `newest`, and had acknowledged
    /// those up to `before`.
    pub(super) fn delivered(&self, service: usize, before: Option<u32>, newest: u32) {
        let now = Instant::now();
        let mut guard = self.log();
        let log = &mut *guard;
        let Some(pending) = log.pending.get_mut(&service) else {
            return;
        };
        let is_new =
            |number: &u32| before.is_none_or(|before| *number > before) && *number <= newest;
        for number in pending.iter().filter(|number| is_new(number)) {
            let change = &mut log.changes[*number as usize];
            let took = now - change.begun;
            change.awaited = change.awaited.saturating_sub(1);
            change.last = Some(change.last.unwrap_or_default().max(took));
            log.deliveries.push(took);
        }
        let changes = &log.changes;
        pending.retain(|number| changes[*number as usize].awaited > 0);
        if pending.is_empty() {
            log.pending.remove(&service);
        }
    }

    /// Changes that not all have yet.
    pub(super) fn undelivered(&self) -> usize {
        self.log().pending.values().map(Vec::len).sum()
    }

    /// For every change that all have: until the last one had it. And until each one had each.
    pub(super) fn delays(&self) -> (Vec<Duration>, Vec<Duration>) {
        let log = self.log();
        let whole = log.changes.iter().filter(|change| change.awaited == 0);
        let lasts = whole.filter_map(|change| change.last).collect();
        (lasts, log.deliveries.clone())
    }

    /// A sidecar has all that it wants, or not any more.
    pub(super) fn set_served(&self, is_served: bool) {
        if !is_served {
            self.served.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let mut log = self.log();
        log.served_at = Some(Instant::now());
        self.served.fetch_add(1, Ordering::AcqRel);
    }

    /// When the last one was served.
    pub(super) fn served_at(&self) -> Option<Instant> {
        self.log().served_at
    }

    /// The endpoints of a Service came to who had waited for them.
    pub(super) fn first_use(&self, took: Duration) {
        self.log().first_uses.push(took);
    }

    /// How long first uses took since this was asked last.
    pub(super) fn take_first_uses(&self) -> Vec<Duration> {
        std::mem::take(&mut self.log().first_uses)
    }

    /// A connection came to an end, or to nothing.
    pub(super) fn note_end(&self, why: &anyhow::Error) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.log().failure = format!("{why:#}");
    }

    /// Why the last one did; empty if none did.
    pub(super) fn last_end(&self) -> String {
        self.log().failure.clone()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_over_when_the_last_one_has_it_or_a_later_one() {
        let ledger = Ledger::default();
        let [first, other, second] = [7, 8, 7].map(|service| ledger.open(service, 2));
        ledger.begin(first);
        ledger.delivered(7, None, first);
        assert_eq!(ledger.undelivered(), 3);
        // The second one hears of both at once.
        ledger.delivered(7, None, second);
        assert_eq!(ledger.undelivered(), 2);
        // What it had already does not count twice.
        ledger.delivered(7, Some(first), second);
        ledger.delivered(8, None, other);
        let (lasts, deliveries) = ledger.delays();
        assert_eq!((lasts.len(), deliveries.len()), (2, 5));
        assert_eq!(ledger.undelivered(), 1);
    }
}
