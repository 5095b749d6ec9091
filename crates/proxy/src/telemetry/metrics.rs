//! Metric set v1, documented in `docs/metrics.md`: every worker counts into slots of its own, the
//! quiet thread sums over workers when it is asked. A worker takes a lock only when it meets a
//! peer for the first time; must never share a cache line with another worker, nor search.

mod connections;
mod counter;
mod dns;
mod families;
mod labels;
mod page;
mod slot;
mod view;

use crate::control::Status;
use arc_swap::ArcSwapOption;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use connections::{ConnectionCounters, Side};
pub use dns::{Answered, DnsCounters, Recalled, Upstream};
pub use labels::{Labels, Protocol};
pub use page::{CONTENT_TYPE, Page};
pub use slot::Slot;

/// Distinct sets of labels that get slots of their own. At about 0.5 KiB a slot and 5 KiB of text
/// at a scrape, more would not fit the memory that a sidecar is promised to stay within.
pub const SLOTS_MAX: usize = 2000;

/// Idle slots go after that: longer than scrape intervals and rollouts, shorter than the life of a
/// proxy that meets ever new peers.
pub const SLOT_IDLE: Duration = Duration::from_secs(15 * 60);

/// All counters of the proxy.
pub struct Registry {
    workload: model::Workload,
    slots_max: usize,
    inner: Mutex<Inner>,
    overflowed: AtomicU64,
    reloads: [AtomicU64; 2],
    access_log_dropped: Arc<AtomicU64>,
    dns: Arc<DnsCounters>,
    /// Of the conversation with the control plane, if there is one.
    control: ArcSwapOption<Status>,
}

#[derive(Default)]
struct Inner {
    series: HashMap<Arc<Labels>, Series>,
    workers: Vec<Arc<ConnectionCounters>>,
}

/// The slots of one set of labels, and since when nothing happened to them.
struct Series {
    /// By worker; a worker that never met the peer has none.
    slots: Vec<Option<Arc<Slot>>>,
    begun: u64,
    changed_ms: u64,
    retired: bool,
}

impl Registry {
    /// An empty registry for one proxy; `slots_max` bounds the distinct sets of labels.
    #[must_use]
    pub fn new(workload: &model::Workload, slots_max: usize) -> Arc<Self> {
        Arc::new(Self {
            workload: workload.clone(),
            slots_max,
            inner: Mutex::default(),
            overflowed: AtomicU64::new(0),
            reloads: [AtomicU64::new(0), AtomicU64::new(0)],
            access_log_dropped: Arc::default(),
            dns: Arc::default(),
            control: ArcSwapOption::empty(),
        })
    }

    /// A recorder for one more worker.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Recorder {
        let connections = Arc::new(ConnectionCounters::default());
        let mut inner = self.lock();
        let worker = inner.workers.len();
        inner.workers.push(Arc::clone(&connections));
        drop(inner);
        Recorder {
            registry: Arc::clone(self),
            worker,
            connections,
        }
    }

    /// Everything as Prometheus text.
    #[must_use]
    pub fn render(&self) -> String {
        self.page().collect()
    }

    /// Everything as Prometheus text in pieces of some 32 KiB, so that a scrape of thousands of
    /// slots needs no buffer of megabytes.
    #[must_use]
    pub fn page(&self) -> Page {
        Page::new(self.view())
    }

    /// Everything as JSON: `[{"name", "labels", "value"}]`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        page::json(&self.view())
    }

    /// Shows from now on how the conversation with the control plane goes.
    pub(crate) fn show_control(&self, status: Arc<Status>) {
        self.control.store(Some(status));
    }

    /// Counts a reload of the configuration.
    pub fn reloaded(&self, accepted: bool) {
        self.reloads[usize::from(accepted)].fetch_add(1, Ordering::Relaxed);
    }

    /// The counter that the access log adds dropped lines to.
    #[must_use]
    pub fn access_log_dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.access_log_dropped)
    }

    /// The counters of the name server.
    #[must_use]
    pub fn dns(&self) -> Arc<DnsCounters> {
        Arc::clone(&self.dns)
    }

    /// Retires slots that nothing happened to for `idle`, and drops those that were retired at the
    /// last sweep: a worker that was just about to use one has counted into it by then, which
    /// brings it back. `now_ms` is any clock that only goes forward.
    pub fn sweep(&self, idle: Duration, now_ms: u64) {
        let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        self.lock()
            .series
            .retain(|_, series| series.sweep(idle_ms, now_ms));
    }

    fn slot(&self, worker: usize, labels: &Labels) -> Arc<Slot> {
        let mut inner = self.lock();
        let full = inner.series.len() >= self.slots_max && !inner.series.contains_key(labels);
        let labels = if full {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            labels.overflow()
        } else {
            labels.clone()
        };
        match inner.series.entry(Arc::new(labels)) {
            Entry::Occupied(series) => series.into_mut().slot(worker),
            Entry::Vacant(place) => place.insert(Series::new()).slot(worker),
        }
    }

    /// What is there now, to be read without the lock.
    fn view(&self) -> view::View {
        let inner = self.lock();
        let series = inner.series.iter().map(|(labels, series)| {
            (
                Arc::clone(labels),
                series.slots.iter().flatten().cloned().collect(),
            )
        });
        let series = series.collect();
        let workers = inner.workers.clone();
        drop(inner);
        let [rejected, accepted] = &self.reloads;
        view::View::new(view::Parts {
            workload: self.workload.clone(),
            series,
            workers,
            overflowed: self.overflowed.load(Ordering::Relaxed),
            reloads: (
                accepted.load(Ordering::Relaxed),
                rejected.load(Ordering::Relaxed),
            ),
            access_log_dropped: self.access_log_dropped.load(Ordering::Relaxed),
            dns: Arc::clone(&self.dns),
            control: self.control.load_full(),
        })
    }

    /// Counters are never half written, so a panic elsewhere leaves them sound.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series {
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            begun: 0,
            changed_ms: 0,
            retired: false,
        }
    }

    /// The worker's slot, made or brought back.
    fn slot(&mut self, worker: usize) -> Arc<Slot> {
        if self.slots.len() <= worker {
            self.slots.resize(worker + 1, None);
        }
        self.retire(false);
        Arc::clone(self.slots[worker].get_or_insert_default())
    }

    fn retire(&mut self, retired: bool) {
        self.retired = retired;
        for slot in self.slots.iter().flatten() {
            slot.retire(retired);
        }
    }

    /// Whether it stays. The first sweep that sees a series only starts its clock: how old it is
    /// was not asked of the worker that made it.
    fn sweep(&mut self, idle_ms: u64, now_ms: u64) -> bool {
        let slots = self.slots.iter().flatten();
        let (begun, active) = slots.fold((0, 0), |(begun, active), slot| {
            (begun + slot.begun(), active + slot.active())
        });
        if begun != self.begun || active > 0 || self.changed_ms == 0 {
            (self.begun, self.changed_ms) = (begun, now_ms.max(1));
            self.retire(false);
        } else if self.retired {
            return false;
        } else if now_ms.saturating_sub(self.changed_ms) >= idle_ms {
            self.retire(true);
        }
        true
    }
}

/// One worker's hand on the registry. Invariant: used by one thread only, since its counters are
/// written without atomic additions.
pub struct Recorder {
    registry: Arc<Registry>,
    worker: usize,
    connections: Arc<ConnectionCounters>,
}

impl Recorder {
    /// The slot for `labels`, or the overflow slot when there are too many. Takes a lock: keep the
    /// slot for as long as the connection lasts and ask again once it [is retired].
    ///
    /// [is retired]: Slot::is_retired
    #[must_use]
    pub fn slot(&self, labels: &Labels) -> Arc<Slot> {
        self.registry.slot(self.worker, labels)
    }

    /// Counters of connections and handshakes.
    #[must_use]
    pub fn connections(&self) -> &Arc<ConnectionCounters> {
        &self.connections
    }

    /// Labels of requests between this proxy's workload and `peer` (service account and namespace
    /// of its verified certificate; `None` for plaintext).
    #[must_use]
    pub fn labels(
        &self,
        direction: model::Direction,
        protocol: Protocol,
        peer: Option<(&str, &str)>,
    ) -> Labels {
        Labels::new(direction, protocol, &self.registry.workload, peer)
    }
}

#[cfg(test)]
mod tests;
