//! What is refused, each with the path of what is wrong: by the field that was changed in a message
//! that is otherwise ours; and models that break their own invariants, before they are sent.

use model::{
    Backend, Direction, Discovery, Edge, Filter, HostMatch, ListenerProtocol, PathChange, Protocol,
    ProxyProtocol, Redirect, Rewrite, Scheme, Shown, TlsMode, Transport, TrustBundle,
};
use prost::Message;
use xds::kind::Kind;
use xds::proto::cluster::Cluster;
use xds::proto::core::{DataSource, HeaderValueOption};
use xds::proto::endpoint::ClusterLoadAssignment;
use xds::proto::google::{self, Any, BoolValue, Duration, UInt32Value};
use xds::proto::listener::Listener;
use xds::proto::network::HttpConnections;
use xds::proto::rbac::HttpRbacPerRoute;
use xds::proto::route::{RedirectAction, Route, RouteAction, RouteConfiguration};
use xds::proto::tls::{CommonTlsContext, DownstreamTlsContext, Secret, TlsCertificate};
use xds::resource::{Resource, decode, encode};
use xds::secret::Certificate;

use crate::examples;

/// Changes the message of `resource` and checks that it is then refused, the error with `wanted`.
#[track_caller]
fn check_change<M: Message + Default>(
    resource: &Resource,
    change: impl FnOnce(&mut M),
    wanted: &str,
) {
    let bytes = encode(resource).unwrap();
    assert_eq!(decode(resource.kind(), &bytes).unwrap().ignored, []);
    let mut message = M::decode(bytes).unwrap();
    change(&mut message);
    check_refused(resource.kind(), &message.encode_to_vec(), wanted);
}

#[track_caller]
fn check_refused(kind: Kind, bytes: &[u8], wanted: &str) {
    match decode(kind, bytes) {
        Ok(taken) => panic!("taken: {taken:?}"),
        Err(error) => assert!(error.to_string().contains(wanted), "{error}"),
    }
}

#[track_caller]
fn check_unsendable(resource: &Resource, wanted: &str) {
    let error = encode(resource).unwrap_err().to_string();
    assert!(error.contains(wanted), "{error}");
}

/// Changes a wrapped message.
fn repack<M: Message + Default>(any: &mut Option<Any>, change: impl FnOnce(&mut M)) {
    let any = any.as_mut().unwrap();
    let mut message = M::decode(any.value.clone()).unwrap();
    change(&mut message);
    any.value = message.encode_to_vec().into();
}

fn listener(tls: TlsMode, protocol: ListenerProtocol) -> Resource {
    Resource::Listener(model::Listener {
        direction: Direction::Inbound,
        tls,
        protocol,
        ..examples::listener()
    })
}

fn routes(route: model::Route) -> Resource {
    Resource::Routes {
        listener: "example".to_owned(),
        routes: vec![route],
    }
}

/// With everything that a route can have.
fn full_route() -> model::Route {
    model::Route {
        prefix: "/a".to_owned(),
        allow: Some(vec![examples::HELLO.to_owned()]),
        filters: vec![Filter::SetRequestHeader {
            name: "x-a".to_owned(),
            value: "1".to_owned(),
        }],
        ..examples::route("all")
    }
}

fn first(message: &mut RouteConfiguration) -> &mut Route {
    &mut message.virtual_hosts[0].routes[0]
}

/// Nothing in it is read.
fn pair() -> TlsCertificate {
    let source = |text: &str| DataSource {
        inline_string: Some(text.to_owned()),
        inline_bytes: None,
    };
    TlsCertificate {
        certificate_chain: Some(source("chain")),
        private_key: Some(source("key")),
    }
}

#[test]
fn a_key_is_never_printed() {
    let certificate = Certificate {
        name: "shop".to_owned(),
        chain: "chain".to_owned(),
        key: "very secret".to_owned().into(),
    };
    let resource = Resource::Certificate(certificate);
    assert!(!format!("{resource:?}").contains("very secret"));
    let message = Secret::decode(encode(&resource).unwrap()).unwrap();
    assert!(!format!("{message:?}").contains("very secret"));
}

/// For clients outside of the mesh.
fn public(shown: &[(HostMatch, &str)]) -> Resource {
    let shown = shown.iter().map(|(host, certificate)| Shown {
        hosts: vec![host.clone()],
        certificate: (*certificate).to_owned(),
    });
    Resource::Listener(model::Listener {
        bind: true,
        edge: Some(Edge::Tls(shown.collect())),
        ..examples::listener()
    })
}

#[test]
fn other_ways_of_tls_with_the_outside_are_refused() {
    let shop = HostMatch::Exact("shop.example".to_owned());
    let all = public(&[(shop.clone(), "shop"), (HostMatch::Any, "other")]);
    let change = |change: fn(&mut DownstreamTlsContext)| {
        move |listener: &mut Listener| {
            let socket = listener.filter_chains[1].transport_socket.as_mut().unwrap();
            repack(&mut socket.typed_config, change);
        }
    };
    fn common(it: &mut DownstreamTlsContext) -> &mut CommonTlsContext {
        it.common_tls_context.as_mut().unwrap()
    }
    for (change, wanted) in [
        (
            change(|it| it.require_client_certificate = Some(BoolValue { value: true })),
            "filter_chains[1].transport_socket.typed_config.require_client_certificate`: clients",
        ),
        (
            change(|it| {
                common(it)
                    .tls_params
                    .as_mut()
                    .unwrap()
                    .tls_minimum_protocol_version = 1
            }),
            "outside of the mesh TLS 1.2 and 1.3 are spoken",
        ),
        (
            change(|it| common(it).alpn_protocols.push("leno/1".to_owned())),
            "outside of the mesh TLS 1.2 and 1.3 are spoken",
        ),
    ] {
        check_change(&all, change, wanted);
    }
    let unmarked = |listener: &mut Listener| listener.metadata = None;
    check_change(&all, unmarked, "certificates are for clients outside");
    let inbound = |listener: &mut Listener| listener.traffic_direction = 1;
    check_change(
        &all,
        inbound,
        "clients outside of the mesh come to an outbound",
    );
    let twice = |listener: &mut Listener| {
        let names = listener.filter_chains[0].filter_chain_match.clone();
        listener.filter_chains[1].filter_chain_match = names;
    };
    check_change(
        &all,
        twice,
        "each certificate has its server names, each once",
    );
    check_unsendable(&public(&[]), "none; nobody would be served");
    let twice = public(&[(shop.clone(), "a"), (shop, "b")]);
    check_unsendable(&twice, "each certificate has its server names");
}

#[test]
fn keys_of_the_mesh_are_not_taken() {
    let bundle = Resource::Bundle(TrustBundle {
        name: "ROOTCA".to_owned(),
        authorities: "pem".to_owned(),
        revocations: "crl".to_owned(),
    });
    let with_key = |secret: &mut Secret| {
        secret.validation_context = None;
        secret.tls_certificate = Some(pair());
    };
    check_change(&bundle, with_key, "keys of the mesh are not taken");
    let own = |secret: &mut Secret| {
        with_key(secret);
        "default".clone_into(&mut secret.name);
    };
    check_change(&bundle, own, "keys of the mesh are not taken");
    let both = |secret: &mut Secret| secret.tls_certificate = Some(pair());
    check_change(&bundle, both, "is given twice, or beside");
    let without_key = |secret: &mut Secret| {
        with_key(secret);
        "shop".clone_into(&mut secret.name);
        secret.tls_certificate.as_mut().unwrap().private_key = None;
    };
    check_change(&bundle, without_key, "without a chain or a key");
    let context = |secret: &mut Secret| secret.validation_context = None;
    check_change(&bundle, context, "`secret.validation_context`: missing");
    let chain = |secret: &mut Secret| {
        let context = secret.validation_context.as_mut().unwrap();
        context.only_verify_leaf_cert_crl = false;
    };
    check_change(&bundle, chain, "only_verify_leaf_cert_crl`: must be true");
}

#[test]
fn other_ways_of_mesh_tls_are_refused() {
    let strict = listener(TlsMode::Strict, ListenerProtocol::Http);
    let change = |change: fn(&mut DownstreamTlsContext)| {
        move |listener: &mut Listener| {
            let socket = listener.filter_chains[0].transport_socket.as_mut().unwrap();
            repack(&mut socket.typed_config, change);
        }
    };
    let optional = change(|it| it.require_client_certificate = None);
    check_change(
        &strict,
        optional,
        "require_client_certificate`: must be true",
    );
    let old = change(|it| {
        let common = it.common_tls_context.as_mut().unwrap();
        common
            .tls_params
            .as_mut()
            .unwrap()
            .tls_minimum_protocol_version = 3;
    });
    check_change(
        &strict,
        old,
        "common_tls_context.tls_params`: mesh TLS is 1.3",
    );
    let other_bundle = change(|it| {
        let common = it.common_tls_context.as_mut().unwrap();
        common
            .validation_context_sds_secret_config
            .as_mut()
            .unwrap()
            .name = "mine".to_owned();
    });
    check_change(&strict, other_bundle, "verified by the bundle `ROOTCA`");
    let given_key = change(|it| {
        let common = it.common_tls_context.as_mut().unwrap();
        common.tls_certificate_sds_secret_configs[0].name = "mine".to_owned();
    });
    check_change(
        &strict,
        given_key,
        "keys are not taken from the control plane",
    );
    let without = |listener: &mut Listener| listener.filter_chains[0].transport_socket = None;
    check_change(
        &strict,
        without,
        "`listener.filter_chains[0]`: chains are told apart",
    );
}

#[test]
fn chains_that_choose_in_another_way_are_refused() {
    let permissive = listener(TlsMode::Permissive, ListenerProtocol::Http);
    let any = |listener: &mut Listener| listener.filter_chains[1].filter_chain_match = None;
    check_change(
        &permissive,
        any,
        "`listener.filter_chains[1]`: chains are told apart",
    );
    let twice = |listener: &mut Listener| {
        let chain = listener.filter_chains[1].clone();
        listener.filter_chains.push(chain);
    };
    check_change(
        &permissive,
        twice,
        "`listener.filter_chains`: chains are told apart",
    );
    let differing = |listener: &mut Listener| {
        let filter = &mut listener.filter_chains[1].filters[0];
        repack(&mut filter.typed_config, |manager: &mut HttpConnections| {
            manager.upgrade_configs.clear();
        });
    };
    check_change(
        &permissive,
        differing,
        "`listener.filter_chains[1]`: chains are told apart",
    );
    let none = |listener: &mut Listener| listener.filter_chains.clear();
    check_change(&permissive, none, "nothing would be served");
}

#[test]
fn opaque_routes_beside_requests_must_be_the_requests_own() {
    let auto = listener(TlsMode::Disabled, ListenerProtocol::Auto);
    let silent = |listener: &mut Listener| listener.metadata = None;
    check_change(&auto, silent, "leno.dev: {opaque: byRoutes}");
}

#[test]
fn an_opaque_chain_without_the_rules_of_the_others_is_refused() {
    let permissive = Resource::Listener(model::Listener {
        direction: Direction::Inbound,
        tls: TlsMode::Permissive,
        protocol: ListenerProtocol::Tcp,
        routes: vec![model::Route {
            prefix: "/".to_owned(),
            filters: Vec::new(),
            ..full_route()
        }],
        ..examples::listener()
    });
    let open = |listener: &mut Listener| {
        let last = listener.filter_chains.last_mut().unwrap();
        last.filters.remove(0);
    };
    check_change(&permissive, open, "chains are told apart");
}

#[test]
fn filters_that_are_not_ours_are_refused() {
    let http = listener(TlsMode::Disabled, ListenerProtocol::Http);
    let change = |change: fn(&mut HttpConnections)| {
        move |listener: &mut Listener| {
            repack(
                &mut listener.filter_chains[0].filters[0].typed_config,
                change,
            );
        }
    };
    let unknown = change(|manager| {
        let filter = manager.http_filters[0].typed_config.as_mut().unwrap();
        filter.type_url = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua".to_owned();
    });
    let wanted = "http_filters[0].typed_config` holds the unsupported type";
    check_change(&http, unknown, wanted);
    let no_router = change(|manager| manager.http_filters.truncate(1));
    check_change(&http, no_router, "the last filter is the router");
    let no_routes = change(|manager| manager.rds = None);
    check_change(&http, no_routes, "rds`: missing; send rds with a name");
}

#[test]
fn a_listener_without_a_side_or_with_a_timeout_that_closes_is_refused() {
    let tcp = listener(TlsMode::Disabled, ListenerProtocol::Tcp);
    let side = |listener: &mut Listener| listener.traffic_direction = 3;
    check_change(&tcp, side, "`listener.traffic_direction`: unspecified");
    let closes = |listener: &mut Listener| listener.continue_on_listener_filters_timeout = false;
    check_change(
        &tcp,
        closes,
        "`listener.listener_filters_timeout`: says when to stop",
    );
    let name = |listener: &mut Listener| {
        let address = listener.address.as_mut().unwrap();
        address.socket_address.as_mut().unwrap().address = "localhost".to_owned();
    };
    check_change(
        &tcp,
        name,
        "`listener.address.socket_address.address`: not an IP address",
    );
}

fn host(name: &str, addresses: &[&str]) -> model::Host {
    model::Host {
        name: name.to_owned(),
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
    }
}

#[test]
fn names_of_instances_come_with_their_addresses() {
    let listener = Resource::Listener(model::Listener {
        hosts: vec![host("hello-0.a", &["10.77.0.2", "fd77::2"])],
        ..examples::listener()
    });
    for (text, wanted) in [
        ("hello-0.a", "hosts[0]`: a name without addresses"),
        ("hello-0.a ", "hosts[0]`: not a name and its addresses"),
        ("hello-0.a b", "hosts[0]`: not a name and its addresses"),
        (" 10.77.0.2", "hosts[0]`: not a lower-case DNS name"),
    ] {
        let change = |listener: &mut Listener| {
            let metadata = listener.metadata.as_mut().unwrap();
            let ours = metadata.filter_metadata.get_mut("leno.dev").unwrap();
            let kind = Some(google::Kind::String(text.to_owned()));
            let values = vec![google::Value { kind }];
            let kind = Some(google::Kind::List(google::ListValue { values }));
            let hosts = google::Value { kind };
            ours.fields.insert("hosts".to_owned(), hosts);
        };
        check_change(&listener, change, wanted);
    }
}

#[test]
fn matchers_that_we_do_not_have_are_refused() {
    let all = routes(full_route());
    let part = |it: &mut RouteConfiguration| {
        let matcher = first(it).r#match.as_mut().unwrap();
        matcher.path_separated_prefix = None;
        matcher.prefix = Some("/a".to_owned());
    };
    check_change(&all, part, "routes[0].match`: prefixes are whole segments");
    let caseless = |it: &mut RouteConfiguration| {
        let matcher = first(it).r#match.as_mut().unwrap();
        matcher.case_sensitive = Some(BoolValue { value: false });
    };
    check_change(
        &all,
        caseless,
        "case_sensitive`: paths are compared with case",
    );
    let with_ports = |it: &mut RouteConfiguration| {
        it.virtual_hosts[0].domains = vec!["hello".to_owned()];
        it.ignore_port_in_host_matching = false;
    };
    check_change(
        &all,
        with_ports,
        "ignore_port_in_host_matching`: must be true",
    );
    let host = |it: &mut RouteConfiguration| it.virtual_hosts[0].domains.push("a.*".to_owned());
    check_change(
        &all,
        host,
        "`routes.virtual_hosts[0].domains[1]`: not a host",
    );
}

#[test]
fn regular_expressions_headers_and_answers_are_refused_by_their_path() {
    // Tags of RouteMatch.safe_regex, headers, query_parameters; Route.redirect, direct_response.
    let nested = |path: &[u8]| {
        let inner = Vec::new();
        path.iter().rev().fold(inner, |inner, tag| {
            let head = [tag << 3 | 2, u8::try_from(inner.len()).unwrap()];
            [&head[..], &inner].concat()
        })
    };
    for (path, wanted) in [
        (&[2, 3, 1, 10][..], "routes[0].match.safe_regex`"),
        (&[2, 3, 1, 6], "routes[0].match.headers[0]`"),
        (&[2, 3, 1, 7], "routes[0].match.query_parameters[0]`"),
        (&[2, 3, 3, 6], "routes[0].redirect.strip_query`"),
        (&[2, 3, 3, 4], "routes[0].redirect.https_redirect`"),
        (&[2, 3, 7], "routes[0].direct_response`"),
    ] {
        let wanted = format!("`routes.virtual_hosts[0].{wanted} is not supported");
        check_refused(Kind::Routes, &nested(path), &wanted);
    }
}

#[test]
fn other_ways_to_change_a_path_are_refused() {
    let strip = routes(model::Route {
        rewrite: Rewrite {
            host: None,
            path: Some(PathChange::Prefix("/".to_owned())),
        },
        ..full_route()
    });
    let action = |change: fn(&mut RouteAction)| {
        move |it: &mut RouteConfiguration| change(first(it).route.as_mut().unwrap())
    };
    let regex = action(|it| it.regex_rewrite.as_mut().unwrap().substitution.push('x'));
    check_change(&strip, regex, "route.regex_rewrite`: not an expression for");
    let both = action(|it| "/b".clone_into(&mut it.prefix_rewrite));
    check_change(&strip, both, "regex_rewrite`: beside prefix_rewrite");
    let open = action(|it| {
        it.regex_rewrite = None;
        "/b/".clone_into(&mut it.prefix_rewrite);
    });
    check_change(&strip, open, "prefix_rewrite`: whole segments are replaced");
    let exact = |it: &mut RouteConfiguration| {
        let matcher = first(it).r#match.as_mut().unwrap();
        matcher.path = matcher.path_separated_prefix.take();
    };
    check_change(&strip, exact, "an exact path has no prefix");
    let host = action(|it| it.host_rewrite_literal = Some("a:80".to_owned()));
    check_change(&strip, host, "rewrite`: not a host");
}

#[test]
fn a_redirect_says_where_to_in_full_and_nothing_else() {
    let away = routes(model::Route {
        backends: Vec::new(),
        redirect: Some(Redirect {
            scheme: Scheme::Https,
            host: Some("shop.example".to_owned()),
            port: 443,
            path: None,
            status: 301,
        }),
        ..examples::route("all")
    });
    let action = |change: fn(&mut RedirectAction)| {
        move |it: &mut RouteConfiguration| change(first(it).redirect.as_mut().unwrap())
    };
    let full = "where to is said in full";
    check_change(&away, action(|it| it.scheme_redirect = None), full);
    check_change(&away, action(|it| it.port_redirect = 0), full);
    let scheme = action(|it| it.scheme_redirect = Some("ftp".to_owned()));
    check_change(&away, scheme, full);
    let code = action(|it| it.response_code = 5);
    check_change(&away, code, "redirect.response_code`: not one");
    let host = action(|it| "a b".clone_into(&mut it.host_redirect));
    check_change(&away, host, "redirect.host`: not a host");
    let header = |it: &mut RouteConfiguration| {
        first(it).request_headers_to_remove = vec!["x-a".to_owned()];
    };
    check_change(&away, header, "redirect`: nothing is carried on");
}

#[test]
fn a_route_that_is_hidden_by_an_earlier_one_is_refused() {
    let hides = |it: &mut RouteConfiguration| {
        let mut earlier = first(it).clone();
        let matcher = earlier.r#match.as_mut().unwrap();
        matcher.path_separated_prefix = None;
        matcher.prefix = Some("/".to_owned());
        it.virtual_hosts[0].routes.insert(0, earlier);
    };
    check_change(
        &routes(full_route()),
        hides,
        "routes[1].match`: an earlier route takes all",
    );
}

#[test]
fn a_virtual_host_that_does_not_fall_back_is_refused() {
    let narrow = |it: &mut RouteConfiguration| {
        let mut host = it.virtual_hosts[0].clone();
        host.domains = vec!["narrow".to_owned()];
        let matcher = host.routes[0].r#match.as_mut().unwrap();
        matcher.path_separated_prefix = Some("/a/b".to_owned());
        it.virtual_hosts.push(host);
    };
    let wanted = "the virtual host of `narrow` has no route for `/a`";
    check_change(&routes(full_route()), narrow, wanted);
}

#[test]
fn timeouts_variables_and_other_changes_of_headers_are_refused() {
    let all = routes(full_route());
    let timeout = |it: &mut RouteConfiguration| {
        let time = Duration {
            seconds: -1,
            nanos: 0,
        };
        first(it).route.as_mut().unwrap().timeout = Some(time);
    };
    check_change(&all, timeout, "route.timeout`: not a duration");
    let header = |change: fn(&mut HeaderValueOption)| {
        move |it: &mut RouteConfiguration| change(&mut first(it).request_headers_to_add[0])
    };
    let append = header(|option| option.append_action = 1);
    check_change(
        &all,
        append,
        "request_headers_to_add[0].append_action`: headers are replaced or added",
    );
    let variable = header(|option| {
        option.header.as_mut().unwrap().value = "%DOWNSTREAM_REMOTE_ADDRESS%".to_owned();
    });
    check_change(&all, variable, "header.value`: variables are not supported");
    let framing = header(|option| option.header.as_mut().unwrap().key = "Host".to_owned());
    check_change(&all, framing, "the proxy sets this header itself");
}

#[test]
fn rules_that_are_more_than_a_list_of_callers_are_refused() {
    let all = routes(full_route());
    let change = |change: fn(&mut HttpRbacPerRoute)| {
        move |it: &mut RouteConfiguration| {
            let config = first(it)
                .typed_per_filter_config
                .values_mut()
                .next()
                .unwrap();
            let mut any = Some(config.clone());
            repack(&mut any, change);
            *config = any.unwrap();
        }
    };
    let deny = change(|config| {
        config.rbac.as_mut().unwrap().rules.as_mut().unwrap().action = 1;
    });
    check_change(
        &all,
        deny,
        "rbac.rules.action`: rules say who may call; send ALLOW",
    );
    let anybody = change(|config| {
        let rules = config.rbac.as_mut().unwrap().rules.as_mut().unwrap();
        let policy = rules.policies.values_mut().next().unwrap();
        policy.principals[0].authenticated = Some(xds::proto::rbac::Authenticated::default());
    });
    check_change(
        &all,
        anybody,
        "policies.callers.principals[0]`: not a caller",
    );
    let other = |it: &mut RouteConfiguration| {
        let configs = &mut first(it).typed_per_filter_config;
        let config = configs.values().next().unwrap().clone();
        configs.insert("envoy.filters.http.other".to_owned(), config);
    };
    check_change(
        &all,
        other,
        "typed_per_filter_config.envoy.filters.http.other` is not supported",
    );
}

#[test]
fn clusters_that_would_be_spoken_to_in_another_way_are_refused() {
    let cluster = Resource::Cluster(model::Cluster {
        discovery: Discovery::Static,
        ..examples::cluster()
    });
    let ring = |it: &mut Cluster| it.lb_policy = 2;
    check_change(&cluster, ring, "`cluster.lb_policy`: not supported");
    let unknown = |it: &mut Cluster| it.r#type = Some(7);
    check_change(
        &cluster,
        unknown,
        "`cluster.type`: endpoints are given or discovered",
    );
    let unmatched = |it: &mut Cluster| it.transport_socket_matches.clear();
    check_change(
        &cluster,
        unmatched,
        "`cluster.endpoints[0]`: no socket for its transport",
    );
    let swapped = |it: &mut Cluster| {
        let matcher = it.transport_socket_matches[1].r#match.clone();
        it.transport_socket_matches[0].r#match = matcher;
    };
    check_change(
        &cluster,
        swapped,
        "transport_socket_matches[0].match`: sockets are chosen",
    );
    let default = |it: &mut Cluster| {
        it.transport_socket = it.transport_socket_matches[0].transport_socket.clone();
    };
    check_change(
        &cluster,
        default,
        "`cluster.transport_socket`: mesh endpoints say so",
    );
    let unspoken = |it: &mut Cluster| {
        let options = it
            .typed_extension_protocol_options
            .values_mut()
            .next()
            .unwrap();
        options.value = bytes::Bytes::new();
    };
    check_change(&cluster, unspoken, "HttpProtocolOptions`: says no protocol");
}

#[test]
fn a_cluster_without_protocol_options_speaks_http1_as_in_envoy() {
    let sent = Resource::Cluster(examples::cluster());
    let mut message = Cluster::decode(encode(&sent).unwrap()).unwrap();
    message.typed_extension_protocol_options.clear();
    let taken = decode(Kind::Cluster, &message.encode_to_vec())
        .unwrap()
        .value;
    assert_eq!(taken, xds::resource::canonical(&sent));
}

#[test]
fn discovered_endpoints_come_over_the_same_stream_by_the_clusters_name() {
    let cluster = Resource::Cluster(examples::cluster());
    let elsewhere = |it: &mut Cluster| {
        it.eds_cluster_config.as_mut().unwrap().eds_config = None;
    };
    check_change(
        &cluster,
        elsewhere,
        "eds_config`: resources come over this stream only",
    );
    let alias = |it: &mut Cluster| {
        it.eds_cluster_config.as_mut().unwrap().service_name = "other".to_owned();
    };
    check_change(
        &cluster,
        alias,
        "service_name`: endpoints come by the cluster's own name",
    );
}

fn endpoints() -> Resource {
    Resource::Endpoints {
        cluster: "a".to_owned(),
        endpoints: vec![examples::endpoint()],
    }
}

#[test]
fn a_mesh_endpoint_without_ids_is_refused() {
    let anybody = |it: &mut ClusterLoadAssignment| {
        let metadata = it.endpoints[0].lb_endpoints[0].metadata.as_mut().unwrap();
        metadata.filter_metadata.remove("leno.dev");
    };
    check_change(
        &endpoints(),
        anybody,
        "identities`: mesh endpoints say who may answer",
    );
    let plain = |it: &mut ClusterLoadAssignment| {
        let metadata = it.endpoints[0].lb_endpoints[0].metadata.as_mut().unwrap();
        metadata
            .filter_metadata
            .remove("envoy.transport_socket_match");
    };
    check_change(
        &endpoints(),
        plain,
        "identities`: mesh endpoints say who may answer",
    );
    let twice = |it: &mut ClusterLoadAssignment| {
        let group = it.endpoints[0].clone();
        it.endpoints.push(group);
    };
    check_change(
        &endpoints(),
        twice,
        "`endpoints.endpoints[1]`: its address is listed twice",
    );
}

#[test]
fn endpoints_that_leave_are_left_out_and_weights_noted() {
    let mut message = ClusterLoadAssignment::decode(encode(&endpoints()).unwrap()).unwrap();
    let group = &mut message.endpoints[0].lb_endpoints;
    let first = group[0].clone();
    for (health, last) in [(1, 3), (2, 4), (3, 5), (4, 6), (5, 7)] {
        let mut entry = first.clone();
        entry.health_status = health;
        entry.load_balancing_weight = Some(UInt32Value { value: 7 });
        let address = entry.endpoint.as_mut().unwrap().address.as_mut().unwrap();
        address.socket_address.as_mut().unwrap().address = format!("10.77.0.{last}");
        group.push(entry);
    }
    let taken = decode(Kind::Endpoints, &message.encode_to_vec()).unwrap();
    let Resource::Endpoints { endpoints, .. } = taken.value else {
        panic!("{taken:?}")
    };
    let hosts: Vec<_> = endpoints
        .iter()
        .map(|it| it.address.ip().to_string())
        .collect();
    assert_eq!(hosts, ["10.77.0.2", "10.77.0.3", "10.77.0.7"]);
    let path = "endpoints.endpoints.lb_endpoints.load_balancing_weight";
    assert_eq!(
        (taken.ignored[0].path.as_str(), taken.ignored.len()),
        (path, 1)
    );
}

#[test]
fn a_model_that_breaks_its_invariants_is_not_sent() {
    let route = |change: fn(&mut model::Route)| {
        let mut route = full_route();
        change(&mut route);
        routes(route)
    };
    let bad = route(|it| it.prefix = "a".to_owned());
    check_unsendable(&bad, "`routes.routes[0].prefix`: not a path");
    let bad = route(|it| it.allow = Some(vec!["curl".to_owned()]));
    check_unsendable(&bad, "`routes.routes[0].allow`: not a SPIFFE id");
    check_unsendable(
        &route(|it| it.backends.clear()),
        "backends`: no backend with a weight",
    );
    check_unsendable(&route(|it| it.hosts.clear()), "hosts`: none");
    let bad = route(|it| it.hosts = vec![HostMatch::Exact("A".to_owned())]);
    check_unsendable(&bad, "hosts`: not a host");
    let bad = route(|it| {
        let weight = u32::MAX;
        let cluster = "a".to_owned();
        let backend = Backend { cluster, weight };
        it.backends = vec![backend.clone(), backend];
    });
    check_unsendable(&bad, "weights add up to more");
    let bad = route(|it| {
        let (delay, buffer_bytes) = (std::time::Duration::ZERO, 0);
        it.filters = vec![Filter::Hold {
            delay,
            buffer_bytes,
        }];
    });
    check_unsendable(&bad, "filters[0]`: `hold` is for tests");
    let Resource::Routes { routes, .. } = routes(full_route()) else {
        unreachable!("made above")
    };
    let twice = Resource::Routes {
        listener: "a".to_owned(),
        routes: [routes.clone(), routes].concat(),
    };
    check_unsendable(
        &twice,
        "routes[1].hosts`: a route has this host and prefix already",
    );
}

#[test]
fn a_listener_or_cluster_that_breaks_its_invariants_is_not_sent() {
    let listener = |change: fn(&mut model::Listener)| {
        let mut listener = examples::listener();
        change(&mut listener);
        Resource::Listener(listener)
    };
    let bad = listener(|it| it.tls = TlsMode::Strict);
    check_unsendable(&bad, "`listener.tls`: an outbound listener");
    let bad = listener(|it| {
        it.protocol = ListenerProtocol::Tcp;
        it.routes = vec![full_route()];
    });
    check_unsendable(&bad, "routes[0]`: a tcp listener sees neither");
    check_unsendable(
        &listener(|it| it.address.set_port(0)),
        "addresses[0]`: port 0",
    );
    check_unsendable(
        &listener(|it| it.names.push("a.".to_owned())),
        "names[1]`: not a lower",
    );
    check_unsendable(
        &listener(|it| it.upgrades.push("h2c".to_owned())),
        "upgrades`: not an",
    );
    let bad = listener(|it| it.hosts.push(host("a", &[])));
    check_unsendable(&bad, "hosts[0]`: a name without addresses");
    let bad = listener(|it| it.hosts.push(host("A", &["10.77.0.2"])));
    check_unsendable(&bad, "hosts[0]`: not a lower");
    let bad = listener(|it| it.port_name = Some("a.b".to_owned()));
    check_unsendable(&bad, "portName`: a port's name has no dots");
    let cluster = |change: fn(&mut model::Cluster)| {
        let mut cluster = examples::cluster();
        change(&mut cluster);
        Resource::Cluster(cluster)
    };
    let bad = cluster(|it| it.proxy_protocol = Some(ProxyProtocol::V1));
    check_unsendable(&bad, "`cluster.transport_socket`: a PROXY header");
    check_unsendable(
        &cluster(|it| it.passthrough = true),
        "`cluster.type`: connections that go",
    );
    let bad = cluster(|it| {
        it.protocol = Protocol::Tcp;
        it.balance = model::Balance::OriginalDestination;
        it.discovery = Discovery::Static;
    });
    check_unsendable(&bad, "`cluster.lb_policy`: endpoints that are chosen by");
    let bad = cluster(|it| it.endpoints[0].transport = Transport::Plaintext);
    check_unsendable(&bad, "endpoints[0].identities`: mesh endpoints say");
    check_unsendable(
        &cluster(|it| it.endpoints[0].address.set_port(0)),
        "cannot be connected",
    );
    check_unsendable(
        &cluster(|it| it.name.push(' ')),
        "`cluster.name`: not a name",
    );
}

#[test]
fn other_metadata_is_ignored_and_counted_but_not_under_our_name() {
    let bytes = encode(&endpoints()).unwrap();
    let mut message = ClusterLoadAssignment::decode(bytes).unwrap();
    let metadata = message.endpoints[0].lb_endpoints[0]
        .metadata
        .as_mut()
        .unwrap();
    let ours = metadata.filter_metadata["leno.dev"].clone();
    metadata
        .filter_metadata
        .insert("other".to_owned(), ours.clone());
    let taken = decode(Kind::Endpoints, &message.encode_to_vec()).unwrap();
    assert_eq!(taken.ignored.len(), 1);
    assert!(
        taken.ignored[0]
            .path
            .ends_with("lb_endpoints.metadata.filter_metadata")
    );
    let unknown = |it: &mut ClusterLoadAssignment| {
        let metadata = it.endpoints[0].lb_endpoints[0].metadata.as_mut().unwrap();
        let value = ours.fields["identities"].clone();
        let ours = metadata.filter_metadata.get_mut("leno.dev").unwrap();
        ours.fields.insert("strange".to_owned(), value);
    };
    check_change(
        &endpoints(),
        unknown,
        "filter_metadata.leno.dev.strange` is not supported",
    );
}

#[test]
fn a_resource_beyond_all_bounds_is_refused_before_it_is_read() {
    let bytes = vec![0; xds::resource::RESOURCE_BYTES_MAX + 1];
    check_refused(
        Kind::Cluster,
        &bytes,
        "bytes are more than a resource may have",
    );
    // An empty message in two bytes each, which would take a hundred times as many.
    let bytes = [0x12, 0].repeat(1024 * 1024);
    check_refused(Kind::Endpoints, &bytes, "holds too many messages");
}

#[test]
fn the_rules_for_ids_are_identitys_own() {
    for id in [
        "spiffe://a/b",
        "spiffe://a",
        "spiffe://a/",
        "spiffe://a//b",
        "spiffe://A/b",
        "spiffe://a/../b",
        "spiffe://a/B-._9",
        "spiffe://a:1/b",
        "spiffe://a/b c",
        "spiffe:///b",
        "https://a/b",
        "",
    ] {
        let wanted = identity::SpiffeId::parse(id).is_ok_and(|id| !id.path().is_empty());
        let mut endpoint = examples::endpoint();
        endpoint.identities = vec![id.to_owned()];
        let resource = Resource::Endpoints {
            cluster: "a".to_owned(),
            endpoints: vec![endpoint],
        };
        assert_eq!(encode(&resource).is_ok(), wanted, "{id}");
    }
}
