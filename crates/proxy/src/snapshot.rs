//! The mesh as one immutable value: the configuration in the form the path reads, with its TLS
//! configurations. Built by `app` on start and on change, handed whole to every worker.

mod clusters;
mod listeners;

use crate::edge::Certificates;
use identity::SpiffeId;
use identity::credentials::{Credentials, Paths};
use identity::tls::{self, ALPN_H2, ALPN_HOP, ALPN_HTTP1, ALPN_PUBLIC_H2, ALPN_PUBLIC_HTTP1};
use identity::tls::{ALPN_TCP, Tickets};
use model::{Config, Direction, Limits, TlsMode, Transport};
use rustls::ServerConfig;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) use clusters::{Cluster, Endpoint, Mtls};
use listeners::Around;
pub(crate) use listeners::{Listener, Reading, Route};

/// What a sidecar accepts inside mesh TLS, in the order of its preference.
pub(crate) const ALPN: &[&[u8]] = &[
    ALPN_HOP,
    ALPN_H2,
    ALPN_HTTP1,
    ALPN_TCP,
    ALPN_PUBLIC_HTTP1,
    ALPN_PUBLIC_H2,
];

/// Why a configuration cannot be put to use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate, key or bundle.
    #[error(transparent)]
    Credentials(#[from] identity::credentials::Error),
    /// An endpoint's identities.
    #[error("cluster `{cluster}`: {source}")]
    Cluster {
        /// The cluster's name.
        cluster: String,
        /// What is wrong.
        source: tls::Error,
    },
    /// Mutual TLS without anything to prove who this is: it would be plaintext.
    #[error("{0} needs a certificate of the mesh, and there is none; add `identity`")]
    NoIdentity(String),
    /// A SPIFFE id that does not parse.
    #[error("`{0}` is not a SPIFFE id: write spiffe://<trust domain>/ns/<namespace>/sa/<account>")]
    Spiffe(String),
    /// The server's TLS configuration.
    #[error(transparent)]
    Tls(tls::Error),
}

/// One view of the mesh.
pub struct Snapshot {
    /// Counts the changes, from 1.
    pub generation: u64,
    /// What it was built from.
    pub config: Arc<Config>,
    /// In the order of the configuration; a request names its listener by place and name.
    pub(crate) listeners: Vec<Listener>,
    /// Places of all listeners by their names.
    places: HashMap<Arc<str>, usize>,
    /// Places of the listeners without a socket by the addresses they serve. A workload's own
    /// address may be in both directions: others call it there, and it calls itself.
    captured: HashMap<(Direction, SocketAddr), usize>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) identity: Option<Identity>,
    pub(crate) limits: wire::http1::Limits,
}

/// Who this sidecar is.
#[derive(Clone)]
pub struct Identity {
    pub(crate) credentials: Credentials,
    pub(crate) server: Arc<ServerConfig>,
    /// What clients outside of the mesh are shown.
    pub(crate) shown: Arc<Certificates>,
}

impl Identity {
    /// Reads the files that `config` names, if it names any.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn load(config: &Config, tickets: &Arc<Tickets>) -> Result<Option<Self>, Error> {
        let Some(files) = &config.identity else {
            return Ok(None);
        };
        let paths = Paths {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            trust_bundle: files.trust_bundle.clone(),
        };
        let credentials = Credentials::load(&paths, &files.trust_domain)?;
        Self::of(credentials, tickets).map(Some)
    }

    /// With credentials that were checked already.
    ///
    /// # Errors
    /// [`Error::Tls`].
    pub fn of(credentials: Credentials, tickets: &Arc<Tickets>) -> Result<Self, Error> {
        let server = tls::server_config(&credentials, ALPN, tickets).map_err(Error::Tls)?;
        Ok(Self {
            credentials,
            server,
            shown: Arc::default(),
        })
    }

    /// The same with these certificates for clients outside of the mesh.
    pub(crate) fn showing(self, shown: Arc<Certificates>) -> Self {
        Self { shown, ..self }
    }

    fn is_same(&self, other: &Self) -> bool {
        let (one, other) = (&self.credentials, &other.credentials);
        // The overview counts what is revoked, and does not name it.
        one.bundle_fingerprint() == other.bundle_fingerprint() && one.overview() == other.overview()
    }
}

impl Snapshot {
    /// Builds the view of `config` for a sidecar with `identity`.
    ///
    /// # Errors
    /// What cannot be put to use; nothing changes then.
    pub fn build(
        config: Arc<Config>,
        identity: Option<Identity>,
        previous: Option<&Self>,
    ) -> Result<Self, Error> {
        let certificates = identity.as_ref().map(|new| Arc::clone(&new.shown));
        let certificates = certificates.unwrap_or_default();
        let previous_identity = previous.and_then(|previous| previous.identity.clone());
        let (identity, known) = match (identity, previous_identity) {
            // The same certificates: sessions and connections live on.
            (Some(new), Some(old)) if new.is_same(&old) => (Some(old.showing(new.shown)), previous),
            (new, _) => (new, None),
        };
        if identity.is_none() {
            check_plaintext(&config)?;
        }
        let mut known = clusters::Known::of(previous, known.is_some());
        let own = own_addresses(&config);
        let clusters = config
            .clusters
            .iter()
            .map(|cluster| clusters::build(cluster, (identity.as_ref(), &own), &mut known));
        let clusters = clusters.collect::<Result<Vec<_>, _>>()?;
        let around = Around {
            config: &config,
            by_name: (0..).zip(&config.clusters).map(named).collect(),
            certificates,
            previous,
        };
        let listeners = config.listeners.iter();
        let listeners = listeners.map(|listener| listeners::build(listener, &around));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let places = (0..).zip(&listeners);
        let places = places.map(|(place, listener)| (Arc::clone(&listener.name), place));
        let places = places.collect();
        let captured = captured(&config);
        let limits = http_limits(&config.limits);
        let generation = previous.map_or(1, |previous| previous.generation + 1);
        Ok(Self {
            generation,
            config,
            listeners,
            places,
            captured,
            clusters,
            identity,
            limits,
        })
    }

    /// Whether the same authorities are trusted as in `other`.
    pub(crate) fn trusts_as(&self, other: &Self) -> bool {
        let bundle = |snapshot: &Self| {
            let identity = snapshot.identity.as_ref();
            identity.map(|identity| identity.credentials.bundle_fingerprint())
        };
        bundle(self) == bundle(other)
    }

    /// The listener at `place`, unless another took its place since.
    pub(crate) fn listener(&self, place: usize, name: &str) -> Option<&Listener> {
        let at = self
            .listeners
            .get(place)
            .filter(|listener| *listener.name == *name);
        at.or_else(|| self.listener_named(name))
    }

    /// The listener of that name.
    pub(crate) fn listener_named(&self, name: &str) -> Option<&Listener> {
        self.listeners.get(*self.places.get(name)?)
    }

    /// The place of the cluster of that name.
    pub(crate) fn cluster(&self, name: &str) -> Option<usize> {
        let mut clusters = self.clusters.iter();
        clusters.position(|cluster| *cluster.name == *name)
    }

    /// The listener that serves connections to `destination` that were redirected, and its place.
    pub(crate) fn captured(
        &self,
        destination: SocketAddr,
        direction: Direction,
    ) -> Option<(usize, &Listener)> {
        let place = *self.captured.get(&(direction, destination))?;
        Some((place, &self.listeners[place]))
    }

    /// The listener that would serve a new connection that was redirected from `destination`: the
    /// one without a socket that has the address, else the one with the socket.
    pub(crate) fn redirected(
        &self,
        destination: SocketAddr,
        direction: Direction,
    ) -> Option<&Listener> {
        if let Some((_, listener)) = self.captured(destination, direction) {
            return Some(listener);
        }
        let has_socket = |one: &&Listener| one.original_destination && one.direction == direction;
        self.listeners.iter().find(has_socket)
    }

    /// What `/clusters` shows: the configuration, how many workers cannot reach an endpoint, and
    /// how many requests it has in flight.
    #[must_use]
    pub fn describe_clusters(&self) -> serde_json::Value {
        let endpoint = |(model, built): (&model::Endpoint, &Arc<Endpoint>)| {
            let mut shown = serde_json::json!(model);
            shown["unhealthyWorkers"] = built.unhealthy.load(Ordering::Relaxed).into();
            shown["activeRequests"] = built.in_use.total().into();
            shown
        };
        let cluster = |(model, built): (&Arc<model::Cluster>, &Cluster)| {
            let mut shown = serde_json::json!(model);
            let endpoints = model.endpoints.iter().zip(&built.endpoints).map(endpoint);
            shown["endpoints"] = endpoints.collect();
            shown
        };
        self.config
            .clusters
            .iter()
            .zip(&self.clusters)
            .map(cluster)
            .collect()
    }

    /// What `/certs` shows.
    #[must_use]
    pub fn certificates(&self) -> serde_json::Value {
        let Some(identity) = &self.identity else {
            return serde_json::Value::Null;
        };
        let mut shown = serde_json::json!(identity.credentials.overview());
        if !identity.shown.is_empty() {
            let all = identity.shown.iter();
            let all = all.map(|(name, it)| (name.clone(), serde_json::json!(it.overview())));
            shown["shown"] = serde_json::Value::Object(all.collect());
        }
        shown
    }
}

/// That nothing needs an identity.
fn check_plaintext(config: &Config) -> Result<(), Error> {
    let is_mesh = |endpoint: &model::Endpoint| endpoint.transport != Transport::Plaintext;
    let mut clusters = config.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.endpoints.iter().any(is_mesh));
    let mut listeners = config.listeners.iter();
    let listener = listeners.find(|listener| listener.tls != TlsMode::Disabled);
    let cluster = cluster.map(|cluster| format!("cluster `{}`", cluster.name));
    let listener = listener.map(|listener| format!("listener `{}`", listener.name));
    cluster
        .or(listener)
        .map_or(Ok(()), |what| Err(Error::NoIdentity(what)))
}

fn http_limits(limits: &Limits) -> wire::http1::Limits {
    wire::http1::Limits {
        head_bytes: limits.head_bytes,
        headers: limits.headers,
    }
}

fn spiffe_ids(ids: &[String]) -> Result<Vec<SpiffeId>, Error> {
    let parse = |id: &String| SpiffeId::parse(id).map_err(|_| Error::Spiffe(id.clone()));
    ids.iter().map(parse).collect()
}

fn named((place, cluster): (usize, &Arc<model::Cluster>)) -> (&str, usize) {
    (&cluster.name, place)
}

fn captured(config: &Config) -> HashMap<(Direction, SocketAddr), usize> {
    let listeners = (0..).zip(&config.listeners);
    let without_socket = listeners.filter(|(_, listener)| !listener.bind);
    without_socket
        .flat_map(|(place, listener)| {
            let addresses = listener.addresses();
            addresses.map(move |addr| ((listener.direction, addr), place))
        })
        .collect()
}

/// Where the workload itself lives: what is redirected to inbound listeners was sent there.
fn own_addresses(config: &Config) -> Vec<IpAddr> {
    let listeners = config.listeners.iter();
    let inbound =
        listeners.filter(|listener| !listener.bind && listener.direction == Direction::Inbound);
    let mut own: Vec<_> = inbound
        .flat_map(|listener| listener.addresses())
        .map(|addr| addr.ip())
        .collect();
    own.sort_unstable();
    own.dedup();
    own
}
