//! Leno as a plain hop or as one side of a mesh hop: its defaults, with metrics and timeouts on.

use super::{Place, Role};
use crate::cost::cell::Protocol;
use crate::cost::contestant::Hop;
use crate::dataplane::Side;
use crate::dataplane::certificates::spiffe_id;

pub(super) fn text(place: &Place<'_>) -> String {
    let (listen, to) = (place.listen, place.to);
    let certificate = place.certificate();
    let (direction, tls) = match place.role {
        Role::Plain | Role::ClientSide => ("outbound", ""),
        Role::ServerSide => ("inbound", "  tls: permissive\n"),
    };
    let identity = match place.role {
        Role::Plain => String::new(),
        Role::ClientSide | Role::ServerSide => format!(
            "identity:\n  certificate: {certificate}.pem\n  key: {certificate}.key\n  \
             trustBundle: ca.pem\n"
        ),
    };
    // HTTP/1.1 and HTTP/2 are told by their first bytes, as on any port that declares nothing.
    let protocol = match place.protocol {
        Protocol::Tcp => "  protocol: tcp\n",
        Protocol::Http1 | Protocol::Http2 | Protocol::Grpc => "",
    };
    let transport = transport(place);
    format!(
        "workload: {{name: {certificate}, namespace: default, serviceAccount: {certificate}}}
workers: 1
{identity}admin: 127.0.0.1:0
metrics: 127.0.0.1:0
listeners:
- name: hop
  direction: {direction}
  address: {listen}
{tls}{protocol}  routes:
  - cluster: peer
clusters:
- name: peer
{protocol}  endpoints:
  - address: {to}
{transport}"
    )
}

fn transport(place: &Place<'_>) -> String {
    let name = match (place.role, place.hop) {
        (Role::Plain | Role::ServerSide, _) => return "    transport: plaintext\n".to_owned(),
        (Role::ClientSide, Hop::Multiplexed) => "leno",
        (Role::ClientSide, Hop::Http1 | Hop::Http2) => "mtls",
    };
    format!(
        "    transport: {name}\n    identities: [{}]\n",
        spiffe_id(Side::Server)
    )
}
