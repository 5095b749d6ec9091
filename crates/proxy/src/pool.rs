//! Connections to endpoints: idle ones kept per endpoint and worker, new ones made, endpoints that
//! cannot be reached left alone until a probe reaches them. Called by `request` per attempt.

use crate::balance::Candidate;
use crate::buffer::Inbox;
use crate::error::{Error, Flag, Result};
use crate::snapshot::{Endpoint, Mtls};
use crate::stream::Stream;
use crate::telemetry::metrics::ConnectionCounters;
use crate::tls::handshake;
use crate::worker::Worker;
use identity::tls::Side;
use rt::Tcp;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long an endpoint that could not be reached is left alone, at first and at most.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// An endpoint as one worker knows it.
pub(crate) struct EndpointState {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Most recently used last: the warmest is taken first, the rest may grow old.
    idle: RefCell<Vec<Idle>>,
    active: Cell<u32>,
    healthy: Cell<bool>,
    /// A task tries it now and then.
    probed: Cell<bool>,
}

struct Idle {
    stream: Stream,
    open: Open,
    since_ms: u64,
}

/// Counts a connection as open while it lives, whatever ends it: its pool may go with a reload.
struct Open(Arc<ConnectionCounters>);

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
        self.set_healthy(true);
    }
}

impl Candidate for Rc<EndpointState> {
    fn load(&self) -> u32 {
        self.active.get()
    }

    fn is_healthy(&self) -> bool {
        self.healthy.get()
    }
}

/// A connection in use by one request.
pub(crate) struct Upstream {
    pub(crate) stream: Stream,
    /// It has carried a request before.
    pub(crate) reused: bool,
    open: Open,
    state: Rc<EndpointState>,
}

impl EndpointState {
    pub(crate) fn new(endpoint: &Arc<Endpoint>) -> Rc<Self> {
        Rc::new(Self {
            endpoint: Arc::clone(endpoint),
            idle: RefCell::default(),
            active: Cell::new(0),
            healthy: Cell::new(true),
            probed: Cell::new(false),
        })
    }

    fn set_healthy(&self, healthy: bool) {
        match (self.healthy.replace(healthy), healthy) {
            (true, false) => self.endpoint.unhealthy.fetch_add(1, Ordering::Relaxed),
            (false, true) => self.endpoint.unhealthy.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
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

    fn take_idle(&self, want: Want) -> Option<(Stream, Open)> {
        if want == Want::Fresh {
            return None;
        }
        loop {
            let Idle { stream, open, .. } = self.idle.borrow_mut().pop()?;
            // Whatever arrived on an idle connection (its end, mostly) makes it unusable.
            if !stream.tcp.has_news() && (want == Want::Any || stream.tcp.is_quiet()) {
                return Some((stream, open));
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

/// An idle connection that will do, or a new one.
pub(crate) async fn checkout(
    worker: &Rc<Worker>,
    state: &Rc<EndpointState>,
    want: Want,
) -> Result<Upstream> {
    let idle = state.take_idle(want);
    let reused = idle.is_some();
    let (stream, open) = match idle {
        Some(idle) => idle,
        // Boxed: rare, and a handshake is large.
        None => Box::pin(connect(worker, state)).await?,
    };
    state.active.set(state.active.get() + 1);
    Ok(Upstream {
        stream,
        reused,
        open,
        state: Rc::clone(state),
    })
}

impl Upstream {
    /// The request is over; the connection may `stay` for the next one, if there is room.
    pub(crate) fn checkin(self, worker: &Worker, stay: bool) {
        let Self {
            stream,
            open,
            state,
            ..
        } = self;
        state.active.set(state.active.get() - 1);
        if stay && !worker.is_draining() && !stream.tcp.has_news() && state.has_room(worker) {
            worker.watch_idle(&stream.tcp);
            let since_ms = worker.reactor.now_ms();
            state.idle.borrow_mut().push(Idle {
                stream,
                open,
                since_ms,
            });
        }
    }
}

/// Connects and, where the endpoint wants it, shakes hands. A failure takes the endpoint out of
/// use until a probe succeeds.
async fn connect(worker: &Rc<Worker>, state: &Rc<EndpointState>) -> Result<(Stream, Open)> {
    match attempt(worker, &state.endpoint).await {
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
                worker
                    .reactor
                    .spawn(probe(Rc::clone(worker), Rc::downgrade(state)));
            }
            Err(error)
        }
    }
}

async fn attempt(worker: &Rc<Worker>, endpoint: &Endpoint) -> Result<(Stream, Open)> {
    let limit = worker.view().snapshot.config.limits.connect_timeout;
    worker.reactor.deadline_after(limit);
    let tcp = Tcp::connect(&worker.reactor, endpoint.address).await;
    let tcp = tcp.map_err(|error| Error::upstream(Flag::ConnectFailed, error))?;
    let mut stream = Stream::plain(tcp, &worker.buffers);
    if let Some(mtls) = &endpoint.mtls {
        shake_hands(worker, endpoint, mtls, &mut stream).await?;
    }
    Ok((stream, Open::count(worker)))
}

async fn shake_hands(
    worker: &Rc<Worker>,
    endpoint: &Endpoint,
    mtls: &Mtls,
    stream: &mut Stream,
) -> Result<()> {
    let view = worker.view();
    let mut inbox = Inbox::new(&worker.buffers);
    let name = identity::tls::endpoint_name(endpoint.address);
    let proven = handshake::connect(stream, &mut inbox, &mtls.config, name).await;
    let side = Side::Upstream(&mtls.expected);
    match worker.prove(&view, proven, side) {
        // A server speaks only when asked; what it said would be lost with the inbox.
        Ok(_) if !inbox.holds_nothing() => Err(Error::new(Flag::HandshakeFailed)),
        Ok(_) => Ok(()),
        Err(failure) => {
            let source = io::Error::other(failure.label());
            Err(Error::upstream(Flag::HandshakeFailed, source))
        }
    }
}

/// Tries an endpoint again and again, ever more seldom, until it can be reached; requests stay
/// away from it meanwhile. Ends with the endpoint's last use in the configuration.
async fn probe(worker: Rc<Worker>, state: Weak<EndpointState>) {
    let mut backoff = BACKOFF_MIN;
    loop {
        worker.reactor.sleep(backoff).await;
        let Some(state) = state.upgrade() else { return };
        if state.healthy.get() {
            state.probed.set(false);
            return;
        }
        if let Ok((stream, open)) = attempt(&worker, &state.endpoint).await {
            state.set_healthy(true);
            state.probed.set(false);
            state.active.set(state.active.get() + 1);
            Upstream {
                stream,
                reused: false,
                open,
                state,
            }
            .checkin(&worker, true);
            return;
        }
        worker.reactor.clear_deadline();
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}
