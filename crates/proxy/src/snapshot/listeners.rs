//! Listeners and their routes in the form that connections and requests read. Built by `snapshot`;
//! must never decide what a request is, only what becomes of it.

use super::{Error, Snapshot, spiffe_ids};
use crate::edge::{Certificates, Edge};
use crate::filter::Filter;
use crate::route::Table;
use identity::SpiffeId;
use model::{Config, Direction, Discovery, ListenerProtocol, Protocol, Redirect, Rewrite, TlsMode};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What serves the connections of a socket, or those to an address.
pub(crate) struct Listener {
    pub(crate) name: Arc<str>,
    pub(crate) direction: Direction,
    /// `Strict` where TLS of clients outside of the mesh ends: nothing else is taken there.
    pub(crate) tls: TlsMode,
    /// Whether its clients are outside of the mesh, and what they meet there.
    pub(crate) edge: Option<Edge>,
    pub(crate) request_id: bool,
    pub(crate) forwarded_for: bool,
    pub(crate) routes: Table,
    pub(crate) reading: Reading,
    /// Whether somewhere that its connections may go to is not known yet.
    pub(crate) awaits: bool,
    /// Whether its connections were redirected to it.
    pub(crate) original_destination: bool,
    /// How long a silent peer is waited for before its destination is dialled.
    pub(crate) detect_timeout: Duration,
    /// Whether CONNECT is taken.
    pub(crate) connect: bool,
    /// Whether connections begin with a PROXY header.
    pub(crate) proxy_protocol: bool,
    /// Lower case; `*` alone for all.
    upgrades: Vec<String>,
}

/// What becomes of a listener's connections, as far as the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Requests only: anything else is refused.
    Http,
    /// Unread from the first byte.
    Opaque,
    /// Requests where the first bytes are some, unread otherwise.
    Either,
}

impl Listener {
    /// Whether a request may turn its connection into `protocol` (RFC 9110, section 7.8). Never
    /// h2c: requests would come in past the routes.
    pub(crate) fn upgrades_to(&self, protocol: &[u8]) -> bool {
        let fits = |name: &String| name == "*" || protocol.eq_ignore_ascii_case(name.as_bytes());
        !protocol.eq_ignore_ascii_case(b"h2c") && self.upgrades.iter().any(fits)
    }
}

/// What a matched request is to go through.
pub(crate) struct Route {
    pub(crate) prefix: Box<[u8]>,
    /// Its path is all of the prefix.
    pub(crate) exact: bool,
    /// Places in [`super::Snapshot::clusters`] with the sum of the weights up to and with theirs;
    /// the last sum is above 0. Empty for a redirect only.
    pub(crate) backends: Box<[(usize, u64)]>,
    /// Clients are told to ask elsewhere.
    pub(crate) redirect: Option<Box<Redirect>>,
    /// Who may; `None` is everyone.
    pub(crate) allow: Option<Vec<SpiffeId>>,
    /// What becomes of its target, if anything does.
    pub(crate) rewrite: Option<Box<Rewrite>>,
    pub(crate) filters: Vec<Filter>,
    /// Until its answer is complete.
    pub(crate) timeout: Option<Duration>,
}

impl Route {
    /// The place of the cluster that takes a request, in proportion to the weights; `None` for a
    /// redirect.
    pub(crate) fn pick(&self, random: impl FnOnce() -> u64) -> Option<usize> {
        match &*self.backends {
            [(only, _)] => Some(*only),
            several => {
                let (_, all) = several.last()?;
                let lot = random() % all;
                let chosen = several.iter().find(|(_, sum)| lot < *sum);
                Some(chosen.expect("the last sum is above every lot").0)
            }
        }
    }
}

/// What a listener is built with besides itself.
pub(super) struct Around<'a> {
    pub(super) config: &'a Config,
    /// The places of the clusters.
    pub(super) by_name: HashMap<&'a str, usize>,
    /// What may be shown to clients outside of the mesh.
    pub(super) certificates: Arc<Certificates>,
    pub(super) previous: Option<&'a Snapshot>,
}

pub(super) fn build(listener: &model::Listener, around: &Around<'_>) -> Result<Listener, Error> {
    let Around {
        config, by_name, ..
    } = around;
    let routes = listener.routes.iter().map(|route| {
        let built = Route {
            prefix: route.prefix.as_bytes().into(),
            exact: route.exact,
            backends: backends(route, by_name),
            redirect: route.redirect.clone().map(Box::new),
            allow: route.allow.as_deref().map(spiffe_ids).transpose()?,
            rewrite: (!route.rewrite.is_empty()).then(|| Box::new(route.rewrite.clone())),
            filters: route.filters.iter().map(Filter::build).collect(),
            timeout: route.timeout,
        };
        Ok((route.hosts.clone(), built))
    });
    let routes = Table::build(routes.collect::<Result<Vec<_>, Error>>()?);
    let edge = edge(listener, around)?;
    Ok(Listener {
        name: Arc::from(listener.name.as_str()),
        direction: listener.direction,
        tls: match edge {
            Some(Edge::Tls(_)) => TlsMode::Strict,
            Some(Edge::Plaintext) | None => listener.tls,
        },
        edge,
        request_id: listener.request_id,
        forwarded_for: listener.forwarded_for,
        routes,
        reading: reading(listener, config, by_name),
        awaits: awaits(listener, config, by_name),
        original_destination: listener.original_destination,
        detect_timeout: listener.detect_timeout,
        connect: listener.connect,
        proxy_protocol: listener.proxy_protocol,
        upgrades: listener.upgrades.clone(),
    })
}

fn edge(listener: &model::Listener, around: &Around<'_>) -> Result<Option<Edge>, Error> {
    let Some(edge) = &listener.edge else {
        return Ok(None);
    };
    let previous = around.previous;
    let previous = previous.and_then(|previous| previous.listener_named(&listener.name));
    let previous = previous.and_then(|previous| previous.edge.as_ref());
    let built = Edge::build(edge, &around.certificates, previous);
    built.map(Some).map_err(|error| Error::Tls(error.into()))
}

fn backends(route: &model::Route, by_name: &HashMap<&str, usize>) -> Box<[(usize, u64)]> {
    let mut sum = 0;
    let place = |backend: &model::Backend| {
        sum += u64::from(backend.weight);
        let place = by_name.get(&*backend.cluster);
        let place = *place.expect("a checked configuration names clusters that exist");
        (place, sum)
    };
    route.backends.iter().map(place).collect()
}

/// The clusters that a route may lead to.
fn clusters<'a>(
    route: &'a model::Route,
    config: &'a Config,
    by_name: &'a HashMap<&str, usize>,
) -> impl Iterator<Item = &'a model::Cluster> {
    let backends = route.backends.iter();
    backends.filter_map(|backend| {
        let place = *by_name.get(&*backend.cluster)?;
        config.clusters.get(place).map(Arc::as_ref)
    })
}

/// Whether somewhere that its connections may go to is not known yet.
fn awaits(listener: &model::Listener, config: &Config, by_name: &HashMap<&str, usize>) -> bool {
    let mut all = listener.routes.iter();
    all.any(|route| {
        let mut clusters = clusters(route, config, by_name);
        clusters.any(|cluster| cluster.discovery != Discovery::Static)
    })
}

/// What is not HTTP goes where the catch-all route leads. A listener with rules about paths or
/// headers takes requests only: bytes that an application reads as one, and we do not, would get
/// past them.
fn reading(listener: &model::Listener, config: &Config, by_name: &HashMap<&str, usize>) -> Reading {
    match listener.protocol {
        ListenerProtocol::Http => return Reading::Http,
        ListenerProtocol::Tcp => return Reading::Opaque,
        ListenerProtocol::Auto => {}
    }
    if listener.routes.iter().any(|route| route.redirect.is_some()) {
        return Reading::Http;
    }
    let is_catch_all = |route: &&model::Route| {
        route.prefix == "/" && !route.exact && route.hosts.contains(&model::HostMatch::Any)
    };
    let catch_all = listener.routes.iter().find(is_catch_all);
    let Some(catch_all) = catch_all else {
        return Reading::Http;
    };
    let is_opaque = |port: u16| config.opaque_ports.contains(&port);
    let ports = |cluster: &model::Cluster| {
        let mut endpoints = cluster.endpoints.iter();
        endpoints.any(|endpoint| is_opaque(endpoint.address.port()))
    };
    let mut led_to = clusters(catch_all, config, by_name);
    let unread = |cluster| cluster == Protocol::Tcp;
    if led_to.any(|cluster| unread(cluster.protocol) || ports(cluster)) {
        return Reading::Opaque;
    }
    let mut led_to = clusters(catch_all, config, by_name);
    let is_auto = led_to.all(|cluster| cluster.protocol == Protocol::Auto);
    match is_auto && listener.routes.iter().all(model::Route::is_plain) {
        _ if is_opaque(listener.address.port()) => Reading::Opaque,
        true => Reading::Either,
        false => Reading::Http,
    }
}
