//! Fields of routes. A matcher, an action or a change that we do not know would send requests
//! elsewhere, or let in others.

use super::Message;
use super::Rule::{Any, Ignored, Map, Message as Of, Read, Refused};
use super::core::{HEADER_VALUE_OPTION, REGEX_MATCH_AND_SUBSTITUTE};
use super::google::{BOOL_VALUE, DURATION, UINT32_VALUE};
use super::rbac::HTTP_RBAC_PER_ROUTE;
use super::{many, one};

pub(super) static ROUTE_CONFIGURATION: Message = Message {
    name: "envoy.config.route.v3.RouteConfiguration",
    fields: &[
        one(1, "name", Read),
        many(2, "virtual_hosts", Of(&VIRTUAL_HOST)),
        many(3, "internal_only_headers", Refused),
        many(4, "response_headers_to_add", Refused),
        many(5, "response_headers_to_remove", Refused),
        many(6, "request_headers_to_add", Refused),
        one(7, "validate_clusters", Ignored),
        many(8, "request_headers_to_remove", Refused),
        one(9, "vhds", Refused),
        one(10, "most_specific_header_mutations_wins", Ignored),
        one(11, "max_direct_response_body_size_bytes", Ignored),
        many(12, "cluster_specifier_plugins", Refused),
        many(13, "request_mirror_policies", Refused),
        one(14, "ignore_port_in_host_matching", Read),
        one(15, "ignore_path_parameters_in_path_matching", Refused),
        many(16, "typed_per_filter_config", Refused),
        one(17, "metadata", Ignored),
        one(18, "vhost_header", Refused),
        many(19, "route_specifiers", Refused),
    ],
    oneofs: &[],
};

pub(super) static VIRTUAL_HOST: Message = Message {
    name: "envoy.config.route.v3.VirtualHost",
    fields: &[
        one(1, "name", Read),
        many(2, "domains", Read),
        many(3, "routes", Of(&ROUTE)),
        one(4, "require_tls", Refused),
        many(5, "virtual_clusters", Ignored),
        many(6, "rate_limits", Refused),
        many(7, "request_headers_to_add", Refused),
        one(8, "cors", Refused),
        many(10, "response_headers_to_add", Refused),
        many(11, "response_headers_to_remove", Refused),
        many(13, "request_headers_to_remove", Refused),
        one(14, "include_request_attempt_count", Refused),
        many(15, "typed_per_filter_config", Refused),
        one(16, "retry_policy", Refused),
        one(17, "hedge_policy", Refused),
        one(18, "per_request_buffer_limit_bytes", Refused),
        one(19, "include_attempt_count_in_response", Refused),
        one(20, "retry_policy_typed_config", Refused),
        one(21, "matcher", Refused),
        many(22, "request_mirror_policies", Refused),
        one(23, "include_is_timeout_retry_header", Refused),
        one(24, "metadata", Ignored),
        one(25, "request_body_buffer_limit", Refused),
        many(26, "route_specifiers", Refused),
    ],
    oneofs: &[],
};

pub(super) static ROUTE: Message = Message {
    name: "envoy.config.route.v3.Route",
    fields: &[
        one(1, "match", Of(&ROUTE_MATCH)),
        one(2, "route", Of(&ROUTE_ACTION)),
        one(3, "redirect", Of(&REDIRECT_ACTION)),
        one(4, "metadata", Ignored),
        one(5, "decorator", Ignored),
        one(7, "direct_response", Refused),
        many(9, "request_headers_to_add", Of(&HEADER_VALUE_OPTION)),
        many(10, "response_headers_to_add", Of(&HEADER_VALUE_OPTION)),
        many(11, "response_headers_to_remove", Read),
        many(12, "request_headers_to_remove", Read),
        many(
            13,
            "typed_per_filter_config",
            Map(&Any(&[&HTTP_RBAC_PER_ROUTE])),
        ),
        one(14, "name", Ignored),
        one(15, "tracing", Ignored),
        one(16, "per_request_buffer_limit_bytes", Refused),
        one(17, "filter_action", Refused),
        one(18, "non_forwarding_action", Refused),
        one(19, "stat_prefix", Ignored),
        one(20, "request_body_buffer_limit", Refused),
        many(21, "route_specifiers", Refused),
    ],
    oneofs: &[&[2, 3]],
};

pub(super) static ROUTE_MATCH: Message = Message {
    name: "envoy.config.route.v3.RouteMatch",
    fields: &[
        one(1, "prefix", Read),
        one(2, "path", Read),
        one(4, "case_sensitive", Of(&BOOL_VALUE)),
        many(6, "headers", Refused),
        many(7, "query_parameters", Refused),
        one(8, "grpc", Refused),
        one(9, "runtime_fraction", Refused),
        one(10, "safe_regex", Refused),
        one(11, "tls_context", Refused),
        one(12, "connect_matcher", Refused),
        many(13, "dynamic_metadata", Refused),
        one(14, "path_separated_prefix", Read),
        one(15, "path_match_policy", Refused),
        many(16, "filter_state", Refused),
        many(17, "cookies", Refused),
    ],
    oneofs: &[&[1, 2, 14]],
};

pub(super) static ROUTE_ACTION: Message = Message {
    name: "envoy.config.route.v3.RouteAction",
    fields: &[
        one(1, "cluster", Read),
        one(2, "cluster_header", Refused),
        one(3, "weighted_clusters", Of(&WEIGHTED_CLUSTER)),
        one(4, "metadata_match", Refused),
        one(5, "prefix_rewrite", Read),
        one(6, "host_rewrite_literal", Read),
        one(7, "auto_host_rewrite", Refused),
        one(8, "timeout", Of(&DURATION)),
        one(9, "retry_policy", Refused),
        one(11, "priority", Refused),
        many(13, "rate_limits", Refused),
        one(14, "include_vh_rate_limits", Refused),
        many(15, "hash_policy", Refused),
        one(17, "cors", Refused),
        one(20, "cluster_not_found_response_code", Refused),
        one(23, "max_grpc_timeout", Refused),
        one(24, "idle_timeout", Refused),
        many(25, "upgrade_configs", Refused),
        one(26, "internal_redirect_action", Refused),
        one(27, "hedge_policy", Refused),
        one(28, "grpc_timeout_offset", Refused),
        one(29, "host_rewrite_header", Refused),
        many(30, "request_mirror_policies", Refused),
        one(31, "max_internal_redirects", Refused),
        one(32, "regex_rewrite", Of(&REGEX_MATCH_AND_SUBSTITUTE)),
        one(33, "retry_policy_typed_config", Refused),
        one(34, "internal_redirect_policy", Refused),
        one(35, "host_rewrite_path_regex", Refused),
        one(36, "max_stream_duration", Refused),
        one(37, "cluster_specifier_plugin", Refused),
        one(38, "append_x_forwarded_host", Refused),
        one(39, "inline_cluster_specifier_plugin", Refused),
        one(40, "early_data_policy", Refused),
        one(41, "path_rewrite_policy", Refused),
        one(42, "flush_timeout", Refused),
        one(44, "host_rewrite", Refused),
        one(45, "path_rewrite", Refused),
    ],
    oneofs: &[&[1, 3]],
};

pub(super) static REDIRECT_ACTION: Message = Message {
    name: "envoy.config.route.v3.RedirectAction",
    fields: &[
        one(1, "host_redirect", Read),
        one(2, "path_redirect", Read),
        one(3, "response_code", Read),
        one(4, "https_redirect", Refused),
        one(5, "prefix_rewrite", Read),
        one(6, "strip_query", Refused),
        one(7, "scheme_redirect", Read),
        one(8, "port_redirect", Read),
        one(9, "regex_rewrite", Of(&REGEX_MATCH_AND_SUBSTITUTE)),
        one(10, "path_rewrite", Refused),
    ],
    oneofs: &[&[2, 5, 9]],
};

pub(super) static WEIGHTED_CLUSTER: Message = Message {
    name: "envoy.config.route.v3.WeightedCluster",
    fields: &[
        many(1, "clusters", Of(&CLUSTER_WEIGHT)),
        one(2, "runtime_key_prefix", Refused),
        one(3, "total_weight", Ignored),
        one(4, "header_name", Refused),
        one(5, "use_hash_policy", Refused),
    ],
    oneofs: &[],
};

pub(super) static CLUSTER_WEIGHT: Message = Message {
    name: "envoy.config.route.v3.WeightedCluster.ClusterWeight",
    fields: &[
        one(1, "name", Read),
        one(2, "weight", Of(&UINT32_VALUE)),
        one(3, "metadata_match", Refused),
        many(4, "request_headers_to_add", Refused),
        many(5, "response_headers_to_add", Refused),
        many(6, "response_headers_to_remove", Refused),
        many(9, "request_headers_to_remove", Refused),
        many(10, "typed_per_filter_config", Refused),
        one(11, "host_rewrite_literal", Refused),
        one(12, "cluster_header", Refused),
    ],
    oneofs: &[],
};
