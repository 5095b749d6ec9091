//! Connections to endpoints, per endpoint and worker: idle ones of HTTP/1 kept, those of HTTP/2
//! shared, new ones made, endpoints that cannot be reached left alone until a probe reaches them.
//! Called by `request` per attempt, and by `tcp` per connection.

mod dial;
mod shared;

use crate::balance::Candidate;
use crate::error::Result;
use crate::forward::Peer;
use crate::http2::Handle;
use crate::snapshot::Endpoint;
use crate::stream::Stream;
use crate::telemetry::metrics::ConnectionCounters;
use crate::worker::Worker;
pub(crate) use dial::Dialled;
use model::Protocol;
use shared::Shared;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use wire::http1::{Origin, RequestHead};

/// How long an endpoint that could not be reached is left alone, at first and at most.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// An endpoint as one worker knows it.
pub(crate) struct EndpointState {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Most recently used last: the warmest is taken first, the rest may grow old.
    idle: RefCell<Vec<Idle>>,
    /// Requests in flight; made with the first, where admin pages see it too.
    active: OnceCell<Arc<AtomicU32>>,
    healthy: Cell<bool>,
    /// A task tries it now and then.
    probed: Cell<bool>,
    shared: Shared,
}

struct Idle {
    stream: Stream,
    open: Open,
    since_ms: u64,
    expires_ms: u64,
}

/// Counts a connection as open while it lives, whatever ends it: its pool may go with a reload.
pub(crate) struct Open(Arc<ConnectionCounters>);

impl Open {
    fn count(worker: &Worker) -> Self {
        let counters = worker.recorder.connections();
        counters.upstream_opened();
        Self(Arc::clone(counters))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.upstream_closed();
    }
}

impl Drop for EndpointState {
    fn drop(&mut self) {
        self.shared.retire();
        self.set_healthy(true);
    }
}

impl Candidate for Rc<EndpointState> {
    fn load(&self) -> u32 {
        let active = self.active.get();
        active.map_or(0, |active| active.load(Ordering::Relaxed))
    }

    fn is_healthy(&self) -> bool {
        self.healthy.get()
    }

    fn is_at(&self, destination: SocketAddr) -> bool {
        self.endpoint.address == destination
    }
}

/// What is spoken inside a connection to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    Http1,
    /// As RFC 9113 has it.
    H2,
    /// Between two sidecars of ours.
    Hop,
    /// Whatever the two applications speak.
    Tcp,
}

/// What a request travels on.
pub(crate) enum Upstream {
    Http1(Exclusive),
    Http2(Lent),
}

impl Upstream {
    pub(crate) fn peer(&self) -> Peer<'_> {
        match self {
            Self::Http1(exclusive) => Peer::Http1(&exclusive.stream),
            Self::Http2(lent) => Peer::Http2(&lent.stream),
        }
    }

    /// When one of the connection's certificates ends, in ms of the reactor's clock.
    pub(crate) fn expires_ms(&self) -> u64 {
        match self {
            Self::Http1(exclusive) => exclusive.expires_ms,
            Self::Http2(lent) => lent.stream.expires_ms(),
        }
    }

    /// Whether it has carried a request before.
    pub(crate) fn is_reused(&self) -> bool {
        match self {
            Self::Http1(exclusive) => exclusive.reused,
            Self::Http2(lent) => lent.stream.is_reused(),
        }
    }

    /// The request is over; a connection of its own may `stay` for the next one: of the same
    /// downstream only if there is a place to `pin` it to.
    pub(crate) fn finish(self, worker: &Worker, stay: bool, pin: Option<&mut Option<Box<Pinned>>>) {
        match (self, pin) {
            (Self::Http1(exclusive), Some(pin)) if stay => *pin = Some(exclusive.pin()),
            (Self::Http1(exclusive), Some(_)) => exclusive.checkin(worker, false),
            (Self::Http1(exclusive), None) => exclusive.checkin(worker, stay),
            (Self::Http2(lent), _) => drop(lent),
        }
    }
}

/// A connection that stays with one downstream between its requests.
pub(crate) struct Pinned {
    idle: Idle,
    state: Rc<EndpointState>,
}

impl Pinned {
    /// Takes the connection into use again, if it leads to one of `endpoints` and lives.
    pub(crate) fn resume(self, endpoints: &[Rc<EndpointState>], now_ms: u64) -> Option<Upstream> {
        let Self { idle, state } = self;
        let leads_there = endpoints.iter().any(|other| Rc::ptr_eq(other, &state));
        if !leads_there || now_ms >= idle.expires_ms || idle.stream.tcp.has_news() {
            return None;
        }
        Some(Upstream::Http1(Exclusive::reuse(idle, &state)))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.state.endpoint.address
    }
}

/// A stream in use by one request.
pub(crate) struct Lent {
    pub(crate) stream: Handle,
    _busy: Busy,
}

/// Counts an endpoint as in use while it lives, whatever ends it.
pub(crate) struct Busy(Rc<EndpointState>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.count(self.0.load() - 1);
    }
}

/// A connection in use by one request.
pub(crate) struct Exclusive {
    pub(crate) stream: Stream,
    /// It has carried a request before.
    pub(crate) reused: bool,
    open: Open,
    /// When one of its certificates ends, in ms of the reactor's clock.
    expires_ms: u64,
    busy: Busy,
}

impl EndpointState {
    pub(crate) fn new(endpoint: &Arc<Endpoint>) -> Rc<Self> {
        Rc::new(Self {
            endpoint: Arc::clone(endpoint),
            idle: RefCell::default(),
            active: OnceCell::new(),
            healthy: Cell::new(true),
            probed: Cell::new(false),
            shared: Shared::default(),
        })
    }

    /// The same place under another proof: shared connections are used until the first one that
    /// was made with the new proof stands.
    pub(crate) fn succeed(endpoint: &Arc<Endpoint>, old: &Self) -> Rc<Self> {
        let state = Self::new(endpoint);
        state.shared.take_over(&old.shared);
        state
    }

    /// It is not in the configuration any more: what nobody uses goes now, the rest with its last
    /// request.
    pub(crate) fn put_aside(&self) {
        self.idle.borrow_mut().clear();
        self.shared.retire();
    }

    fn set_healthy(&self, healthy: bool) {
        match (self.healthy.replace(healthy), healthy) {
            (true, false) => self.endpoint.unhealthy.fetch_add(1, Ordering::Relaxed),
            (false, true) => self.endpoint.unhealthy.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// In use for as long as what is returned lives.
    pub(crate) fn occupy(self: &Rc<Self>) -> Busy {
        self.count(self.load() + 1);
        Busy(Rc::clone(self))
    }

    /// Written here alone, so that no addition has to be atomic.
    fn count(&self, active: u32) {
        let count = self.active.get_or_init(|| self.endpoint.in_use.add());
        count.store(active, Ordering::Relaxed);
    }

    /// Idle connections kept.
    pub(crate) fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Drops idle connections that ended or grew old.
    pub(crate) fn sweep(&self, now_ms: u64, idle_timeout: Duration) {
        let oldest = now_ms.saturating_sub(u64::try_from(idle_timeout.as_millis()).unwrap_or(0));
        let stays = |idle: &Idle| idle.since_ms >= oldest && !idle.stream.tcp.has_news();
        self.idle.borrow_mut().retain(stays);
    }

    fn has_room(&self, worker: &Worker) -> bool {
        self.idle.borrow().len() < worker.view().snapshot.config.limits.pool_connections
    }

    fn take_idle(&self, want: Want, now_ms: u64) -> Option<Idle> {
        if want == Want::Fresh {
            return None;
        }
        loop {
            let idle = self.idle.borrow_mut().pop()?;
            let tcp = &idle.stream.tcp;
            // Whatever arrived on an idle connection (its end, mostly) makes it unusable.
            if now_ms < idle.expires_ms && !tcp.has_news() && (want == Want::Any || tcp.is_quiet())
            {
                return Some(idle);
            }
        }
    }
}

/// Which connections will do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Any,
    /// One that is certainly open at this moment, for a request that must not be sent twice: a
    /// system call more, a lost request less.
    Open,
    /// One that nobody has used.
    Fresh,
}

/// What a request is to be sent in: as the endpoint's cluster says, else as it came.
pub(crate) fn speaks(state: &EndpointState, protocol: Protocol, head: &RequestHead) -> Inner {
    let shared = state.endpoint.mtls.as_ref().is_some_and(|mtls| mtls.shared);
    match protocol {
        _ if shared => Inner::Hop,
        // Another protocol than HTTP can only take over a connection of its own.
        _ if head.protocol.is_some() => Inner::Http1,
        Protocol::Http2 => Inner::H2,
        // Nothing is said of requests where connections are passed on unread.
        Protocol::Auto | Protocol::Tcp if head.origin == Origin::Http2 => Inner::H2,
        Protocol::Auto | Protocol::Http1 | Protocol::Tcp => Inner::Http1,
    }
}

/// An idle connection that will do, a stream on a shared one, or a new connection.
pub(crate) async fn checkout(
    worker: &Rc<Worker>,
    state: &Rc<EndpointState>,
    inner: Inner,
    want: Want,
) -> Result<Upstream> {
    if inner != Inner::Http1 {
        let stream = match shared::lend(worker, state) {
            Some(stream) => stream,
            // Boxed: rare.
            None => Box::pin(shared::await_stream(worker, state, inner)).await?,
        };
        let _busy = state.occupy();
        return Ok(Upstream::Http2(Lent { stream, _busy }));
    }
    let upstream = match state.take_idle(want, worker.reactor.now_ms()) {
        Some(idle) => Exclusive::reuse(idle, state),
        // Boxed: rare, and a handshake is large.
        None => Exclusive::new(Box::pin(connect(worker, state, inner)).await?, state),
    };
    Ok(Upstream::Http1(upstream))
}

impl Exclusive {
    fn new(dialled: Dialled, state: &Rc<EndpointState>) -> Self {
        let Dialled {
            stream,
            open,
            expires_ms,
            ..
        } = dialled;
        Self {
            stream,
            reused: false,
            open,
            expires_ms,
            busy: state.occupy(),
        }
    }

    fn reuse(idle: Idle, state: &Rc<EndpointState>) -> Self {
        Self {
            stream: idle.stream,
            reused: true,
            open: idle.open,
            expires_ms: idle.expires_ms,
            busy: state.occupy(),
        }
    }

    /// The connection stays with its downstream.
    fn pin(self) -> Box<Pinned> {
        let idle = Idle {
            stream: self.stream,
            open: self.open,
            since_ms: 0,
            expires_ms: self.expires_ms,
        };
        let state = Rc::clone(&self.busy.0);
        Box::new(Pinned { idle, state })
    }

    /// The request is over; the connection may `stay` for the next one, if there is room.
    pub(crate) fn checkin(self, worker: &Worker, stay: bool) {
        let Self {
            stream,
            open,
            expires_ms,
            busy,
            ..
        } = self;
        let state = &busy.0;
        let stay = stay && worker.reactor.now_ms() < expires_ms;
        if stay && !worker.is_draining() && !stream.tcp.has_news() && state.has_room(worker) {
            worker.watch_idle(&stream.tcp);
            let since_ms = worker.reactor.now_ms();
            state.idle.borrow_mut().push(Idle {
                stream,
                open,
                since_ms,
                expires_ms,
            });
        }
    }
}

/// Connects and, where the endpoint wants it, shakes hands. A failure takes the endpoint out of
/// use until a probe succeeds.
pub(crate) async fn connect(
    worker: &Rc<Worker>,
    state: &Rc<EndpointState>,
    inner: Inner,
) -> Result<Dialled> {
    match dial::run(worker, &state.endpoint, inner).await {
        Ok(connected) => {
            state.set_healthy(true);
            Ok(connected)
        }
        Err(error) => {
            worker.recorder.connections().upstream_failed();
            if !error.is_local() {
                state.set_healthy(false);
            }
            if !state.healthy.get() && !state.probed.replace(true) {
                let probe = probe(Rc::clone(worker), Rc::downgrade(state), inner);
                worker.reactor.spawn(probe);
            }
            Err(error)
        }
    }
}

/// Tries an endpoint again and again, ever more seldom, until it can be reached; requests stay
/// away from it meanwhile. Ends with the endpoint's last use in the configuration.
async fn probe(worker: Rc<Worker>, state: Weak<EndpointState>, inner: Inner) {
    let mut backoff = BACKOFF_MIN;
    loop {
        worker.reactor.sleep(backoff).await;
        let Some(state) = state.upgrade() else { return };
        if state.healthy.get() {
            state.probed.set(false);
            return;
        }
        if let Ok(dialled) = dial::run(&worker, &state.endpoint, inner).await {
            state.set_healthy(true);
            state.probed.set(false);
            match inner {
                Inner::Http1 => {
                    Exclusive::new(dialled, &state).checkin(&worker, true);
                }
                Inner::H2 | Inner::Hop => shared::keep(&worker, &state, dialled, inner),
                Inner::Tcp => {}
            }
            return;
        }
        worker.reactor.clear_deadline();
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

#[cfg(test)]
mod simulation;
