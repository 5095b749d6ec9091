//! Filter chains: which connections, under mesh TLS or not, and what becomes of them. [`plan`] says
//! which chains a listener has; whatever else comes is refused, since chains that choose in another
//! way than ours would leave some connections out, or let some in.

use model::{Listener, ListenerProtocol, Route, Shown, TlsMode};

use super::http::{self, Http};
use super::{edge, opaque};
use crate::any;
use crate::error::Error;
use crate::fields::Notes;
use crate::place::Place;
use crate::proto::listener::{Filter, FilterChain, FilterChainMatch};
use crate::proto::network::HttpConnections;
use crate::tls::{self, Downstream};

const TLS: &str = "tls";
const RAW: &str = "raw_buffer";
/// How `http_inspector` calls what it finds.
const INSPECTED: [&str; 3] = ["http/1.0", "http/1.1", "h2c"];

/// One filter chain, apart from its labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chain {
    /// What the connection is wrapped in; empty for anything.
    transport: String,
    /// By ALPN, or by inspection; empty for anything.
    protocols: Vec<String>,
    /// The protocols offered under mesh TLS, if there is any.
    mesh: Option<Vec<String>>,
    /// The certificate that clients outside of the mesh are shown, and the server names that they
    /// ask for.
    shown: Option<Shown>,
    does: Does,
    /// For people.
    label: Label,
}

#[derive(Clone, Debug, PartialEq)]
enum Does {
    Http(Http),
    /// Its hosts are the server names that it is for.
    Opaque(Box<Route>),
}

/// Names that say nothing, and never make a difference.
#[derive(Clone, Debug, Default)]
struct Label {
    chain: String,
    stats: String,
}

impl PartialEq for Label {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What all chains together say.
pub(super) struct Parts {
    pub(super) tls: TlsMode,
    pub(super) protocol: ListenerProtocol,
    pub(super) http: Http,
    pub(super) opaque: Vec<Route>,
    pub(super) shown: Vec<Shown>,
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The chains of a listener whose opaque connections have these routes.
pub(super) fn plan(listener: &Listener, opaque: &[Route]) -> Vec<Chain> {
    let mut chains = Vec::new();
    if listener.tls != TlsMode::Disabled {
        plan_mesh(listener, opaque, &mut chains);
    }
    match edge::shown(listener) {
        Some(shown) => plan_public(listener, shown, &mut chains),
        None if listener.tls == TlsMode::Strict => {}
        None => plan_plaintext(listener, opaque, &mut chains),
    }
    for chain in &mut chains {
        chain.label.stats.clone_from(&listener.name);
    }
    chains
}

fn label(words: &str, index: usize) -> Label {
    let chain = format!("{words}-{index}");
    Label {
        chain,
        stats: String::new(),
    }
}

fn plan_mesh(listener: &Listener, opaque: &[Route], chains: &mut Vec<Chain>) {
    let chain = |protocols: &[&str], does, label| Chain {
        transport: TLS.to_owned(),
        protocols: owned(protocols),
        mesh: Some(owned(protocols)),
        shown: None,
        does,
        label,
    };
    if listener.protocol != ListenerProtocol::Tcp {
        let does = Does::Http(Http::of(listener));
        chains.push(chain(&tls::ALPN_HTTP, does, label("mesh-http", 0)));
    }
    for (index, route) in opaque.iter().enumerate() {
        let does = Does::Opaque(Box::new(route.clone()));
        chains.push(chain(&[tls::ALPN_TCP], does, label("mesh-tcp", index)));
    }
}

fn plan_public(listener: &Listener, shown: &[Shown], chains: &mut Vec<Chain>) {
    let chain = |(index, shown): (usize, &Shown)| Chain {
        transport: TLS.to_owned(),
        protocols: Vec::new(),
        mesh: None,
        shown: Some(shown.clone()),
        does: Does::Http(Http::of(listener)),
        label: label("public", index),
    };
    chains.extend(shown.iter().enumerate().map(chain));
}

fn plan_plaintext(listener: &Listener, opaque: &[Route], chains: &mut Vec<Chain>) {
    let chain = |transport: &str, protocols: &[&str], does, label| Chain {
        transport: transport.to_owned(),
        protocols: owned(protocols),
        mesh: None,
        shown: None,
        does,
        label,
    };
    if listener.protocol != ListenerProtocol::Tcp {
        let does = Does::Http(Http::of(listener));
        let inspected: &[&str] = match listener.protocol {
            ListenerProtocol::Auto => &INSPECTED,
            ListenerProtocol::Http | ListenerProtocol::Tcp => &[],
        };
        chains.push(chain(RAW, inspected, does, label("http", 0)));
    }
    // Envoy does not go back once it has taken the branch of one transport: each needs its own.
    let alone = listener.protocol == ListenerProtocol::Tcp && listener.tls == TlsMode::Disabled;
    for (index, route) in opaque.iter().enumerate() {
        let transports: &[&str] = match opaque::is_named(route) || alone {
            true => &[""],
            false => &[RAW, TLS],
        };
        for transport in transports {
            let does = Does::Opaque(Box::new(route.clone()));
            let words = format!("{transport}tcp");
            chains.push(chain(transport, &[], does, label(&words, index)));
        }
    }
}

/// What the chains have in common. Whether they are all that there should be is [`check_same`]'s
/// question.
/// `by_routes`: opaque connections take the routes of requests.
pub(super) fn gather(chains: &[Chain], by_routes: bool, at: &Place<'_>) -> Result<Parts, Error> {
    let mut http = None;
    let mut opaque: Vec<Route> = Vec::new();
    for chain in chains {
        match &chain.does {
            Does::Http(settings) => http = http.or(Some(settings)),
            Does::Opaque(route) if !opaque.contains(route) => opaque.push(Route::clone(route)),
            Does::Opaque(_) => {}
        }
    }
    let (mesh, plain) = (
        chains.iter().any(|chain| chain.mesh.is_some()),
        chains.iter().any(|chain| chain.mesh.is_none()),
    );
    let protocol = match (http.is_some(), by_routes) {
        (true, true) => ListenerProtocol::Auto,
        (true, false) if opaque.is_empty() => ListenerProtocol::Http,
        (false, false) => ListenerProtocol::Tcp,
        _ => {
            let reason = "HTTP and opaque connections on one listener take the same routes; \
                          say so in metadata, leno.dev: {opaque: byRoutes}";
            return Err(Error::invalid(&at.field("filter_chains"), reason));
        }
    };
    Ok(Parts {
        tls: match (mesh, plain) {
            (true, true) => TlsMode::Permissive,
            (true, false) => TlsMode::Strict,
            (false, _) => TlsMode::Disabled,
        },
        protocol,
        http: http.cloned().unwrap_or_default(),
        opaque,
        shown: chains
            .iter()
            .filter_map(|chain| chain.shown.clone())
            .collect(),
    })
}

/// An error unless both have the same chains, in any order.
pub(super) fn check_same(chains: &[Chain], planned: &[Chain], at: &Place<'_>) -> Result<(), Error> {
    for (index, chain) in chains.iter().enumerate() {
        if !planned.contains(chain) {
            return Err(differs(&at.item("filter_chains", index)));
        }
    }
    // Of two that are alike Envoy refuses one; so as many are the same.
    match chains.len() == planned.len() && planned.iter().all(|chain| chains.contains(chain)) {
        true => Ok(()),
        false => Err(differs(&at.field("filter_chains"))),
    }
}

fn differs(at: &Place<'_>) -> Error {
    let reason = "chains are told apart as docs/xds.md says, and those of one listener serve the \
                  same way; send them so";
    Error::invalid(at, reason)
}

pub(super) fn encode(chain: &Chain) -> FilterChain {
    let hosts = chain.shown.as_ref().map(|shown| shown.hosts.as_slice());
    let (filters, server_names) = match &chain.does {
        Does::Http(http) => (
            vec![http::encode(http, &chain.label.stats)],
            hosts.map(edge::server_names).unwrap_or_default(),
        ),
        Does::Opaque(route) => (
            opaque::encode(route, &chain.label.stats),
            opaque::server_names(route),
        ),
    };
    FilterChain {
        filter_chain_match: Some(FilterChainMatch {
            transport_protocol: chain.transport.clone(),
            application_protocols: chain.protocols.clone(),
            server_names,
        }),
        filters,
        name: chain.label.chain.clone(),
        transport_socket: match (&chain.mesh, &chain.shown) {
            (Some(protocols), _) => Some(tls::encode_downstream(protocols)),
            (None, Some(shown)) => Some(tls::encode_public(&shown.certificate)),
            (None, None) => None,
        },
    }
}

/// The chain of a listener called `name`.
pub(super) fn decode(
    chain: &FilterChain,
    name: &str,
    at: &Place<'_>,
    notes: &mut Notes,
) -> Result<Chain, Error> {
    let matcher = chain.filter_chain_match.clone().unwrap_or_default();
    let socket = chain.transport_socket.as_ref();
    let socket_at = at.field("transport_socket");
    let is_http = |filter: &Filter| {
        let config = filter.typed_config.as_ref();
        config.is_some_and(any::is::<HttpConnections>)
    };
    let socket = socket.map(|socket| tls::decode_downstream(socket, &socket_at));
    let (mesh, shown) = match socket.transpose()? {
        None => (None, None),
        Some(Downstream::Mesh(protocols)) => (Some(protocols), None),
        Some(Downstream::Public(certificate)) => {
            let hosts = edge::hosts(&matcher.server_names);
            (None, Some(Shown { hosts, certificate }))
        }
    };
    let does = match chain.filters.as_slice() {
        [only] if is_http(only) => {
            if !matcher.server_names.is_empty() && shown.is_none() {
                return Err(differs(&at.field("filter_chain_match")));
            }
            Does::Http(http::decode(only, name, &at.item("filters", 0), notes)?)
        }
        filters => Does::Opaque(Box::new(opaque::decode(
            filters,
            &matcher.server_names,
            at,
        )?)),
    };
    Ok(Chain {
        transport: matcher.transport_protocol,
        protocols: matcher.application_protocols,
        mesh,
        shown,
        does,
        label: Label::default(),
    })
}
