//! Filter chains: which connections, under mesh TLS or not, and what becomes of them. [`plan`] says
//! which chains a listener has; whatever else comes is refused, since chains that choose in another
//! way than ours would leave some connections out, or let some in.

use model::{Direction, Listener, ListenerProtocol, Route, Shown, TlsMode};

use super::http::{self, Http, RouteSource};
use super::{edge, opaque};
use crate::any;
use crate::envoy::{self, Alpn, Codec};
use crate::error::Error;
use crate::fields::Notes;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::google::UInt32Value;
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
    besides: Besides,
    /// For people.
    label: Label,
}

/// What only Envoy is told. Invariant: nothing, on chains that are read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Besides {
    /// Where the connection was made to, if that matters.
    port: Option<u16>,
    /// What HTTP is spoken.
    codec: Codec,
    /// What is noted for upstream connections.
    note: Option<Alpn>,
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
pub(super) fn plan(listener: &Listener, opaque: &[Route], flavour: Flavour) -> Vec<Chain> {
    let plan = Plan {
        listener,
        opaque,
        flavour,
    };
    let mut chains = Vec::new();
    if listener.tls != TlsMode::Disabled {
        plan.mesh(&mut chains);
    }
    match edge::shown(listener) {
        Some(shown) => plan.public(shown, &mut chains),
        None if listener.tls == TlsMode::Strict => {}
        None => plan.plaintext(&mut chains),
    }
    if flavour == Flavour::Envoy && listener.bind && listener.original_destination {
        chains.push(guard(listener.address.port()));
    }
    for chain in &mut chains {
        chain.label.stats.clone_from(&listener.name);
    }
    chains
}

/// Whether what is found in plaintext makes a difference further on: our sidecar sees to that
/// itself.
pub(super) fn notes_protocol(listener: &Listener, flavour: Flavour) -> bool {
    flavour == Flavour::Envoy
        && listener.direction == Direction::Outbound
        && listener.protocol != ListenerProtocol::Tcp
}

/// Connections that were not redirected go nowhere: Envoy would make them again, to itself.
fn guard(port: u16) -> Chain {
    Chain {
        besides: Besides {
            port: Some(port),
            ..Besides::default()
        },
        label: label("itself", 0),
        ..Chain::of(Does::Opaque(Box::new(opaque::nowhere())))
    }
}

fn label(words: &str, index: usize) -> Label {
    let chain = format!("{words}-{index}");
    Label {
        chain,
        stats: String::new(),
    }
}

impl Chain {
    /// For all connections.
    fn of(does: Does) -> Self {
        Self {
            transport: String::new(),
            protocols: Vec::new(),
            mesh: None,
            shown: None,
            does,
            besides: Besides::default(),
            label: Label::default(),
        }
    }
}

/// What chains are made of.
struct Plan<'a> {
    listener: &'a Listener,
    opaque: &'a [Route],
    flavour: Flavour,
}

impl Plan<'_> {
    fn http(&self) -> Does {
        Does::Http(Http::of(self.listener))
    }

    /// Note of a protocol, where it makes a difference.
    fn note(&self, alpn: Alpn) -> Besides {
        Besides {
            note: notes_protocol(self.listener, self.flavour).then_some(alpn),
            ..Besides::default()
        }
    }

    fn mesh(&self, chains: &mut Vec<Chain>) {
        let chain = |protocols: &[&str], does, label| Chain {
            transport: TLS.to_owned(),
            protocols: owned(protocols),
            mesh: Some(owned(protocols)),
            label,
            ..Chain::of(does)
        };
        // ALPN of the mesh says nothing to Envoy: each protocol has a chain that says it.
        let groups: &[(&[&str], Codec)] = match self.flavour {
            Flavour::Leno => &[(&tls::ALPN_HTTP, Codec::Auto)],
            Flavour::Envoy => &[
                (&[tls::ALPN_H2], Codec::Http2),
                (&[tls::ALPN_HTTP1], Codec::Http1),
            ],
        };
        let is_tcp = self.listener.protocol == ListenerProtocol::Tcp;
        let groups = groups.iter().enumerate().filter(|_| !is_tcp);
        chains.extend(groups.map(|(index, (protocols, codec))| Chain {
            besides: Besides {
                codec: *codec,
                ..Besides::default()
            },
            ..chain(protocols, self.http(), label("mesh-http", index))
        }));
        for (index, route) in self.opaque.iter().enumerate() {
            let does = Does::Opaque(Box::new(route.clone()));
            chains.push(chain(&[tls::ALPN_TCP], does, label("mesh-tcp", index)));
        }
    }

    fn public(&self, shown: &[Shown], chains: &mut Vec<Chain>) {
        let chain = |label, shown: &Shown, protocols: &[&str], note| Chain {
            transport: TLS.to_owned(),
            protocols: owned(protocols),
            shown: Some(shown.clone()),
            besides: self.note(note),
            label,
            ..Chain::of(self.http())
        };
        for (index, shown) in shown.iter().enumerate() {
            if self.flavour == Flavour::Envoy {
                let [h2, _] = tls::ALPN_PUBLIC;
                let label = label("public-h2", index);
                chains.push(chain(label, shown, &[h2], Alpn::Http2));
            }
            chains.push(chain(label("public", index), shown, &[], Alpn::Http1));
        }
    }

    fn plaintext(&self, chains: &mut Vec<Chain>) {
        let chain = |transport: &str, protocols: &[&str], does, label| Chain {
            transport: transport.to_owned(),
            protocols: owned(protocols),
            label,
            ..Chain::of(does)
        };
        let notes = notes_protocol(self.listener, self.flavour);
        let protocol = self.listener.protocol;
        let [http10, http11, h2c] = INSPECTED;
        let groups: &[(&[&str], Alpn)] = match (protocol, notes) {
            (ListenerProtocol::Tcp, _) => &[],
            (ListenerProtocol::Http, false) => &[(&[], Alpn::Http1)],
            (ListenerProtocol::Auto, false) => &[(&INSPECTED, Alpn::Http1)],
            (ListenerProtocol::Http, true) => &[(&[h2c], Alpn::Http2), (&[], Alpn::Http1)],
            (ListenerProtocol::Auto, true) => {
                &[(&[h2c], Alpn::Http2), (&[http10, http11], Alpn::Http1)]
            }
        };
        let groups = groups.iter().enumerate();
        chains.extend(groups.map(|(index, (protocols, alpn))| Chain {
            besides: self.note(*alpn),
            ..chain(RAW, protocols, self.http(), label("http", index))
        }));
        // Envoy does not go back once it has taken the branch of one transport: each needs its own.
        let alone = protocol == ListenerProtocol::Tcp && self.listener.tls == TlsMode::Disabled;
        for (index, route) in self.opaque.iter().enumerate() {
            let transports: &[&str] = match opaque::is_named(route) || alone {
                true => &[""],
                false => &[RAW, TLS],
            };
            for transport in transports {
                let does = Does::Opaque(Box::new(route.clone()));
                let label = label(&format!("{transport}tcp"), index);
                chains.push(Chain {
                    besides: self.note(Alpn::Tcp),
                    ..chain(transport, &[], does, label)
                });
            }
        }
    }
}

/// Says where the routes of all HTTP chains come from.
pub(super) fn route_by(chains: &mut [Chain], source: &RouteSource) {
    for chain in chains {
        if let Does::Http(http) = &mut chain.does {
            http.routes.clone_from(source);
        }
    }
}

/// A chain that takes any connection for HTTP is as good as one for plaintext: nothing else is
/// HTTP.
pub(super) fn stand_alone(chains: &mut [Chain]) {
    let [only] = chains else { return };
    let is_open = only.transport.is_empty() && only.protocols.is_empty();
    let is_secured = only.mesh.is_some() || only.shown.is_some();
    if is_open && !is_secured && matches!(only.does, Does::Http(_)) {
        RAW.clone_into(&mut only.transport);
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

pub(super) fn encode(chain: &Chain, flavour: Flavour) -> FilterChain {
    let hosts = chain.shown.as_ref().map(|shown| shown.hosts.as_slice());
    let stats = &chain.label.stats;
    let (filters, server_names) = match &chain.does {
        Does::Http(http) => (
            vec![http::encode(http, stats, chain.besides.codec, flavour)],
            hosts.map(edge::server_names).unwrap_or_default(),
        ),
        Does::Opaque(route) => (
            opaque::encode(route, stats, flavour),
            opaque::server_names(route),
        ),
    };
    let note = chain.besides.note.map(envoy::set_alpn);
    let port = chain.besides.port.map(u32::from);
    // A chain for one protocol offers that alone.
    let public = match chain.besides.note {
        None => &tls::ALPN_PUBLIC[..],
        Some(Alpn::Http2) => &tls::ALPN_PUBLIC[..1],
        Some(Alpn::Http1 | Alpn::Tcp) => &tls::ALPN_PUBLIC[1..],
    };
    FilterChain {
        filter_chain_match: Some(FilterChainMatch {
            destination_port: port.map(|value| UInt32Value { value }),
            transport_protocol: chain.transport.clone(),
            application_protocols: chain.protocols.clone(),
            server_names,
            ..FilterChainMatch::default()
        }),
        filters: note.into_iter().chain(filters).collect(),
        name: chain.label.chain.clone(),
        transport_socket: match (&chain.mesh, &chain.shown) {
            (Some(protocols), _) => Some(tls::encode_downstream(protocols, flavour)),
            (None, Some(shown)) => Some(tls::encode_public(&shown.certificate, public)),
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
        besides: Besides::default(),
        label: Label::default(),
    })
}
