//! Leno as a plain hop or as one side of a mesh hop: its defaults, with metrics and timeouts on.

use super::{Place, Role};

pub(super) fn text(place: &Place<'_>) -> String {
    let (listen, to) = (place.listen, place.to);
    let certificate = place.certificate();
    let (direction, inbound) = match place.role {
        Role::Plain | Role::ClientSide => ("outbound", ""),
        Role::ServerSide => ("inbound", "  tls: permissive\n"),
    };
    let transport = match place.role {
        Role::Plain | Role::ServerSide => "    transport: plaintext\n".to_owned(),
        Role::ClientSide => format!(
            "    transport: mtls\n    identities: [{}]\n",
            crate::cost::pki::SERVER_ID
        ),
    };
    let identity = match place.role {
        Role::Plain => String::new(),
        Role::ClientSide | Role::ServerSide => format!(
            "identity:\n  certificate: {certificate}.pem\n  key: {certificate}.key\n  \
             trustBundle: ca.pem\n"
        ),
    };
    format!(
        "workload: {{name: {certificate}, namespace: default, serviceAccount: {certificate}}}
workers: 1
{identity}admin: 127.0.0.1:0
metrics: 127.0.0.1:0
listeners:
- name: hop
  direction: {direction}
  address: {listen}
{inbound}  routes:
  - cluster: peer
clusters:
- name: peer
  endpoints:
  - address: {to}
{transport}"
    )
}
