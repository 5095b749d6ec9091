//! `envoy.config.route.v3`.

use std::collections::BTreeMap;

use super::core::{HeaderValueOption, RegexMatchAndSubstitute};
use super::envoy::RetryPolicy;
use super::google::{Any, BoolValue, Duration, UInt32Value};

/// `envoy.config.route.v3.RouteConfiguration`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RouteConfiguration {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub virtual_hosts: Vec<VirtualHost>,
    /// Only written, for Envoy.
    #[prost(string, repeated, tag = "8")]
    pub request_headers_to_remove: Vec<String>,
    #[prost(bool, tag = "14")]
    pub ignore_port_in_host_matching: bool,
}

/// `envoy.config.route.v3.VirtualHost`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct VirtualHost {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub domains: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub routes: Vec<Route>,
}

/// `envoy.config.route.v3.Route`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Route {
    #[prost(message, optional, tag = "1")]
    pub r#match: Option<RouteMatch>,
    #[prost(message, optional, tag = "2")]
    pub route: Option<RouteAction>,
    #[prost(message, optional, tag = "3")]
    pub redirect: Option<RedirectAction>,
    #[prost(message, repeated, tag = "9")]
    pub request_headers_to_add: Vec<HeaderValueOption>,
    #[prost(message, repeated, tag = "10")]
    pub response_headers_to_add: Vec<HeaderValueOption>,
    #[prost(string, repeated, tag = "11")]
    pub response_headers_to_remove: Vec<String>,
    #[prost(string, repeated, tag = "12")]
    pub request_headers_to_remove: Vec<String>,
    #[prost(btree_map = "string, message", tag = "13")]
    pub typed_per_filter_config: BTreeMap<String, Any>,
}

/// `envoy.config.route.v3.RouteMatch`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RouteMatch {
    #[prost(string, optional, tag = "1")]
    pub prefix: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub path: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub case_sensitive: Option<BoolValue>,
    #[prost(string, optional, tag = "14")]
    pub path_separated_prefix: Option<String>,
}

/// `envoy.config.route.v3.RouteAction`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RouteAction {
    #[prost(string, optional, tag = "1")]
    pub cluster: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub weighted_clusters: Option<WeightedCluster>,
    #[prost(string, tag = "5")]
    pub prefix_rewrite: String,
    #[prost(string, optional, tag = "6")]
    pub host_rewrite_literal: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub timeout: Option<Duration>,
    /// Only written, for Envoy.
    #[prost(message, optional, tag = "9")]
    pub retry_policy: Option<RetryPolicy>,
    #[prost(message, optional, tag = "32")]
    pub regex_rewrite: Option<RegexMatchAndSubstitute>,
}

/// `envoy.config.route.v3.RedirectAction`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RedirectAction {
    #[prost(string, tag = "1")]
    pub host_redirect: String,
    #[prost(string, optional, tag = "2")]
    pub path_redirect: Option<String>,
    #[prost(int32, tag = "3")]
    pub response_code: i32,
    #[prost(string, optional, tag = "5")]
    pub prefix_rewrite: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub scheme_redirect: Option<String>,
    #[prost(uint32, tag = "8")]
    pub port_redirect: u32,
    #[prost(message, optional, tag = "9")]
    pub regex_rewrite: Option<RegexMatchAndSubstitute>,
}

/// `envoy.config.route.v3.WeightedCluster`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WeightedCluster {
    #[prost(message, repeated, tag = "1")]
    pub clusters: Vec<ClusterWeight>,
}

/// `envoy.config.route.v3.WeightedCluster.ClusterWeight`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClusterWeight {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub weight: Option<UInt32Value>,
}
