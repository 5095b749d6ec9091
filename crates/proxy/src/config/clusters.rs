//! The `clusters` section. Called by `config::build` before listeners, which name its clusters.
//! Must never accept a mesh endpoint without ids: any certificate of the mesh would do then.

use model::{Balance, Cluster, Discovery, Endpoint, Protocol, ProxyProtocol, Transport};
use yaml::{Fault, Fields, Node};

use super::names::{self, Names};

pub(super) const CLUSTER_KEYS: &[&str] = &[
    "name",
    "balance",
    "protocol",
    "proxyProtocol",
    "passthrough",
    "endpoints",
];
pub(super) const ENDPOINT_KEYS: &[&str] = &["address", "transport", "identities"];

/// Our words, then those of Kubernetes' `appProtocol` and what is written there for want of a
/// standard: whatever is wrapped in TLS or is not HTTP is passed on unread.
const PROTOCOLS: &[(&str, Protocol)] = &[
    ("auto", Protocol::Auto),
    ("http1", Protocol::Http1),
    ("http2", Protocol::Http2),
    ("tcp", Protocol::Tcp),
    ("http", Protocol::Http1),
    ("ws", Protocol::Http1),
    ("kubernetes.io/ws", Protocol::Http1),
    ("h2c", Protocol::Http2),
    ("kubernetes.io/h2c", Protocol::Http2),
    ("grpc", Protocol::Http2),
    ("https", Protocol::Tcp),
    ("tls", Protocol::Tcp),
    ("wss", Protocol::Tcp),
    ("kubernetes.io/wss", Protocol::Tcp),
    ("mongo", Protocol::Tcp),
    ("mysql", Protocol::Tcp),
    ("postgresql", Protocol::Tcp),
    ("redis", Protocol::Tcp),
];

/// `identity`: whether the file has that section.
pub(super) fn read(node: &Node, identity: bool) -> Result<Vec<Cluster>, Fault> {
    let mut names = Names::default();
    node.list()?
        .iter()
        .map(|node| cluster(node, identity, &mut names))
        .collect()
}

fn cluster(node: &Node, identity: bool, names: &mut Names) -> Result<Cluster, Fault> {
    let fields = Fields::open(node, "a cluster", CLUSTER_KEYS)?;
    let balances = [
        ("roundRobin", Balance::RoundRobin),
        ("leastRequest", Balance::LeastRequest),
        ("originalDestination", Balance::OriginalDestination),
    ];
    let passthrough = fields.map("passthrough", Node::switch)?.unwrap_or(false);
    let protocol = protocol(&fields, passthrough)?;
    Ok(Cluster {
        name: names.claim(fields.required("name")?)?,
        balance: fields
            .map("balance", |node| node.choice(&balances))?
            .unwrap_or_default(),
        protocol,
        proxy_protocol: proxy_protocol(&fields, protocol)?,
        discovery: Discovery::Static,
        passthrough,
        endpoints: match passthrough {
            true => no_endpoints(&fields)?,
            false => endpoints(fields.required("endpoints")?, identity)?,
        },
    })
}

/// What is passed through is passed on unread.
fn protocol(fields: &Fields<'_>, passthrough: bool) -> Result<Protocol, Fault> {
    let Some(node) = fields.optional("protocol") else {
        let unread = passthrough.then_some(Protocol::Tcp);
        return Ok(unread.unwrap_or_default());
    };
    match node.choice(PROTOCOLS)? {
        protocol if !passthrough || protocol == Protocol::Tcp => Ok(protocol),
        _ => Err(node.fault(
            "what is passed through is not read",
            "remove `protocol`, or set it to tcp",
        )),
    }
}

fn no_endpoints(fields: &Fields<'_>) -> Result<Vec<Endpoint>, Fault> {
    match fields.optional("endpoints") {
        None => Ok(Vec::new()),
        Some(node) => Err(node.fault(
            "a cluster that passes connections through has no endpoints",
            "remove `endpoints` or `passthrough`",
        )),
    }
}

fn proxy_protocol(fields: &Fields<'_>, protocol: Protocol) -> Result<Option<ProxyProtocol>, Fault> {
    let Some(node) = fields.optional("proxyProtocol") else {
        return Ok(None);
    };
    let version = node.choice(&[("v1", ProxyProtocol::V1), ("v2", ProxyProtocol::V2)])?;
    match protocol {
        Protocol::Auto | Protocol::Tcp => Ok(Some(version)),
        Protocol::Http1 | Protocol::Http2 => Err(node.fault(
            "a PROXY header is sent on opaque connections only",
            "remove `proxyProtocol`, or set `protocol: tcp`",
        )),
    }
}

fn endpoints(node: &Node, identity: bool) -> Result<Vec<Endpoint>, Fault> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for node in node.list()? {
        let endpoint = endpoint(node, identity)?;
        if endpoints
            .iter()
            .any(|known| known.address == endpoint.address)
        {
            return Err(node.fault(
                format!("the endpoint {} is listed twice", endpoint.address),
                "remove one of them; each endpoint gets an equal share",
            ));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn endpoint(node: &Node, identity: bool) -> Result<Endpoint, Fault> {
    let fields = Fields::open(node, "an endpoint", ENDPOINT_KEYS)?;
    let transports = [Transport::Plaintext, Transport::Mtls, Transport::Leno]
        .map(|transport| (transport.label(), transport));
    let transport = fields
        .map("transport", |node| node.choice(&transports))?
        .unwrap_or_default();
    let ids = fields
        .map("identities", names::spiffe_ids)?
        .unwrap_or_default();
    let address = fields.required("address")?;
    let endpoint = Endpoint {
        address: address.address()?,
        transport,
        identities: ids,
    };
    if endpoint.address.port() == 0 || endpoint.address.ip().is_unspecified() {
        let message = format!("{} cannot be connected to", endpoint.address);
        return Err(address.fault(message, "write the address and port that it listens on"));
    }
    check_transport(node, &fields, &endpoint, identity)?;
    Ok(endpoint)
}

fn check_transport(
    node: &Node,
    fields: &Fields<'_>,
    endpoint: &Endpoint,
    identity: bool,
) -> Result<(), Fault> {
    let transport = endpoint.transport.label();
    match (endpoint.transport, endpoint.identities.is_empty()) {
        (Transport::Mtls | Transport::Leno, true) => Err(node.fault(
            format!(
                "the {transport} endpoint {} has no identities",
                endpoint.address
            ),
            "add `identities: [spiffe://…]`: the ids that may answer there",
        )),
        (Transport::Plaintext, false) => Err(fields.required("identities")?.fault(
            "identities are checked on mesh endpoints only",
            "add `transport: mtls` or `leno`, or remove `identities`",
        )),
        (Transport::Mtls | Transport::Leno, false) if !identity => {
            Err(fields.required("transport")?.fault(
                format!("{transport} needs a certificate of our own"),
                "add the section `identity` with certificate, key and trustBundle",
            ))
        }
        _ => Ok(()),
    }
}
