//! State-of-the-world xDS: every response says all of a kind that there is to say, and an answer
//! names a version. Two machines without I/O and clock, as in `delta`, and with their interfaces:
//! `client` for whom is told, `server` for one stream of whom tells.

pub mod client;
pub mod server;

use crate::kind::Kind;

/// Whether a response holds all resources of a kind, or those that the server cares to send.
const fn is_whole(kind: Kind) -> bool {
    matches!(kind, Kind::Listener | Kind::Cluster)
}

/// The gRPC method of aggregated discovery in its state-of-the-world variant.
pub const PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
