//! The `listeners` section. Called by `config::build` when clusters are known.
//! Must never accept a listener that could serve nothing.

use model::{Cluster, Direction, Listener, TlsMode};

use super::Fault;
use super::fields::Fields;
use super::names::{Addresses, Names};
use super::node::Node;
use super::routes;

pub(super) const LISTENER_KEYS: &[&str] = &[
    "name",
    "direction",
    "address",
    "tls",
    "requestId",
    "forwardedFor",
    "routes",
];

/// What the rest of the file says, as far as a listener depends on it.
pub(super) struct Known<'a> {
    pub(super) clusters: &'a [Cluster],
    /// Whether the file has the section `identity`.
    pub(super) identity: bool,
}

pub(super) fn read(
    node: &Node,
    known: &Known<'_>,
    taken: &mut Addresses,
) -> Result<Vec<Listener>, Fault> {
    let nodes = node.list()?;
    if nodes.is_empty() {
        let hint = "add one with name, direction, address and routes";
        return Err(node.fault("there is no listener", hint));
    }
    let mut names = Names::default();
    nodes
        .iter()
        .map(|node| listener(node, known, &mut names, taken))
        .collect()
}

fn listener(
    node: &Node,
    known: &Known<'_>,
    names: &mut Names,
    taken: &mut Addresses,
) -> Result<Listener, Fault> {
    let fields = Fields::open(node, "a listener", LISTENER_KEYS)?;
    let directions =
        [Direction::Inbound, Direction::Outbound].map(|direction| (direction.label(), direction));
    let direction = fields.required("direction")?.choice(&directions)?;
    Ok(Listener {
        name: names.claim(fields.required("name")?)?,
        direction,
        address: taken.claim(fields.required("address")?)?,
        tls: tls(&fields, direction, known.identity)?,
        request_id: fields.map("requestId", Node::switch)?.unwrap_or(false),
        forwarded_for: fields.map("forwardedFor", Node::switch)?.unwrap_or(false),
        routes: routes::read(fields.required("routes")?, known.clusters)?,
    })
}

/// Inbound listeners take mesh TLS unless told otherwise, as far as there is a certificate.
fn tls(fields: &Fields<'_>, direction: Direction, identity: bool) -> Result<TlsMode, Fault> {
    let Some(node) = fields.optional("tls") else {
        let mesh = direction == Direction::Inbound && identity;
        return Ok(if mesh {
            TlsMode::Permissive
        } else {
            TlsMode::Disabled
        });
    };
    let modes = [
        ("permissive", TlsMode::Permissive),
        ("strict", TlsMode::Strict),
        ("disabled", TlsMode::Disabled),
    ];
    match node.choice(&modes)? {
        TlsMode::Disabled => Ok(TlsMode::Disabled),
        _ if direction == Direction::Outbound => Err(node.fault(
            "an outbound listener takes plaintext from its own workload",
            "remove `tls`; to call others with mTLS, set `transport: mtls` on endpoints",
        )),
        _ if !identity => Err(node.fault(
            "mesh TLS needs a certificate of our own",
            "add the section `identity` with certificate, key and trustBundle",
        )),
        mode => Ok(mode),
    }
}
