//! Listeners for clients outside of the mesh: what they are, and which certificates they show by
//! server name, a filter chain for each. Called by `listener` and `listener::chain`.

use model::{Direction, Edge, HostMatch, Listener, ListenerProtocol, Shown, TlsMode};

use super::ROOT;
use crate::check;
use crate::error::Error;
use crate::metadata::Reader;
use crate::place::Place;
use crate::route;

/// Where it stands under our name.
pub(super) const KEY: &str = "edge";

const PLAINTEXT: &str = "plaintext";
const TLS: &str = "tls";

/// The word for it.
pub(super) const fn word(edge: &Edge) -> &'static str {
    match edge {
        Edge::Plaintext => PLAINTEXT,
        Edge::Tls(_) => TLS,
    }
}

/// The certificates that a listener shows.
pub(super) fn shown(listener: &Listener) -> Option<&[Shown]> {
    match &listener.edge {
        Some(Edge::Tls(shown)) => Some(shown),
        Some(Edge::Plaintext) | None => None,
    }
}

/// What metadata and chains say together.
pub(super) fn decode(metadata: &Reader<'_>, shown: Vec<Shown>) -> Result<Option<Edge>, Error> {
    match (metadata.text(KEY, &ROOT)?, shown.as_slice()) {
        (None, []) => Ok(None),
        (Some(PLAINTEXT), []) => Ok(Some(Edge::Plaintext)),
        (Some(TLS), [_, ..]) => Ok(Some(Edge::Tls(shown))),
        _ => {
            let reason = "certificates are for clients outside of the mesh; send metadata, \
                          leno.dev: {edge: tls}, with them, and {edge: plaintext} or none without";
            Err(Error::invalid(&ROOT.field("filter_chains"), reason))
        }
    }
}

/// Server names as a chain has them.
pub(super) fn server_names(hosts: &[HostMatch]) -> Vec<String> {
    match hosts {
        [HostMatch::Any] => Vec::new(),
        hosts => hosts.iter().map(route::write_host).collect(),
    }
}

/// The hosts that a chain's server names are.
pub(super) fn hosts(server_names: &[String]) -> Vec<HostMatch> {
    match server_names {
        [] => vec![HostMatch::Any],
        names => names.iter().map(|name| route::parse_host(name)).collect(),
    }
}

/// Checks the invariants of `Listener::edge`.
pub(super) fn check(listener: &Listener) -> Result<(), Error> {
    let at = ROOT.field("edge");
    if listener.edge.is_none() {
        return Ok(());
    }
    let is_ours = listener.direction == Direction::Outbound
        && listener.tls == TlsMode::Disabled
        && listener.protocol == ListenerProtocol::Http
        && listener.bind
        && !listener.original_destination;
    if !is_ours {
        let reason = "clients outside of the mesh come to an outbound listener for HTTP with a \
                      socket of its own; send one";
        return Err(Error::invalid(&at, reason));
    }
    shown(listener).map_or(Ok(()), |shown| check_shown(shown, &at))
}

fn check_shown(shown: &[Shown], at: &Place<'_>) -> Result<(), Error> {
    let at = at.field("certificates");
    if shown.is_empty() {
        return Err(Error::invalid(&at, "none; nobody would be served"));
    }
    let mut seen = Vec::new();
    for (index, one) in shown.iter().enumerate() {
        let at = at.item("certificates", index);
        check::name(&one.certificate, &at)?;
        one.hosts
            .iter()
            .try_for_each(|host| check::host(host, &at))?;
        let is_mixed = one.hosts.contains(&HostMatch::Any) && one.hosts.len() > 1;
        let is_known = one.hosts.iter().any(|host| seen.contains(&host));
        if one.hosts.is_empty() || is_mixed || is_known {
            let reason = "each certificate has its server names, each once; or all the others";
            return Err(Error::invalid(&at, reason));
        }
        seen.extend(&one.hosts);
    }
    Ok(())
}
