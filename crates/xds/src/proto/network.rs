//! The network filters: the HTTP connection manager with its HTTP filters, and the TCP proxy.

use super::core::ConfigSource;
use super::google::{Any, BoolValue};

/// `envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpConnections {
    #[prost(string, tag = "2")]
    pub stat_prefix: String,
    #[prost(message, optional, tag = "3")]
    pub rds: Option<Rds>,
    #[prost(message, repeated, tag = "5")]
    pub http_filters: Vec<HttpFilter>,
    #[prost(message, optional, tag = "14")]
    pub use_remote_address: Option<BoolValue>,
    #[prost(message, optional, tag = "15")]
    pub generate_request_id: Option<BoolValue>,
    #[prost(message, repeated, tag = "23")]
    pub upgrade_configs: Vec<UpgradeConfig>,
    #[prost(int32, tag = "34")]
    pub server_header_transformation: i32,
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
pub struct Router {}

/// `envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TcpProxy {
    #[prost(string, tag = "1")]
    pub stat_prefix: String,
    #[prost(string, optional, tag = "2")]
    pub cluster: Option<String>,
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
