//! Fields of listeners, their filter chains and listener filters. Buffers, backlogs and balancing
//! are the sidecar's own affair; whatever chooses a chain is not.

use super::Message;
use super::Rule::{Any, Ignored, Message as Of, Read, Refused};
use super::core::{ADDRESS, METADATA, TRANSPORT_SOCKET};
use super::google::{BOOL_VALUE, DURATION};
use super::network::{HTTP_CONNECTION_MANAGER, TCP_PROXY};
use super::rbac::NETWORK_RBAC;
use super::{many, one};

pub(super) static LISTENER: Message = Message {
    name: "envoy.config.listener.v3.Listener",
    fields: &[
        one(1, "name", Read),
        one(2, "address", Of(&ADDRESS)),
        many(3, "filter_chains", Of(&FILTER_CHAIN)),
        one(4, "use_original_dst", Of(&BOOL_VALUE)),
        one(5, "per_connection_buffer_limit_bytes", Ignored),
        one(6, "metadata", Of(&METADATA)),
        one(7, "deprecated_v1", Refused),
        one(8, "drain_type", Ignored),
        many(9, "listener_filters", Of(&LISTENER_FILTER)),
        one(10, "transparent", Refused),
        one(11, "freebind", Refused),
        one(12, "tcp_fast_open_queue_length", Ignored),
        many(13, "socket_options", Refused),
        one(15, "listener_filters_timeout", Of(&DURATION)),
        one(16, "traffic_direction", Read),
        one(17, "continue_on_listener_filters_timeout", Read),
        one(18, "udp_listener_config", Refused),
        one(19, "api_listener", Refused),
        one(20, "connection_balance_config", Ignored),
        one(21, "reuse_port", Ignored),
        many(22, "access_log", Ignored),
        one(24, "tcp_backlog_size", Ignored),
        one(25, "default_filter_chain", Refused),
        one(26, "bind_to_port", Of(&BOOL_VALUE)),
        one(27, "internal_listener", Refused),
        one(28, "stat_prefix", Ignored),
        one(29, "enable_reuse_port", Ignored),
        one(30, "enable_mptcp", Refused),
        one(31, "ignore_global_conn_limit", Refused),
        one(32, "filter_chain_matcher", Refused),
        many(33, "additional_addresses", Of(&ADDITIONAL_ADDRESS)),
        one(34, "max_connections_to_accept_per_socket_event", Ignored),
        one(35, "bypass_overload_manager", Ignored),
        one(36, "fcds_config", Refused),
        one(37, "tcp_keepalive", Ignored),
        one(38, "per_connection_buffer_high_watermark_timeout", Ignored),
        one(39, "stats_matcher", Ignored),
    ],
    oneofs: &[],
};

pub(super) static ADDITIONAL_ADDRESS: Message = Message {
    name: "envoy.config.listener.v3.AdditionalAddress",
    fields: &[
        one(1, "address", Of(&ADDRESS)),
        one(2, "socket_options", Refused),
        one(3, "tcp_keepalive", Refused),
    ],
    oneofs: &[],
};

pub(super) static FILTER_CHAIN: Message = Message {
    name: "envoy.config.listener.v3.FilterChain",
    fields: &[
        one(1, "filter_chain_match", Of(&FILTER_CHAIN_MATCH)),
        many(3, "filters", Of(&FILTER)),
        one(4, "use_proxy_proto", Refused),
        one(5, "metadata", Ignored),
        one(6, "transport_socket", Of(&TRANSPORT_SOCKET)),
        one(7, "name", Read),
        one(9, "transport_socket_connect_timeout", Refused),
    ],
    oneofs: &[],
};

pub(super) static FILTER_CHAIN_MATCH: Message = Message {
    name: "envoy.config.listener.v3.FilterChainMatch",
    fields: &[
        many(3, "prefix_ranges", Refused),
        one(4, "address_suffix", Refused),
        one(5, "suffix_len", Refused),
        many(6, "source_prefix_ranges", Refused),
        many(7, "source_ports", Refused),
        one(8, "destination_port", Refused),
        one(9, "transport_protocol", Read),
        many(10, "application_protocols", Read),
        many(11, "server_names", Read),
        one(12, "source_type", Refused),
        many(13, "direct_source_prefix_ranges", Refused),
    ],
    oneofs: &[],
};

pub(super) static FILTER: Message = Message {
    name: "envoy.config.listener.v3.Filter",
    fields: &[
        one(1, "name", Read),
        one(
            4,
            "typed_config",
            Any(&[&HTTP_CONNECTION_MANAGER, &TCP_PROXY, &NETWORK_RBAC]),
        ),
        one(5, "config_discovery", Refused),
    ],
    oneofs: &[],
};

pub(super) static LISTENER_FILTER: Message = Message {
    name: "envoy.config.listener.v3.ListenerFilter",
    fields: &[
        one(1, "name", Read),
        one(
            3,
            "typed_config",
            Any(&[
                &ORIGINAL_DST,
                &TLS_INSPECTOR,
                &HTTP_INSPECTOR,
                &PROXY_PROTOCOL,
            ]),
        ),
        one(4, "filter_disabled", Refused),
        one(5, "config_discovery", Refused),
    ],
    oneofs: &[],
};

pub(super) static ORIGINAL_DST: Message = Message {
    name: "envoy.extensions.filters.listener.original_dst.v3.OriginalDst",
    fields: &[],
    oneofs: &[],
};

pub(super) static TLS_INSPECTOR: Message = Message {
    name: "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
    fields: &[
        one(1, "enable_ja3_fingerprinting", Ignored),
        one(2, "initial_read_buffer_size", Ignored),
        one(3, "enable_ja4_fingerprinting", Ignored),
        one(
            4,
            "close_connection_on_client_hello_parsing_errors",
            Refused,
        ),
        one(5, "max_client_hello_size", Refused),
    ],
    oneofs: &[],
};

pub(super) static HTTP_INSPECTOR: Message = Message {
    name: "envoy.extensions.filters.listener.http_inspector.v3.HttpInspector",
    fields: &[],
    oneofs: &[],
};

pub(super) static PROXY_PROTOCOL: Message = Message {
    name: "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
    fields: &[
        many(1, "rules", Refused),
        one(2, "allow_requests_without_proxy_protocol", Refused),
        one(3, "pass_through_tlvs", Refused),
        many(4, "disallowed_versions", Refused),
        one(5, "stat_prefix", Ignored),
        one(6, "tlv_location", Refused),
    ],
    oneofs: &[],
};
