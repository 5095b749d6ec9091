//! The pages for operators and for Prometheus. Served beside the port, by the same thread, from
//! what was published last. Must never change anything, or show a key or a token.

mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use xds::kind::Kind;

use crate::ads::Proxies;
use crate::authority::Authority;
use crate::kinds::WorkloadKey;
use crate::metrics::{Gauges, Metrics};
use crate::push::Catalogue;
use crate::serve::{Front, Places};

/// What Prometheus asks for.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the pages are, for the first of them.
const PAGES: &str = "\
/ready                              200 while serving, 503 otherwise
/proxies                            sidecars that are connected, and how far each is (JSON)
/mesh                               what the sources say, as sidecars are told it (JSON)
/config_dump?workload=NAMESPACE/NAME  what one sidecar is told (JSON)
/certs                              our own certificate and the authority (JSON)
/metrics                            metrics in Prometheus text
";

/// What the pages show. Shared with whoever changes it.
pub struct Desk {
    /// What is told.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// Who is told.
    pub proxies: Arc<Proxies>,
    /// Who signs.
    pub authority: Arc<Authority>,
    /// Who we are.
    pub front: watch::Receiver<Arc<Front>>,
    /// What was counted.
    pub metrics: Arc<Metrics>,
    /// Connections that are open.
    pub places: Arc<Places>,
    /// Whether the port is open and not about to close.
    pub ready: AtomicBool,
    /// What is wrong with the sources; empty if nothing is.
    pub faults: Mutex<String>,
}

/// Which pages an address has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// All.
    Admin,
    /// Those that Prometheus scrapes.
    Metrics,
}

impl Desk {
    /// Notes what is wrong with the sources, or that nothing is.
    pub fn set_faults(&self, faults: String) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// What was noted last.
    pub fn faults(&self) -> String {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.borrow())
    }

    fn gauges(&self) -> Gauges {
        let catalogue = self.catalogue();
        let proxies = self.proxies.all();
        let settled = proxies.iter().filter(|proxy| proxy.state().is_settled);
        Gauges {
            connections: self.places.taken(),
            streams: proxies.len(),
            settled: settled.count(),
            generation: catalogue.generation,
            resources: Kind::ALL.map(|kind| catalogue.size(kind)),
            tombstones: catalogue.tombstones(),
            services: catalogue.mesh.services.len(),
            workloads: catalogue.mesh.workloads.len(),
            is_current: self.faults().is_empty(),
        }
    }
}

/// Serves pages on `listener` until dropped.
///
/// # Errors
/// What the system says about the socket.
pub async fn serve(
    listener: TcpListener,
    desk: Arc<Desk>,
    surface: Surface,
) -> std::io::Result<()> {
    let pages = Router::new().route("/metrics", get(metrics));
    let pages = match surface {
        Surface::Metrics => pages,
        Surface::Admin => pages
            .route("/", get(|| async { PAGES }))
            .route("/ready", get(ready))
            .route("/proxies", get(proxies))
            .route("/mesh", get(mesh))
            .route("/config_dump", get(config_dump))
            .route("/certs", get(certificates)),
    };
    let pages = pages.fallback(|| async { (StatusCode::NOT_FOUND, PAGES) });
    axum::serve(listener, pages.with_state(desk)).await
}

async fn ready(State(desk): State<Arc<Desk>>) -> (StatusCode, String) {
    let faults = desk.faults();
    match (desk.ready.load(Ordering::Acquire), faults.as_str()) {
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned()),
        (true, "") => (StatusCode::OK, "ready\n".to_owned()),
        // What was told before is still right as far as anybody knows.
        (true, faults) => (
            StatusCode::OK,
            format!("ready, but the sources are wrong:\n{faults}\n"),
        ),
    }
}

async fn metrics(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    let page = desk.metrics.render(&desk.gauges());
    ([(CONTENT_TYPE, METRICS_TYPE)], page)
}

async fn proxies(State(desk): State<Arc<Desk>>) -> Response {
    let generation = desk.catalogue().generation;
    show(views::proxies(
        &desk.proxies.all(),
        generation,
        SystemTime::now(),
    ))
}

async fn mesh(State(desk): State<Arc<Desk>>) -> Response {
    show(views::mesh(&desk.catalogue()))
}

#[derive(Deserialize)]
struct Which {
    workload: Option<String>,
}

async fn config_dump(State(desk): State<Arc<Desk>>, Query(which): Query<Which>) -> Response {
    let Some(workload) = which.workload else {
        return wrong("which workload? add ?workload=NAMESPACE/NAME\n");
    };
    let Some((namespace, name)) = workload.split_once('/') else {
        return wrong("write the workload as NAMESPACE/NAME\n");
    };
    match views::workload(&desk.catalogue(), &WorkloadKey::new(namespace, name)) {
        Some(told) => show(told),
        None => (StatusCode::NOT_FOUND, "there is no such workload\n").into_response(),
    }
}

async fn certificates(State(desk): State<Arc<Desk>>) -> Response {
    let overview = desk.front.borrow().credentials().overview();
    let status = desk.authority.status(SystemTime::now());
    show(serde_json::json!({ "own": overview, "authority": status }))
}

fn show(value: serde_json::Value) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(value)).into_response()
}

fn wrong(text: &'static str) -> Response {
    (StatusCode::BAD_REQUEST, text).into_response()
}
