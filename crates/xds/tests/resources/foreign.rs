//! Resources as users of Envoy write them, without a word of ours: what is read of them, and what
//! is refused all the same.

use std::time::Duration as Time;

use model::{Direction, Discovery, ListenerProtocol, Protocol, TlsMode};
use prost::Message;
use xds::kind::Kind;
use xds::listener::RouteSource;
use xds::proto::cluster::Cluster;
use xds::proto::google::Any;
use xds::proto::listener::Listener;
use xds::proto::network::HttpConnections;
use xds::proto::route::RouteConfiguration;
use xds::resource::{Resource, decode, encode};

use crate::examples;

fn model_listener() -> model::Listener {
    model::Listener {
        name: "listener_0".to_owned(),
        bind: true,
        additional_addresses: Vec::new(),
        names: Vec::new(),
        ..examples::listener()
    }
}

/// A socket, a chain for everything, and a connection manager with the router.
fn listener(change: impl Fn(&mut HttpConnections)) -> Listener {
    let bytes = encode(&Resource::Listener(model_listener())).unwrap();
    let mut listener = Listener::decode(bytes).unwrap();
    (listener.traffic_direction, listener.metadata) = (0, None);
    let chain = &mut listener.filter_chains[0];
    chain.filter_chain_match = None;
    repack(&mut chain.filters[0].typed_config, |manager| {
        manager.stat_prefix = "ingress_http".to_owned();
        manager.http_filters.remove(0);
        manager.upgrade_configs.clear();
        (manager.use_remote_address, manager.generate_request_id) = (None, None);
        change(manager);
    });
    listener
}

fn repack(any: &mut Option<Any>, change: impl FnOnce(&mut HttpConnections)) {
    let any = any.as_mut().unwrap();
    let mut message = HttpConnections::decode(any.value.clone()).unwrap();
    change(&mut message);
    any.value = message.encode_to_vec().into();
}

/// Under another name than the listener's.
fn named(manager: &mut HttpConnections) {
    manager.rds.as_mut().unwrap().route_config_name = "local_route".to_owned();
}

fn routes() -> RouteConfiguration {
    let routes = Resource::Routes {
        listener: "local_route".to_owned(),
        routes: vec![examples::route("a")],
    };
    let mut routes = RouteConfiguration::decode(encode(&routes).unwrap()).unwrap();
    routes.ignore_port_in_host_matching = false;
    routes
}

fn read(kind: Kind, message: &impl Message) -> Resource {
    let read = decode(kind, &message.encode_to_vec()).unwrap().value;
    let again = decode(kind, &encode(&read).unwrap()).unwrap().value;
    assert_eq!(read, again, "it can be kept");
    read
}

#[track_caller]
fn refused(kind: Kind, message: &impl Message, wanted: &str) {
    let error = decode(kind, &message.encode_to_vec()).unwrap_err();
    assert!(error.to_string().contains(wanted), "{error}");
}

#[track_caller]
fn source(message: &Listener) -> (model::Listener, RouteSource) {
    match read(Kind::Listener, message) {
        Resource::Foreign { listener, routes } => (listener, routes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listener_without_a_word_of_ours_takes_plaintext_and_names_its_routes() {
    let (read, routes) = source(&listener(named));
    assert_eq!(routes, RouteSource::Named("local_route".to_owned()));
    let expected = model::Listener {
        upgrades: Vec::new(),
        request_id: true,
        routes: Vec::new(),
        ..model_listener()
    };
    assert_eq!(read, expected);
    let shape = (read.direction, read.tls, read.protocol);
    let plain = (
        Direction::Outbound,
        TlsMode::Disabled,
        ListenerProtocol::Http,
    );
    assert_eq!(shape, plain);
}

#[test]
fn routes_that_come_with_their_listener_are_its_own() {
    let inline = |manager: &mut HttpConnections| {
        (manager.rds, manager.route_config) = (None, Some(routes()));
    };
    let (_, routes) = source(&listener(inline));
    let expected = model::Route {
        timeout: None,
        ..examples::route("a")
    };
    assert_eq!(routes, RouteSource::Inline(vec![expected]));
    let both = |manager: &mut HttpConnections| manager.route_config = Some(self::routes());
    refused(
        Kind::Listener,
        &listener(both),
        "route_config` is given twice",
    );
    let neither = |manager: &mut HttpConnections| manager.rds = None;
    refused(Kind::Listener, &listener(neither), "rds`: missing");
    let bad = |manager: &mut HttpConnections| {
        inline(manager);
        let hosts = &mut manager.route_config.as_mut().unwrap().virtual_hosts;
        hosts[0].domains.push("a.example".to_owned());
    };
    let wanted = "route_config.ignore_port_in_host_matching`: must be true";
    refused(Kind::Listener, &listener(bad), wanted);
}

#[test]
fn what_is_redirected_says_its_side_and_several_chains_say_what_they_are_for() {
    let mut redirected = listener(named);
    redirected.bind_to_port = Some(xds::proto::google::BoolValue { value: false });
    refused(
        Kind::Listener,
        &redirected,
        "traffic_direction`: unspecified",
    );
    let mut twice = listener(named);
    twice.filter_chains.push(twice.filter_chains[0].clone());
    refused(Kind::Listener, &twice, "chains are told apart");
}

#[test]
fn chains_of_one_listener_have_the_same_routes() {
    let permissive = model::Listener {
        direction: Direction::Inbound,
        tls: TlsMode::Permissive,
        ..model_listener()
    };
    let bytes = encode(&Resource::Listener(permissive)).unwrap();
    let mut message = Listener::decode(bytes).unwrap();
    repack(&mut message.filter_chains[0].filters[0].typed_config, named);
    refused(Kind::Listener, &message, "serve the same way");
    repack(&mut message.filter_chains[1].filters[0].typed_config, named);
    let (_, routes) = source(&message);
    assert_eq!(routes, RouteSource::Named("local_route".to_owned()));
}

#[test]
fn routes_for_every_host_need_not_speak_of_ports_and_have_envoy_s_timeout() {
    let mut message = routes();
    let action = message.virtual_hosts[0].routes[0].route.as_mut().unwrap();
    action.timeout = None;
    let Resource::Routes { listener, routes } = read(Kind::Routes, &message) else {
        panic!()
    };
    assert_eq!(listener, "local_route");
    assert_eq!(routes[0].timeout, Some(Time::from_secs(15)));
}

#[test]
fn addresses_that_would_be_looked_up_are_taken_as_they_are_and_names_are_refused() {
    let cluster = model::Cluster {
        discovery: Discovery::Static,
        endpoints: vec![model::Endpoint {
            transport: model::Transport::Plaintext,
            identities: Vec::new(),
            ..examples::endpoint()
        }],
        ..examples::cluster()
    };
    let bytes = encode(&Resource::Cluster(cluster.clone())).unwrap();
    for kind in [1, 2] {
        let mut message = Cluster::decode(bytes.clone()).unwrap();
        message.r#type = Some(kind);
        message.typed_extension_protocol_options.clear();
        let expected = model::Cluster {
            protocol: Protocol::Http1,
            ..cluster.clone()
        };
        assert_eq!(read(Kind::Cluster, &message), Resource::Cluster(expected));
        let endpoints = &mut message.load_assignment.as_mut().unwrap().endpoints;
        let endpoint = endpoints[0].lb_endpoints[0].endpoint.as_mut().unwrap();
        let address = endpoint.address.as_mut().unwrap();
        address.socket_address.as_mut().unwrap().address = "www.example.org".to_owned();
        refused(Kind::Cluster, &message, "not an IP address; resolve it");
    }
}
