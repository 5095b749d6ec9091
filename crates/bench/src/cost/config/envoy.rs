//! Envoy as a plain hop or as one side of a mesh hop: HTTP/1.1 on both sides, no access log.
//! Its TLS 1.3 suites cannot be set; with AES in hardware it picks AES-128-GCM like the others.

use super::{Place, Role};

pub(super) fn text(place: &Place<'_>) -> String {
    let (listen, to) = (place.listen, place.to);
    let accept_tls = match place.role {
        Role::ServerSide => socket(
            place,
            "DownstreamTlsContext",
            "require_client_certificate: true",
        ),
        Role::Plain | Role::ClientSide => String::new(),
    };
    let connect_tls = match place.role {
        Role::ClientSide => socket(place, "UpstreamTlsContext", "sni: server.mesh"),
        Role::Plain | Role::ServerSide => String::new(),
    };
    format!(
        "static_resources:
  listeners:
  - address: {{socket_address: {{address: {ip}, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          codec_type: HTTP1
          stat_prefix: hop
          generate_request_id: false
          route_config:
            virtual_hosts:
            - {{name: all, domains: [\"*\"], routes: [{{match: {{prefix: /}}, route: {{cluster: peer, timeout: 0s}}}}]}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
{accept_tls}  clusters:
  - name: peer
    type: STATIC
    connect_timeout: 1s
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}}]}}
    load_assignment:
      cluster_name: peer
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {to_ip}, port_value: {to_port}}}}}}}}}]}}]
{connect_tls}",
        ip = listen.ip(),
        port = listen.port(),
        to_ip = to.ip(),
        to_port = to.port(),
    )
}

/// A transport socket at the depth that its owner has in the file.
fn socket(place: &Place<'_>, context: &str, extra: &str) -> String {
    let pad = if place.role == Role::ServerSide {
        "      "
    } else {
        "    "
    };
    let ca = place.file("ca.pem");
    let chain = place.file(&format!("{}.pem", place.certificate()));
    let key = place.file(&format!("{}.key", place.certificate()));
    let peer = match place.role {
        Role::ServerSide => super::super::pki::CLIENT_ID,
        Role::Plain | Role::ClientSide => super::super::pki::SERVER_ID,
    };
    format!(
        "{pad}transport_socket:
{pad}  name: envoy.transport_sockets.tls
{pad}  typed_config:
{pad}    \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{context}
{pad}    {extra}
{pad}    common_tls_context:
{pad}      tls_params: {{tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}}
{pad}      tls_certificates: [{{certificate_chain: {{filename: {chain}}}, private_key: {{filename: {key}}}}}]
{pad}      validation_context:
{pad}        trusted_ca: {{filename: {ca}}}
{pad}        match_typed_subject_alt_names: [{{san_type: URI, matcher: {{exact: \"{peer}\"}}}}]
"
    )
}
