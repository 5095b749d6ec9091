//! Which filter chain a connection takes in Envoy, which settles for a branch by server name, then
//! by transport, then by protocol, and never goes back.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::transport_socket;
use envoy_types::pb::envoy::config::listener::v3::{
    FilterChain, FilterChainMatch, Listener, filter::ConfigType,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{
    TcpProxy, tcp_proxy::ClusterSpecifier,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use envoy_types::pb::google::protobuf::Any;
use model::{Direction, HostMatch, ListenerProtocol, TlsMode};
use prost::Message as _;
use xds::resource::{Resource, encode};

use super::routes::callers;
use super::unpack;
use crate::examples;

/// A connection as listener filters have found it.
#[derive(Clone, Copy)]
struct Connection {
    transport: &'static str,
    protocol: &'static str,
    server_name: &'static str,
}

const fn connection(
    transport: &'static str,
    protocol: &'static str,
    server_name: &'static str,
) -> Connection {
    Connection {
        transport,
        protocol,
        server_name,
    }
}

const HTTP: Connection = connection("raw_buffer", "http/1.1", "");
const OTHER: Connection = connection("raw_buffer", "", "");
const OWN_TLS: Connection = connection("tls", "h2", "elsewhere");
const OWN_TLS_NAMED: Connection = connection("tls", "http/1.1", "db.example");
const MESH_HOP: Connection = connection("tls", "leno/1", "");
const MESH_HTTP: Connection = connection("tls", "leno-http/1.1", "");
const MESH_TCP: Connection = connection("tls", "leno-tcp", "");
const ALL: [Connection; 7] = [
    HTTP,
    OTHER,
    OWN_TLS,
    OWN_TLS_NAMED,
    MESH_HOP,
    MESH_HTTP,
    MESH_TCP,
];

/// The branch that `wanted` takes among what chains ask for, and the chains in it.
fn branch<'a>(
    chains: Vec<&'a FilterChain>,
    wanted: &[String],
    asked: impl Fn(&FilterChainMatch) -> Vec<String>,
) -> Vec<&'a FilterChain> {
    let asks = |chain: &FilterChain| asked(chain.filter_chain_match.as_ref().unwrap());
    let fits = |chain: &FilterChain, word: &String| asks(chain).contains(word);
    let word = wanted
        .iter()
        .find(|word| chains.iter().any(|chain| fits(chain, word)));
    let chains = chains.into_iter();
    match word {
        Some(word) => chains.filter(|chain| fits(chain, word)).collect(),
        None => chains.filter(|chain| asks(chain).is_empty()).collect(),
    }
}

fn choose(listener: &Listener, by: Connection) -> Option<&FilterChain> {
    let words = |word: &str| vec![word.to_owned()];
    let labels = by
        .server_name
        .match_indices('.')
        .map(|(at, _)| &by.server_name[at..]);
    let suffixes = labels.map(|suffix| format!("*{suffix}"));
    let names: Vec<_> = [by.server_name.to_owned()]
        .into_iter()
        .chain(suffixes)
        .collect();
    let chains = listener.filter_chains.iter().collect();
    let chains = branch(chains, &names, |it| it.server_names.clone());
    let chains = branch(chains, &words(by.transport), |it| {
        let word = it.transport_protocol.clone();
        if word.is_empty() {
            Vec::new()
        } else {
            vec![word]
        }
    });
    let chains = branch(chains, &words(by.protocol), |it| {
        it.application_protocols.clone()
    });
    assert!(
        chains.len() < 2,
        "Envoy refuses chains that are alike: {chains:?}"
    );
    chains.first().copied()
}

fn configs(chain: &FilterChain) -> Vec<&Any> {
    let configs = chain
        .filters
        .iter()
        .map(|filter| match &filter.config_type {
            Some(ConfigType::TypedConfig(any)) => any,
            other => panic!("{other:?}"),
        });
    configs.collect()
}

/// What is done: `mesh` or `plain`, then `http` or the cluster, then who may, if not everybody.
fn describe(chain: Option<&FilterChain>) -> String {
    let Some(chain) = chain else {
        return "closed".to_owned();
    };
    let wrapped = chain.transport_socket.as_ref().map_or("plain", |socket| {
        let Some(transport_socket::ConfigType::TypedConfig(any)) = &socket.config_type else {
            panic!("{socket:?}")
        };
        check_mesh_tls(any, chain);
        "mesh"
    });
    let (last, others) = configs(chain)
        .split_last()
        .map(|(l, o)| (*l, o.to_vec()))
        .unwrap();
    let http = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    if let Some(manager) = unpack::<HttpConnectionManager>(last, http) {
        let Some(RouteSpecifier::Rds(rds)) = &manager.route_specifier else {
            panic!("{manager:?}")
        };
        let names: Vec<_> = manager
            .http_filters
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["envoy.filters.http.rbac", "envoy.filters.http.router"]
        );
        assert_eq!(rds.route_config_name, "example");
        return format!("{wrapped} http");
    }
    let tcp = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let proxy: TcpProxy = unpack(last, tcp).unwrap();
    let Some(ClusterSpecifier::Cluster(cluster)) = proxy.cluster_specifier else {
        panic!("{proxy:?}")
    };
    let rules = others.first().map(|any| {
        let rbac: Rbac = unpack(any, "envoy.extensions.filters.network.rbac.v3.RBAC").unwrap();
        let ids = callers(&rbac.rules.unwrap());
        format!(
            " for {}",
            ids.iter().map(|id| &id[id.len() - 4..]).collect::<String>()
        )
    });
    format!("{wrapped} {cluster}{}", rules.unwrap_or_default())
}

fn check_mesh_tls(any: &Any, chain: &FilterChain) {
    let name = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    let context: DownstreamTlsContext = unpack(any, name).unwrap();
    assert!(context.require_client_certificate.unwrap().value);
    let common = context.common_tls_context.unwrap();
    let matched = &chain
        .filter_chain_match
        .as_ref()
        .unwrap()
        .application_protocols;
    assert_eq!(&common.alpn_protocols, matched);
    assert_eq!(common.tls_params.unwrap().tls_minimum_protocol_version, 4);
    assert_eq!(common.tls_certificate_sds_secret_configs[0].name, "default");
}

/// What `listener` does with each connection of [`ALL`].
fn fates(listener: &model::Listener) -> Vec<String> {
    let bytes = encode(&Resource::Listener(listener.clone())).unwrap();
    let message = Listener::decode(bytes).unwrap();
    let names: BTreeSet<_> = message
        .filter_chains
        .iter()
        .map(|chain| &chain.name)
        .collect();
    assert_eq!(names.len(), message.filter_chains.len(), "names are unique");
    ALL.iter()
        .map(|it| describe(choose(&message, *it)))
        .collect()
}

fn listener(tls: TlsMode, protocol: ListenerProtocol) -> model::Listener {
    model::Listener {
        direction: Direction::Inbound,
        tls,
        protocol,
        routes: vec![examples::route("all")],
        ..examples::listener()
    }
}

#[test]
fn http_is_served_where_the_mode_has_it() {
    let fates = |mode| fates(&listener(mode, ListenerProtocol::Http));
    let closed = "closed";
    let (mesh, plain) = ("mesh http", "plain http");
    let wanted = [plain, plain, closed, closed, mesh, mesh, closed];
    assert_eq!(fates(TlsMode::Permissive), wanted);
    let wanted = [closed, closed, closed, closed, mesh, mesh, closed];
    assert_eq!(fates(TlsMode::Strict), wanted);
    let wanted = [plain, plain, closed, closed, closed, closed, closed];
    assert_eq!(fates(TlsMode::Disabled), wanted);
}

#[test]
fn opaque_connections_pass_where_the_mode_has_it() {
    let fates = |mode| fates(&listener(mode, ListenerProtocol::Tcp));
    let closed = "closed";
    let (mesh, plain) = ("mesh all", "plain all");
    let wanted = [plain, plain, plain, plain, plain, plain, mesh];
    assert_eq!(fates(TlsMode::Permissive), wanted);
    let wanted = [closed, closed, closed, closed, closed, closed, mesh];
    assert_eq!(fates(TlsMode::Strict), wanted);
    assert_eq!(fates(TlsMode::Disabled), [plain; 7]);
}

#[test]
fn what_is_not_http_passes_unread_where_both_are_served() {
    let fates = |mode| fates(&listener(mode, ListenerProtocol::Auto));
    let closed = "closed";
    let (mesh, mesh_tcp) = ("mesh http", "mesh all");
    let (plain, plain_tcp) = ("plain http", "plain all");
    let wanted = [plain, plain_tcp, plain_tcp, plain_tcp, mesh, mesh, mesh_tcp];
    assert_eq!(fates(TlsMode::Permissive), wanted);
    let wanted = [closed, closed, closed, closed, mesh, mesh, mesh_tcp];
    assert_eq!(fates(TlsMode::Strict), wanted);
    let wanted = [
        plain, plain_tcp, plain_tcp, plain_tcp, plain_tcp, plain_tcp, plain_tcp,
    ];
    assert_eq!(fates(TlsMode::Disabled), wanted);
}

#[test]
fn server_names_tell_opaque_connections_apart() {
    let mut listener = listener(TlsMode::Disabled, ListenerProtocol::Tcp);
    listener.routes.push(model::Route {
        hosts: vec![HostMatch::Suffix(".example".to_owned())],
        ..examples::route("db")
    });
    let (all, db) = ("plain all", "plain db");
    assert_eq!(fates(&listener), [all, all, all, db, all, all, all]);
}

#[test]
fn who_may_call_holds_for_opaque_connections_and_for_nobody_without_routes() {
    let mut listener = listener(TlsMode::Strict, ListenerProtocol::Tcp);
    listener.routes[0].allow = Some(vec!["spiffe://cluster.local/ns/a/sa/curl".to_owned()]);
    assert_eq!(fates(&listener)[6], "mesh all for curl");
    listener.routes.clear();
    assert_eq!(fates(&listener)[6], "mesh leno.dev/nowhere for ");
}

#[test]
fn opaque_connections_beside_requests_need_every_routes_permission() {
    let mut listener = listener(TlsMode::Strict, ListenerProtocol::Auto);
    let id = |name: &str| format!("spiffe://cluster.local/ns/a/sa/{name}");
    listener.routes[0].allow = Some(vec![id("curl"), id("both")]);
    listener.routes.push(model::Route {
        prefix: "/admin".to_owned(),
        allow: Some(vec![id("both"), id("root")]),
        ..examples::route("all")
    });
    assert_eq!(fates(&listener)[6], "mesh all for both");
}
