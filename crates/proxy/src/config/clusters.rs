//! The `clusters` section. Called by `config::build` before listeners, which name its clusters.
//! Must never accept an mTLS endpoint without ids: any certificate of the mesh would do then.

use model::{Balance, Cluster, Endpoint, Transport};

use super::Fault;
use super::fields::Fields;
use super::names::{self, Names};
use super::node::Node;

pub(super) const CLUSTER_KEYS: &[&str] = &["name", "balance", "endpoints"];
pub(super) const ENDPOINT_KEYS: &[&str] = &["address", "transport", "identities"];

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
    ];
    Ok(Cluster {
        name: names.claim(fields.required("name")?)?,
        balance: fields
            .map("balance", |node| node.choice(&balances))?
            .unwrap_or_default(),
        endpoints: endpoints(fields.required("endpoints")?, identity)?,
    })
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
    let transports = [
        ("plaintext", Transport::Plaintext),
        ("mtls", Transport::Mtls),
    ];
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
    match (endpoint.transport, endpoint.identities.is_empty()) {
        (Transport::Mtls, true) => Err(node.fault(
            format!("the mtls endpoint {} has no identities", endpoint.address),
            "add `identities: [spiffe://…]`: the ids that may answer there",
        )),
        (Transport::Plaintext, false) => Err(fields.required("identities")?.fault(
            "identities are checked on mtls endpoints only",
            "add `transport: mtls`, or remove `identities`",
        )),
        (Transport::Mtls, false) if !identity => Err(fields.required("transport")?.fault(
            "mtls needs a certificate of our own",
            "add the section `identity` with certificate, key and trustBundle",
        )),
        _ => Ok(()),
    }
}
