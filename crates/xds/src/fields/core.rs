//! Fields of `envoy.config.core.v3`, and of matchers of text.

use super::Message;
use super::Rule::{Any, Ignored, Map, Message as Of, Read, Refused};
use super::google::STRUCT;
use super::tls::{
    DOWNSTREAM_TLS_CONTEXT, PROXY_PROTOCOL_UPSTREAM_TRANSPORT, RAW_BUFFER, UPSTREAM_TLS_CONTEXT,
};
use super::{many, one};

pub(super) static ADDRESS: Message = Message {
    name: "envoy.config.core.v3.Address",
    fields: &[
        one(1, "socket_address", Of(&SOCKET_ADDRESS)),
        one(2, "pipe", Refused),
        one(3, "envoy_internal_address", Refused),
    ],
    oneofs: &[],
};

pub(super) static SOCKET_ADDRESS: Message = Message {
    name: "envoy.config.core.v3.SocketAddress",
    fields: &[
        one(1, "protocol", Read),
        one(2, "address", Read),
        one(3, "port_value", Read),
        one(4, "named_port", Refused),
        one(5, "resolver_name", Refused),
        one(6, "ipv4_compat", Refused),
        one(7, "network_namespace_filepath", Refused),
    ],
    oneofs: &[],
};

pub(super) static METADATA: Message = Message {
    name: "envoy.config.core.v3.Metadata",
    fields: &[
        many(1, "filter_metadata", Map(&Of(&STRUCT))),
        many(2, "typed_filter_metadata", Ignored),
    ],
    oneofs: &[],
};

pub(super) static TRANSPORT_SOCKET: Message = Message {
    name: "envoy.config.core.v3.TransportSocket",
    fields: &[
        one(1, "name", Read),
        one(
            3,
            "typed_config",
            Any(&[
                &DOWNSTREAM_TLS_CONTEXT,
                &UPSTREAM_TLS_CONTEXT,
                &RAW_BUFFER,
                &PROXY_PROTOCOL_UPSTREAM_TRANSPORT,
            ]),
        ),
    ],
    oneofs: &[],
};

pub(super) static CONFIG_SOURCE: Message = Message {
    name: "envoy.config.core.v3.ConfigSource",
    fields: &[
        one(1, "path", Refused),
        one(2, "api_config_source", Refused),
        one(3, "ads", Of(&AGGREGATED_CONFIG_SOURCE)),
        one(4, "initial_fetch_timeout", Ignored),
        one(5, "self", Refused),
        one(6, "resource_api_version", Read),
        many(7, "authorities", Refused),
        one(8, "path_config_source", Refused),
    ],
    oneofs: &[],
};

pub(super) static AGGREGATED_CONFIG_SOURCE: Message = Message {
    name: "envoy.config.core.v3.AggregatedConfigSource",
    fields: &[],
    oneofs: &[],
};

pub(super) static HEADER_VALUE_OPTION: Message = Message {
    name: "envoy.config.core.v3.HeaderValueOption",
    fields: &[
        one(1, "header", Of(&HEADER_VALUE)),
        one(2, "append", Refused),
        one(3, "append_action", Read),
        one(4, "keep_empty_value", Read),
    ],
    oneofs: &[],
};

pub(super) static HEADER_VALUE: Message = Message {
    name: "envoy.config.core.v3.HeaderValue",
    fields: &[
        one(1, "key", Read),
        one(2, "value", Read),
        one(3, "raw_value", Refused),
    ],
    oneofs: &[],
};

pub(super) static DATA_SOURCE: Message = Message {
    name: "envoy.config.core.v3.DataSource",
    fields: &[
        one(1, "filename", Refused),
        one(2, "inline_bytes", Read),
        one(3, "inline_string", Read),
        one(4, "environment_variable", Refused),
        one(5, "watched_directory", Refused),
    ],
    oneofs: &[&[2, 3]],
};

pub(super) static PROXY_PROTOCOL_CONFIG: Message = Message {
    name: "envoy.config.core.v3.ProxyProtocolConfig",
    fields: &[
        one(1, "version", Read),
        one(2, "pass_through_tlvs", Refused),
        many(3, "added_tlvs", Refused),
    ],
    oneofs: &[],
};

pub(super) static HTTP1_PROTOCOL_OPTIONS: Message = Message {
    name: "envoy.config.core.v3.Http1ProtocolOptions",
    fields: &[
        one(1, "allow_absolute_url", Refused),
        one(2, "accept_http_10", Refused),
        one(3, "default_host_for_http_10", Refused),
        one(4, "header_key_format", Refused),
        one(5, "enable_trailers", Refused),
        one(6, "allow_chunked_length", Refused),
        one(7, "override_stream_error_on_invalid_http_message", Refused),
        one(8, "send_fully_qualified_url", Refused),
        one(9, "use_balsa_parser", Refused),
        one(10, "allow_custom_methods", Refused),
        many(11, "ignore_http_11_upgrade", Refused),
    ],
    oneofs: &[],
};

pub(super) static HTTP2_PROTOCOL_OPTIONS: Message = Message {
    name: "envoy.config.core.v3.Http2ProtocolOptions",
    fields: &[
        one(1, "hpack_table_size", Refused),
        one(2, "max_concurrent_streams", Refused),
        one(3, "initial_stream_window_size", Refused),
        one(4, "initial_connection_window_size", Refused),
        one(5, "allow_connect", Refused),
        one(6, "allow_metadata", Refused),
        one(7, "max_outbound_frames", Refused),
        one(8, "max_outbound_control_frames", Refused),
        one(
            9,
            "max_consecutive_inbound_frames_with_empty_payload",
            Refused,
        ),
        one(10, "max_inbound_priority_frames_per_stream", Refused),
        one(
            11,
            "max_inbound_window_update_frames_per_data_frame_sent",
            Refused,
        ),
        one(12, "stream_error_on_invalid_http_messaging", Refused),
        many(13, "custom_settings_parameters", Refused),
        one(14, "override_stream_error_on_invalid_http_message", Refused),
        one(15, "connection_keepalive", Refused),
        one(16, "use_oghttp2_codec", Refused),
        one(17, "max_metadata_size", Refused),
        one(18, "enable_huffman_encoding", Refused),
        one(19, "max_header_field_size_kb", Refused),
        one(20, "disallow_obs_text", Refused),
        one(21, "stream_reset_burst", Refused),
        one(22, "stream_reset_rate", Refused),
    ],
    oneofs: &[],
};

pub(super) static REGEX_MATCHER: Message = Message {
    name: "envoy.type.matcher.v3.RegexMatcher",
    fields: &[one(1, "google_re2", Ignored), one(2, "regex", Read)],
    oneofs: &[],
};

pub(super) static REGEX_MATCH_AND_SUBSTITUTE: Message = Message {
    name: "envoy.type.matcher.v3.RegexMatchAndSubstitute",
    fields: &[
        one(1, "pattern", Of(&REGEX_MATCHER)),
        one(2, "substitution", Read),
    ],
    oneofs: &[],
};

pub(super) static STRING_MATCHER: Message = Message {
    name: "envoy.type.matcher.v3.StringMatcher",
    fields: &[
        one(1, "exact", Read),
        one(2, "prefix", Refused),
        one(3, "suffix", Refused),
        one(5, "safe_regex", Refused),
        one(6, "ignore_case", Refused),
        one(7, "contains", Refused),
        one(8, "custom", Refused),
    ],
    oneofs: &[],
};
