//! The mesh as one immutable value: the configuration in the form the path reads, with its TLS
//! configurations. Built by `app` on start and on change, handed whole to every worker.

use crate::filter::Filter;
use crate::route::Table;
use identity::SpiffeId;
use identity::credentials::{Credentials, Paths};
use identity::tls::{self, ALPN_H2, ALPN_HOP, ALPN_HTTP1, ALPN_PUBLIC_H2, ALPN_PUBLIC_HTTP1};
use identity::tls::{ALPN_TCP, Tickets};
use model::{Balance, Config, Direction, Limits, ListenerProtocol, Protocol, ProxyProtocol};
use model::{TlsMode, Transport};
use rustls::{ClientConfig, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What a sidecar accepts inside mesh TLS, in the order of its preference.
pub(crate) const ALPN: &[&[u8]] = &[
    ALPN_HOP,
    ALPN_H2,
    ALPN_HTTP1,
    ALPN_TCP,
    ALPN_PUBLIC_HTTP1,
    ALPN_PUBLIC_H2,
];

/// What is offered for one request after the other.
const ALPN_REQUESTS: &[&[u8]] = &[ALPN_HTTP1, ALPN_PUBLIC_HTTP1];

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
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) identity: Option<Identity>,
    pub(crate) limits: wire::http1::Limits,
}

/// Who this sidecar is.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) credentials: Credentials,
    pub(crate) server: Arc<ServerConfig>,
}

impl Identity {
    fn is_same(&self, other: &Self) -> bool {
        self.credentials.overview() == other.credentials.overview()
    }
}

pub(crate) struct Listener {
    pub(crate) name: Arc<str>,
    pub(crate) direction: Direction,
    pub(crate) tls: TlsMode,
    pub(crate) request_id: bool,
    pub(crate) forwarded_for: bool,
    pub(crate) routes: Table,
    pub(crate) reading: Reading,
    /// How long a silent peer is waited for before its destination is dialled.
    pub(crate) detect_timeout: Duration,
    /// Whether CONNECT is taken.
    pub(crate) connect: bool,
    /// Whether connections begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
    /// Lower case; `*` alone for all.
    upgrades: Vec<String>,
}

/// What becomes of a listener's connections, as far as the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Requests only: anything else is refused.
    Http,
    /// Unread from the first byte.
    Opaque,
    /// Requests where the first bytes are some, unread otherwise.
    Either,
}

impl Listener {
    /// Whether a request may turn its connection into `protocol` (RFC 9110, section 7.8). Never
    /// h2c: requests would come in past the routes.
    pub(crate) fn upgrades_to(&self, protocol: &[u8]) -> bool {
        let fits = |name: &String| name == "*" || protocol.eq_ignore_ascii_case(name.as_bytes());
        !protocol.eq_ignore_ascii_case(b"h2c") && self.upgrades.iter().any(fits)
    }
}

/// What a matched request is to go through.
pub(crate) struct Route {
    pub(crate) prefix: Box<[u8]>,
    /// Place in [`Snapshot::clusters`].
    pub(crate) cluster: usize,
    /// Who may; `None` is everyone.
    pub(crate) allow: Option<Vec<SpiffeId>>,
    pub(crate) filters: Vec<Filter>,
}

pub(crate) struct Cluster {
    pub(crate) name: Arc<str>,
    pub(crate) balance: Balance,
    /// What its endpoints speak.
    pub(crate) protocol: Protocol,
    /// What unread connections to it begin with.
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    /// Who answers, as far as the configuration demands a proof.
    pub(crate) destination: Option<SpiffeId>,
}

/// Where requests are sent to.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) mtls: Option<Mtls>,
    /// Workers that could not reach it last time; for the admin pages.
    pub(crate) unhealthy: AtomicU32,
}

/// How an endpoint proves itself.
pub(crate) struct Mtls {
    pub(crate) expected: Vec<SpiffeId>,
    /// Whether requests share connections ([`Transport::Leno`]).
    pub(crate) shared: bool,
    /// One request after the other.
    pub(crate) http: Arc<ClientConfig>,
    pub(crate) h2: Arc<ClientConfig>,
    /// Between two sidecars of ours.
    pub(crate) hop: Arc<ClientConfig>,
    /// Unread connections.
    pub(crate) tcp: Arc<ClientConfig>,
}

impl Mtls {
    /// `http` is the configuration that the others differ from by their protocols only.
    fn build(expected: Vec<SpiffeId>, shared: bool, http: Arc<ClientConfig>) -> Self {
        Self {
            expected,
            shared,
            h2: tls::with_alpn(&http, &[ALPN_H2]),
            hop: tls::with_alpn(&http, &[ALPN_HOP]),
            tcp: tls::with_alpn(&http, &[ALPN_TCP]),
            http,
        }
    }
}

impl Endpoint {
    /// Whether `other` is the same peer at the same place, whatever proves it.
    pub(crate) fn succeeds(&self, other: &Self) -> bool {
        let peers = match (&self.mtls, &other.mtls) {
            (Some(one), Some(other)) => {
                one.expected == other.expected && one.shared == other.shared
            }
            _ => false,
        };
        self.address == other.address && peers
    }

    /// Whether connections to `other` may be used for this one: same place, same proof.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let proof = match (&self.mtls, &other.mtls) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.expected == other.expected
                    && one.shared == other.shared
                    && Arc::ptr_eq(&one.http, &other.http)
            }
            _ => false,
        };
        self.address == other.address && proof
    }
}

impl Snapshot {
    /// Builds the view of `config`, reading the certificate files it names.
    ///
    /// # Errors
    /// What cannot be put to use; nothing changes then.
    pub fn build(
        config: Arc<Config>,
        tickets: &Arc<Tickets>,
        previous: Option<&Self>,
    ) -> Result<Self, Error> {
        let identity = config
            .identity
            .as_ref()
            .map(|files| load(files, tickets))
            .transpose()?;
        let previous_identity = previous.and_then(|previous| previous.identity.clone());
        let (identity, known) = match (identity, previous_identity) {
            // The same certificates: sessions and connections live on.
            (Some(new), Some(old)) if new.is_same(&old) => (Some(old), previous),
            (new, _) => (new, None),
        };
        let clusters = config
            .clusters
            .iter()
            .map(|cluster| build_cluster(cluster, identity.as_ref(), known, previous));
        let clusters = clusters.collect::<Result<Vec<_>, _>>()?;
        let listeners = config
            .listeners
            .iter()
            .map(|listener| build_listener(listener, &config));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let limits = http_limits(&config.limits);
        let generation = previous.map_or(1, |previous| previous.generation + 1);
        Ok(Self {
            generation,
            config,
            listeners,
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
        at.or_else(|| {
            self.listeners
                .iter()
                .find(|listener| *listener.name == *name)
        })
    }

    /// The same endpoint, if it was there already: what is known of it lives on.
    fn find_endpoint(&self, wanted: &Endpoint) -> Option<Arc<Endpoint>> {
        let mut all = self.clusters.iter().flat_map(|cluster| &cluster.endpoints);
        all.find(|endpoint| endpoint.is_same(wanted)).cloned()
    }

    /// What `/clusters` shows: the configuration, and how many workers cannot reach an endpoint.
    #[must_use]
    pub fn describe_clusters(&self) -> serde_json::Value {
        let endpoint = |(model, built): (&model::Endpoint, &Arc<Endpoint>)| {
            let mut shown = serde_json::json!(model);
            shown["unhealthyWorkers"] = built.unhealthy.load(Ordering::Relaxed).into();
            shown
        };
        let cluster = |(model, built): (&model::Cluster, &Cluster)| {
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
        self.identity
            .as_ref()
            .map_or(serde_json::Value::Null, |identity| {
                serde_json::json!(identity.credentials.overview())
            })
    }
}

fn http_limits(limits: &Limits) -> wire::http1::Limits {
    wire::http1::Limits {
        head_bytes: limits.head_bytes,
        headers: limits.headers,
    }
}

fn load(files: &model::IdentityFiles, tickets: &Arc<Tickets>) -> Result<Identity, Error> {
    let paths = Paths {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        trust_bundle: files.trust_bundle.clone(),
    };
    let credentials = Credentials::load(&paths, &files.trust_domain)?;
    let server = tls::server_config(&credentials, ALPN, tickets).map_err(Error::Tls)?;
    Ok(Identity {
        credentials,
        server,
    })
}

fn spiffe_ids(ids: &[String]) -> Result<Vec<SpiffeId>, Error> {
    let parse = |id: &String| SpiffeId::parse(id).map_err(|_| Error::Spiffe(id.clone()));
    ids.iter().map(parse).collect()
}

/// `known` is `previous` if that had the same certificates.
fn build_cluster(
    cluster: &model::Cluster,
    own: Option<&Identity>,
    known: Option<&Snapshot>,
    previous: Option<&Snapshot>,
) -> Result<Cluster, Error> {
    let mut endpoints: Vec<Arc<Endpoint>> = Vec::with_capacity(cluster.endpoints.len());
    for endpoint in &cluster.endpoints {
        let mtls = match (endpoint.transport, own) {
            (Transport::Mtls | Transport::Leno, Some(own)) => {
                let expected = spiffe_ids(&endpoint.identities)?;
                let twin = find_configuration(&expected, &endpoints, known);
                let config = match twin {
                    Some(config) => config,
                    None => tls::client_config(&own.credentials, ALPN_REQUESTS, &expected)
                        .map_err(|source| Error::Cluster {
                            cluster: cluster.name.clone(),
                            source,
                        })?,
                };
                let shared = endpoint.transport == Transport::Leno;
                Some(Mtls::build(expected, shared, config))
            }
            _ => None,
        };
        let unhealthy = AtomicU32::new(0);
        let endpoint = Endpoint {
            address: endpoint.address,
            mtls,
            unhealthy,
        };
        // Without mutual TLS it stays the same whatever the certificates, as workers see it.
        let same = previous.and_then(|previous| previous.find_endpoint(&endpoint));
        endpoints.push(same.unwrap_or_else(|| Arc::new(endpoint)));
    }
    let expected = endpoints
        .iter()
        .find_map(|endpoint| endpoint.mtls.as_ref()?.expected.first());
    let destination = expected.cloned();
    let name = Arc::from(cluster.name.as_str());
    Ok(Cluster {
        name,
        balance: cluster.balance,
        protocol: cluster.protocol,
        proxy_protocol: cluster.proxy_protocol,
        destination,
        endpoints,
    })
}

/// Endpoints that expect the same peers share one configuration, hence one set of sessions.
fn find_configuration(
    expected: &[SpiffeId],
    built: &[Arc<Endpoint>],
    known: Option<&Snapshot>,
) -> Option<Arc<ClientConfig>> {
    let old = known.into_iter().flat_map(|known| &known.clusters);
    let mut all = built
        .iter()
        .chain(old.flat_map(|cluster| &cluster.endpoints));
    all.find_map(|endpoint| {
        let mtls = endpoint
            .mtls
            .as_ref()
            .filter(|mtls| mtls.expected == expected)?;
        Some(Arc::clone(&mtls.http))
    })
}

fn build_listener(listener: &model::Listener, config: &Config) -> Result<Listener, Error> {
    let routes = listener.routes.iter().map(|route| {
        let cluster = config
            .clusters
            .iter()
            .position(|cluster| cluster.name == route.cluster);
        let built = Route {
            prefix: route.prefix.as_bytes().into(),
            cluster: cluster.expect("a checked configuration names clusters that exist"),
            allow: route.allow.as_deref().map(spiffe_ids).transpose()?,
            filters: route.filters.iter().map(Filter::build).collect(),
        };
        Ok((route.hosts.clone(), built))
    });
    let routes = Table::build(routes.collect::<Result<Vec<_>, Error>>()?);
    Ok(Listener {
        name: Arc::from(listener.name.as_str()),
        direction: listener.direction,
        tls: listener.tls,
        request_id: listener.request_id,
        forwarded_for: listener.forwarded_for,
        routes,
        reading: reading(listener, config),
        detect_timeout: listener.detect_timeout,
        connect: listener.connect,
        proxy_protocol: listener.proxy_protocol,
        upgrades: listener.upgrades.clone(),
    })
}

/// What is not HTTP goes where the catch-all route leads. A listener with rules about paths or
/// headers takes requests only: bytes that an application reads as one, and we do not, would get
/// past them.
fn reading(listener: &model::Listener, config: &Config) -> Reading {
    match listener.protocol {
        ListenerProtocol::Http => return Reading::Http,
        ListenerProtocol::Tcp => return Reading::Opaque,
        ListenerProtocol::Auto => {}
    }
    let is_plain = |route: &&model::Route| route.prefix == "/" && route.filters.is_empty();
    let is_catch_all =
        |route: &&model::Route| route.prefix == "/" && route.hosts.contains(&model::HostMatch::Any);
    let catch_all = listener.routes.iter().find(is_catch_all);
    let cluster = catch_all.and_then(|route| {
        config
            .clusters
            .iter()
            .find(|cluster| cluster.name == route.cluster)
    });
    let Some(cluster) = cluster else {
        return Reading::Http;
    };
    let is_opaque = |port: u16| config.opaque_ports.contains(&port);
    let mut ports = cluster
        .endpoints
        .iter()
        .map(|endpoint| endpoint.address.port());
    match cluster.protocol {
        Protocol::Tcp => Reading::Opaque,
        _ if is_opaque(listener.address.port()) || ports.any(is_opaque) => Reading::Opaque,
        Protocol::Auto if listener.routes.iter().all(|route| is_plain(&route)) => Reading::Either,
        Protocol::Auto | Protocol::Http1 | Protocol::Http2 => Reading::Http,
    }
}
