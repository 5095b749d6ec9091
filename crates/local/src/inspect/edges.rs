//! Who calls whom, and how it goes: what the calling side of each connection counts, as totals at a
//! moment, and as rates between two. Pure. Invariant: a counter that went back began anew, and
//! what happened before it was first seen is not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::samples::Sample;

/// What an Envoy counts.
pub(super) mod envoy;

/// What the proxy calls a peer without a certificate.
const UNKNOWN: &str = "unknown";
/// What it calls all peers beyond those that it tells apart.
const OVERFLOW: &str = "overflow";
/// Upper bound of the last bucket.
const NO_BOUND: u64 = u64::MAX;

/// One side of an edge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// As people call it; `outside` for callers without a certificate.
    pub name: String,
    /// Its verified SPIFFE id.
    pub identity: Option<String>,
}

impl Peer {
    /// Callers that have no sidecar, told apart by nobody.
    fn outside() -> Self {
        Self {
            name: "outside".into(),
            identity: None,
        }
    }
}

/// What is spoken along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// gRPC.
    Grpc,
    /// Passed on unread: a connection counts as one request.
    Tcp,
    /// One of the first three: an Envoy does not say which.
    Http,
}

impl Protocol {
    fn of(label: &str) -> Self {
        match label {
            "http1" => Self::Http1,
            "http2" => Self::Http2,
            "grpc" => Self::Grpc,
            _ => Self::Tcp,
        }
    }

    /// The word in the metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
            Self::Tcp => "tcp",
            Self::Http => "http",
        }
    }
}

/// An edge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Who calls.
    pub source: Peer,
    /// Who is called.
    pub destination: Peer,
    /// How.
    pub protocol: Protocol,
}

impl Key {
    /// Whether both sides have proven who they are.
    #[must_use]
    pub const fn is_mutual(&self) -> bool {
        self.source.identity.is_some() && self.destination.identity.is_some()
    }
}

/// What was counted since the sidecar began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that ended; connections where nothing is read.
    pub ended: u64,
    /// Of these: answered with 5xx, or not at all though the caller was still there.
    pub failed: u64,
    /// Begun and not ended.
    pub active: u64,
    /// Of bodies, both ways.
    pub bytes: u64,
    /// Ended within that many µs, each with those before it.
    within: BTreeMap<u64, u64>,
}

/// Services by the identities that answer for them, as one sidecar knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services(BTreeMap<String, BTreeSet<String>>);

impl Services {
    /// Of the page `/clusters`.
    #[must_use]
    pub fn of(clusters: &Value) -> Self {
        let mut services = Self::default();
        for cluster in clusters.as_array().into_iter().flatten() {
            let name = service(cluster["name"].as_str().unwrap_or_default());
            let endpoints = cluster["endpoints"].as_array().into_iter().flatten();
            for id in endpoints.flat_map(|one| one["identities"].as_array().into_iter().flatten()) {
                let id = id.as_str().unwrap_or_default().to_owned();
                services.0.entry(id).or_default().insert(name.clone());
            }
        }
        services
    }

    /// Whether asking again would say nothing new of that peer.
    pub(super) fn knows(&self, peer: &Peer) -> bool {
        let identity = peer.identity.as_ref();
        identity.is_none_or(|identity| self.0.contains_key(identity))
    }

    /// Takes these as peers of whom nothing more will be known.
    pub(super) fn accept<'a>(&mut self, peers: impl Iterator<Item = &'a Peer>) {
        for identity in peers.filter_map(|peer| peer.identity.as_ref()) {
            self.0.entry(identity.clone()).or_default();
        }
    }

    /// The one service of that identity; none where there are several, or it is not known.
    fn only(&self, identity: &str) -> Option<&String> {
        let names = self.0.get(identity)?;
        names.first().filter(|_| names.len() == 1)
    }
}

/// A cluster as people call it: `outbound|80|hello.shop.svc.cluster.local` is `hello.shop`.
fn service(cluster: &str) -> String {
    let host = cluster.rsplit('|').next().unwrap_or(cluster);
    let Some((name, rest)) = host.split_once('.') else {
        return host.to_owned();
    };
    match rest.split_once(".svc.") {
        Some((namespace, _)) => shown(name, namespace),
        None => host.to_owned(),
    }
}

fn shown(name: &str, namespace: &str) -> String {
    match namespace {
        "" | "default" => name.to_owned(),
        _ => format!("{name}.{namespace}"),
    }
}

/// Whose counters they are.
pub(super) struct Own<'a> {
    pub(super) name: String,
    /// As its certificate says.
    pub(super) identity: Option<&'a str>,
    pub(super) services: &'a Services,
}

/// The totals of one sidecar, by edge. Of what comes in, only what nobody counts on the other side.
pub(super) fn totals(samples: &[Sample], own: &Own<'_>) -> BTreeMap<Key, Totals> {
    let mut all: BTreeMap<Key, Totals> = BTreeMap::new();
    for sample in samples {
        let is_request = sample.name.starts_with("leno_request");
        let is_response = sample.name == "leno_response_bytes_total";
        if let Some(key) = key(sample, own).filter(|_| is_request || is_response) {
            all.entry(key).or_default().add(sample);
        }
    }
    all
}

fn key(sample: &Sample, own: &Own<'_>) -> Option<Key> {
    let me = || Peer {
        name: own.name.clone(),
        identity: own.identity.map(str::to_owned),
    };
    let (source, destination) = match sample.label("direction") {
        "outbound" => (me(), called(sample, own)),
        "inbound" if sample.label("source_workload") == UNKNOWN => (Peer::outside(), me()),
        _ => return None,
    };
    let protocol = Protocol::of(sample.label("protocol"));
    Some(Key {
        source,
        destination,
        protocol,
    })
}

/// What is called has a namespace if its certificate is demanded; else it is a cluster.
fn called(sample: &Sample, own: &Own<'_>) -> Peer {
    let name = sample.label("destination_workload");
    let namespace = sample.label("destination_namespace");
    let domain = own.identity.and_then(trust_domain);
    let is_nobody = match namespace {
        "" => true,
        UNKNOWN | OVERFLOW => name == namespace,
        _ => false,
    };
    let (false, Some(domain)) = (is_nobody, domain) else {
        return Peer {
            name: service(name),
            identity: None,
        };
    };
    let identity = format!("spiffe://{domain}/ns/{namespace}/sa/{name}");
    let service = own.services.only(&identity);
    Peer {
        name: service.map_or_else(|| shown(name, namespace), Clone::clone),
        identity: Some(identity),
    }
}

fn trust_domain(id: &str) -> Option<&str> {
    Some(id.strip_prefix("spiffe://")?.split_once('/')?.0)
}

impl Totals {
    fn add(&mut self, sample: &Sample) {
        // Counts are below 2^53, where these numbers are exact.
        let count = sample.value as u64;
        match sample.name.as_str() {
            "leno_requests_total" => {
                self.ended += count;
                self.failed += if has_failed(sample) { count } else { 0 };
            }
            "leno_requests_active" => self.active += count,
            "leno_request_bytes_total" | "leno_response_bytes_total" => self.bytes += count,
            "leno_request_duration_seconds_bucket" => {
                *self.within.entry(micros(sample.label("le"))).or_default() += count;
            }
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.ended += other.ended;
        self.failed += other.failed;
        self.active += other.active;
        self.bytes += other.bytes;
        for (bound, count) in &other.within {
            *self.within.entry(*bound).or_default() += count;
        }
    }

    /// What happened since `before`; what is active stays what it is now.
    fn since(&self, before: &Self) -> Self {
        let anew = Self::default();
        let before = if self.ended < before.ended {
            &anew
        } else {
            before
        };
        let count =
            |bound, count: &u64| count.saturating_sub(*before.within.get(bound).unwrap_or(&0));
        Self {
            ended: self.ended - before.ended,
            failed: self.failed.saturating_sub(before.failed),
            active: self.active,
            bytes: self.bytes.saturating_sub(before.bytes),
            within: self
                .within
                .iter()
                .map(|(bound, all)| (*bound, count(bound, all)))
                .collect(),
        }
    }

    /// Estimated within a bucket, whose bounds are a factor of two apart; none where nothing ended.
    fn quantile(&self, share: f64) -> Option<Latency> {
        let total = self
            .within
            .values()
            .max()
            .copied()
            .filter(|total| *total > 0)?;
        let wanted = share * total as f64;
        let (mut lower, mut below) = (0, 0);
        for (&bound, &count) in &self.within {
            if count as f64 >= wanted && bound == NO_BOUND {
                return Some(Latency {
                    micros: lower,
                    is_more: true,
                });
            }
            if count as f64 >= wanted && count > below {
                let part = (wanted - below as f64) / (count - below) as f64;
                let micros = lower as f64 + part.max(0.0) * (bound - lower) as f64;
                return Some(Latency {
                    micros: micros as u64,
                    is_more: false,
                });
            }
            (lower, below) = (bound, count);
        }
        None
    }
}

/// Nothing was answered, or with 5xx; not where the caller went away, who is not waiting for it.
fn has_failed(sample: &Sample) -> bool {
    match (sample.label("status_class"), sample.label("flag")) {
        (_, "DC") => false,
        ("5xx", _) => true,
        ("none", flag) => flag != "-",
        _ => false,
    }
}

fn micros(seconds: &str) -> u64 {
    let seconds: f64 = seconds.parse().unwrap_or(f64::INFINITY);
    if seconds.is_finite() {
        (seconds * 1e6).round() as u64
    } else {
        NO_BOUND
    }
}

/// How long requests took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latency {
    /// That long.
    pub micros: u64,
    /// Or longer: beyond what is told apart.
    pub is_more: bool,
}

/// Totals of every sidecar that answered, by instance.
pub type Reading = BTreeMap<String, BTreeMap<Key, Totals>>;

/// How an edge fares.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Which it is.
    pub key: Key,
    /// Requests that ended, per second; connections where nothing is read.
    pub rate: f64,
    /// The part of them that did not fail; none where nothing ended.
    pub success: Option<f64>,
    /// Half of them took no longer.
    pub p50: Option<Latency>,
    /// Of a hundred, all but one took no longer.
    pub p99: Option<Latency>,
    /// Begun and not ended.
    pub active: u64,
    /// Bytes of bodies that ended, per second, both ways.
    pub bytes_rate: f64,
}

/// What happened on every edge between two readings that are `elapsed` apart. Sidecars that are in
/// one of them only are not counted: nobody knows when what they say happened.
#[must_use]
pub fn rates(before: &Reading, after: &Reading, elapsed: Duration) -> Vec<Edge> {
    let mut sums: BTreeMap<&Key, Totals> = BTreeMap::new();
    let none = Totals::default();
    for (instance, now) in after {
        let Some(then) = before.get(instance) else {
            continue;
        };
        for (key, totals) in now {
            let since = totals.since(then.get(key).unwrap_or(&none));
            sums.entry(key).or_default().merge(&since);
        }
    }
    let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
    let edges = sums
        .into_iter()
        .map(|(key, sums)| edge(key, &sums, seconds));
    edges.collect()
}

fn edge(key: &Key, sums: &Totals, seconds: f64) -> Edge {
    let good = sums.ended - sums.failed.min(sums.ended);
    Edge {
        key: key.clone(),
        rate: sums.ended as f64 / seconds,
        success: (sums.ended > 0).then(|| good as f64 / sums.ended as f64),
        p50: sums.quantile(0.5),
        p99: sums.quantile(0.99),
        active: sums.active,
        bytes_rate: sums.bytes as f64 / seconds,
    }
}

#[cfg(test)]
mod tests;
