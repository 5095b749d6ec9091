//! Aggregated discovery: one stream per sidecar, from who it is to its end. Called by `serve` for
//! each call of the method. A stream sees what its workload may see, of whatever was published
//! last; it is told nothing before both the certificate and the name are known to be the same.

mod proxies;
mod session;
mod settle;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use identity::SpiffeId;
use identity::ca::Serial;
use tokio::sync::watch;
use tokio::time::timeout;
use xds::flavour::Flavour;
use xds::grpc::server::Call;
use xds::grpc::{Code, Error, Status};
use xds::proto::discovery::Node;
use xds::server::{Machine, Request};

use crate::authority::Holders;
use crate::kinds::WorkloadKey;
use crate::log;
use crate::metrics::Metrics;
use crate::push::Catalogue;
pub use proxies::{Proxies, Proxy, State};
use session::Session;

/// For the first request, which a client sends at once.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest name of a program that is shown to people.
const AGENT_BYTES_MAX: usize = 128;
/// What Envoy calls itself.
const ENVOY: &str = "envoy";

/// Serves streams.
#[derive(Clone, Debug)]
pub struct Ads {
    /// What is told.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// Who may be told what.
    pub holders: Arc<Holders>,
    /// Who is told.
    pub proxies: Arc<Proxies>,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What the verified certificate says, if there is one.
    pub proof: Option<Proof>,
    /// Where it connected from.
    pub address: SocketAddr,
}

/// What a verified certificate says of who shows it.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Whose it is: an account's, which several workloads may share.
    pub id: SpiffeId,
    /// Which one it is, and so which instance's; `None` if it cannot be one of ours.
    pub serial: Option<Serial>,
}

impl Ads {
    /// One call, until it ends or `closing` says that the connection does.
    pub async fn serve<M: Machine>(self, call: Call, peer: Peer, closing: watch::Receiver<bool>) {
        let metrics = Arc::clone(&self.metrics);
        metrics.streams.increment(M::LABEL);
        let address = peer.address;
        let status = self.run::<M>(call, peer, closing).await;
        metrics.streams_ended.increment(status.code.label());
        if !matches!(status.code, Code::Ok | Code::Unavailable) {
            log::warn("stream_ended", &[("peer", &address), ("reason", &status)]);
        }
    }

    async fn run<M: Machine>(
        self,
        mut call: Call,
        peer: Peer,
        closing: watch::Receiver<bool>,
    ) -> Status {
        let Some(proof) = peer.proof else {
            return refused(call, unauthenticated());
        };
        let first = match timeout(FIRST_REQUEST_TIMEOUT, call.request()).await {
            Ok(Ok(first)) => first,
            Ok(Err(error)) => return refused(call, status_of(&error)),
            Err(_) => return refused(call, Status::new(Code::DeadlineExceeded, "say something")),
        };
        match self.admit::<M>(&first, &proof, peer.address) {
            Ok(session) => Box::pin(session.run(call, first, closing)).await,
            Err(status) => refused(call, status),
        }
    }

    /// A session for who says to be a workload and is. It outlives this, so it is kept apart.
    fn admit<M: Machine>(
        self,
        first: &M::Request,
        proof: &Proof,
        address: SocketAddr,
    ) -> Result<Box<Session<M>>, Status> {
        let Some(node) = first.node() else {
            return Err(Status::new(
                Code::InvalidArgument,
                "the first request has no node",
            ));
        };
        let workload = workload_of(node).ok_or_else(|| {
            Status::new(Code::InvalidArgument, "the node's id is not NAME.NAMESPACE")
        })?;
        let catalogue = Arc::clone(&self.catalogue.borrow());
        // Whether there is such a workload is nobody else's affair, also not of those that run
        // under the same account.
        let is_its = |serial| self.holders.is_of(serial, &workload);
        let own = catalogue.workload(&workload);
        let own = own.filter(|own| own.identity == proof.id.as_str());
        let Some(own) = own.filter(|_| proof.serial.as_ref().is_some_and(is_its)) else {
            return Err(not_yours());
        };
        let flavour = flavour_of(node);
        let Some(sight) = own.sight_of(flavour, &catalogue, &own.reach) else {
            return Err(not_on_envoy());
        };
        let mut proxy = Proxy::new(workload.clone(), address);
        proxy.identity.clone_from(&own.identity);
        proxy.agent = agent_of(node);
        proxy.variant = M::LABEL;
        let Some(seat) = self.proxies.take_seat(proxy) else {
            let message = "the workload's sidecar is connected several times already";
            return Err(Status::new(Code::ResourceExhausted, message));
        };
        Ok(Session::new(
            self.catalogue,
            self.metrics,
            workload,
            own,
            &sight,
            seat,
        ))
    }
}

fn refused(call: Call, status: Status) -> Status {
    call.refuse(&status);
    status
}

fn unauthenticated() -> Status {
    Status::new(Code::Unauthenticated, "show a certificate of the mesh")
}

fn not_yours() -> Status {
    let message = "the certificate was not issued for the workload which the node's id names";
    Status::new(Code::PermissionDenied, message)
}

fn not_on_envoy() -> Status {
    let message = "the workload's data plane is Leno; write `sidecar: {dataPlane: envoy}`";
    Status::new(Code::FailedPrecondition, message)
}

/// What a client is told about its own mistakes; nothing for a connection that is gone.
fn status_of(error: &Error) -> Status {
    match error {
        Error::Http2(_) | Error::Silent | Error::Ended => Status::new(Code::Unavailable, ""),
        Error::TooLarge { .. } => Status::new(Code::ResourceExhausted, error.to_string()),
        Error::Compressed => Status::new(Code::Unimplemented, error.to_string()),
        _ => Status::new(Code::InvalidArgument, error.to_string()),
    }
}

/// `NAME.NAMESPACE`; a namespace has no dots in it.
fn workload_of(node: &Node) -> Option<WorkloadKey> {
    let (name, namespace) = node.id.rsplit_once('.')?;
    (!name.is_empty() && !namespace.is_empty()).then(|| WorkloadKey::new(namespace, name))
}

/// Envoy says what it is. A workload on Envoy has a companion besides, which hears Leno's.
fn flavour_of(node: &Node) -> Flavour {
    match node.user_agent_name.as_str() {
        ENVOY => Flavour::Envoy,
        _ => Flavour::Leno,
    }
}

fn agent_of(node: &Node) -> String {
    let mut agent = format!("{} {}", node.user_agent_name, node.user_agent_version);
    agent.retain(|letter| !letter.is_control());
    agent.truncate(agent.floor_char_boundary(AGENT_BYTES_MAX));
    agent.trim().to_owned()
}
