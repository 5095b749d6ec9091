//! `envoy.config.listener.v3` and the listener filters.

use super::core::{Address, Metadata, TransportSocket};
use super::envoy::CidrRange;
use super::google::{Any, BoolValue, Duration, UInt32Value};

/// `envoy.config.listener.v3.Listener`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Listener {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub address: Option<Address>,
    #[prost(message, repeated, tag = "3")]
    pub filter_chains: Vec<FilterChain>,
    #[prost(message, optional, tag = "4")]
    pub use_original_dst: Option<BoolValue>,
    #[prost(message, optional, tag = "6")]
    pub metadata: Option<Metadata>,
    #[prost(message, repeated, tag = "9")]
    pub listener_filters: Vec<ListenerFilter>,
    #[prost(message, optional, tag = "15")]
    pub listener_filters_timeout: Option<Duration>,
    #[prost(int32, tag = "16")]
    pub traffic_direction: i32,
    #[prost(bool, tag = "17")]
    pub continue_on_listener_filters_timeout: bool,
    #[prost(message, optional, tag = "26")]
    pub bind_to_port: Option<BoolValue>,
    #[prost(message, repeated, tag = "33")]
    pub additional_addresses: Vec<AdditionalAddress>,
}

/// `envoy.config.listener.v3.AdditionalAddress`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AdditionalAddress {
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
}

/// `envoy.config.listener.v3.FilterChain`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FilterChain {
    #[prost(message, optional, tag = "1")]
    pub filter_chain_match: Option<FilterChainMatch>,
    #[prost(message, repeated, tag = "3")]
    pub filters: Vec<Filter>,
    #[prost(message, optional, tag = "6")]
    pub transport_socket: Option<TransportSocket>,
    #[prost(string, tag = "7")]
    pub name: String,
}

/// `envoy.config.listener.v3.FilterChainMatch`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FilterChainMatch {
    /// Only written, for Envoy.
    #[prost(message, repeated, tag = "3")]
    pub prefix_ranges: Vec<CidrRange>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "8")]
    pub destination_port: Option<UInt32Value>,
    #[prost(string, tag = "9")]
    pub transport_protocol: String,
    #[prost(string, repeated, tag = "10")]
    pub application_protocols: Vec<String>,
    #[prost(string, repeated, tag = "11")]
    pub server_names: Vec<String>,
}

/// `envoy.config.listener.v3.Filter`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Filter {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "4")]
    pub typed_config: Option<Any>,
}

/// `envoy.config.listener.v3.ListenerFilter`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListenerFilter {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub typed_config: Option<Any>,
}

/// `envoy.extensions.filters.listener.original_dst.v3.OriginalDst`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OriginalDst {}

/// `envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TlsInspector {}

/// `envoy.extensions.filters.listener.http_inspector.v3.HttpInspector`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HttpInspector {}

/// `envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ProxyProtocol {}
