//! Clusters and their endpoints in the form that balancer and pools read, with the TLS
//! configurations of those that prove who they are. Built by `snapshot`, which hands over what was
//! known before, so that sessions and connections live on.

use super::{Error, Identity, Snapshot, spiffe_ids};
use arc_swap::ArcSwapOption;
use identity::SpiffeId;
use identity::credentials::Fingerprint;
use identity::tls::{self, ALPN_H2, ALPN_HOP, ALPN_HTTP1, ALPN_PUBLIC_HTTP1, ALPN_TCP};
use model::{Balance, Protocol, ProxyProtocol, Transport};
use rustls::ClientConfig;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is offered for one request after the other.
const ALPN_REQUESTS: &[&[u8]] = &[ALPN_HTTP1, ALPN_PUBLIC_HTTP1];

/// Endpoints that answer for the same thing.
pub(crate) struct Cluster {
    pub(crate) name: Arc<str>,
    pub(crate) balance: Balance,
    /// What its endpoints speak.
    pub(crate) protocol: Protocol,
    /// What unread connections to it begin with.
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    /// Connections go where they were made to, unread.
    pub(crate) passthrough: bool,
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
    /// Requests of each worker that uses it; for the admin pages.
    pub(crate) in_use: InUse,
}

/// How many requests an endpoint has in flight. Invariant: each count has one writer, the worker
/// that added it, so that no two write to the same place.
#[derive(Default)]
pub(crate) struct InUse(ArcSwapOption<Vec<Arc<AtomicU32>>>);

impl InUse {
    /// One more count, for a worker that uses the endpoint for the first time. Those that nobody
    /// else holds any more are dropped: there are no more than workers that live.
    pub(crate) fn add(&self) -> Arc<AtomicU32> {
        let added = Arc::default();
        self.0.rcu(|counts| {
            let counts = counts.iter().flat_map(|counts| counts.iter());
            // By its worker, beside this list.
            let held = counts.filter(|count| Arc::strong_count(count) > 1);
            let all: Vec<_> = held.chain([&added]).map(Arc::clone).collect();
            Some(Arc::new(all))
        });
        added
    }

    /// Of all workers.
    pub(crate) fn total(&self) -> u32 {
        let counts = self.0.load();
        let counts = counts.iter().flat_map(|counts| counts.iter());
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// How an endpoint proves itself.
pub(crate) struct Mtls {
    /// Whether requests share connections ([`Transport::Leno`]).
    pub(crate) shared: bool,
    pub(crate) clients: Arc<Clients>,
}

/// The TLS configurations for peers of whom one of the same ids is expected.
pub(crate) struct Clients {
    pub(crate) expected: Vec<SpiffeId>,
    /// By which they are verified.
    pub(crate) bundle: Fingerprint,
    /// One request after the other.
    pub(crate) http: Arc<ClientConfig>,
    pub(crate) h2: Arc<ClientConfig>,
    /// Between two sidecars of ours.
    pub(crate) hop: Arc<ClientConfig>,
    /// Unread connections.
    pub(crate) tcp: Arc<ClientConfig>,
}

impl Clients {
    /// They differ by their protocols only.
    fn build(own: &Identity, expected: Vec<SpiffeId>) -> Result<Self, tls::Error> {
        let http = tls::client_config(&own.credentials, ALPN_REQUESTS, &expected)?;
        Ok(Self {
            expected,
            bundle: own.credentials.bundle_fingerprint(),
            h2: tls::with_alpn(&http, &[ALPN_H2]),
            hop: tls::with_alpn(&http, &[ALPN_HOP]),
            tcp: tls::with_alpn(&http, &[ALPN_TCP]),
            http,
        })
    }
}

impl Endpoint {
    /// A place that is no cluster's: where a connection was made to.
    pub(crate) fn at(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            mtls: None,
            unhealthy: AtomicU32::new(0),
            in_use: InUse::default(),
        })
    }

    /// Whether `other` is the same peer at the same place, whatever proves it.
    pub(crate) fn succeeds(&self, other: &Self) -> bool {
        let peers = match (&self.mtls, &other.mtls) {
            (Some(one), Some(other)) => {
                one.clients.expected == other.clients.expected && one.shared == other.shared
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
                one.shared == other.shared && Arc::ptr_eq(&one.clients, &other.clients)
            }
            _ => false,
        };
        self.address == other.address && proof
    }
}

/// What an earlier snapshot knew, by what it is looked for.
#[derive(Default)]
pub(super) struct Known<'a> {
    endpoints: HashMap<SocketAddr, Vec<&'a Arc<Endpoint>>>,
    clients: HashMap<Vec<SpiffeId>, Arc<Clients>>,
}

impl<'a> Known<'a> {
    /// `proven`: whether our own certificates are the same as they were.
    pub(super) fn of(previous: Option<&'a Snapshot>, proven: bool) -> Self {
        let mut known = Self::default();
        let clusters = previous.into_iter().flat_map(|old| &old.clusters);
        for endpoint in clusters.flat_map(|cluster| &cluster.endpoints) {
            let there = known.endpoints.entry(endpoint.address).or_default();
            there.push(endpoint);
            if let Some(mtls) = endpoint.mtls.as_ref().filter(|_| proven) {
                let clients = known.clients.entry(mtls.clients.expected.clone());
                clients.or_insert_with(|| Arc::clone(&mtls.clients));
            }
        }
        known
    }

    /// The same endpoint, if it was there already: what is known of it lives on.
    fn find(&self, wanted: &Endpoint) -> Option<Arc<Endpoint>> {
        let mut there = self.endpoints.get(&wanted.address)?.iter();
        let same = there.find(|endpoint| endpoint.is_same(wanted))?;
        Some(Arc::clone(same))
    }

    /// Endpoints that expect the same peers share configurations, hence one set of sessions.
    fn clients(&mut self, own: &Identity, ids: &[String]) -> Result<Arc<Clients>, Failure> {
        let expected = spiffe_ids(ids)?;
        if let Some(clients) = self.clients.get(&expected) {
            return Ok(Arc::clone(clients));
        }
        let clients = Arc::new(Clients::build(own, expected.clone())?);
        self.clients.insert(expected, Arc::clone(&clients));
        Ok(clients)
    }
}

/// Why an endpoint's proof cannot be asked for.
enum Failure {
    Ids(Error),
    Tls(tls::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ids(error)
    }
}

impl From<tls::Error> for Failure {
    fn from(error: tls::Error) -> Self {
        Self::Tls(error)
    }
}

/// Builds a cluster of a sidecar with this identity, whose workload has these addresses.
pub(super) fn build(
    cluster: &model::Cluster,
    (identity, own): (Option<&Identity>, &[IpAddr]),
    known: &mut Known<'_>,
) -> Result<Cluster, Error> {
    let endpoint = |endpoint: &model::Endpoint| {
        let mtls = match (endpoint.transport, identity) {
            // The workload itself: its sidecar is not asked, being us.
            _ if own.contains(&endpoint.address.ip()) => None,
            (Transport::Mtls | Transport::Leno, Some(identity)) => {
                let clients = known.clients(identity, &endpoint.identities);
                let clients = clients.map_err(|failure| match failure {
                    Failure::Ids(error) => error,
                    Failure::Tls(source) => Error::Cluster {
                        cluster: cluster.name.clone(),
                        source,
                    },
                })?;
                let shared = endpoint.transport == Transport::Leno;
                Some(Mtls { shared, clients })
            }
            _ => None,
        };
        let endpoint = Endpoint {
            address: endpoint.address,
            mtls,
            unhealthy: AtomicU32::new(0),
            in_use: InUse::default(),
        };
        // Without mutual TLS it stays the same whatever the certificates, as workers see it.
        let same = known.find(&endpoint);
        Ok(same.unwrap_or_else(|| Arc::new(endpoint)))
    };
    let endpoints = cluster.endpoints.iter().map(endpoint);
    let endpoints = endpoints.collect::<Result<Vec<_>, Error>>()?;
    let expected = endpoints
        .iter()
        .find_map(|endpoint| endpoint.mtls.as_ref()?.clients.expected.first());
    Ok(Cluster {
        name: Arc::from(cluster.name.as_str()),
        balance: cluster.balance,
        protocol: cluster.protocol,
        proxy_protocol: cluster.proxy_protocol,
        passthrough: cluster.passthrough,
        destination: expected.cloned(),
        endpoints,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_workers_that_went_are_dropped() {
        let in_use = InUse::default();
        assert_eq!(in_use.total(), 0);
        for _ in 0..100 {
            in_use.add().store(0, Ordering::Relaxed);
        }
        let held = [in_use.add(), in_use.add()];
        held.iter()
            .for_each(|count| count.store(3, Ordering::Relaxed));
        assert_eq!(in_use.total(), 6);
        let counts = in_use.0.load();
        // The one before, whose worker went since, and these.
        assert!(counts.as_ref().is_some_and(|counts| counts.len() <= 3));
    }
}
