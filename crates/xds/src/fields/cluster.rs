//! Fields of clusters. Statistics, buffers and warming are ignored; limits, health and other ways
//! of choosing an endpoint are refused.

use super::Message;
use super::Rule::{Any, Ignored, Map, Message as Of, Read, Refused};
use super::core::{
    CONFIG_SOURCE, HTTP1_PROTOCOL_OPTIONS, HTTP2_PROTOCOL_OPTIONS, METADATA, TRANSPORT_SOCKET,
};
use super::endpoint::CLUSTER_LOAD_ASSIGNMENT;
use super::google::STRUCT;
use super::{many, one};

pub(super) static CLUSTER: Message = Message {
    name: "envoy.config.cluster.v3.Cluster",
    fields: &[
        one(1, "name", Read),
        one(2, "type", Read),
        one(3, "eds_cluster_config", Of(&EDS_CLUSTER_CONFIG)),
        one(4, "connect_timeout", Ignored),
        one(5, "per_connection_buffer_limit_bytes", Ignored),
        one(6, "lb_policy", Read),
        many(8, "health_checks", Refused),
        one(9, "max_requests_per_connection", Refused),
        one(10, "circuit_breakers", Refused),
        one(13, "http_protocol_options", Refused),
        one(14, "http2_protocol_options", Refused),
        one(16, "dns_refresh_rate", Refused),
        one(17, "dns_lookup_family", Ignored),
        many(18, "dns_resolvers", Refused),
        one(19, "outlier_detection", Refused),
        one(20, "cleanup_interval", Ignored),
        one(21, "upstream_bind_config", Refused),
        one(22, "lb_subset_config", Refused),
        one(23, "ring_hash_lb_config", Refused),
        one(24, "transport_socket", Of(&TRANSPORT_SOCKET)),
        one(25, "metadata", Of(&METADATA)),
        one(26, "protocol_selection", Refused),
        one(27, "common_lb_config", Refused),
        one(28, "alt_stat_name", Ignored),
        one(29, "common_http_protocol_options", Refused),
        one(30, "upstream_connection_options", Ignored),
        one(31, "close_connections_on_host_health_failure", Refused),
        one(32, "ignore_health_on_host_removal", Refused),
        one(33, "load_assignment", Of(&CLUSTER_LOAD_ASSIGNMENT)),
        one(34, "original_dst_lb_config", Refused),
        many(
            36,
            "typed_extension_protocol_options",
            Map(&Any(&[&HTTP_PROTOCOL_OPTIONS])),
        ),
        one(37, "least_request_lb_config", Refused),
        one(38, "cluster_type", Refused),
        one(39, "respect_dns_ttl", Refused),
        many(40, "filters", Refused),
        one(41, "load_balancing_policy", Refused),
        one(42, "lrs_server", Ignored),
        many(43, "transport_socket_matches", Of(&TRANSPORT_SOCKET_MATCH)),
        one(44, "dns_failure_refresh_rate", Refused),
        one(45, "use_tcp_for_dns_lookups", Refused),
        one(46, "upstream_http_protocol_options", Refused),
        one(47, "track_timeout_budgets", Ignored),
        one(48, "upstream_config", Refused),
        one(49, "track_cluster_stats", Ignored),
        one(50, "preconnect_policy", Ignored),
        one(51, "connection_pool_per_downstream_connection", Refused),
        one(52, "maglev_lb_config", Refused),
        one(53, "dns_resolution_config", Refused),
        one(54, "wait_for_warm_on_init", Ignored),
        one(55, "typed_dns_resolver_config", Refused),
        one(56, "round_robin_lb_config", Refused),
        many(57, "lrs_report_endpoint_metrics", Ignored),
        one(58, "dns_jitter", Refused),
        one(59, "transport_socket_matcher", Refused),
        one(60, "per_connection_buffer_high_watermark_timeout", Ignored),
        one(61, "stats_matcher", Ignored),
        one(62, "queuing_policies", Refused),
    ],
    oneofs: &[],
};

pub(super) static TRANSPORT_SOCKET_MATCH: Message = Message {
    name: "envoy.config.cluster.v3.Cluster.TransportSocketMatch",
    fields: &[
        one(1, "name", Read),
        one(2, "match", Of(&STRUCT)),
        one(3, "transport_socket", Of(&TRANSPORT_SOCKET)),
    ],
    oneofs: &[],
};

pub(super) static EDS_CLUSTER_CONFIG: Message = Message {
    name: "envoy.config.cluster.v3.Cluster.EdsClusterConfig",
    fields: &[
        one(1, "eds_config", Of(&CONFIG_SOURCE)),
        one(2, "service_name", Read),
    ],
    oneofs: &[],
};

pub(super) static HTTP_PROTOCOL_OPTIONS: Message = Message {
    name: "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    fields: &[
        one(1, "common_http_protocol_options", Refused),
        one(2, "upstream_http_protocol_options", Refused),
        one(3, "explicit_http_config", Of(&EXPLICIT_HTTP_CONFIG)),
        one(
            4,
            "use_downstream_protocol_config",
            Of(&USE_DOWNSTREAM_HTTP_CONFIG),
        ),
        one(5, "auto_config", Refused),
        many(6, "http_filters", Refused),
        one(7, "header_validation_config", Refused),
        one(8, "outlier_detection", Refused),
        many(9, "request_mirror_policies", Refused),
        many(10, "hash_policy", Refused),
        one(11, "retry_policy", Refused),
    ],
    oneofs: &[&[3, 4]],
};

pub(super) static EXPLICIT_HTTP_CONFIG: Message = Message {
    name: "envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig",
    fields: &[
        one(1, "http_protocol_options", Of(&HTTP1_PROTOCOL_OPTIONS)),
        one(2, "http2_protocol_options", Of(&HTTP2_PROTOCOL_OPTIONS)),
        one(3, "http3_protocol_options", Refused),
    ],
    oneofs: &[&[1, 2]],
};

pub(super) static USE_DOWNSTREAM_HTTP_CONFIG: Message = Message {
    name: "envoy.extensions.upstreams.http.v3.HttpProtocolOptions.UseDownstreamHttpConfig",
    fields: &[
        one(1, "http_protocol_options", Of(&HTTP1_PROTOCOL_OPTIONS)),
        one(2, "http2_protocol_options", Of(&HTTP2_PROTOCOL_OPTIONS)),
        one(3, "http3_protocol_options", Refused),
    ],
    oneofs: &[],
};
