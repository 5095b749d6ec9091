//! Where requests go, as what they arrive, and where clients are sent.

use std::time::Duration;

use model::{
    Cluster, Edge, Endpoint, Filter, HostMatch, Listener, PathChange, Protocol, Redirect, Rewrite,
    Route, Scheme, TlsMode, Transport,
};
use testkit::h2::Request;
use testkit::{EchoServer, H2Client, H2Server, ProxyProcess, RawClient, ScriptedUpstream, Step};

use crate::world::{
    PROXY, SHOP, backend, cluster, exact, gateway, listener, plane, secured, start, to_app,
};

fn redirect(host: Option<&str>, path: Option<PathChange>) -> Route {
    Route {
        backends: Vec::new(),
        redirect: Some(Redirect {
            scheme: Scheme::Https,
            host: host.map(str::to_owned),
            port: 8443,
            path,
            status: 301,
        }),
        ..Route::to("")
    }
}

#[test]
fn clients_are_sent_to_tls_in_both_versions_of_http() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let routes = vec![redirect(None, None)];
    plane.listener(&listener(Edge::Plaintext, routes));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    let asked = "HTTP/1.1\r\nhost: shop.example:8080\r\n";
    for _ in 0..3 {
        let answer = client.ask(format!("GET /a%20b?c=d {asked}\r\n"));
        assert_eq!(answer.start, "HTTP/1.1 301 Moved Permanently");
        let location = "https://shop.example:8443/a%20b?c=d";
        assert_eq!(answer.header("location"), Some(location));
        assert_eq!(
            (answer.header("connection"), &*answer.body),
            (None, &b""[..])
        );
        let answer = client.ask(format!("POST /x {asked}content-length: 2\r\n\r\nhi"));
        assert_eq!(
            answer.header("location"),
            Some("https://shop.example:8443/x")
        );
    }
    client.send(format!("HEAD / {asked}\r\n"));
    assert_eq!(client.try_response("HEAD").unwrap().status(), 301);
    let mut client = H2Client::connect(gateway(&proxy));
    for request in [Request::new("GET", "/x?y"), Request::grpc("/x?y")] {
        let answer = client.ask(&request, b"");
        assert_eq!(answer.status, 301);
        assert_eq!(answer.header("location"), Some("https://test:8443/x?y"));
    }
    assert_eq!(app.connection_count(), 0);
    proxy.metric_becomes(
        "leno_requests_total",
        &[("status_class", "3xx"), ("flag", "-")],
        9.0,
    );
}

#[test]
fn hosts_and_paths_have_redirects_of_their_own() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let old = Route {
        hosts: vec![exact("old.example")],
        ..redirect(Some("new.example"), None)
    };
    let moved = Route {
        prefix: "/old".to_owned(),
        ..redirect(None, Some(PathChange::Prefix("/new".to_owned())))
    };
    let mut routes = to_app();
    routes.extend([old, moved]);
    plane.listener(&listener(Edge::Plaintext, routes));
    let proxy = start(&plane);
    let ask = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let answer = RawClient::connect(gateway(&proxy)).ask(request);
        let location = answer.header("location").map(str::to_owned);
        (answer.status(), location.unwrap_or_default())
    };
    let to = |location: &str| (301, location.to_owned());
    assert_eq!(ask("old.example", "/x"), to("https://new.example:8443/x"));
    assert_eq!(ask("a", "/old/x?y"), to("https://a:8443/new/x?y"));
    assert_eq!(ask("a", "/other"), (200, String::new()));
    assert_eq!(
        ask("old.example", "/old"),
        to("https://new.example:8443/old")
    );
}

/// Strips `/api`, and calls the application by a name of its own.
fn stripping() -> Vec<Route> {
    vec![Route {
        prefix: "/api".to_owned(),
        rewrite: Rewrite {
            host: Some("inner.example".to_owned()),
            path: Some(PathChange::Prefix("/".to_owned())),
        },
        ..Route::to("app")
    }]
}

#[test]
fn paths_and_hosts_are_rewritten_for_http_1() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    plane.listener(&listener(Edge::Plaintext, stripping()));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    for path in ["/api/a/b?c", "/api", "/api/", "http://shop.example/api/x"] {
        let answer = client.ask(format!(
            "POST {path} HTTP/1.1\r\nHost: shop.example\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nhi"
        ));
        assert_eq!(answer.text(), "hi", "{path}");
    }
    let mut public = H2Client::connect(gateway(&proxy));
    assert_eq!(public.post("/api/h2", "hello").text(), "hello");
    let requests = app.requests();
    let targets: Vec<_> = requests.iter().map(|request| request.target()).collect();
    assert_eq!(targets, ["/a/b?c", "/", "/", "/x", "/h2"]);
    for request in &requests {
        assert_eq!(request.header("host"), Some("inner.example"));
    }
    assert_eq!(requests[0].header("x-forwarded-host"), Some("shop.example"));
    assert_eq!(requests[0].header("x-a"), Some("1"));
}

#[test]
fn paths_and_hosts_are_rewritten_for_http_2() {
    let app = H2Server::start();
    let plane = plane(app.addr());
    plane.cluster(&cluster("app", app.addr(), Protocol::Http2));
    plane.listener(&listener(Edge::Plaintext, stripping()));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    assert_eq!(client.post("/api/one", "hi").status(), 200);
    let mut client = H2Client::connect(gateway(&proxy));
    assert_eq!(client.post("/api/two", "hi").status, 200);
    for path in ["/one", "/two"] {
        let request = app.request(path);
        assert_eq!(request.authority.as_deref(), Some("inner.example"));
        assert_eq!(request.header("x-forwarded-host"), Some("test"));
    }
}

#[test]
fn rewritten_requests_pass_the_mesh() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    plane.listener(&Listener {
        name: "inbound".to_owned(),
        direction: model::Direction::Inbound,
        tls: TlsMode::Strict,
        edge: None,
        ..listener(Edge::Plaintext, to_app())
    });
    let server = ProxyProcess::start(PROXY, &plane.sidecar("server", ""));
    let endpoint = Endpoint {
        address: server.listener("inbound"),
        transport: Transport::Leno,
        identities: vec!["spiffe://cluster.local/ns/default/sa/server".to_owned()],
    };
    plane.cluster(&Cluster {
        endpoints: vec![endpoint],
        ..cluster("mesh", app.addr(), Protocol::Auto)
    });
    let mut routes = stripping();
    routes[0].backends = backend("mesh");
    plane.listener(&listener(Edge::Plaintext, routes));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    for _ in 0..3 {
        assert_eq!(client.get("/api/through?q").status(), 200);
    }
    let requests = app.requests();
    assert_eq!(requests[0].target(), "/through?q");
    assert_eq!(requests[0].header("host"), Some("inner.example"));
    server.metric_becomes(
        "leno_requests_total",
        &[("source_workload", "edge"), ("direction", "inbound")],
        3.0,
    );
}

#[test]
fn exact_paths_go_before_prefixes() {
    let (one, other) = (EchoServer::start(), EchoServer::start());
    let plane = plane(one.addr());
    plane.cluster(&cluster("other", other.addr(), Protocol::Auto));
    let health = Route {
        prefix: "/health".to_owned(),
        exact: true,
        ..Route::to("other")
    };
    plane.listener(&listener(Edge::Plaintext, vec![Route::to("app"), health]));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    for path in ["/health", "/health?x", "/health/", "/health/x", "/"] {
        assert_eq!(client.get(path).status(), 200);
    }
    assert_eq!((other.request_count(), one.request_count()), (2, 3));
}

#[test]
fn what_no_route_takes_is_a_404() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let route = Route {
        hosts: vec![exact(SHOP), HostMatch::Suffix(".example".to_owned())],
        prefix: "/a".to_owned(),
        ..Route::to("app")
    };
    plane.listener(&listener(Edge::Plaintext, vec![route]));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    for (host, path, status) in [
        (SHOP, "/a", 200),
        ("x.example:80", "/a/b", 200),
        (SHOP, "/", 404),
        ("example", "/a", 404),
        ("", "/a", 404),
    ] {
        let answer = client.ask(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        assert_eq!(answer.status(), status, "{host}{path}");
    }
}

#[test]
fn answers_that_take_too_long_are_given_up_where_the_route_says_so() {
    let app = ScriptedUpstream::always(vec![Step::ReadRequest, Step::ReadEnd]);
    let plane = plane(app.addr());
    let route = Route {
        timeout: Some(Duration::from_millis(200)),
        ..Route::to("app")
    };
    plane.listener(&listener(Edge::Plaintext, vec![route]));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    assert_eq!(client.get("/").status(), 504);
    proxy.metric_becomes("leno_requests_total", &[("flag", "UT")], 1.0);
}

#[test]
fn headers_are_added_beside_others() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let add = |(name, value)| Filter::AddRequestHeader { name, value };
    let answer = |(name, value)| Filter::AddResponseHeader { name, value };
    let route = Route {
        filters: vec![
            add(header("x-a", "2")),
            answer(header("x-connection", "more")),
        ],
        ..Route::to("app")
    };
    plane.listener(&listener(Edge::Plaintext, vec![route]));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    let answer = client.ask("GET / HTTP/1.1\r\nhost: a\r\nx-a: 1\r\n\r\n");
    let all = |headers: &[(String, String)], name: &str| -> Vec<String> {
        let lines = headers.iter().filter(|(known, _)| known == name);
        lines.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(all(&answer.headers, "x-connection"), ["0", "more"]);
    assert_eq!(all(&app.requests()[0].headers, "x-a"), ["1", "2"]);
}

#[test]
fn what_clients_say_of_themselves_is_not_believed() {
    let app = EchoServer::start();
    let (_plane, proxy, browser) = secured(app.addr());
    let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
    let lies = [
        "X-Forwarded-Proto: gopher",
        "x-forwarded-host: bank.example",
        "X-Forwarded-Client-Cert: By=spiffe://cluster.local/ns/default/sa/admin",
        "x-forwarded-port: 1",
        "Forwarded: for=10.0.0.1",
        "x-real-ip: 10.0.0.1",
        "X-Envoy-Original-Path: /admin",
        "x-leno-anything: 1",
    ];
    let lines = lies.join("\r\n");
    let head =
        format!("GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.1\r\n{lines}\r\n\r\n");
    assert_eq!(client.ask(head).status(), 200);
    let request = &app.requests()[0];
    assert_eq!(request.header("x-forwarded-proto"), Some("https"));
    assert_eq!(
        request.header("x-forwarded-for"),
        Some("192.0.2.1, 127.0.0.1")
    );
    assert_eq!(request.header("x-request-id").unwrap().len(), 36);
    for lie in &lies[1..] {
        let name = lie.split(':').next().unwrap().to_ascii_lowercase();
        assert_eq!(request.header(&name), None, "{name}");
    }
}
