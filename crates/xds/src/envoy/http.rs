//! HTTP in Envoy, so that applications notice as little of it as of our sidecar: names of headers
//! as they were written, none of Envoy's own, the same limits and times.

use model::Limits;

use crate::any::pack;
use crate::proto::core::{Http1ProtocolOptions, Http2ProtocolOptions};
use crate::proto::envoy::{
    CommonHttpOptions, HeaderKeyFormat, KeepaliveSettings, PreserveCase, PreviousHosts,
    RetryHostPredicate, RetryPolicy, TypedExtensionConfig,
};
use crate::proto::google::UInt32Value;
use crate::proto::network::{HttpConnections, Router};

use super::{access_log, duration};

const PRESERVE_CASE: &str = "envoy.http.stateful_header_formatters.preserve_case";
const PREVIOUS_HOSTS: &str = "envoy.retry_host_predicates.previous_hosts";

/// What Envoy adds to requests by itself.
pub(crate) const REQUEST_HEADERS: [&str; 2] = ["x-envoy-external-address", "x-envoy-internal"];

/// Nothing of the request has been seen by anybody.
const RETRY_ON: &str = "connect-failure,refused-stream,reset-before-request";
/// As often as our sidecar.
const RETRIES: u32 = 5;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Codec {
    /// As its first bytes, or ALPN outside of the mesh, say.
    #[default]
    Auto,
    Http1,
    Http2,
}

fn number(value: usize) -> Option<UInt32Value> {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    Some(UInt32Value { value })
}

/// With our sidecar's limits. ALPN of the mesh means nothing to Envoy, so the codec is said.
pub(crate) fn manager(manager: HttpConnections, codec: Codec) -> HttpConnections {
    HttpConnections {
        codec_type: match codec {
            Codec::Auto => 0,
            Codec::Http1 => 1,
            Codec::Http2 => 2,
        },
        access_log: access_log(),
        http_protocol_options: Some(http1()),
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: number(Limits::STREAMS),
            ..http2()
        }),
        stream_idle_timeout: Some(duration(Limits::STREAM_IDLE_TIMEOUT)),
        request_headers_timeout: Some(duration(Limits::HEADER_TIMEOUT)),
        max_request_headers_kb: number(Limits::HEAD_BYTES / 1024),
        preserve_external_request_id: true,
        common_http_protocol_options: Some(CommonHttpOptions {
            idle_timeout: Some(duration(Limits::IDLE_TIMEOUT)),
            max_headers_count: number(Limits::HEADERS),
        }),
        ..manager
    }
}

/// Without `x-envoy-…`.
pub(crate) const fn router() -> Router {
    Router {
        suppress_envoy_headers: true,
    }
}

/// Connections that wait for requests to endpoints.
pub(crate) fn pool() -> CommonHttpOptions {
    CommonHttpOptions {
        idle_timeout: Some(duration(Limits::POOL_IDLE_TIMEOUT)),
        max_headers_count: number(Limits::HEADERS),
    }
}

/// Names of headers and reason phrases as they were written.
pub(crate) fn http1() -> Http1ProtocolOptions {
    let formatter = TypedExtensionConfig {
        name: PRESERVE_CASE.to_owned(),
        typed_config: Some(pack(&PreserveCase {
            forward_reason_phrase: true,
        })),
    };
    Http1ProtocolOptions {
        accept_http_10: true,
        header_key_format: Some(HeaderKeyFormat {
            stateful_formatter: Some(formatter),
        }),
        enable_trailers: true,
    }
}

/// With upgrades in streams of their own, and a sign of life now and then.
pub(crate) fn http2() -> Http2ProtocolOptions {
    Http2ProtocolOptions {
        max_concurrent_streams: None,
        allow_connect: true,
        connection_keepalive: Some(KeepaliveSettings {
            interval: Some(duration(Limits::KEEPALIVE_INTERVAL)),
            timeout: Some(duration(Limits::KEEPALIVE_TIMEOUT)),
        }),
    }
}

/// Once more, elsewhere if there is an elsewhere, what nobody has seen.
pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        retry_on: RETRY_ON.to_owned(),
        num_retries: Some(UInt32Value { value: RETRIES }),
        retry_host_predicate: vec![RetryHostPredicate {
            name: PREVIOUS_HOSTS.to_owned(),
            typed_config: Some(pack(&PreviousHosts {})),
        }],
        host_selection_retry_max_attempts: i64::from(RETRIES),
    }
}
