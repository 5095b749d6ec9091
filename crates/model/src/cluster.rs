//! A group of endpoints that answer for the same thing.
//! Read by the proxy's balancer and pools. Must never hold health or load: that is state.

use std::net::SocketAddr;

use serde::Serialize;

/// Endpoints that requests of a route are spread over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Unique among the clusters.
    pub name: String,
    /// How an endpoint is chosen.
    pub balance: Balance,
    /// What its endpoints speak.
    pub protocol: Protocol,
    /// Written at the start of each opaque connection, so that endpoints learn who called.
    /// Invariant: `None` unless `protocol` is `Auto` or `Tcp`.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How its endpoints are learnt.
    pub discovery: Discovery,
    /// Connections go on to the address that they were made to, in plaintext and unread.
    /// Invariant: then there are no endpoints, and `protocol` is `Tcp`.
    pub passthrough: bool,
    /// May be empty: then requests are answered 503.
    pub endpoints: Vec<Endpoint>,
}

/// How the endpoints of a cluster are learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Discovery {
    /// They come with the cluster.
    #[default]
    Static,
    /// The control plane is asked for them as soon as the cluster is known.
    Eager,
    /// The control plane is asked for them when a connection wants to go there for the first time.
    OnDemand,
}

/// What the endpoints of a cluster speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// As it came: HTTP/2 requests go on as HTTP/2, others as HTTP/1.1; what is not HTTP, unread.
    #[default]
    Auto,
    /// HTTP/1.1, whatever the request came in.
    Http1,
    /// HTTP/2, whatever the request came in; without TLS by prior knowledge (RFC 9113, section
    /// 3.3).
    Http2,
    /// Connections are passed on unread.
    Tcp,
}

/// Version of the header that says whose connection this is (the PROXY protocol of `HAProxy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyProtocol {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// How one of several endpoints is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Of two chosen at random, the one with fewer requests in flight.
    LeastRequest,
    /// The one with the address that the connection was made to, and no other.
    OriginalDestination,
}

/// One address that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Where to connect.
    pub address: SocketAddr,
    /// What is spoken on the connection.
    pub transport: Transport,
    /// SPIFFE ids that may answer. Invariant: empty with `Plaintext` and only then.
    pub identities: Vec<String>,
}

/// What a connection to an endpoint is wrapped in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// Nothing.
    #[default]
    Plaintext,
    /// Mesh TLS, both sides verified.
    Mtls,
    /// Mesh TLS to another of our sidecars: requests share few connections. Opaque connections
    /// have their own, as with `Mtls`.
    Leno,
}

impl Transport {
    /// The word used in configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Mtls => "mtls",
            Self::Leno => "leno",
        }
    }
}
