//! Connections that requests share: which one carries the next request, and when another is made.
//! Called by the pool per attempt; the connections themselves are `http2`'s.

use super::{Dialled, EndpointState, Inner};
use crate::error::{Error, Flag, Result};
use crate::http2::{Handle, Life, Mux, serve};
use crate::worker::Worker;
use rt::TaskId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use wire::h2::{Dialect, Role};

/// Connections of one worker to one endpoint, past which requests wait for a stream: with the
/// usual hundred streams each, thousands of requests at once.
const CONNECTIONS_MAX: usize = 64;

/// How often it is tried to replace an old connection.
const RENEW_EVERY_MS: u64 = 1000;

/// The shared connections of one endpoint.
#[derive(Default)]
pub(super) struct Shared {
    connections: RefCell<Vec<Rc<Mux>>>,
    dialling: Cell<bool>,
    /// Dials that failed, and how the last one did.
    failures: Cell<u64>,
    failed: Cell<Option<Flag>>,
    /// Dials for the sake of the peer's further workers.
    spreads: Cell<u16>,
    /// When an old connection may be replaced, in ms of the reactor's clock: a peer that refuses
    /// our new certificate is not asked with every request.
    renewed_ms: Cell<u64>,
    waiting: RefCell<BTreeSet<TaskId>>,
}

impl Shared {
    /// Nobody asks for them any more: they end with their last streams.
    pub(super) fn retire(&self) {
        self.connections
            .borrow()
            .iter()
            .for_each(|mux| mux.retire());
    }

    /// Connections under an old proof, until there are others.
    pub(super) fn take_over(&self, old: &Self) {
        let connections = std::mem::take(&mut *old.connections.borrow_mut());
        connections.iter().for_each(|mux| mux.grow_old());
        *self.connections.borrow_mut() = connections;
    }

    fn prune(&self) {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|mux| mux.life() == Life::Open);
        if connections.is_empty() {
            // The peer that comes next may have other workers.
            self.spreads.set(0);
        }
    }

    /// Once another connection stands, those that are to be replaced take no further streams. It
    /// stands when the peer has spoken: only then has it accepted our certificate.
    fn let_old_ones_go(&self) {
        let connections = self.connections.borrow();
        if connections.len() < 2 {
            return;
        }
        let mut all = connections.iter();
        if all.any(|mux| !mux.is_aging() && !mux.is_new()) {
            let old = connections.iter().filter(|mux| mux.is_aging());
            old.for_each(|mux| mux.retire());
        }
    }

    /// Whether it is time to try and replace an old connection.
    fn may_renew(&self, now_ms: u64) -> bool {
        let due = now_ms >= self.renewed_ms.get();
        if due {
            self.renewed_ms.set(now_ms + RENEW_EVERY_MS);
        }
        due
    }

    /// The connection with the fewest streams of those that take another.
    fn least(&self) -> Option<Rc<Mux>> {
        let connections = self.connections.borrow();
        match &**connections {
            [only] => only.can_open().then(|| Rc::clone(only)),
            many => {
                // One that has not been heard of yet may still be refused.
                let able = many.iter().filter(|mux| mux.can_open());
                able.min_by_key(|mux| (mux.is_new(), mux.streams()))
                    .map(Rc::clone)
            }
        }
    }

    /// Whether the peer has workers that none of the connections leads to.
    fn misses_a_worker(&self) -> bool {
        let connections = self.connections.borrow();
        let Some((_, workers)) = connections.iter().find_map(|mux| mux.peer_worker()) else {
            return false;
        };
        if workers <= 1 || self.spreads.get() >= 2 * workers {
            return false;
        }
        let mut seen: Vec<u16> = connections
            .iter()
            .filter_map(|mux| mux.peer_worker())
            .map(|(id, _)| id)
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen.len() < usize::from(workers)
    }

    fn wake_waiting(&self, worker: &Worker) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting
            .into_iter()
            .for_each(|task| worker.reactor.wake(task));
    }
}

/// A stream on a connection that is there; makes another where they are crowded.
pub(super) fn lend(worker: &Rc<Worker>, state: &Rc<EndpointState>) -> Option<Handle> {
    state.shared.prune();
    state.shared.let_old_ones_go();
    let mux = state.shared.least()?;
    let inner = match state.endpoint.mtls.as_ref() {
        Some(mtls) if mtls.shared => Inner::Hop,
        _ => Inner::H2,
    };
    let limit = worker.view().snapshot.config.limits.streams_per_connection;
    let crowded = mux.streams() >= mux.streams_max(limit);
    let old = || mux.is_aging() && state.shared.may_renew(worker.reactor.now_ms());
    // While the endpoint takes no new connections, its probe is enough.
    if state.healthy.get() && (crowded || old()) {
        begin_dial(worker, state, inner);
    } else if state.shared.misses_a_worker() && begin_dial(worker, state, inner) {
        state.shared.spreads.set(state.shared.spreads.get() + 1);
    }
    Handle::open(&mux)
}

/// Waits for a stream, making a connection where there is none.
pub(super) async fn await_stream(
    worker: &Rc<Worker>,
    state: &Rc<EndpointState>,
    inner: Inner,
) -> Result<Handle> {
    let shared = &state.shared;
    let failures = shared.failures.get();
    // A dial has its own limit; this one is for streams that do not become free.
    let limit = worker.view().snapshot.config.limits.connect_timeout;
    worker.reactor.deadline_after(limit + limit);
    loop {
        if let Some(stream) = lend(worker, state) {
            return Ok(stream);
        }
        if shared.failures.get() != failures && shared.connections.borrow().is_empty() {
            let flag = shared.failed.get().unwrap_or(Flag::ConnectFailed);
            return Err(Error::new(flag));
        }
        let is_new = shared.connections.borrow().iter().any(|mux| mux.is_new());
        if !is_new && shared.failures.get() == failures {
            begin_dial(worker, state, inner);
        }
        let waiter = worker.reactor.current();
        shared.waiting.borrow_mut().insert(waiter);
        shared
            .connections
            .borrow()
            .iter()
            .for_each(|mux| mux.watch());
        let mut waited = false;
        poll_fn(|_| match std::mem::replace(&mut waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        if worker.reactor.is_expired() {
            return Err(Error::new(Flag::ConnectFailed));
        }
    }
}

/// Makes another connection unless one is being made; says whether it does.
fn begin_dial(worker: &Rc<Worker>, state: &Rc<EndpointState>, inner: Inner) -> bool {
    let shared = &state.shared;
    if shared.connections.borrow().len() >= CONNECTIONS_MAX || shared.dialling.replace(true) {
        return false;
    }
    let (worker, state) = (Rc::clone(worker), Rc::clone(state));
    let reactor = Rc::clone(&worker.reactor);
    reactor.spawn(async move {
        let _dial = Dial(&worker, &state);
        match super::connect(&worker, &state, inner).await {
            Ok(dialled) => keep(&worker, &state, dialled, inner),
            Err(error) => {
                state.shared.failures.set(state.shared.failures.get() + 1);
                state.shared.failed.set(Some(error.flag));
            }
        }
    });
    true
}

/// A dial under way; however it ends, those who wait look again.
struct Dial<'a>(&'a Rc<Worker>, &'a Rc<EndpointState>);

impl Drop for Dial<'_> {
    fn drop(&mut self) {
        self.1.shared.dialling.set(false);
        self.1.shared.wake_waiting(self.0);
    }
}

/// Takes a new connection into use.
pub(super) fn keep(worker: &Rc<Worker>, state: &Rc<EndpointState>, dialled: Dialled, inner: Inner) {
    let Dialled {
        stream,
        inbox,
        open,
        expires_ms,
        round_trip,
        ..
    } = dialled;
    let dialect = match inner {
        Inner::Hop => Dialect::Hop,
        _ => Dialect::Public,
    };
    let config = serve::config(worker, Role::Client, dialect);
    let mux = Mux::new(worker, stream, &config, expires_ms);
    let (driven, owner) = (Rc::clone(&mux), Rc::downgrade(state));
    let driver = worker.reactor.spawn(async move {
        let _open = open;
        driven.drive(inbox, None).await;
        // Nobody may ask this endpoint again: its descriptor must not wait for that.
        if let Some(state) = owner.upgrade() {
            state.shared.prune();
        }
    });
    mux.driven_by(driver);
    mux.measured(round_trip);
    state.shared.connections.borrow_mut().push(mux);
}
