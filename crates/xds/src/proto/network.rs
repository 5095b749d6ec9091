//! The network filters: the HTTP connection manager with its HTTP filters, and the TCP proxy.

use super::core::{ConfigSource, Http1ProtocolOptions, Http2ProtocolOptions};
use super::envoy::{AccessLog, CommonHttpOptions};
use super::google::{Any, BoolValue, Duration, UInt32Value};
use super::route::RouteConfiguration;

/// `envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpConnections {
    /// Only written, for Envoy.
    #[prost(int32, tag = "1")]
    pub codec_type: i32,
    #[prost(string, tag = "2")]
    pub stat_prefix: String,
    #[prost(message, optional, tag = "3")]
    pub rds: Option<Rds>,
    #[prost(message, optional, tag = "4")]
    pub route_config: Option<RouteConfiguration>,
    #[prost(message, repeated, tag = "5")]
    pub http_filters: Vec<HttpFilter>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "8")]
    pub http_protocol_options: Option<Http1ProtocolOptions>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "9")]
    pub http2_protocol_options: Option<Http2ProtocolOptions>,
    /// Only written, for Envoy.
    #[prost(message, repeated, tag = "13")]
    pub access_log: Vec<AccessLog>,
    #[prost(message, optional, tag = "14")]
    pub use_remote_address: Option<BoolValue>,
    #[prost(message, optional, tag = "15")]
    pub generate_request_id: Option<BoolValue>,
    #[prost(message, repeated, tag = "23")]
    pub upgrade_configs: Vec<UpgradeConfig>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "24")]
    pub stream_idle_timeout: Option<Duration>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "29")]
    pub max_request_headers_kb: Option<UInt32Value>,
    /// Only written, for Envoy.
    #[prost(bool, tag = "32")]
    pub preserve_external_request_id: bool,
    #[prost(int32, tag = "34")]
    pub server_header_transformation: i32,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "35")]
    pub common_http_protocol_options: Option<CommonHttpOptions>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "41")]
    pub request_headers_timeout: Option<Duration>,
}

/// `envoy.extensions.filters.network.http_connection_manager.v3.Rds`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Rds {
    #[prost(message, optional, tag = "1")]
    pub config_source: Option<ConfigSource>,
    #[prost(string, tag = "2")]
    pub route_config_name: String,
}

/// `envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpFilter {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "4")]
    pub typed_config: Option<Any>,
}

/// `envoy.extensions.filters.network.http_connection_manager.v3`
/// `.HttpConnectionManager.UpgradeConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpgradeConfig {
    #[prost(string, tag = "1")]
    pub upgrade_type: String,
}

/// `envoy.extensions.filters.http.router.v3.Router`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Router {
    /// Only written, for Envoy.
    #[prost(bool, tag = "4")]
    pub suppress_envoy_headers: bool,
}

/// `envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TcpProxy {
    #[prost(string, tag = "1")]
    pub stat_prefix: String,
    #[prost(string, optional, tag = "2")]
    pub cluster: Option<String>,
    /// Only written, for Envoy.
    #[prost(message, repeated, tag = "5")]
    pub access_log: Vec<AccessLog>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "7")]
    pub max_connect_attempts: Option<UInt32Value>,
    #[prost(message, optional, tag = "10")]
    pub weighted_clusters: Option<TcpWeightedCluster>,
}

/// `envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TcpWeightedCluster {
    #[prost(message, repeated, tag = "1")]
    pub clusters: Vec<TcpClusterWeight>,
}

/// `envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TcpClusterWeight {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub weight: u32,
}
