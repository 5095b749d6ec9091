//! Envoy as a plain hop or as one side of a mesh hop, without access log.
//! Its TLS 1.3 suites cannot be set; with AES in hardware it picks AES-128-GCM like the others.

use std::net::SocketAddr;

use super::{Place, Role, Side};
use crate::cost::cell::Protocol;
use crate::cost::contestant::Hop;
use crate::dataplane::Side as End;
use crate::dataplane::certificates::{dns_name, spiffe_id};

const TYPES: &str = "type.googleapis.com/envoy.extensions";

pub(super) fn text(place: &Place<'_>) -> String {
    let (listen, to) = (address(place.listen), address(place.to));
    let (accept_tls, connect_tls) = match place.role {
        Role::Plain => (String::new(), String::new()),
        Role::ServerSide => (accept_tls(place), String::new()),
        Role::ClientSide => (String::new(), connect_tls(place)),
    };
    let (filter, options) = match place.protocol {
        Protocol::Tcp => (tcp_filter(), String::new()),
        Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => {
            (http_filter(place.downstream()), options(place.upstream()))
        }
    };
    format!(
        "static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
{filter}{accept_tls}  clusters:
  - name: peer
    type: STATIC
    connect_timeout: 1s
    circuit_breakers:
      thresholds:
      - {{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}}
    load_assignment:
      cluster_name: peer
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {to}
{options}{connect_tls}"
    )
}

fn http_filter(downstream: Side) -> String {
    let codec = if downstream.http2 { "AUTO" } else { "HTTP1" };
    format!(
        "      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": {TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager
          codec_type: {codec}
          stat_prefix: hop
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{prefix: /}}
                route: {{cluster: peer, timeout: 0s}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": {TYPES}.filters.http.router.v3.Router
"
    )
}

fn tcp_filter() -> String {
    format!(
        "      - name: envoy.filters.network.tcp_proxy
        typed_config:
          \"@type\": {TYPES}.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: hop
          cluster: peer
"
    )
}

/// The protocol that a cluster speaks; without them HTTP/1.1.
fn options(upstream: Side) -> String {
    if !upstream.http2 {
        return String::new();
    }
    format!(
        "    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": {TYPES}.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
"
    )
}

fn address(addr: SocketAddr) -> String {
    format!(
        "{{socket_address: {{address: {}, port_value: {}}}}}",
        addr.ip(),
        addr.port()
    )
}

fn accept_tls(place: &Place<'_>) -> String {
    let context = "DownstreamTlsContext\n        require_client_certificate: true";
    tls(place, context, &spiffe_id(End::Client))
        // The listener's filter chain lies one level deeper than a cluster.
        .lines()
        .fold(String::new(), |text, line| format!("{text}  {line}\n"))
}

fn connect_tls(place: &Place<'_>) -> String {
    let context = format!("UpstreamTlsContext\n        sni: {}", dns_name(End::Server));
    tls(place, &context, &spiffe_id(End::Server))
}

/// A transport socket at the depth that it has in a cluster.
fn tls(place: &Place<'_>, context: &str, peer: &str) -> String {
    let ca = place.file("ca.pem");
    let chain = place.file(&format!("{}.pem", place.certificate()));
    let key = place.file(&format!("{}.key", place.certificate()));
    let alpn = match (place.protocol, place.hop) {
        (Protocol::Tcp, _) => "",
        (_, Hop::Http2) => "          alpn_protocols: [h2]\n",
        (_, Hop::Http1 | Hop::Multiplexed) => "          alpn_protocols: [http/1.1]\n",
    };
    format!(
        "    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        \"@type\": {TYPES}.transport_sockets.tls.v3.{context}
        common_tls_context:
{alpn}          tls_params:
            tls_minimum_protocol_version: TLSv1_3
            tls_maximum_protocol_version: TLSv1_3
          tls_certificates:
          - certificate_chain: {{filename: {chain}}}
            private_key: {{filename: {key}}}
          validation_context:
            trusted_ca: {{filename: {ca}}}
            match_typed_subject_alt_names:
            - san_type: URI
              matcher: {{exact: \"{peer}\"}}
"
    )
}
