//! The pages for operators and for Prometheus, served by the quiet thread.
//! Called by the quiet thread's assembly, once per address. Must never change anything, show key
//! material, or take a lock that a worker may wait for.

mod pages;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use model::Config;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

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

/// Gives the JSON of a page when asked for it.
pub type Provider = Box<dyn Fn() -> serde_json::Value + Send + Sync>;

/// What the pages show. Shared with whoever changes it.
pub struct State {
    /// For `/metrics` and `/stats`.
    pub registry: Arc<Registry>,
    /// For `/config_dump`: what is live now.
    pub config: ArcSwap<Live>,
    /// For `/ready`: false while starting and while draining.
    pub ready: AtomicBool,
    /// For `/clusters`: endpoints with their health and load.
    pub clusters: Provider,
    /// For `/certs`: subjects, validity and trust bundle, never keys.
    pub certs: Provider,
}

/// A configuration in force.
#[derive(Debug, serde::Serialize)]
pub struct Live {
    /// 1 at start, one more with every accepted reload.
    pub generation: u64,
    /// As the file and the command line have it.
    pub config: Arc<Config>,
}

impl State {
    /// Not ready yet.
    #[must_use]
    pub fn new(registry: Arc<Registry>, config: Arc<Config>, pages: Pages) -> Self {
        Self {
            registry,
            config: ArcSwap::from_pointee(Live {
                generation: 1,
                config,
            }),
            ready: AtomicBool::new(false),
            clusters: pages.clusters,
            certs: pages.certs,
        }
    }

    /// Puts a reloaded configuration in force. Called by one task only.
    pub fn replace(&self, config: Arc<Config>) {
        let generation = self.config.load().generation + 1;
        self.config.store(Arc::new(Live { generation, config }));
    }

    /// True once all listeners are bound, false again when draining.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }
}

/// The pages that others fill.
pub struct Pages {
    /// See [`State::clusters`].
    pub clusters: Provider,
    /// See [`State::certs`].
    pub certs: Provider,
}

/// Which pages an address has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// All.
    Admin,
    /// Those that Prometheus scrapes.
    Metrics,
}

/// Serves until dropped; connections go with it. Needs tokio's I/O and time.
pub async fn serve(listener: TcpListener, state: Arc<State>, which: Surface) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, Arc::clone(&state), which, place));
            }
            Err(error) => {
                eprintln!("admin: cannot accept: {error}");
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
        let response = pages::answer(&state, which, &request);
        async { Ok::<_, Infallible>(response) }
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
