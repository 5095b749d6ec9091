//! `envoy.config.cluster.v3` and what a cluster speaks.

use std::collections::BTreeMap;

use super::core::{
    ConfigSource, Http1ProtocolOptions, Http2ProtocolOptions, Metadata, TransportSocket,
};
use super::endpoint::ClusterLoadAssignment;
use super::envoy::{CircuitBreakers, CommonHttpOptions, Matcher};
use super::google::{Any, Duration, Struct};

/// `envoy.config.cluster.v3.Cluster`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Cluster {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, optional, tag = "2")]
    pub r#type: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub eds_cluster_config: Option<EdsClusterConfig>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "4")]
    pub connect_timeout: Option<Duration>,
    #[prost(int32, tag = "6")]
    pub lb_policy: i32,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "10")]
    pub circuit_breakers: Option<CircuitBreakers>,
    #[prost(message, optional, tag = "24")]
    pub transport_socket: Option<TransportSocket>,
    #[prost(message, optional, tag = "25")]
    pub metadata: Option<Metadata>,
    #[prost(message, optional, tag = "33")]
    pub load_assignment: Option<ClusterLoadAssignment>,
    #[prost(btree_map = "string, message", tag = "36")]
    pub typed_extension_protocol_options: BTreeMap<String, Any>,
    #[prost(message, repeated, tag = "43")]
    pub transport_socket_matches: Vec<TransportSocketMatch>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "59")]
    pub transport_socket_matcher: Option<Matcher>,
}

/// `envoy.config.cluster.v3.Cluster.TransportSocketMatch`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TransportSocketMatch {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#match: Option<Struct>,
    #[prost(message, optional, tag = "3")]
    pub transport_socket: Option<TransportSocket>,
}

/// `envoy.config.cluster.v3.Cluster.EdsClusterConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EdsClusterConfig {
    #[prost(message, optional, tag = "1")]
    pub eds_config: Option<ConfigSource>,
    #[prost(string, tag = "2")]
    pub service_name: String,
}

/// `envoy.extensions.upstreams.http.v3.HttpProtocolOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpProtocolOptions {
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "1")]
    pub common_http_protocol_options: Option<CommonHttpOptions>,
    #[prost(message, optional, tag = "3")]
    pub explicit_http_config: Option<ExplicitHttpConfig>,
    #[prost(message, optional, tag = "4")]
    pub use_downstream_protocol_config: Option<UseDownstreamHttpConfig>,
}

/// `envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExplicitHttpConfig {
    #[prost(message, optional, tag = "1")]
    pub http_protocol_options: Option<Http1ProtocolOptions>,
    #[prost(message, optional, tag = "2")]
    pub http2_protocol_options: Option<Http2ProtocolOptions>,
}

/// `envoy.extensions.upstreams.http.v3.HttpProtocolOptions.UseDownstreamHttpConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UseDownstreamHttpConfig {
    #[prost(message, optional, tag = "1")]
    pub http_protocol_options: Option<Http1ProtocolOptions>,
    #[prost(message, optional, tag = "2")]
    pub http2_protocol_options: Option<Http2ProtocolOptions>,
}
