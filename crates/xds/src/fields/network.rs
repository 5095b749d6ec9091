//! Fields of what a filter chain does: HTTP, or connections passed on unread. Timeouts and changes
//! of headers are seen by callers, so they are refused; how long a drain takes is not.

use super::Message;
use super::Rule::{Any, Ignored, Message as Of, Read, Refused};
use super::core::CONFIG_SOURCE;
use super::google::BOOL_VALUE;
use super::rbac::HTTP_RBAC;
use super::route::ROUTE_CONFIGURATION;
use super::{many, one};

pub(super) static HTTP_CONNECTION_MANAGER: Message = Message {
    name: "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    fields: &[
        one(1, "codec_type", Refused),
        one(2, "stat_prefix", Read),
        one(3, "rds", Of(&RDS)),
        one(4, "route_config", Of(&ROUTE_CONFIGURATION)),
        many(5, "http_filters", Of(&HTTP_FILTER)),
        one(6, "add_user_agent", Refused),
        one(7, "tracing", Ignored),
        one(8, "http_protocol_options", Refused),
        one(9, "http2_protocol_options", Refused),
        one(10, "server_name", Refused),
        one(12, "drain_timeout", Ignored),
        many(13, "access_log", Ignored),
        one(14, "use_remote_address", Of(&BOOL_VALUE)),
        one(15, "generate_request_id", Of(&BOOL_VALUE)),
        one(16, "forward_client_cert_details", Refused),
        one(17, "set_current_client_cert_details", Refused),
        one(18, "proxy_100_continue", Refused),
        one(19, "xff_num_trusted_hops", Refused),
        one(
            20,
            "represent_ipv4_remote_address_as_ipv4_mapped_ipv6",
            Refused,
        ),
        one(21, "skip_xff_append", Refused),
        one(22, "via", Refused),
        many(23, "upgrade_configs", Of(&UPGRADE_CONFIG)),
        one(24, "stream_idle_timeout", Refused),
        one(25, "internal_address_config", Refused),
        one(26, "delayed_close_timeout", Ignored),
        one(28, "request_timeout", Refused),
        one(29, "max_request_headers_kb", Refused),
        one(30, "normalize_path", Refused),
        one(31, "scoped_routes", Refused),
        one(32, "preserve_external_request_id", Refused),
        one(33, "merge_slashes", Refused),
        one(34, "server_header_transformation", Read),
        one(35, "common_http_protocol_options", Refused),
        one(36, "request_id_extension", Refused),
        one(37, "always_set_request_id_in_response", Refused),
        one(38, "local_reply_config", Refused),
        one(39, "strip_matching_host_port", Refused),
        one(40, "stream_error_on_invalid_http_message", Refused),
        one(41, "request_headers_timeout", Refused),
        one(42, "strip_any_host_port", Refused),
        one(43, "path_normalization_options", Refused),
        one(44, "http3_protocol_options", Refused),
        one(45, "path_with_escaped_slashes_action", Refused),
        many(46, "original_ip_detection_extensions", Refused),
        one(47, "strip_trailing_host_dot", Refused),
        one(48, "scheme_header_transformation", Refused),
        one(49, "proxy_status_config", Refused),
        one(50, "typed_header_validation_config", Refused),
        one(51, "append_x_forwarded_port", Refused),
        many(52, "early_header_mutation_extensions", Refused),
        one(53, "add_proxy_protocol_connection_state", Refused),
        one(54, "access_log_flush_interval", Ignored),
        one(55, "flush_access_log_on_new_request", Ignored),
        one(56, "access_log_options", Ignored),
        one(57, "append_local_overload", Refused),
        one(58, "http1_safe_max_connection_duration", Refused),
        one(59, "stream_flush_timeout", Refused),
        one(60, "forward_client_cert_matcher", Refused),
        one(61, "forward_proto_config", Refused),
        one(62, "drain_timeout_jitter", Ignored),
    ],
    oneofs: &[&[3, 4]],
};

pub(super) static RDS: Message = Message {
    name: "envoy.extensions.filters.network.http_connection_manager.v3.Rds",
    fields: &[
        one(1, "config_source", Of(&CONFIG_SOURCE)),
        one(2, "route_config_name", Read),
    ],
    oneofs: &[],
};

pub(super) static HTTP_FILTER: Message = Message {
    name: "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
    fields: &[
        one(1, "name", Read),
        one(4, "typed_config", Any(&[&HTTP_RBAC, &ROUTER])),
        one(5, "config_discovery", Refused),
        one(6, "is_optional", Refused),
        one(7, "disabled", Refused),
    ],
    oneofs: &[],
};

pub(super) static UPGRADE_CONFIG: Message = Message {
    name: concat!(
        "envoy.extensions.filters.network.http_connection_manager.v3",
        ".HttpConnectionManager.UpgradeConfig"
    ),
    fields: &[
        one(1, "upgrade_type", Read),
        many(2, "filters", Refused),
        one(3, "enabled", Refused),
    ],
    oneofs: &[],
};

pub(super) static ROUTER: Message = Message {
    name: "envoy.extensions.filters.http.router.v3.Router",
    fields: &[
        one(1, "dynamic_stats", Ignored),
        one(2, "start_child_span", Ignored),
        many(3, "upstream_log", Ignored),
        one(4, "suppress_envoy_headers", Refused),
        many(5, "strict_check_headers", Refused),
        one(6, "respect_expected_rq_timeout", Refused),
        one(7, "suppress_grpc_request_failure_code_stats", Ignored),
        many(8, "upstream_http_filters", Refused),
        one(9, "upstream_log_options", Ignored),
        one(10, "reject_connect_request_early_data", Refused),
    ],
    oneofs: &[],
};

pub(super) static TCP_PROXY: Message = Message {
    name: "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    fields: &[
        one(1, "stat_prefix", Read),
        one(2, "cluster", Read),
        one(3, "downstream_idle_timeout", Refused),
        one(4, "upstream_idle_timeout", Refused),
        many(5, "access_log", Ignored),
        one(7, "max_connect_attempts", Refused),
        one(8, "idle_timeout", Refused),
        one(9, "metadata_match", Refused),
        one(10, "weighted_clusters", Of(&TCP_WEIGHTED_CLUSTER)),
        many(11, "hash_policy", Refused),
        one(12, "tunneling_config", Refused),
        one(13, "max_downstream_connection_duration", Refused),
        one(14, "on_demand", Refused),
        one(15, "access_log_flush_interval", Ignored),
        one(16, "flush_access_log_on_connected", Ignored),
        one(17, "access_log_options", Ignored),
        one(18, "backoff_options", Refused),
        many(19, "proxy_protocol_tlvs", Refused),
        one(
            20,
            "max_downstream_connection_duration_jitter_percentage",
            Refused,
        ),
        one(21, "upstream_connect_mode", Refused),
        one(22, "max_early_data_bytes", Refused),
        one(23, "proxy_protocol_tlv_merge_policy", Refused),
        one(24, "check_drain_close", Refused),
    ],
    oneofs: &[&[2, 10]],
};

pub(super) static TCP_WEIGHTED_CLUSTER: Message = Message {
    name: "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster",
    fields: &[many(1, "clusters", Of(&TCP_CLUSTER_WEIGHT))],
    oneofs: &[],
};

pub(super) static TCP_CLUSTER_WEIGHT: Message = Message {
    name: "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight",
    fields: &[
        one(1, "name", Read),
        one(2, "weight", Read),
        one(3, "metadata_match", Refused),
    ],
    oneofs: &[],
};
