//! Where a request goes and what happens to it on the way: routes, authorization, filters,
//! balancing, both address families; seen from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use testkit::client::End;
use testkit::{
    EchoServer, MeshConnector, Message, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step,
    TestCa,
};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[track_caller]
fn start(sidecar: &Sidecar) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &sidecar.yaml())
}

/// A proxy whose routes lead to different upstreams, and what they are asked for.
struct Routes {
    proxy: ProxyProcess,
    upstreams: Vec<(String, ScriptedUpstream)>,
}

impl Routes {
    /// The first route has these lines; the others are `(name of its cluster, hosts and prefix)`.
    #[track_caller]
    fn new(first: &str, others: &[(&str, &str)]) -> Self {
        let names = ["main"]
            .into_iter()
            .chain(others.iter().map(|(name, _)| *name));
        let answering = |name: &str| {
            let script = vec![[Step::ReadRequest, Step::answer(name)]; 50].concat();
            (name.to_owned(), ScriptedUpstream::always(script))
        };
        let upstreams: Vec<_> = names.map(answering).collect();
        let mut sidecar = Sidecar::outbound(&[upstreams[0].1.addr()]).route(first);
        for ((name, rule), (_, upstream)) in others.iter().zip(&upstreams[1..]) {
            sidecar = sidecar.further_route(&format!("{{{rule}, cluster: {name}}}"));
            sidecar = sidecar.further_cluster(name, &[upstream.addr()]);
        }
        Self {
            proxy: start(&sidecar),
            upstreams,
        }
    }

    /// Which cluster answers, or the proxy's own status.
    #[track_caller]
    fn check(&self, host: &str, path: &str, expected: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let answer = RawClient::connect(self.proxy.addr()).ask(request);
        let got = match answer.status() {
            200 => answer.text(),
            status => status.to_string(),
        };
        assert_eq!(got, expected, "{host} {path}");
    }
}

#[test]
fn most_specific_host_wins() {
    let routes = Routes::new(
        "hosts: [\"*\"]",
        &[
            ("exact", "hosts: [www.example.org, Other.Example.NET]"),
            ("suffix", "hosts: [\"*.example.org\"]"),
            ("longer", "hosts: [\"*.deep.example.org\"]"),
            ("address", "hosts: [10.0.0.1, \"[::1]\"]"),
        ],
    );
    routes.check("www.example.org", "/", "exact");
    routes.check("WWW.Example.ORG:8080", "/", "exact");
    routes.check("other.example.net", "/", "exact");
    routes.check("a.example.org", "/", "suffix");
    routes.check("a.b.EXAMPLE.org:1", "/", "suffix");
    routes.check("a.deep.example.org", "/", "longer");
    routes.check("deep.example.org", "/", "suffix");
    routes.check("example.org", "/", "main");
    routes.check("10.0.0.1:80", "/", "address");
    routes.check("[::1]:80", "/", "address");
    routes.check("[::1]", "/", "address");
    routes.check("", "/", "main");
}

#[test]
fn longest_prefix_of_whole_segments_wins() {
    let routes = Routes::new(
        "prefix: /",
        &[
            ("api", "prefix: /api"),
            ("users", "prefix: /api/users"),
            ("host", "hosts: [h], prefix: /x"),
        ],
    );
    routes.check("a", "/", "main");
    routes.check("a", "/apis", "main");
    routes.check("a", "/api", "api");
    routes.check("a", "/api?q=/users", "api");
    routes.check("a", "/api/", "api");
    routes.check("a", "/api/users/1", "users");
    routes.check("a", "/API", "main");
    routes.check("h", "/x/1", "host");
    routes.check("h", "/api/users", "users");
}

#[test]
fn authority_of_an_absolute_target_is_the_host() {
    let routes = Routes::new("prefix: /", &[("named", "hosts: [named]")]);
    routes.check("named", "http://named/x", "named");
    routes.check("named:80", "http://named:80", "named");
}

#[test]
fn request_without_a_route_is_a_404_and_the_connection_stays() {
    let routes = Routes::new("prefix: /only", &[("host", "hosts: [h]")]);
    routes.check("a", "/", "404");
    routes.check("a", "/only/x", "main");
    let mut client = RawClient::connect(routes.proxy.addr());
    for body in ["", "hello"] {
        let answer = client.post("/", body);
        assert_eq!((answer.status(), answer.header("connection")), (404, None));
    }
    assert_eq!(client.get("/only").text(), "main");
    routes
        .proxy
        .metric_becomes("leno_requests_total", &[("flag", "NR")], 3.0);
    assert_eq!(routes.upstreams[1].1.connection_count(), 0);
}

#[test]
fn refused_request_whose_body_is_still_to_come_ends_the_connection() {
    let routes = Routes::new("prefix: /only", &[]);
    let mut client = RawClient::connect(routes.proxy.addr());
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\n");
    let answer = client.response();
    assert_eq!(
        (answer.status(), answer.header("connection")),
        (404, Some("close"))
    );
    // What follows is the body, however much it looks like a request.
    let _ = client.try_send("GET /only HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    assert_eq!(routes.upstreams[0].1.connection_count(), 0);
}

#[test]
fn own_answer_to_head_has_no_body() {
    let routes = Routes::new("prefix: /only", &[]);
    let mut client = RawClient::connect(routes.proxy.addr());
    client.send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.try_response("HEAD").unwrap().status(), 404);
    assert_eq!(client.get("/only").text(), "main");
}

#[test]
fn closed_route_lets_in_whom_it_names_and_nobody_else() {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let [server, good, other] = ["server", "good", "other"].map(|name| ca.identity(name));
    let sidecar = Sidecar::inbound(app.addr())
        .identity(&server)
        .allow(std::slice::from_ref(&good.id));
    let proxy = start(&sidecar.further_route("{prefix: /open, cluster: main}"));
    let addr = proxy.addr();
    for (path, statuses) in [("/", [200, 403, 403]), ("/open", [200, 200, 200])] {
        let mesh = [&good, &other].map(|who| {
            let connector = MeshConnector::new(&who.credentials(), &server.id);
            connector.connect(addr).unwrap().get(path).status()
        });
        let plain = RawClient::connect(addr).get(path).status();
        assert_eq!([mesh[0], mesh[1], plain], statuses, "{path}");
    }
    assert_eq!(app.request_count(), 4);
    for source in ["other", "unknown"] {
        let refused = [("flag", "RBAC"), ("source_workload", source)];
        proxy.metric_becomes("leno_requests_total", &refused, 1.0);
    }
}

#[test]
fn path_that_may_mean_a_closed_route_is_a_400_beside_one() {
    const PATHS: [&str; 12] = [
        "/open;/../admin",
        "/open/..;/admin",
        "/;/admin",
        "/admin;x=1",
        "/open%3b/../admin",
        "/open/..%3B/admin",
        "/%20admin",
        "/open/..%20/admin",
        "/admin%20",
        "/%09/admin",
        "/%61dmin",
        "//admin",
    ];
    let app = EchoServer::start();
    let nobody = "{prefix: /admin, cluster: main, allow: []}";
    let proxy = start(&Sidecar::inbound(app.addr()).further_route(nobody));
    for path in PATHS {
        let mut client = RawClient::connect(proxy.addr());
        assert_eq!(client.get(path).status(), 400, "{path}");
        let mut client = testkit::H2Client::connect(proxy.addr());
        assert_eq!(client.get(path).status, 400, "{path}");
    }
    assert_eq!(app.request_count(), 0);
    for (path, status) in [("/admin", 403), ("/open?x=;%20//", 200)] {
        let mut client = RawClient::connect(proxy.addr());
        assert_eq!(client.get(path).status(), status, "{path}");
    }
    // Where every route is everybody's, a path is the application's own matter.
    let proxy = start(&Sidecar::inbound(app.addr()));
    let mut client = RawClient::connect(proxy.addr());
    for path in PATHS {
        assert_eq!(client.get(path).status(), 200, "{path}");
    }
}

#[test]
fn route_that_allows_nobody_refuses_everybody_and_keeps_the_connection() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).route("allow: []"));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..2 {
        let answer = client.post("/", "body");
        assert_eq!((answer.status(), answer.header("connection")), (403, None));
    }
    assert_eq!(app.request_count(), 0);
}

/// What the upstream receives, and the client, through these filters.
#[track_caller]
fn filtered(filters: &str, request: &str, answer: &str) -> (String, Message) {
    let script = vec![Step::ReadRequest, Step::send(answer), Step::ReadEnd];
    let upstream = ScriptedUpstream::always(script);
    let sidecar = Sidecar::outbound(&[upstream.addr()]);
    let proxy = start(&sidecar.route(&format!("filters: [{filters}]")));
    let answer = RawClient::connect(proxy.addr()).ask(request);
    (upstream.received_text(0), answer)
}

fn lines(message: &Message) -> Vec<String> {
    message
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

#[test]
fn filters_set_and_remove_request_headers() {
    let (received, _) = filtered(
        "{setRequestHeader: {name: x-leno, value: \"1\"}}, \
         {removeRequestHeader: {name: X-Internal}}",
        "GET / HTTP/1.1\r\nX-Internal: 1\r\nHost: a\r\nX-LENO: no\r\nx-internal: 2\r\n\
         x-leno: no\r\nx-internals: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    );
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nx-internals: 3\r\nx-leno: 1\r\n\r\n";
    assert_eq!(received, expected);
}

#[test]
fn filters_set_and_remove_response_headers() {
    let (received, answer) = filtered(
        "{setResponseHeader: {name: x-served-by, value: leno}}, \
         {removeResponseHeader: {name: server}}",
        GET,
        "HTTP/1.1 200 OK\r\nServer: secret\r\nx-1: 1\r\nX-Served-By: app\r\ncontent-length: 2\r\n\
         SERVER: again\r\n\r\nok",
    );
    assert_eq!((received.as_str(), answer.text().as_str()), (GET, "ok"));
    assert_eq!(
        lines(&answer),
        ["x-1: 1", "content-length: 2", "x-served-by: leno"]
    );
}

#[test]
fn filters_run_in_their_order() {
    let (received, answer) = filtered(
        "{setRequestHeader: {name: a, value: \"1\"}}, {removeRequestHeader: {name: a}}, \
         {removeRequestHeader: {name: b}}, {setRequestHeader: {name: b, value: \"2\"}}, \
         {setResponseHeader: {name: c, value: \"3\"}}, \
         {setResponseHeader: {name: c, value: \"4\"}}",
        "GET / HTTP/1.1\r\nhost: a\r\nb: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    );
    assert_eq!(received, "GET / HTTP/1.1\r\nhost: a\r\nb: 2\r\n\r\n");
    assert_eq!(lines(&answer), ["content-length: 0", "c: 4"]);
}

#[test]
fn filters_leave_chunked_and_large_bodies_alone() {
    let app = EchoServer::start();
    let filters = "filters: [{setRequestHeader: {name: a, value: b}}, \
                   {setResponseHeader: {name: c, value: d}}]";
    let proxy = start(&Sidecar::outbound(&[app.addr()]).route(filters));
    let body = "0123456789".repeat(100_000);
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..3 {
        let answer = client.post("/", &body);
        assert!(answer.text() == body);
        assert_eq!(answer.header("c"), Some("d"));
    }
    let chunks = format!("f4240\r\n{body}\r\n0\r\n\r\n");
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    assert!(client.ask(format!("{head}{chunks}")).text() == body);
    assert!(
        app.requests()
            .iter()
            .all(|request| request.header("a") == Some("b"))
    );
}

/// A route that holds each request.
#[track_caller]
fn holding(script: Vec<Step>, hold: &str) -> (ScriptedUpstream, ProxyProcess) {
    let upstream = ScriptedUpstream::always(script);
    let sidecar = Sidecar::outbound(&[upstream.addr()]);
    let proxy = start(&sidecar.route(&format!("filters: [{{hold: {{{hold}}}}}]")));
    (upstream, proxy)
}

#[test]
fn held_request_goes_on_when_its_body_is_whole() {
    let script = [Step::ReadRequest, Step::answer("ok")];
    let script = [script.clone(), script].concat();
    let (upstream, proxy) = holding(script, "delay: 20ms, bufferBytes: 1000");
    let mut client = RawClient::connect(proxy.addr());
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(format!("{head}5\r\nhel"));
    // Another request has been through meanwhile: the held one has had its time.
    let other = RawClient::connect(proxy.addr()).get("/");
    assert_eq!(other.text(), "ok");
    assert!(!upstream.received_text(0).contains("POST"));
    assert_eq!(client.ask("lo\r\n0\r\n\r\n").text(), "ok");
    let whole = format!("{head}5\r\nhello\r\n0\r\n\r\n");
    assert!(upstream.received_text(0).ends_with(&whole));
}

#[test]
fn held_requests_may_be_pipelined() {
    let app = EchoServer::start();
    let proxy = start(
        &Sidecar::outbound(&[app.addr()]).route("filters: [{hold: {delay: 1ms, bufferBytes: 9}}]"),
    );
    let mut client = RawClient::connect(proxy.addr());
    let request =
        |n: usize| format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{n:02}");
    client.send((0..10).map(request).collect::<String>());
    let answers: Vec<_> = (0..10).map(|_| client.response().text()).collect();
    assert_eq!(
        answers,
        (0..10).map(|n| format!("{n:02}")).collect::<Vec<_>>()
    );
}

#[track_caller]
fn check_too_large(framing: &str, body: &str) {
    let (upstream, proxy) = holding(vec![Step::ReadEnd], "delay: 0ms, bufferBytes: 10");
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n");
    for cut in [0, 5, body.len()] {
        let mut client = RawClient::connect(proxy.addr());
        client.send(format!("{head}{}", &body[..cut]));
        // It may be refused, and the connection closed, before all was sent.
        let _ = client.try_send(&body[cut..]);
        assert_eq!(client.response().status(), 413, "{framing}, cut at {cut}");
    }
    assert_eq!(upstream.connection_count(), 0);
    proxy.metric_becomes("leno_requests_total", &[("flag", "TL")], 3.0);
}

#[test]
fn body_too_large_to_be_held_is_a_413() {
    check_too_large("content-length: 11", "01234567890");
    check_too_large(
        "transfer-encoding: chunked",
        "b\r\n01234567890\r\n0\r\n\r\n",
    );
}

#[test]
fn body_as_large_as_may_be_held_passes() {
    let app = EchoServer::start();
    let hold = "filters: [{hold: {delay: 0ms, bufferBytes: 100000}}]";
    let proxy = start(&Sidecar::outbound(&[app.addr()]).route(hold));
    let mut client = RawClient::connect(proxy.addr());
    let body = "x".repeat(100_000);
    assert!(client.post("/", &body).text() == body);
}

#[test]
fn hold_without_a_buffer_waits_and_lets_bodies_stream() {
    let (upstream, proxy) = holding(vec![Step::ReadRequest, Step::answer("ok")], "delay: 1ms");
    let mut client = RawClient::connect(proxy.addr());
    let half = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n01234";
    client.send(half);
    testkit::until("the half is there", || upstream.received_text(0) == half);
    assert_eq!(client.ask("56789").text(), "ok");
}

#[test]
fn client_that_waits_to_be_told_to_go_on_is_told_so_by_a_filter_that_buffers() {
    let (_upstream, proxy) = holding(
        vec![Step::ReadRequest, Step::answer("ok")],
        "delay: 0ms, bufferBytes: 9",
    );
    let mut client = RawClient::connect(proxy.addr());
    client.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    assert_eq!(client.response().status(), 100);
    assert_eq!(client.ask("ab").text(), "ok");
}

#[test]
fn requests_go_round_the_endpoints() {
    let apps = [(); 3].map(|()| EchoServer::start());
    let proxy = start(&Sidecar::outbound(&[
        apps[0].addr(),
        apps[1].addr(),
        apps[2].addr(),
    ]));
    let mut client = RawClient::connect(proxy.addr());
    (0..30).for_each(|_| assert_eq!(client.get("/").status(), 200));
    let counts = apps
        .each_ref()
        .map(|app| (app.request_count(), app.connection_count()));
    assert_eq!(counts, [(10, 1); 3]);
}

#[test]
fn least_request_avoids_the_endpoint_that_is_busy() {
    let busy = vec![
        Step::ReadRequest,
        Step::send("HTTP/1.1 103 Early Hints\r\n\r\n"),
        Step::Stall,
    ];
    let (stalling, app) = (ScriptedUpstream::always(busy), EchoServer::start());
    let yaml = Sidecar::outbound(&[stalling.addr(), app.addr()]).yaml();
    let yaml = yaml.replace(
        "- name: main\n  endpoints",
        "- name: main\n  balance: leastRequest\n  endpoints",
    );
    let proxy = ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &yaml);
    let mut clients: Vec<RawClient> = Vec::new();
    testkit::until("one request stalls", || {
        clients.push(RawClient::connect(proxy.addr()));
        clients.last_mut().unwrap().get("/").status() == 103
    });
    let mut client = RawClient::connect(proxy.addr());
    (0..50).for_each(|_| assert_eq!(client.get("/").status(), 200));
    assert_eq!(stalling.connection_count(), 1);
}

#[test]
fn both_address_families_are_served_and_reached() {
    let apps = [EchoServer::start(), EchoServer::start_on("[::1]:0")];
    for app in &apps {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let sidecar = Sidecar::outbound(&[app.addr()]).listen(address);
            let proxy = start(&sidecar.listener("forwardedFor: true"));
            assert_eq!(proxy.addr().is_ipv6(), address.starts_with('['));
            assert_eq!(
                RawClient::connect(proxy.addr()).post("/", "hello").text(),
                "hello"
            );
            let host = address.trim_end_matches(":0").trim_matches(['[', ']']);
            let request = app.requests().pop().unwrap();
            assert_eq!(request.header("x-forwarded-for"), Some(host));
        }
    }
}
