//! The `listeners` section. Called by `config::build` when clusters are known.
//! Must never accept a listener that could serve nothing.

use std::net::SocketAddr;

use model::{Cluster, Direction, Listener, ListenerProtocol, Route, TlsMode};
use yaml::{Fault, Fields, Node, Zero, quote};

use super::names::{self, Addresses, Names};
use super::routes;

pub(super) const LISTENER_KEYS: &[&str] = &[
    "name",
    "direction",
    "address",
    "additionalAddresses",
    "bind",
    "originalDestination",
    "names",
    "tls",
    "protocol",
    "detectTimeout",
    "upgrades",
    "connect",
    "proxyProtocol",
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
    let mut taken = Taken {
        names: Names::default(),
        bound: taken,
        captured: Addresses::exact(),
    };
    nodes
        .iter()
        .map(|node| listener(node, known, &mut taken))
        .collect()
}

/// What earlier listeners have.
struct Taken<'a> {
    names: Names,
    bound: &'a mut Addresses,
    captured: Addresses,
}

fn listener(node: &Node, known: &Known<'_>, taken: &mut Taken<'_>) -> Result<Listener, Fault> {
    let fields = Fields::open(node, "a listener", LISTENER_KEYS)?;
    let directions =
        [Direction::Inbound, Direction::Outbound].map(|direction| (direction.label(), direction));
    let direction = fields.required("direction")?.choice(&directions)?;
    let protocols = [
        ("auto", ListenerProtocol::Auto),
        ("http", ListenerProtocol::Http),
        ("tcp", ListenerProtocol::Tcp),
    ];
    let protocol = fields
        .map("protocol", |node| node.choice(&protocols))?
        .unwrap_or_default();
    let routes_node = fields.required("routes")?;
    let routes = routes::read(routes_node, known.clusters)?;
    if protocol == ListenerProtocol::Tcp {
        check_opaque(routes_node, &routes)?;
    }
    let switch = |key| Ok(fields.map(key, Node::switch)?.unwrap_or(false));
    let bind = fields.map("bind", Node::switch)?.unwrap_or(true);
    let addresses = match bind {
        true => &mut *taken.bound,
        false => &mut taken.captured,
    };
    Ok(Listener {
        name: taken.names.claim(fields.required("name")?)?,
        direction,
        address: addresses.claim(fields.required("address")?)?,
        additional_addresses: additional_addresses(&fields, bind, addresses)?,
        bind,
        original_destination: original_destination(&fields, bind)?,
        names: fields.map("names", dns_names)?.unwrap_or_default(),
        hosts: Vec::new(),
        port_name: None,
        tls: tls(&fields, direction, known.identity)?,
        edge: None,
        protocol,
        detect_timeout: fields
            .map("detectTimeout", |node| node.duration(Zero::Refused))?
            .unwrap_or(Listener::DETECT_TIMEOUT),
        upgrades: fields
            .map("upgrades", upgrades)?
            .unwrap_or_else(|| vec!["websocket".to_owned()]),
        connect: switch("connect")?,
        proxy_protocol: switch("proxyProtocol")?,
        request_id: switch("requestId")?,
        forwarded_for: switch("forwardedFor")?,
        routes,
    })
}

/// Of a listener without a socket of its own.
fn additional_addresses(
    fields: &Fields<'_>,
    bind: bool,
    taken: &mut Addresses,
) -> Result<Vec<SocketAddr>, Fault> {
    let Some(node) = fields.optional("additionalAddresses") else {
        return Ok(Vec::new());
    };
    if bind {
        return Err(node.fault(
            "a listener that binds has one address",
            "set `bind: false`, or make it two listeners; \"[::]:PORT\" takes both families",
        ));
    }
    node.list()?.iter().map(|node| taken.claim(node)).collect()
}

fn original_destination(fields: &Fields<'_>, bind: bool) -> Result<bool, Fault> {
    let Some(node) = fields.optional("originalDestination") else {
        return Ok(false);
    };
    match node.switch()? {
        true if !bind => Err(node.fault(
            "connections are not redirected to a listener without a socket",
            "remove `originalDestination`, or `bind: false`",
        )),
        redirected => Ok(redirected),
    }
}

/// Names for which the listener's addresses are the answer.
fn dns_names(node: &Node) -> Result<Vec<String>, Fault> {
    let one = |node: &Node| {
        let word = node.text()?.to_ascii_lowercase();
        if names::is_dns_name(&word) {
            return Ok(word);
        }
        let hint = "labels of letters, digits, - and _ with dots between, none at the end";
        Err(node.fault(format!("{} is not a name in DNS", quote(&word)), hint))
    };
    node.list()?.iter().map(one).collect()
}

/// Opaque connections have no path and no headers: a rule about them would never apply, and one
/// that narrows access would be thought to.
fn check_opaque(node: &Node, routes: &[Route]) -> Result<(), Fault> {
    for (node, route) in node.list()?.iter().zip(routes) {
        if !route.is_plain() {
            return Err(node.fault(
                "a tcp listener sees neither paths nor headers",
                "keep `hosts`, `cluster` or `split`, and `allow`, or set `protocol: http`",
            ));
        }
    }
    Ok(())
}

/// Names of protocols (RFC 9110, section 7.8: tokens), in lower case; `*` for all.
fn upgrades(node: &Node) -> Result<Vec<String>, Fault> {
    let nodes = node.list()?;
    let one = |node: &Node| {
        let word = node.text()?.to_ascii_lowercase();
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~/".contains(&b);
        match &*word {
            "*" if nodes.len() == 1 => Ok(word),
            "h2c" => Err(node.fault(
                "h2c would carry requests past the routes",
                "remove it; HTTP/2 without TLS is taken by prior knowledge",
            )),
            _ if word.bytes().all(token) => Ok(word),
            _ => Err(node.fault(
                format!("{} is not an upgrade", quote(&word)),
                "write names as in `Upgrade:`, [websocket], or [\"*\"] alone for all",
            )),
        }
    };
    nodes.iter().map(one).collect()
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
