//! Messages that are only written, for Envoy: no table of `fields` reads one of them.

use std::collections::BTreeMap;

use super::core::DataSource;
use super::google::{Any, Duration, UInt32Value};

/// `envoy.config.core.v3.ApiConfigSource`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ApiConfigSource {
    #[prost(int32, tag = "1")]
    pub api_type: i32,
    #[prost(message, repeated, tag = "4")]
    pub grpc_services: Vec<GrpcService>,
    #[prost(int32, tag = "8")]
    pub transport_api_version: i32,
}

/// `envoy.config.core.v3.GrpcService`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GrpcService {
    #[prost(message, optional, tag = "1")]
    pub envoy_grpc: Option<EnvoyGrpc>,
}

/// `envoy.config.core.v3.GrpcService.EnvoyGrpc`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnvoyGrpc {
    #[prost(string, tag = "1")]
    pub cluster_name: String,
}

/// `envoy.config.core.v3.CidrRange`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CidrRange {
    #[prost(string, tag = "1")]
    pub address_prefix: String,
    #[prost(message, optional, tag = "2")]
    pub prefix_len: Option<UInt32Value>,
}

/// `envoy.config.core.v3.HttpProtocolOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CommonHttpOptions {
    #[prost(message, optional, tag = "1")]
    pub idle_timeout: Option<Duration>,
    #[prost(message, optional, tag = "2")]
    pub max_headers_count: Option<UInt32Value>,
}

/// `envoy.config.accesslog.v3.AccessLog`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AccessLog {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub filter: Option<AccessLogFilter>,
    #[prost(message, optional, tag = "4")]
    pub typed_config: Option<Any>,
}

/// `envoy.config.accesslog.v3.AccessLogFilter`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AccessLogFilter {
    #[prost(message, optional, tag = "5")]
    pub runtime_filter: Option<RuntimeFilter>,
}

/// `envoy.config.accesslog.v3.RuntimeFilter`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RuntimeFilter {
    #[prost(string, tag = "1")]
    pub runtime_key: String,
    #[prost(message, optional, tag = "2")]
    pub percent_sampled: Option<FractionalPercent>,
}

/// `envoy.type.v3.FractionalPercent`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct FractionalPercent {
    #[prost(uint32, tag = "1")]
    pub numerator: u32,
}

/// `envoy.extensions.access_loggers.stream.v3.StdoutAccessLog`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StdoutAccessLog {}

/// `envoy.config.core.v3.KeepaliveSettings`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeepaliveSettings {
    #[prost(message, optional, tag = "1")]
    pub interval: Option<Duration>,
    #[prost(message, optional, tag = "2")]
    pub timeout: Option<Duration>,
}

/// `envoy.config.core.v3.Http1ProtocolOptions.HeaderKeyFormat`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderKeyFormat {
    #[prost(message, optional, tag = "8")]
    pub stateful_formatter: Option<TypedExtensionConfig>,
}

/// `envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreserveCase {
    #[prost(bool, tag = "1")]
    pub forward_reason_phrase: bool,
}

/// `envoy.config.core.v3.TypedExtensionConfig`; `xds.core.v3` has the same.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypedExtensionConfig {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub typed_config: Option<Any>,
}

/// `envoy.config.cluster.v3.CircuitBreakers`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CircuitBreakers {
    #[prost(message, repeated, tag = "1")]
    pub thresholds: Vec<Thresholds>,
}

/// `envoy.config.cluster.v3.CircuitBreakers.Thresholds`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Thresholds {
    #[prost(message, optional, tag = "2")]
    pub max_connections: Option<UInt32Value>,
    #[prost(message, optional, tag = "3")]
    pub max_pending_requests: Option<UInt32Value>,
    #[prost(message, optional, tag = "4")]
    pub max_requests: Option<UInt32Value>,
    #[prost(message, optional, tag = "5")]
    pub max_retries: Option<UInt32Value>,
}

/// `envoy.config.route.v3.RetryPolicy`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RetryPolicy {
    #[prost(string, tag = "1")]
    pub retry_on: String,
    #[prost(message, optional, tag = "2")]
    pub num_retries: Option<UInt32Value>,
    #[prost(message, repeated, tag = "5")]
    pub retry_host_predicate: Vec<RetryHostPredicate>,
    #[prost(int64, tag = "6")]
    pub host_selection_retry_max_attempts: i64,
}

/// `envoy.config.route.v3.RetryPolicy.RetryHostPredicate`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RetryHostPredicate {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub typed_config: Option<Any>,
}

/// `envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PreviousHosts {}

/// `envoy.extensions.filters.network.set_filter_state.v3.Config`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetFilterState {
    #[prost(message, repeated, tag = "1")]
    pub on_new_connection: Vec<FilterStateValue>,
}

/// `envoy.extensions.filters.common.set_filter_state.v3.FilterStateValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FilterStateValue {
    #[prost(string, tag = "1")]
    pub object_key: String,
    #[prost(message, optional, tag = "2")]
    pub format_string: Option<SubstitutionFormatString>,
    #[prost(int32, tag = "4")]
    pub shared_with_upstream: i32,
    #[prost(string, tag = "6")]
    pub factory_key: String,
}

/// `envoy.config.core.v3.SubstitutionFormatString`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubstitutionFormatString {
    #[prost(message, optional, tag = "5")]
    pub text_format_source: Option<DataSource>,
}

/// `xds.type.matcher.v3.Matcher`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Matcher {
    #[prost(message, optional, tag = "2")]
    pub matcher_tree: Option<MatcherTree>,
}

/// `xds.type.matcher.v3.Matcher.MatcherTree`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MatcherTree {
    #[prost(message, optional, tag = "1")]
    pub input: Option<TypedExtensionConfig>,
    #[prost(message, optional, tag = "2")]
    pub exact_match_map: Option<MatchMap>,
}

/// `xds.type.matcher.v3.Matcher.MatcherTree.MatchMap`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MatchMap {
    #[prost(btree_map = "string, message", tag = "1")]
    pub map: BTreeMap<String, OnMatch>,
}

/// `xds.type.matcher.v3.Matcher.OnMatch`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OnMatch {
    #[prost(message, optional, tag = "1")]
    pub matcher: Option<Matcher>,
    #[prost(message, optional, tag = "2")]
    pub action: Option<TypedExtensionConfig>,
}

/// `envoy.extensions.matching.common_inputs.transport_socket.v3.EndpointMetadataInput`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EndpointMetadataInput {
    #[prost(string, tag = "1")]
    pub filter: String,
    #[prost(message, repeated, tag = "2")]
    pub path: Vec<PathSegment>,
}

/// `envoy.extensions.matching.common_inputs.transport_socket.v3`
/// `.EndpointMetadataInput.PathSegment`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PathSegment {
    #[prost(string, tag = "1")]
    pub key: String,
}

/// `envoy.extensions.matching.common_inputs.transport_socket.v3.FilterStateInput`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FilterStateInput {
    #[prost(string, tag = "1")]
    pub key: String,
}

/// `envoy.extensions.matching.common_inputs.transport_socket.v3.TransportSocketNameAction`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TransportSocketName {
    #[prost(string, tag = "1")]
    pub name: String,
}
