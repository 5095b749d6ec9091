//! Delta xDS: who wants which resources, and who has them in which version. Two machines without
//! I/O and clock, fed with messages and asked for messages: `client` for whom is told, `server` for
//! one stream of whom tells.

pub mod client;
pub mod ids;
pub mod server;

#[cfg(test)]
pub(crate) mod simulation;

/// The name that stands for all resources of a kind.
pub const WILDCARD: &str = "*";

/// The gRPC method of aggregated discovery in its delta variant.
pub const PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
