//! The section about the control plane: where it is, what it speaks, and how both prove who they
//! are. Called by `config::build`. Must never open what it names.

use std::path::Path;

use model::{
    ControlAddress, ControlPlane, ForeignTls, Membership, TokenSource, Trust, XdsNode, XdsVariant,
};
use yaml::{Fault, Fields, Kind, Node, Zero, quote};

use super::names;
use super::sections::{path, trust_domain};

pub(super) const CONTROL_KEYS: &[&str] = &[
    "addresses",
    "xds",
    "node",
    "tls",
    "identity",
    "trustBundle",
    "trustDomain",
    "token",
    "state",
    "renewalSpread",
];
/// What makes sense only with the mesh's own control plane.
const MESH_KEYS: &[&str] = &[
    "identity",
    "trustBundle",
    "trustDomain",
    "token",
    "renewalSpread",
];
const TOKEN_KEYS: &[&str] = &["file"];
const NODE_KEYS: &[&str] = &["id", "cluster"];
pub(super) const TLS_KEYS: &[&str] = &["name", "trustBundle", "certificate", "key"];

/// What a unix socket's path begins with.
const UNIX: &str = "unix:";
/// What the kernel takes as the path of one.
const UNIX_BYTES_MAX: usize = 107;

/// The one section.
pub(super) fn control(node: &Node, origin: &Path) -> Result<ControlPlane, Fault> {
    let fields = Fields::open(node, "the control plane", CONTROL_KEYS)?;
    let variants = [
        ("delta", XdsVariant::Delta),
        ("stateOfTheWorld", XdsVariant::StateOfTheWorld),
    ];
    let tls = match fields.optional("tls") {
        None => Trust::Mesh(membership(&fields, origin)?),
        Some(node) => trust(node, &fields, origin)?,
    };
    Ok(ControlPlane {
        addresses: addresses(fields.required("addresses")?, &tls, origin)?,
        xds: fields
            .map("xds", |node| node.choice(&variants))?
            .unwrap_or_default(),
        node: fields.map("node", xds_node)?,
        tls,
        state: fields.map("state", |node| path(node, origin))?,
    })
}

fn trust(node: &Node, fields: &Fields<'_>, origin: &Path) -> Result<Trust, Fault> {
    let is_word = matches!(node.kind, Kind::Scalar { .. });
    let is_mesh = is_word && node.choice(&[("mesh", true), ("plaintext", false)])?;
    if is_mesh {
        return membership(fields, origin).map(Trust::Mesh);
    }
    let misplaced = MESH_KEYS.iter().filter_map(|key| {
        let node = fields.optional(key)?;
        Some((key, node))
    });
    if let Some((key, node)) = misplaced.into_iter().next() {
        let message = format!("`{key}` is of the mesh's own control plane");
        return Err(node.fault(message, format!("remove `{key}` or `tls`")));
    }
    match is_word {
        true => Ok(Trust::Plaintext),
        false => foreign_tls(node, origin).map(Trust::Files),
    }
}

fn membership(fields: &Fields<'_>, origin: &Path) -> Result<Membership, Fault> {
    let trust_domain = fields.map("trustDomain", trust_domain)?;
    let trust_domain = trust_domain.unwrap_or_else(|| "cluster.local".to_owned());
    Ok(Membership {
        identity: match fields.optional("identity") {
            Some(node) => names::spiffe_id(node)?,
            None => format!("spiffe://{trust_domain}/ns/leno-system/sa/leno-control"),
        },
        trust_bundle: path(fields.required("trustBundle")?, origin)?,
        trust_domain,
        token: fields.map("token", |node| token(node, origin))?,
        renewal_spread: fields
            .map("renewalSpread", |node| node.duration(Zero::Allowed))?
            .unwrap_or(Membership::RENEWAL_SPREAD),
    })
}

fn foreign_tls(node: &Node, origin: &Path) -> Result<ForeignTls, Fault> {
    let fields = Fields::open(node, "the TLS of the control plane", TLS_KEYS)?;
    let file = |key| fields.map(key, |node| path(node, origin));
    let own = match (file("certificate")?, file("key")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let hint = "give both, or none if it does not ask for one";
            return Err(node.fault("a certificate and its key go together", hint));
        }
    };
    Ok(ForeignTls {
        name: server_name(fields.required("name")?)?,
        trust_bundle: path(fields.required("trustBundle")?, origin)?,
        own,
    })
}

/// What a certificate of the web is for.
fn server_name(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    if names::is_dns_name(word) || word.parse::<std::net::IpAddr>().is_ok() {
        return Ok(word.to_owned());
    }
    let hint = "write the DNS name or the IP address that is in its certificate";
    Err(node.fault(format!("{} is not a server's name", quote(word)), hint))
}

fn addresses(node: &Node, tls: &Trust, origin: &Path) -> Result<Vec<ControlAddress>, Fault> {
    let read = |node: &Node| {
        let address = address(node, origin)?;
        let is_plain = *tls == Trust::Plaintext;
        match address {
            ControlAddress::Unix(_) if !is_plain => {
                let hint = "write tls: plaintext, or ip:port";
                Err(node.fault("nobody listens for TLS on a unix socket", hint))
            }
            address if is_plain && !address.is_local() => {
                let message = "what is not encrypted does not leave this machine";
                let hint = "give an address of loopback, a unix socket, or `tls`";
                Err(node.fault(message, hint))
            }
            address => Ok(address),
        }
    };
    let addresses = node.list()?.iter().map(read);
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    match addresses.is_empty() {
        true => Err(node.fault("no address is listed", "add one, as ip:port")),
        false => Ok(addresses),
    }
}

fn address(node: &Node, origin: &Path) -> Result<ControlAddress, Fault> {
    let Some(path) = node.text()?.strip_prefix(UNIX) else {
        return node.address().map(ControlAddress::Ip);
    };
    let path = origin.join(path);
    match path.as_os_str().len() {
        ..=UNIX_BYTES_MAX => Ok(ControlAddress::Unix(path)),
        length => {
            let hint = format!("choose one of at most {UNIX_BYTES_MAX}");
            Err(node.fault(format!("the path has {length} bytes"), hint))
        }
    }
}

fn xds_node(node: &Node) -> Result<XdsNode, Fault> {
    let fields = Fields::open(node, "the node", NODE_KEYS)?;
    Ok(XdsNode {
        id: names::name(fields.required("id")?)?,
        cluster: fields.map("cluster", names::name)?.unwrap_or_default(),
    })
}

fn token(node: &Node, origin: &Path) -> Result<TokenSource, Fault> {
    if let Kind::Scalar { .. } = node.kind {
        return node
            .choice(&[("stdin", ())])
            .map(|()| TokenSource::StandardInput);
    }
    let fields = Fields::open(node, "the token", TOKEN_KEYS)?;
    Ok(TokenSource::At(path(fields.required("file")?, origin)?))
}
