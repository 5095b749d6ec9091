//! What may be given only once, or must have a certain shape: names, addresses, ids, header parts.
//! Used by the readers of listeners, routes and clusters. Must never correct what it reads.

use std::net::SocketAddr;

use identity::SpiffeId;
use model::Filter;
use yaml::{Fault, Kind, Node, Place, quote};

/// Longest name of a thing: a DNS name's, since Kubernetes' names become ours.
const NAME_BYTES_MAX: usize = 253;

/// A label-like name: visible ASCII without quotes and backslash, so that it prints alike in
/// metrics, logs and URLs.
pub(super) fn name(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@".contains(&b);
    if word.len() > NAME_BYTES_MAX || !word.bytes().all(plain) {
        let hint = format!("at most {NAME_BYTES_MAX} letters, digits and - _ . / : @");
        return Err(node.fault(format!("{} is not a name", quote(word)), hint));
    }
    Ok(word.to_owned())
}

/// Whether `word` is a name as DNS has them, without the dot at the end.
pub(super) fn is_dns_name(word: &str) -> bool {
    let byte = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    let label = |label: &str| !label.is_empty() && label.bytes().all(byte);
    word.len() <= NAME_BYTES_MAX && word.split('.').all(label)
}

/// Names seen so far in one list.
#[derive(Default)]
pub(super) struct Names(Vec<(String, Place)>);

impl Names {
    /// The name in `node`, which no earlier entry had.
    pub(super) fn claim(&mut self, node: &Node) -> Result<String, Fault> {
        let name = name(node)?;
        if let Some((_, first)) = self.0.iter().find(|(taken, _)| *taken == name) {
            return Err(node.fault(
                format!("the name {} is taken", quote(&name)),
                format!("line {} has it already; choose another", first.line),
            ));
        }
        self.0.push((name.clone(), node.place));
        Ok(name)
    }
}

/// Addresses of listeners so far.
pub(super) struct Addresses {
    taken: Vec<(SocketAddr, Place)>,
    /// Whether two cannot be had together.
    collide: fn(SocketAddr, SocketAddr) -> bool,
}

impl Addresses {
    /// Of sockets.
    pub(super) fn bound() -> Self {
        Self {
            taken: Vec::new(),
            collide,
        }
    }

    /// Of destinations.
    pub(super) fn exact() -> Self {
        Self {
            taken: Vec::new(),
            collide: |a, b| a == b,
        }
    }

    /// The address in `node`, which does not collide with an earlier one.
    pub(super) fn claim(&mut self, node: &Node) -> Result<SocketAddr, Fault> {
        let address = node.address()?;
        if let Some((other, first)) = self.find(address) {
            return Err(node.fault(
                format!("{address} is taken by {other}"),
                format!(
                    "line {} has it already; choose another port, or 0",
                    first.line
                ),
            ));
        }
        self.taken.push((address, node.place));
        Ok(address)
    }

    fn find(&self, address: SocketAddr) -> Option<&(SocketAddr, Place)> {
        let mut taken = self.taken.iter();
        taken.find(|(taken, _)| (self.collide)(*taken, address))
    }

    /// A default `address` of `key`, for which the file has no place of its own.
    pub(super) fn claim_default(&mut self, key: &str, address: SocketAddr) -> Result<(), Fault> {
        match self.find(address) {
            None => Ok(()),
            Some((other, place)) => Err(Fault::new(
                *place,
                format!("{other} is taken by the default of `{key}`, {address}"),
                format!("choose another port here, or set `{key}` to another address or off"),
            )),
        }
    }
}

/// Whether the kernel would refuse to listen on both.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let same_family = a.is_ipv4() == b.is_ipv4();
    let overlap = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && same_family && overlap
}

/// A list of SPIFFE ids, none twice.
pub(super) fn spiffe_id(node: &Node) -> Result<String, Fault> {
    let id = node.text()?;
    if is_workload_id(id) {
        return Ok(id.to_owned());
    }
    let hint = "write spiffe://<trust domain>/ns/<namespace>/sa/<service account>";
    Err(node.fault(format!("{} is not a SPIFFE id", quote(id)), hint))
}

pub(super) fn spiffe_ids(node: &Node) -> Result<Vec<String>, Fault> {
    let mut ids: Vec<String> = Vec::new();
    for entry in node.list()? {
        let id = spiffe_id(entry)?;
        if ids.contains(&id) {
            return Err(entry.fault(
                format!("{} is listed twice", quote(&id)),
                "remove one of them",
            ));
        }
        ids.push(id);
    }
    Ok(ids)
}

/// The id of a workload: an id without a path names a trust domain.
fn is_workload_id(id: &str) -> bool {
    SpiffeId::parse(id).is_ok_and(|id| !id.path().is_empty())
}

/// A header name that a filter may touch (RFC 9110, section 5.1: a token).
pub(super) fn header_name(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !word.bytes().all(token) {
        let hint = "letters, digits and - only, without the colon";
        return Err(node.fault(format!("{} is not a header name", quote(word)), hint));
    }
    if Filter::FRAMING
        .iter()
        .any(|framing| word.eq_ignore_ascii_case(framing))
    {
        let hint = "the proxy sets it itself; choose another header";
        return Err(node.fault(
            format!("{} may not be changed by a filter", quote(word)),
            hint,
        ));
    }
    Ok(word.to_owned())
}

/// A header value (RFC 9110, section 5.5): may be empty, no control bytes, no space at the ends.
pub(super) fn header_value(node: &Node) -> Result<String, Fault> {
    let word = match &node.kind {
        Kind::Scalar { text, .. } => text.as_str(),
        Kind::List(_) | Kind::Map(_) => node.text()?,
    };
    if word.chars().any(|c| c.is_control() && c != '\t') || word.trim() != word {
        let hint = "remove line breaks, control characters and spaces at the ends";
        return Err(node.fault(format!("{} is not a header value", quote(word)), hint));
    }
    Ok(word.to_owned())
}
