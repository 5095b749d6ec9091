//! What a stock Envoy is told besides, or otherwise than our own sidecar: limits and times that
//! ours has by itself, and which protocol is in a connection. Called by the encoders of resources.
//! Must never say what changes who is let in.

/// Which ALPN a connection goes on with.
mod alpn;

/// What is HTTP.
mod http;

use std::net::SocketAddr;

use model::Limits;

use crate::any::pack;
use crate::metadata;
use crate::proto::cluster::Cluster;
use crate::proto::core::ConfigSource;
use crate::proto::envoy::{
    AccessLog, AccessLogFilter, ApiConfigSource, CidrRange, CircuitBreakers, EnvoyGrpc,
    FractionalPercent, GrpcService, RuntimeFilter, StdoutAccessLog, Thresholds,
};
use crate::proto::google::{Duration, UInt32Value};
use crate::proto::listener::{FilterChain, FilterChainMatch};
use crate::proto::network::TcpProxy;
use crate::tls::ALPN_TCP;

pub(crate) use alpn::{Alpn, set as set_alpn, socket_matcher};
pub(crate) use http::{Codec, REQUEST_HEADERS, http1, http2, manager, pool, retry_policy, router};

/// The static cluster of Envoy's bootstrap that has the workload's own certificate.
pub(crate) const COMPANION: &str = "companion";

/// What a cluster says of what its connections rest on: nothing that Envoy reads.
const EPOCH: &str = "epoch";

/// The runtime key of Envoy's bootstrap that says how many in a hundred are logged.
const ACCESS_LOG: &str = "leno.access_log";
const STDOUT: &str = "envoy.access_loggers.stdout";

const API_V3: i32 = 2;
const GRPC: i32 = 2;

/// Endpoints that one connection may find unreachable before it gives up.
const CONNECT_ATTEMPTS: UInt32Value = UInt32Value { value: 5 };

/// What all connections that are passed on unread have.
pub(crate) fn tcp_proxy() -> TcpProxy {
    TcpProxy {
        access_log: access_log(),
        max_connect_attempts: Some(CONNECT_ATTEMPTS),
        ..TcpProxy::default()
    }
}

/// As long as a client may wait with its first byte.
pub(crate) fn first_byte_timeout() -> Duration {
    duration(Limits::IDLE_TIMEOUT)
}

/// Until what a connection to a workload begins with is taken for plaintext, or if there is none,
/// for nothing. Envoy waits alike on all ports: long enough for a client that is short of CPU, and
/// no longer than who waits for the server to begin can bear.
pub(crate) fn first_bytes_timeout(is_permissive: bool) -> Duration {
    duration(match is_permissive {
        true => Limits::CONNECT_TIMEOUT,
        false => Limits::HEADER_TIMEOUT,
    })
}

/// The chain, of the listener `name`, for connections to `address` alone.
pub(crate) fn chain_for(chain: FilterChain, name: &str, address: SocketAddr) -> FilterChain {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let range = CidrRange {
        address_prefix: address.ip().to_string(),
        prefix_len: Some(UInt32Value { value: bits }),
    };
    let port = u32::from(address.port());
    FilterChain {
        name: format!("{name} {}", chain.name),
        filter_chain_match: Some(FilterChainMatch {
            destination_port: Some(UInt32Value { value: port }),
            prefix_ranges: vec![range],
            ..chain.filter_chain_match.unwrap_or_default()
        }),
        ..chain
    }
}

/// Makes another chain of one with requests under mesh TLS, if `epoch` is another: Envoy asks for
/// certificates at handshakes only, and ends the connections of chains that are gone, each when
/// it has answered. What is passed on unread would be cut, and stays.
pub(crate) fn renew(chain: &mut FilterChain, epoch: &str) {
    let matches = chain.filter_chain_match.as_ref();
    let is_opaque = matches.is_some_and(|it| it.application_protocols == [ALPN_TCP]);
    if chain.transport_socket.is_some() && !is_opaque && !epoch.is_empty() {
        chain.name = format!("{} {epoch}", chain.name);
    }
}

/// Makes another cluster of one, if `epoch` is another: Envoy checks certificates at handshakes
/// only, and lets the connections of a cluster that was replaced go as soon as they carry nothing.
pub(crate) fn renew_cluster(cluster: &mut Cluster, epoch: &str) {
    if !epoch.is_empty() {
        let metadata = metadata::Builder::of(cluster.metadata.take());
        cluster.metadata = metadata.text(EPOCH, epoch).build();
    }
}

fn duration(time: std::time::Duration) -> Duration {
    Duration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default(),
    }
}

/// The access log, which its bootstrap switches on.
pub(crate) fn access_log() -> Vec<AccessLog> {
    let never = FractionalPercent { numerator: 0 };
    vec![AccessLog {
        name: STDOUT.to_owned(),
        filter: Some(AccessLogFilter {
            runtime_filter: Some(RuntimeFilter {
                runtime_key: ACCESS_LOG.to_owned(),
                percent_sampled: Some(never),
            }),
        }),
        typed_config: Some(pack(&StdoutAccessLog {})),
    }]
}

/// Where Envoy has the workload's own certificate from: keys never come over this stream.
pub(crate) fn companion() -> ConfigSource {
    let envoy_grpc = Some(EnvoyGrpc {
        cluster_name: COMPANION.to_owned(),
    });
    ConfigSource {
        api_config_source: Some(ApiConfigSource {
            api_type: GRPC,
            grpc_services: vec![GrpcService { envoy_grpc }],
            transport_api_version: API_V3,
        }),
        resource_api_version: API_V3,
        ..ConfigSource::default()
    }
}

/// The cluster without the circuit breakers that Envoy would have, and as patient as our sidecar.
pub(crate) fn cluster(cluster: Cluster) -> Cluster {
    let no_limit = Some(UInt32Value { value: u32::MAX });
    let thresholds = Thresholds {
        max_connections: no_limit,
        max_pending_requests: no_limit,
        max_requests: no_limit,
        max_retries: no_limit,
    };
    Cluster {
        connect_timeout: Some(duration(Limits::CONNECT_TIMEOUT)),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![thresholds],
        }),
        ..cluster
    }
}
