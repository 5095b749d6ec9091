//! Generates values of the model: whatever keeps its invariants, from pools so small that names,
//! hosts and prefixes meet.

use std::net::SocketAddr;
use std::time::Duration;

use model::{
    Backend, Balance, Cluster, Direction, Discovery, Edge, Endpoint, Filter, Host, HostMatch,
    Listener, ListenerProtocol, PathChange, Protocol, ProxyProtocol, Redirect, Rewrite, Route,
    Scheme, Shown, TlsMode, Transport, TrustBundle,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use xds::resource::Resource;
use xds::secret::Certificate;

pub(crate) const HOSTS: &[&str] = &[
    "a",
    "a.b",
    "x.a.b",
    "hello.default.svc.cluster.local",
    "10.0.0.1",
    "[fd77::2]",
];
const SUFFIXES: &[&str] = &[".b", ".a.b", ".cluster.local"];
pub(crate) const PREFIXES: &[&str] = &["/", "/a", "/a/", "/a/b", "/ab", "/x%20y"];
const PATHS: &[&str] = &["/", "/a", "/b/", "/%20+(x)$1"];
const NAMES: &[&str] = &[
    "outbound|80|hello.default.svc.cluster.local",
    "inbound|[fd77::2]:8080",
    "passthrough",
];
const IDS: &[&str] = &[
    "spiffe://cluster.local/ns/default/sa/hello",
    "spiffe://cluster.local/ns/default/sa/curl",
    "spiffe://other.example/x",
];
const HEADERS: &[&str] = &["x-a", "X-A", "server", "x-b"];
const VALUES: &[&str] = &["", "1", "100%", "%%a %b%", "ä, \"b\""];

fn texts(pool: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(pool).prop_map(str::to_owned)
}

fn some_of(pool: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
    let chosen = subsequence(pool, least..=pool.len()).prop_shuffle();
    chosen.prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

pub(crate) fn address() -> impl Strategy<Value = SocketAddr> {
    let known = ["10.77.0.2", "10.78.1.1", "fd77::2", "::ffff:10.0.0.1"];
    let ip = select(known.to_vec()).prop_map(|ip| ip.parse::<std::net::IpAddr>().unwrap());
    (ip, select(vec![80, 8080, 65535])).prop_map(SocketAddr::from)
}

fn host() -> impl Strategy<Value = HostMatch> {
    prop_oneof![
        Just(HostMatch::Any),
        texts(HOSTS).prop_map(HostMatch::Exact),
        texts(SUFFIXES).prop_map(HostMatch::Suffix),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let set = || (texts(HEADERS), texts(VALUES));
    prop_oneof![
        set().prop_map(|(name, value)| Filter::SetRequestHeader { name, value }),
        set().prop_map(|(name, value)| Filter::SetResponseHeader { name, value }),
        set().prop_map(|(name, value)| Filter::AddRequestHeader { name, value }),
        set().prop_map(|(name, value)| Filter::AddResponseHeader { name, value }),
        texts(HEADERS).prop_map(|name| Filter::RemoveRequestHeader { name }),
        texts(HEADERS).prop_map(|name| Filter::RemoveResponseHeader { name }),
    ]
}

fn backends() -> impl Strategy<Value = Vec<Backend>> {
    let backend = (texts(NAMES), 0..4_u32);
    let backend = backend.prop_map(|(cluster, weight)| Backend { cluster, weight });
    let some = |backends: &Vec<Backend>| backends.iter().any(|backend| backend.weight > 0);
    vec(backend, 1..4).prop_filter("some weight", some)
}

/// Of a route whose path is `exact` or not.
fn path_change(exact: bool) -> impl Strategy<Value = Option<PathChange>> {
    let full = || texts(PATHS).prop_map(PathChange::Full);
    let prefix = texts(&["/", "/b", "/b/c", "/x.y"]).prop_map(PathChange::Prefix);
    let any = prop_oneof![full(), prefix];
    let change = if exact { full().boxed() } else { any.boxed() };
    proptest::option::of(change)
}

fn redirect(exact: bool) -> impl Strategy<Value = Redirect> {
    let scheme = select(vec![Scheme::Http, Scheme::Https]);
    let host = proptest::option::of(texts(HOSTS));
    let status = select(Redirect::STATUSES.to_vec());
    let parts = (scheme, host, 1..=u16::MAX, path_change(exact), status);
    parts.prop_map(|(scheme, host, port, path, status)| Redirect {
        scheme,
        host,
        port,
        path,
        status,
    })
}

fn forward(exact: bool) -> impl Strategy<Value = Route> {
    let rewrite = (proptest::option::of(texts(HOSTS)), path_change(exact));
    let timeout = proptest::option::of((1..90_000_u64).prop_map(Duration::from_millis));
    let parts = (backends(), rewrite, vec(filter(), 0..4), timeout);
    parts.prop_map(|(backends, (host, path), filters, timeout)| Route {
        backends,
        rewrite: Rewrite { host, path },
        filters,
        timeout,
        ..Route::to("")
    })
}

fn route() -> impl Strategy<Value = Route> {
    let sent_away = |exact| {
        redirect(exact).prop_map(|redirect| Route {
            backends: Vec::new(),
            redirect: Some(redirect),
            ..Route::to("")
        })
    };
    let does = move |exact| prop_oneof![3 => forward(exact), 1 => sent_away(exact)];
    let does = any::<bool>().prop_flat_map(move |exact| (Just(exact), does(exact)));
    let allow = proptest::option::of(some_of(IDS, 0));
    let parts = (vec(host(), 1..4), texts(PREFIXES), does, allow);
    parts.prop_map(|(hosts, prefix, (exact, does), allow)| Route {
        hosts,
        prefix,
        exact,
        allow,
        ..does
    })
}

/// Each pair of host and path once.
pub(crate) fn routes() -> impl Strategy<Value = Vec<Route>> {
    vec(route(), 0..6).prop_map(|mut routes| {
        let mut taken = Vec::new();
        for route in &mut routes {
            let path = (route.prefix.clone(), route.exact);
            route.hosts.retain(|host| {
                let pair = (host.clone(), path.clone());
                let is_new = !taken.contains(&pair);
                taken.push(pair);
                is_new
            });
        }
        routes.retain(|route| !route.hosts.is_empty());
        routes
    })
}

/// Routes as opaque listeners have them.
fn opaque(routes: Vec<Route>) -> Vec<Route> {
    let takes_all = |route: &Route| route.prefix == "/" && !route.exact;
    let opaque = routes.into_iter().filter(takes_all);
    opaque
        .filter(|route| route.redirect.is_none())
        .map(|route| Route {
            hosts: route.hosts,
            backends: route.backends,
            allow: route.allow,
            ..Route::to("")
        })
        .collect()
}

/// A name with addresses of its own.
fn named() -> impl Strategy<Value = Host> {
    let name = texts(&["hello-0.a.b.svc.cluster.local", "x"]);
    let addresses = some_of(&["10.77.0.2", "fd77::2", "::ffff:10.0.0.1"], 1);
    (name, addresses).prop_map(|(name, addresses)| Host {
        name,
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
    })
}

pub(crate) fn listener() -> impl Strategy<Value = Listener> {
    let protocols = [
        ListenerProtocol::Auto,
        ListenerProtocol::Http,
        ListenerProtocol::Tcp,
    ];
    let modes = [TlsMode::Permissive, TlsMode::Strict, TlsMode::Disabled];
    let upgrades = prop_oneof![
        Just(vec!["*".to_owned()]),
        some_of(&["websocket", "postgres/3", "x"], 0)
    ];
    let words = (
        texts(NAMES),
        some_of(&["hello.default", "a", "b.c"], 0),
        upgrades,
        vec(named(), 0..3),
        proptest::option::of(texts(&["http", "grpc-2"])),
    );
    let addresses = proptest::collection::btree_set(address(), 1..4);
    let choices = (
        select(protocols.to_vec()),
        select(modes.to_vec()),
        1..90_000_u64,
    );
    let parts = (words, addresses, choices, any::<[bool; 7]>(), routes());
    parts.prop_map(|(words, addresses, choices, switches, routes)| {
        let (name, names, upgrades, hosts, port_name) = words;
        let (protocol, tls, millis) = choices;
        let [
            inbound,
            bind,
            capture,
            connect,
            proxy_protocol,
            request_id,
            forwarded_for,
        ] = switches;
        let mut addresses = addresses.into_iter();
        Listener {
            name,
            direction: if inbound {
                Direction::Inbound
            } else {
                Direction::Outbound
            },
            address: addresses.next().unwrap(),
            additional_addresses: addresses.collect(),
            bind,
            original_destination: capture,
            names,
            hosts,
            port_name,
            tls: if inbound { tls } else { TlsMode::Disabled },
            edge: None,
            protocol,
            detect_timeout: Duration::from_millis(millis),
            upgrades,
            connect,
            proxy_protocol,
            request_id,
            forwarded_for,
            routes: match protocol {
                ListenerProtocol::Tcp => opaque(routes),
                ListenerProtocol::Auto | ListenerProtocol::Http => routes,
            },
        }
    })
}

/// Each host once, and `Any` alone.
fn edge() -> impl Strategy<Value = Edge> {
    let names = [HOSTS, SUFFIXES].concat();
    let least = subsequence(names, 1..4).prop_shuffle();
    let shown = least.prop_map(|names| {
        let shown = names.iter().enumerate().map(|(index, name)| Shown {
            hosts: vec![match name.starts_with('.') {
                true => HostMatch::Suffix((*name).to_owned()),
                false => HostMatch::Exact((*name).to_owned()),
            }],
            certificate: format!("tls|default/c{}", index / 2),
        });
        shown.collect::<Vec<_>>()
    });
    let others = any::<bool>().prop_map(|others| Shown {
        hosts: vec![if others {
            HostMatch::Any
        } else {
            HostMatch::Exact("last".to_owned())
        }],
        certificate: "other".to_owned(),
    });
    let tls = (shown, others).prop_map(|(mut shown, last)| {
        shown.push(last);
        Edge::Tls(shown)
    });
    prop_oneof![Just(Edge::Plaintext), tls]
}

/// Of a gateway.
fn public() -> impl Strategy<Value = Listener> {
    (listener(), edge()).prop_map(|(listener, edge)| Listener {
        direction: Direction::Outbound,
        tls: TlsMode::Disabled,
        protocol: ListenerProtocol::Http,
        bind: true,
        original_destination: false,
        edge: Some(edge),
        ..listener
    })
}

/// Each address once.
pub(crate) fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let transports = [Transport::Plaintext, Transport::Mtls, Transport::Leno];
    let endpoint = (address(), select(transports.to_vec()), some_of(IDS, 1));
    let endpoint = endpoint.prop_map(|(address, transport, ids)| Endpoint {
        address,
        transport,
        identities: match transport {
            Transport::Plaintext => Vec::new(),
            Transport::Mtls | Transport::Leno => ids,
        },
    });
    vec(endpoint, 0..6).prop_map(|mut endpoints: Vec<Endpoint>| {
        let mut taken = Vec::new();
        endpoints.retain(|endpoint| {
            let is_new = !taken.contains(&endpoint.address);
            taken.push(endpoint.address);
            is_new
        });
        endpoints
    })
}

pub(crate) fn cluster() -> impl Strategy<Value = Cluster> {
    let balances = [
        Balance::RoundRobin,
        Balance::LeastRequest,
        Balance::OriginalDestination,
    ];
    let protocols = [
        Protocol::Auto,
        Protocol::Http1,
        Protocol::Http2,
        Protocol::Tcp,
    ];
    let headers = [None, Some(ProxyProtocol::V1), Some(ProxyProtocol::V2)];
    let discoveries = [Discovery::Static, Discovery::Eager, Discovery::OnDemand];
    let choices = (
        select(balances.to_vec()),
        select(protocols.to_vec()),
        select(headers.to_vec()),
        select(discoveries.to_vec()),
    );
    (texts(NAMES), choices, endpoints()).prop_map(|(name, choices, endpoints)| {
        let (balance, protocol, header, discovery) = choices;
        let passthrough = balance == Balance::OriginalDestination && discovery == Discovery::Static;
        let protocol = if passthrough { Protocol::Tcp } else { protocol };
        let is_opaque = matches!(protocol, Protocol::Auto | Protocol::Tcp);
        Cluster {
            name,
            balance,
            protocol,
            proxy_protocol: header.filter(|_| is_opaque),
            discovery,
            passthrough,
            endpoints: if passthrough { Vec::new() } else { endpoints },
        }
    })
}

pub(crate) fn resource() -> impl Strategy<Value = Resource> {
    let bundle = ("-----BEGIN [A-Z\n]{1,40}", "[a-z\n]{0,40}");
    prop_oneof![
        bundle.prop_map(|(authorities, revocations)| Resource::Bundle(TrustBundle {
            name: "ROOTCA".to_owned(),
            authorities,
            revocations,
        })),
        ("[a-z|/.-]{1,9}", "[A-Z-]{1,9}", "[A-Z-]{1,9}").prop_map(|(name, chain, key)| {
            let key = key.into();
            Resource::Certificate(Certificate { name, chain, key })
        }),
        public().prop_map(Resource::Listener),
        cluster().prop_map(Resource::Cluster),
        (texts(NAMES), endpoints())
            .prop_map(|(cluster, endpoints)| Resource::Endpoints { cluster, endpoints }),
        listener().prop_map(Resource::Listener),
        (texts(NAMES), routes())
            .prop_map(|(listener, routes)| Resource::Routes { listener, routes }),
    ]
}
