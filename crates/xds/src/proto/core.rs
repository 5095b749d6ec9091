//! `envoy.config.core.v3`: addresses, metadata, transport sockets, sources, headers; and
//! `envoy.type.matcher.v3`.

use std::collections::BTreeMap;

use super::envoy::{ApiConfigSource, HeaderKeyFormat, KeepaliveSettings};
use super::google::{Any, Struct, UInt32Value};

/// `envoy.config.core.v3.Address`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Address {
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

/// `envoy.config.core.v3.SocketAddress`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SocketAddress {
    #[prost(int32, tag = "1")]
    pub protocol: i32,
    #[prost(string, tag = "2")]
    pub address: String,
    #[prost(uint32, optional, tag = "3")]
    pub port_value: Option<u32>,
}

/// `envoy.config.core.v3.Metadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    pub filter_metadata: BTreeMap<String, Struct>,
}

/// `envoy.config.core.v3.TransportSocket`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TransportSocket {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub typed_config: Option<Any>,
}

/// `envoy.config.core.v3.ConfigSource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConfigSource {
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "2")]
    pub api_config_source: Option<ApiConfigSource>,
    #[prost(message, optional, tag = "3")]
    pub ads: Option<AggregatedConfigSource>,
    #[prost(int32, tag = "6")]
    pub resource_api_version: i32,
}

/// `envoy.config.core.v3.AggregatedConfigSource`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AggregatedConfigSource {}

/// `envoy.config.core.v3.HeaderValueOption`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    #[prost(int32, tag = "3")]
    pub append_action: i32,
    #[prost(bool, tag = "4")]
    pub keep_empty_value: bool,
}

/// `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `envoy.config.core.v3.DataSource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DataSource {
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub inline_bytes: Option<bytes::Bytes>,
    #[prost(string, optional, tag = "3")]
    pub inline_string: Option<String>,
}

/// `envoy.config.core.v3.ProxyProtocolConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProxyProtocolConfig {
    #[prost(int32, tag = "1")]
    pub version: i32,
}

/// `envoy.config.core.v3.Http1ProtocolOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Http1ProtocolOptions {
    /// Only written, for Envoy.
    #[prost(bool, tag = "2")]
    pub accept_http_10: bool,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "4")]
    pub header_key_format: Option<HeaderKeyFormat>,
    /// Only written, for Envoy.
    #[prost(bool, tag = "5")]
    pub enable_trailers: bool,
}

/// `envoy.config.core.v3.Http2ProtocolOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Http2ProtocolOptions {
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "2")]
    pub max_concurrent_streams: Option<UInt32Value>,
    /// Only written, for Envoy.
    #[prost(bool, tag = "5")]
    pub allow_connect: bool,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "15")]
    pub connection_keepalive: Option<KeepaliveSettings>,
}

/// `envoy.type.matcher.v3.RegexMatcher`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegexMatcher {
    #[prost(string, tag = "2")]
    pub regex: String,
}

/// `envoy.type.matcher.v3.RegexMatchAndSubstitute`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegexMatchAndSubstitute {
    #[prost(message, optional, tag = "1")]
    pub pattern: Option<RegexMatcher>,
    #[prost(string, tag = "2")]
    pub substitution: String,
}

/// `envoy.type.matcher.v3.StringMatcher`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringMatcher {
    #[prost(string, optional, tag = "1")]
    pub exact: Option<String>,
}
