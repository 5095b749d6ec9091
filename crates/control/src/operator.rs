//! The operator's socket: HTTP/1.1 and JSON over a unix socket in the state directory, for `leno`
//! on the same machine. Only the control plane's own user and root are served. Never reached from
//! the network: whoever can ask for a token can be any workload.

/// Waiting until a change has arrived.
mod settle;

/// Who may call whom.
mod policy;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream, unix};
use tokio::sync::{mpsc, oneshot};

use crate::ads::Proxies;
use crate::authority::{Authority, Directory, Error, Phase, Refused, Status};
use crate::kinds::WorkloadKey;
use crate::policy::{Decision, Unknown};

/// Longest request: a namespace and a name.
const REQUEST_BYTES_MAX: usize = 4096;

/// Where the socket of a state directory is.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    state.join("operator.sock")
}

/// The socket, bound.
pub struct Socket(UnixListener);

impl Socket {
    /// Binds `path`, 0600. What is there is replaced: whoever holds the state directory is the
    /// only control plane on it.
    ///
    /// # Errors
    /// What the system said; a path of more than 107 bytes is too long for a socket.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self(listener))
    }

    /// Serves until `shutdown` is over and the last answer has been given.
    ///
    /// # Errors
    /// What the system said.
    pub async fn run(
        self,
        desk: Desk,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        axum::serve(self, router(desk))
            .with_graceful_shutdown(shutdown)
            .await
    }
}

impl axum::serve::Listener for Socket {
    type Io = UnixStream;
    type Addr = unix::SocketAddr;

    /// The next connection of somebody who may ask; others are closed without a word.
    async fn accept(&mut self) -> (UnixStream, unix::SocketAddr) {
        loop {
            let (stream, addr) = axum::serve::Listener::accept(&mut self.0).await;
            if stream.peer_cred().is_ok_and(|peer| is_operator(peer.uid())) {
                return (stream, addr);
            }
        }
    }

    fn local_addr(&self) -> io::Result<unix::SocketAddr> {
        self.0.local_addr()
    }
}

fn is_operator(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Everything that an operator can ask.
#[derive(Clone)]
pub struct Desk {
    /// Who is whom.
    pub authority: Arc<Authority>,
    /// Which identity a workload has.
    pub directory: Directory,
    /// Who is connected.
    pub proxies: Arc<Proxies>,
    /// What only the control plane's own loop can do.
    pub orders: mpsc::Sender<Order>,
}

/// What only the control plane's own loop can do. Whoever asked may be gone when it is done.
#[derive(Debug)]
pub enum Order {
    /// To read the sources now, and to tell what is new.
    Read(oneshot::Sender<Reading>),
    /// To say who may call whom.
    Explain(Question, oneshot::Sender<Result<Decision, Unknown>>),
}

/// What came of a reading of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The generation that has everything that was to be read.
    pub generation: u64,
    /// What is wrong with the sources; empty if nothing is.
    pub faults: String,
}

/// Whether one may call the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who calls.
    pub source: WorkloadKey,
    /// Who is called.
    pub destination: WorkloadKey,
}

impl Desk {
    /// Has the loop do something; `None` if it has ended.
    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(order(answer)).await.ok()?;
        answered.await.ok()
    }
}

fn router(desk: Desk) -> Router {
    Router::new()
        .route("/v1/tokens", post(tokens))
        .route("/v1/rotate-root", post(rotate_root))
        .route("/v1/rotate-leaves", post(rotate_leaves))
        .route("/v1/status", get(status))
        .route("/v1/settle", post(settle::settle))
        .route("/v1/policy", get(policy::policy))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(desk)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    namespace: String,
    workload: String,
}

#[derive(Serialize)]
struct TokenAnswer {
    token: String,
}

#[derive(Serialize)]
struct PhaseAnswer {
    phase: Phase,
}

async fn tokens(
    State(desk): State<Desk>,
    Json(request): Json<TokenRequest>,
) -> Result<Json<TokenAnswer>, Refused> {
    let workload = WorkloadKey::new(request.namespace, request.workload);
    let now = SystemTime::now();
    let token = desk
        .authority
        .issue_token(&workload, &desk.directory, now)?;
    let token = token.as_str().to_owned();
    Ok(Json(TokenAnswer { token }))
}

async fn rotate_root(State(desk): State<Desk>) -> Result<Json<PhaseAnswer>, Error> {
    let phase = desk.authority.begin_rotation(SystemTime::now())?;
    Ok(Json(PhaseAnswer { phase }))
}

async fn rotate_leaves(State(desk): State<Desk>) -> Result<Json<Status>, Error> {
    let now = SystemTime::now();
    desk.authority.rotate_leaves(now)?;
    Ok(Json(desk.authority.status(now)))
}

async fn status(State(desk): State<Desk>) -> Json<Status> {
    Json(desk.authority.status(SystemTime::now()))
}

#[derive(Serialize)]
struct Fault {
    error: String,
}

/// The loop has ended.
fn closing() -> Response {
    let error = "the control plane is ending; ask the next one".to_owned();
    (StatusCode::SERVICE_UNAVAILABLE, Json(Fault { error })).into_response()
}

fn answer(status: StatusCode, error: &dyn std::error::Error) -> Response {
    let error = error.to_string();
    (status, Json(Fault { error })).into_response()
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Rotating(_) | Self::SameRoot(_) | Self::NoRootKey | Self::TooManyIssuers(_) => {
                StatusCode::CONFLICT
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        answer(status, &self)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Fault(error) => error.into_response(),
            Self::NotInTheMesh(_) => answer(StatusCode::NOT_FOUND, &self),
            _ => answer(StatusCode::FORBIDDEN, &self),
        }
    }
}
