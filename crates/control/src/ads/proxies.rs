//! The sidecars that are connected, and how far each has come. Written by their streams, read by
//! the push (what may be forgotten), the authority (who trusts whom) and the admin pages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::Notify;
use xds::delta::server::Progress;
use xds::kind::Kind;
use xds::server::Machine;

use crate::kinds::WorkloadKey;

/// Streams of one workload at once: an Envoy has one and its companion another, and both may come
/// back before their last connections were found to be dead, more than once.
const STREAMS_PER_WORKLOAD_MAX: usize = 8;

/// All connected sidecars.
#[derive(Debug, Default)]
pub struct Proxies {
    seats: Mutex<BTreeMap<u64, Arc<Proxy>>>,
    next: AtomicU64,
    /// The newest trust bundle that each workload's sidecar has said to use, connected or not.
    bundles: Mutex<BTreeMap<WorkloadKey, u64>>,
    /// Told whenever some sidecar has come further, or has gone.
    pub(super) moved: Notify,
}

/// One connected sidecar.
#[derive(Debug)]
pub struct Proxy {
    /// Whose sidecar it is.
    pub workload: WorkloadKey,
    /// The SPIFFE id that it proved.
    pub identity: String,
    /// Where it connected from.
    pub address: SocketAddr,
    /// What it says it is, for people.
    pub agent: String,
    /// Which variant of the protocol it speaks.
    pub variant: &'static str,
    /// Since when it is connected.
    pub since: SystemTime,
    passed: AtomicU64,
    is_gone: AtomicBool,
    state: Mutex<State>,
}

/// How far a sidecar has come.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Everything up to this generation was queued for it, or does not concern it.
    pub generation: u64,
    /// Whether it uses all of that, or has said why not.
    pub is_settled: bool,
    /// It has used everything up to this generation.
    pub used: u64,
    /// Of each kind that it asked for.
    pub kinds: Vec<(Kind, Progress)>,
    /// The newest trust bundle that it uses, as the authority counts them; 0 for none yet.
    pub bundle: u64,
    /// Whether it has all that it wants, and no trust bundle is among that: it checks nobody.
    trusts_nobody: bool,
}

/// A place among the proxies, given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    proxy: Arc<Proxy>,
    proxies: Arc<Proxies>,
}

impl Proxies {
    /// A place for a stream that begins at `generation`; `None` if the workload has too many.
    pub(super) fn take_seat(self: &Arc<Self>, proxy: Proxy) -> Option<Seat> {
        let mut seats = lock(&self.seats);
        let same = seats
            .values()
            .filter(|other| other.workload == proxy.workload);
        if same.count() >= STREAMS_PER_WORKLOAD_MAX {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let proxy = Arc::new(proxy);
        seats.insert(number, Arc::clone(&proxy));
        let proxies = Arc::clone(self);
        Some(Seat {
            number,
            proxy,
            proxies,
        })
    }

    /// All of them, in the order in which they came.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Proxy>> {
        lock(&self.seats).values().map(Arc::clone).collect()
    }

    /// The generation that every stream has seen; `None` if there is no stream.
    #[must_use]
    pub fn passed(&self) -> Option<u64> {
        let seats = lock(&self.seats);
        seats
            .values()
            .map(|proxy| proxy.passed.load(Ordering::Relaxed))
            .min()
    }

    /// The trust bundle that the sidecars of all `workloads` use, or a newer one; `u64::MAX` if
    /// there are none, 0 if one of them never said.
    #[must_use]
    pub fn bundle(&self, workloads: &[WorkloadKey]) -> u64 {
        let mut live = BTreeMap::new();
        for proxy in self.all() {
            // Of several sidecars the one that is behind counts. An Envoy that has nothing to do
            // with TLS asks for none, beside a companion that has.
            let (bundle, trusts_nobody) = {
                let state = lock(&proxy.state);
                (state.bundle, state.trusts_nobody)
            };
            if !trusts_nobody {
                let least = live.entry(proxy.workload.clone()).or_insert(bundle);
                *least = bundle.min(*least);
            }
        }
        let away = lock(&self.bundles);
        let has = |workload| live.get(workload).or_else(|| away.get(workload));
        let has = workloads.iter().map(|workload| has(workload).copied());
        has.map(Option::unwrap_or_default).min().unwrap_or(u64::MAX)
    }

    /// Forgets workloads that are not in the mesh any more.
    pub fn retain(&self, is_in_mesh: impl Fn(&WorkloadKey) -> bool) {
        lock(&self.bundles).retain(|workload, _| is_in_mesh(workload));
    }
}

impl Proxy {
    /// One that has heard nothing yet.
    pub(super) fn new(workload: WorkloadKey, address: SocketAddr) -> Self {
        Self {
            workload,
            identity: String::new(),
            address,
            agent: String::new(),
            variant: "",
            since: SystemTime::now(),
            passed: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Whether its stream has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }
}

impl Seat {
    /// Notes how far the stream has come, while `bundle` is the trust bundle that it is told.
    pub(super) fn note(&self, stream: &impl Machine, bundle: u64) {
        self.proxy
            .passed
            .store(stream.generation(), Ordering::Relaxed);
        let kinds = Kind::ALL.into_iter();
        let kinds: Vec<_> = kinds
            .filter_map(|kind| Some((kind, stream.progress(kind)?)))
            .collect();
        let is_refused = kinds.iter().any(|(_, progress)| progress.refused > 0);
        let mut state = lock(&self.proxy.state);
        state.generation = stream.generation();
        state.is_settled = stream.is_idle();
        if state.is_settled && !is_refused {
            state.used = state.generation;
        }
        state.trusts_nobody = state.is_settled && stream.progress(Kind::Secret).is_none();
        state.kinds = kinds;
        let is_new = stream.is_settled(Kind::Secret) && state.bundle != bundle;
        drop(state);
        if is_new {
            self.note_bundle(bundle);
        }
        self.proxies.moved.notify_waiters();
    }

    /// Notes that the sidecar uses the trust bundle of that number.
    pub(super) fn note_bundle(&self, bundle: u64) {
        lock(&self.proxy.state).bundle = bundle;
        lock(&self.proxies.bundles).insert(self.proxy.workload.clone(), bundle);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.proxies.seats).remove(&self.number);
        self.proxy.is_gone.store(true, Ordering::Release);
        self.proxies.moved.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
