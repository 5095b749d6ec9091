//! The pages for operators and for Prometheus, served by the quiet thread.
//! Called by the quiet thread's assembly, once per address. Must never change anything, show key
//! material, or take a lock that a worker may wait for.

mod pages;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::control::Status;
use crate::envoy;
use crate::log;
use crate::snapshot::Snapshot;
use crate::telemetry::metrics::Registry;

/// Connections at a time, per address; more wait in the kernel's queue. Each may hold a page of
/// some hundred KiB.
const CONNECTIONS_MAX: usize = 16;
/// A head comes in one packet.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// From accept to close, so that one who does not read cannot keep his place. Scrapers that keep
/// connections alive connect again.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// After a failed accept (no descriptors left): time for others to give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the pages show. Shared with whoever changes it.
pub struct State {
    snapshot: ArcSwap<Snapshot>,
    phase: AtomicU8,
    /// Of the conversation with the control plane, if there is one.
    control: ArcSwapOption<Status>,
    described: OnceLock<Described>,
    /// Who serves in the place of workers.
    envoy: Option<Arc<envoy::Admin>>,
}

/// How far the proxy's life is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Something is missing still.
    Starting,
    /// It serves.
    Ready,
    /// What is open ends; somebody else is to be asked for more.
    Draining,
}

/// What is known only when the workers run.
struct Described {
    registry: Arc<Registry>,
    applied: Applied,
}

/// Gives the generation that every worker has taken over.
pub type Applied = Box<dyn Fn() -> u64 + Send + Sync>;

impl State {
    /// Of a proxy that starts with `snapshot`; not ready yet.
    #[must_use]
    pub fn new(snapshot: Arc<Snapshot>) -> Arc<Self> {
        Arc::new(Self::of(snapshot, None))
    }

    /// The same of a companion of an Envoy, whose own pages are passed on.
    pub(crate) fn beside_envoy(snapshot: Arc<Snapshot>, envoy: Arc<envoy::Admin>) -> Arc<Self> {
        Arc::new(Self::of(snapshot, Some(envoy)))
    }

    fn of(snapshot: Arc<Snapshot>, envoy: Option<Arc<envoy::Admin>>) -> Self {
        Self {
            snapshot: ArcSwap::new(snapshot),
            phase: AtomicU8::new(Phase::Starting as u8),
            control: ArcSwapOption::empty(),
            described: OnceLock::new(),
            envoy,
        }
    }

    /// Of the configuration that is shown.
    pub(crate) fn generation(&self) -> u64 {
        self.snapshot.load().generation
    }

    /// Adds the counters and `applied`. The first call counts.
    pub fn describe(&self, registry: Arc<Registry>, applied: Applied) {
        self.described
            .get_or_init(|| Described { registry, applied });
    }

    /// Shows a reloaded configuration from now on.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.store(snapshot);
    }

    /// Shows how the conversation with the control plane goes.
    pub(crate) fn show_control(&self, status: Arc<Status>) {
        self.control.store(Some(status));
    }

    /// Shows how far it is.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }
}

/// Which pages an address has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// All.
    Admin,
    /// Those that Prometheus scrapes.
    Metrics,
}

/// Accepts until `end`, and serves what it has accepted; connections go with it when it is dropped.
/// Needs tokio's I/O and time.
pub async fn serve(
    listener: TcpListener,
    state: Arc<State>,
    which: Surface,
    end: impl Future<Output = ()>,
) {
    let mut connections = JoinSet::new();
    let mut end = pin!(end);
    tokio::select! {
        () = accept(listener, &state, which, &mut connections) => {}
        () = &mut end => {}
    }
    while connections.join_next().await.is_some() {}
}

async fn accept(
    listener: TcpListener,
    state: &Arc<State>,
    which: Surface,
    connections: &mut JoinSet<()>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, Arc::clone(state), which, place));
            }
            Err(error) => {
                log::warn(format_args!("admin: cannot accept: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Errors of a connection are its peer's affair.
async fn serve_connection(
    stream: TcpStream,
    state: Arc<State>,
    which: Surface,
    _place: OwnedSemaphorePermit,
) {
    let service = service_fn(|request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(pages::answer(&state, which, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    tokio::time::timeout(CONNECTION_TIMEOUT, connection)
        .await
        .ok();
}

#[cfg(test)]
mod tests;
