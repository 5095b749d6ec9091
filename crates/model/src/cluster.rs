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
    /// May be empty: then requests are answered 503.
    pub endpoints: Vec<Endpoint>,
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
}

/// One address that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Where to connect.
    pub address: SocketAddr,
    /// What is spoken on the connection.
    pub transport: Transport,
    /// SPIFFE ids that may answer. Invariant: not empty with `Mtls`, empty with `Plaintext`.
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
}
