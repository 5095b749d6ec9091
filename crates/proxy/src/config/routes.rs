//! The `routes` of a listener and their filters. Called by `config::listeners`.
//! Must never accept a route that names no cluster, nor one that an earlier route hides.

use model::{Backend, Cluster, Filter, HostMatch, Route};
use yaml::{Fault, Fields, Node, Zero, quote, suggest};

use super::names;

pub(super) mod target;

pub(super) const ROUTE_KEYS: &[&str] = &[
    "hosts", "prefix", "path", "cluster", "split", "redirect", "allow", "rewrite", "filters",
    "timeout",
];
pub(super) const SPLIT_KEYS: &[&str] = &["cluster", "weight"];
pub(super) const FILTER_KEYS: &[&str] = &[
    "setRequestHeader",
    "addRequestHeader",
    "removeRequestHeader",
    "setResponseHeader",
    "addResponseHeader",
    "removeResponseHeader",
    "hold",
];
/// The largest that Gateway API allows.
const WEIGHT_MAX: usize = 1_000_000;

const SET_KEYS: &[&str] = &["name", "value"];
const REMOVE_KEYS: &[&str] = &["name"];
pub(super) const HOLD_KEYS: &[&str] = &["delay", "bufferBytes"];

/// Most a `hold` filter may buffer: it is there for tests, and memory is scarce.
const HOLD_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) fn read(node: &Node, clusters: &[Cluster]) -> Result<Vec<Route>, Fault> {
    let nodes = node.list()?;
    if nodes.is_empty() {
        let hint = "add one: `- cluster: …` takes every request";
        return Err(node.fault("a listener without routes answers nothing", hint));
    }
    let mut routes: Vec<Route> = Vec::new();
    for node in nodes {
        let route = route(node, clusters)?;
        check_reachable(node, &route, &routes)?;
        routes.push(route);
    }
    Ok(routes)
}

fn route(node: &Node, clusters: &[Cluster]) -> Result<Route, Fault> {
    let fields = Fields::open(node, "a route", ROUTE_KEYS)?;
    let (prefix, exact) = path_of(&fields)?;
    let redirect = fields.map("redirect", |node| target::redirect(node, exact))?;
    if redirect.is_some() {
        check_alone(&fields)?;
    }
    Ok(Route {
        hosts: fields
            .map("hosts", hosts)?
            .unwrap_or_else(|| vec![HostMatch::Any]),
        prefix,
        exact,
        backends: match redirect {
            Some(_) => Vec::new(),
            None => backends(&fields, clusters)?,
        },
        redirect,
        allow: fields.map("allow", names::spiffe_ids)?,
        rewrite: fields
            .map("rewrite", |node| target::rewrite(node, exact))?
            .unwrap_or_default(),
        filters: fields
            .map("filters", |node| node.list()?.iter().map(filter).collect())?
            .unwrap_or_default(),
        timeout: fields.map("timeout", |node| node.duration(Zero::Refused))?,
    })
}

/// The path, and whether it is all of a request's.
fn path_of(fields: &Fields<'_>) -> Result<(String, bool), Fault> {
    let prefix = fields.map("prefix", prefix)?;
    match (fields.optional("path"), prefix) {
        (None, prefix) => Ok((prefix.unwrap_or_else(|| "/".to_owned()), false)),
        (Some(node), None) => Ok((path(node)?, true)),
        (Some(node), Some(_)) => Err(node.fault(
            "a route has `prefix` or `path`, not both",
            "remove one of them",
        )),
    }
}

/// Nothing is carried on by a redirect.
fn check_alone(fields: &Fields<'_>) -> Result<(), Fault> {
    for key in ["cluster", "split", "rewrite", "filters", "timeout"] {
        if let Some(node) = fields.optional(key) {
            let message = format!("a redirect asks nobody, so `{key}` has no meaning");
            return Err(node.fault(message, "remove it, or `redirect`"));
        }
    }
    Ok(())
}

fn check_reachable(node: &Node, route: &Route, earlier: &[Route]) -> Result<(), Fault> {
    let is_same = |other: &Route| (&other.prefix, other.exact) == (&route.prefix, route.exact);
    let taken = |host| {
        let mut earlier = earlier.iter();
        earlier.any(|other| is_same(other) && other.hosts.contains(host))
    };
    if !route.hosts.iter().any(taken) {
        return Ok(());
    }
    let kind = if route.exact { "path" } else { "prefix" };
    let message = format!(
        "an earlier route has this host with the {kind} {}",
        quote(&route.prefix)
    );
    Err(node.fault(message, format!("give each pair of host and {kind} once")))
}

/// One cluster for all requests, or several that share them.
fn backends(fields: &Fields<'_>, clusters: &[Cluster]) -> Result<Vec<Backend>, Fault> {
    let Some(split) = fields.optional("split") else {
        let cluster = cluster(fields.required("cluster")?, clusters)?;
        return Ok(vec![Backend { cluster, weight: 1 }]);
    };
    if let Some(node) = fields.optional("cluster") {
        return Err(node.fault(
            "a route has `cluster` or `split`, not both",
            "remove one of them",
        ));
    }
    let backend = |node: &Node| {
        let fields = Fields::open(node, "a share", SPLIT_KEYS)?;
        let weight = fields.required("weight")?.count(0..=WEIGHT_MAX)?;
        Ok(Backend {
            cluster: cluster(fields.required("cluster")?, clusters)?,
            weight: u32::try_from(weight).unwrap_or(u32::MAX),
        })
    };
    let backends = split.list()?.iter().map(backend);
    let backends = backends.collect::<Result<Vec<_>, Fault>>()?;
    if backends.iter().all(|backend| backend.weight == 0) {
        return Err(split.fault(
            "nobody gets a share",
            "give at least one cluster a weight above 0",
        ));
    }
    Ok(backends)
}

fn cluster(node: &Node, clusters: &[Cluster]) -> Result<String, Fault> {
    let word = node.text()?;
    if clusters.iter().any(|cluster| cluster.name == word) {
        return Ok(word.to_owned());
    }
    let known: Vec<_> = clusters
        .iter()
        .map(|cluster| cluster.name.as_str())
        .collect();
    let hint = match known.as_slice() {
        [] => "add it under `clusters`".to_owned(),
        known => suggest(word, known),
    };
    Err(node.fault(format!("there is no cluster {}", quote(word)), hint))
}

fn prefix(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    if !word.starts_with('/') {
        let hint = format!("write {}", quote(&format!("/{word}")));
        return Err(node.fault(format!("the prefix {} has no leading /", quote(word)), hint));
    }
    path(node)
}

fn path(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let is_rooted = word.starts_with('/');
    if !is_rooted
        || !word
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#')
    {
        let hint = "a path only, without ? and #; spaces and others as %20";
        return Err(node.fault(format!("{} is not a path", quote(word)), hint));
    }
    Ok(word.to_owned())
}

fn hosts(node: &Node) -> Result<Vec<HostMatch>, Fault> {
    let nodes = node.list()?;
    if nodes.is_empty() {
        return Err(node.fault("no host is listed", "remove `hosts` to take every host"));
    }
    nodes.iter().map(host).collect()
}

fn host(node: &Node) -> Result<HostMatch, Fault> {
    let word = node.text()?.to_ascii_lowercase();
    if word == "*" {
        return Ok(HostMatch::Any);
    }
    let suffix = word.strip_prefix('*');
    if !is_host(suffix.map_or(Some(&*word), |rest| rest.strip_prefix('.'))) {
        let hint = "a name or address without port, \"*.suffix\" or \"*\"; ports are ignored";
        return Err(node.fault(format!("{} is not a host", quote(&word)), hint));
    }
    Ok(match suffix {
        Some(suffix) => HostMatch::Suffix(suffix.to_owned()),
        None => HostMatch::Exact(word),
    })
}

fn is_host(name: Option<&str>) -> bool {
    let Some(name) = name else { return false };
    let byte = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    let label = |label: &str| !label.is_empty() && label.bytes().all(byte);
    match name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.len() <= 253 && name.split('.').all(label),
    }
}

fn filter(node: &Node) -> Result<Filter, Fault> {
    let fields = Fields::open(node, "a filter", FILTER_KEYS)?;
    let (key, node) = fields.single()?;
    Ok(match key {
        "setRequestHeader" => {
            let (name, value) = header(node)?;
            Filter::SetRequestHeader { name, value }
        }
        "addRequestHeader" => {
            let (name, value) = header(node)?;
            Filter::AddRequestHeader { name, value }
        }
        "addResponseHeader" => {
            let (name, value) = header(node)?;
            Filter::AddResponseHeader { name, value }
        }
        "setResponseHeader" => {
            let (name, value) = header(node)?;
            Filter::SetResponseHeader { name, value }
        }
        "removeRequestHeader" => Filter::RemoveRequestHeader {
            name: header_to_remove(node)?,
        },
        "removeResponseHeader" => Filter::RemoveResponseHeader {
            name: header_to_remove(node)?,
        },
        _ => hold(node)?,
    })
}

fn header(node: &Node) -> Result<(String, String), Fault> {
    let fields = Fields::open(node, "a header to set", SET_KEYS)?;
    let name = names::header_name(fields.required("name")?)?;
    Ok((name, names::header_value(fields.required("value")?)?))
}

fn header_to_remove(node: &Node) -> Result<String, Fault> {
    let fields = Fields::open(node, "a header to remove", REMOVE_KEYS)?;
    names::header_name(fields.required("name")?)
}

fn hold(node: &Node) -> Result<Filter, Fault> {
    let fields = Fields::open(node, "the filter hold", HOLD_KEYS)?;
    Ok(Filter::Hold {
        delay: fields.required("delay")?.duration(Zero::Allowed)?,
        buffer_bytes: fields
            .map("bufferBytes", |node| node.count(0..=HOLD_BYTES_MAX))?
            .unwrap_or(0),
    })
}
