//! What the proxy tells about requests: metrics, access log and admin pages, seen from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use serde_json::Value;
use testkit::{
    EchoServer, MeshConnector, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, TestCa,
    eventually,
};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const REQUESTS: &str = "leno_requests_total";
const ACTIVE: &str = "leno_requests_active";
const BYTES_IN: &str = "leno_request_bytes_total";
const BYTES_OUT: &str = "leno_response_bytes_total";
const DURATIONS: &str = "leno_request_duration_seconds_count";
const CLASS: &str = "status_class";

#[track_caller]
fn start(sidecar: &Sidecar) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &sidecar.yaml())
}

fn echo() -> (EchoServer, ProxyProcess) {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::outbound(&[app.addr()]).listener("protocol: http"));
    (app, proxy)
}

fn scripted(script: Vec<Step>) -> (ScriptedUpstream, ProxyProcess) {
    let upstream = ScriptedUpstream::always(script);
    let proxy = start(&Sidecar::outbound(&[upstream.addr()]));
    (upstream, proxy)
}

/// So many requests have ended in all, with durations; so many of them with these labels; none
/// is going on.
#[track_caller]
fn ended(proxy: &ProxyProcess, all: f64, labels: &[(&str, &str)], some: f64) {
    proxy.metric_becomes(REQUESTS, &[], all);
    proxy.metric_becomes(REQUESTS, labels, some);
    proxy.metric_becomes(DURATIONS, &[], all);
    proxy.metric_becomes(ACTIVE, &[], 0.0);
}

#[test]
fn requests_are_counted_by_class_of_status() {
    let (_app, proxy) = echo();
    let mut client = RawClient::connect(proxy.addr());
    for status in [200, 201, 204, 302, 304, 404, 500, 503] {
        assert_eq!(client.get(&format!("/status/{status}")).status(), status);
    }
    for (class, count) in [("2xx", 3.0), ("3xx", 2.0), ("4xx", 1.0), ("5xx", 2.0)] {
        ended(&proxy, 8.0, &[(CLASS, class), ("flag", "-")], count);
    }
}

#[test]
fn request_to_a_named_cluster_has_all_its_labels() {
    let (_app, proxy) = echo();
    RawClient::connect(proxy.addr()).get("/");
    let labels = [
        ("direction", "outbound"),
        ("source_workload", "client"),
        ("source_namespace", "default"),
        ("destination_workload", "main"),
        ("destination_namespace", ""),
        ("protocol", "http1"),
        (CLASS, "2xx"),
        ("flag", "-"),
    ];
    ended(&proxy, 1.0, &labels, 1.0);
}

#[test]
fn plaintext_caller_is_unknown_whatever_it_says() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    RawClient::connect(proxy.addr()).ask("GET / HTTP/1.1\r\nhost: a\r\nx-source: me\r\n\r\n");
    let labels = [
        ("direction", "inbound"),
        ("source_workload", "unknown"),
        ("destination_workload", "server"),
    ];
    ended(&proxy, 1.0, &labels, 1.0);
    assert!(!proxy.admin("/stats").text().contains("x-source"));
}

#[test]
fn both_sides_of_a_mesh_hop_name_each_other() {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let (server, client) = (ca.identity("server"), ca.identity("client"));
    let inbound = start(&Sidecar::inbound(app.addr()).identity(&server).strict());
    let outbound = Sidecar::outbound(&[inbound.addr()]).identity(&client);
    let outbound = start(&outbound.mtls(std::slice::from_ref(&server.id)));
    RawClient::connect(outbound.addr()).get("/");
    let pair = [
        ("source_workload", "client"),
        ("destination_workload", "server"),
        ("destination_namespace", "default"),
    ];
    ended(&inbound, 1.0, &pair, 1.0);
    ended(&outbound, 1.0, &pair, 1.0);
}

#[test]
fn body_bytes_are_counted_both_ways() {
    let (_app, proxy) = echo();
    let mut client = RawClient::connect(proxy.addr());
    client.post("/", "x".repeat(100_000));
    client.ask(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    client.get("/bytes/1000");
    client.send("HEAD /bytes/1000 HTTP/1.1\r\nhost: a\r\n\r\n");
    client.try_response("HEAD").unwrap();
    ended(&proxy, 4.0, &[(CLASS, "2xx")], 4.0);
    proxy.metric_becomes(BYTES_IN, &[], 100_005.0);
    proxy.metric_becomes(BYTES_OUT, &[], 101_005.0);
}

#[test]
fn bytes_of_a_cut_answer_are_counted() {
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    let (_upstream, proxy) = scripted(vec![Step::ReadRequest, Step::send(part)]);
    let mut client = RawClient::connect(proxy.addr());
    client.send(GET);
    client.read_to_end();
    ended(&proxy, 1.0, &[(CLASS, "2xx"), ("flag", "UC")], 1.0);
    proxy.metric_becomes(BYTES_OUT, &[], 5.0);
}

#[test]
fn durations_are_a_histogram_from_fifty_microseconds_up() {
    let (_app, proxy) = echo();
    let mut client = RawClient::connect(proxy.addr());
    (0..10).for_each(|_| drop(client.get("/")));
    ended(&proxy, 10.0, &[], 10.0);
    let scrape = proxy.scrape();
    let at_most = |le| scrape.sum("leno_request_duration_seconds_bucket", &[("le", le)]);
    assert_eq!(at_most("+Inf").to_bits(), 10.0_f64.to_bits());
    assert!(at_most("0.00005") <= at_most("0.0001") && at_most("0.0001") <= at_most("+Inf"));
    assert!(scrape.sum("leno_request_duration_seconds_sum", &[]) > 0.0);
}

#[test]
fn duration_begins_with_the_first_byte_of_the_head() {
    let app = EchoServer::start();
    let limits = "limits: {headerTimeout: 300ms}";
    let proxy = start(&Sidecar::outbound(&[app.addr()]).with(limits));
    let mut client = RawClient::connect(proxy.addr());
    client.send("GET / HTTP/1.1\r\n");
    assert_eq!(client.response().status(), 408);
    ended(&proxy, 1.0, &[(CLASS, "4xx"), ("flag", "DT")], 1.0);
    assert!(proxy.metric("leno_request_duration_seconds_sum", &[]) >= 0.29);
}

#[test]
fn client_that_does_not_close_does_not_prolong_its_request() {
    let (_app, proxy) = echo();
    let close = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut clients = Vec::new();
    for request in [close, "GET / HTTP/1.0\r\n\r\n", "BAD\r\n\r\n", close] {
        let mut client = RawClient::connect(proxy.addr());
        client.ask(request);
        clients.push(client);
    }
    // The proxy gives each of them a second to close.
    proxy.metric_becomes("leno_connections_active", &[], 0.0);
    ended(&proxy, 4.0, &[], 4.0);
    assert!(proxy.metric("leno_request_duration_seconds_sum", &[]) < 3.5);
}

#[test]
fn request_is_active_until_it_ends() {
    let interim = Step::send("HTTP/1.1 103 Early Hints\r\n\r\n");
    let (_upstream, proxy) = scripted(vec![Step::ReadRequest, interim, Step::Stall]);
    let mut clients: Vec<_> = (0..3).map(|_| RawClient::connect(proxy.addr())).collect();
    clients
        .iter_mut()
        .for_each(|client| assert_eq!(client.get("/").status(), 103));
    proxy.metric_becomes(ACTIVE, &[], 3.0);
    let in_flight = || {
        let clusters: Value = serde_json::from_str(&proxy.admin("/clusters").text()).unwrap();
        clusters[0]["endpoints"][0]["activeRequests"].clone()
    };
    assert_eq!(in_flight(), 3);
    clients.into_iter().for_each(RawClient::reset);
    ended(&proxy, 3.0, &[(CLASS, "none"), ("flag", "DC")], 3.0);
    eventually("nothing is in flight", || (in_flight() == 0).then_some(()));
}

#[test]
fn every_kind_of_end_is_counted_once() {
    let upstream = ScriptedUpstream::start(vec![
        vec![Step::ReadRequest, Step::answer("ok"), Step::ReadHead],
        vec![Step::ReadHead, Step::send("garbage\r\n\r\n"), Step::ReadEnd],
    ]);
    let proxy = start(&Sidecar::outbound(&[upstream.addr()]).route("prefix: /a"));
    let ask = |request: &str| RawClient::connect(proxy.addr()).ask(request).status();
    assert_eq!(ask("GET /a HTTP/1.1\r\nhost: a\r\n\r\n"), 200);
    assert_eq!(ask("POST /a HTTP/1.1\r\nhost: a\r\n\r\n"), 502);
    assert_eq!(ask("GET /a HTTP/1.1\r\nhost: a\r\n\r\n"), 502);
    assert_eq!(ask("GET /b HTTP/1.1\r\nhost: a\r\n\r\n"), 404);
    assert_eq!(ask("GET /a HTTP/1.1\r\nhost : a\r\n\r\n"), 400);
    assert_eq!(ask("GET /a HTTP/2.0\r\nhost: a\r\n\r\n"), 505);
    for (flag, count) in [
        ("-", 1.0),
        ("UC", 1.0),
        ("UPE", 1.0),
        ("NR", 1.0),
        ("DPE", 2.0),
    ] {
        ended(&proxy, 6.0, &[("flag", flag)], count);
    }
}

#[test]
fn half_a_head_is_counted_and_no_head_is_not() {
    let (_app, proxy) = echo();
    drop(RawClient::connect(proxy.addr()));
    proxy.metric_becomes(
        "leno_connections_opened_total",
        &[("direction", "outbound")],
        1.0,
    );
    proxy.metric_becomes("leno_connections_active", &[], 0.0);
    assert!(proxy.metric(REQUESTS, &[]) < 0.5);
    RawClient::connect(proxy.addr()).send("GET / HT");
    ended(&proxy, 1.0, &[(CLASS, "none"), ("flag", "DC")], 1.0);
}

#[test]
fn connections_are_counted_on_both_sides() {
    let (app, proxy) = echo();
    let mut clients: Vec<_> = (0..5).map(|_| RawClient::connect(proxy.addr())).collect();
    clients.iter_mut().for_each(|client| drop(client.get("/")));
    proxy.metric_becomes("leno_connections_active", &[("direction", "outbound")], 5.0);
    proxy.metric_becomes("leno_upstream_connections_opened_total", &[], 1.0);
    proxy.metric_becomes("leno_upstream_connections_active", &[], 1.0);
    drop(clients);
    proxy.metric_becomes("leno_connections_active", &[], 0.0);
    drop(app);
    proxy.metric_becomes("leno_upstream_connections_active", &[], 0.0);
    RawClient::connect(proxy.addr()).get("/");
    proxy.metric_becomes("leno_upstream_connect_failures_total", &[], 1.0);
}

#[test]
fn metrics_are_on_by_default_under_both_names_and_addresses() {
    let (_app, proxy) = echo();
    for addr in [proxy.metrics_addr(), proxy.admin_addr()] {
        for path in ["/metrics", "/stats/prometheus"] {
            let page = RawClient::connect(addr).get(path);
            assert!(
                page.header("content-type")
                    .unwrap()
                    .starts_with("text/plain; version=0.0.4")
            );
            assert!(
                page.text().contains("leno_proxy_info{workload=\"client\""),
                "{}",
                page.text()
            );
        }
    }
    assert_eq!(
        RawClient::connect(proxy.metrics_addr())
            .get("/config_dump")
            .status(),
        404
    );
}

/// A sidecar with an identity, so that every page has something to show.
fn identified() -> (TestCa, EchoServer, ProxyProcess) {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let proxy = start(&Sidecar::inbound(app.addr()).identity(&ca.identity("server")));
    (ca, app, proxy)
}

#[test]
fn admin_pages_tell_the_state() {
    let (_ca, app, proxy) = identified();
    let text = |path| proxy.admin(path).text();
    let json = |path| serde_json::from_str::<Value>(&text(path)).unwrap();
    assert_eq!(text("/ready"), "ready\n");
    assert_eq!(json("/config_dump")["config"]["workload"]["name"], "server");
    assert!(text("/clusters").contains(&app.addr().to_string()));
    assert_eq!(
        json("/certs")["id"],
        "spiffe://cluster.local/ns/default/sa/server"
    );
    assert!(json("/stats?format=json").is_array());
    assert!(text("/stats").contains("# TYPE leno_requests_total counter"));
}

#[test]
fn no_page_shows_a_key() {
    let (ca, _app, proxy) = identified();
    let key = std::fs::read_to_string(ca.dir().join("server.key")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    for page in ["/config_dump", "/certs", "/clusters", "/stats"] {
        assert!(!proxy.admin(page).text().contains(secret), "{page}");
    }
}

#[test]
fn sidecar_without_an_identity_has_no_certificates_to_show() {
    let (_app, proxy) = echo();
    assert_eq!(proxy.admin("/certs").text(), "null\n");
}

/// The access log of the requests that `ask` makes, when so many lines are there.
#[track_caller]
fn logged(format: &str, count: usize, ask: impl FnOnce(&ProxyProcess, &EchoServer)) -> Vec<String> {
    let app = EchoServer::start();
    let log = format!("accessLog: {{path: /dev/stdout, format: {format}}}");
    let proxy = start(
        &Sidecar::outbound(&[app.addr()])
            .with(&log)
            .route("prefix: /a"),
    );
    ask(&proxy, &app);
    let lines = eventually("the lines are there", || {
        Some(proxy.stdout_lines()).filter(|lines| lines.len() >= count)
    });
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

#[test]
fn access_log_is_off_by_default() {
    let (_app, proxy) = echo();
    RawClient::connect(proxy.addr()).get("/");
    ended(&proxy, 1.0, &[], 1.0);
    assert_eq!((proxy.terminate().stderr.matches("GET").count()), 0);
}

#[test]
fn access_log_as_text_has_the_documented_fields() {
    let mut upstream = String::new();
    let lines = logged("text", 1, |proxy, app| {
        upstream = app.addr().to_string();
        let head =
            "POST /a?b=\"c HTTP/1.1\r\nhost: h:1\r\nx-request-id: id\r\ncontent-length: 5\r\n";
        let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
        RawClient::connect(proxy.addr()).ask(format!("{head}{trace}\r\nhello"));
    });
    let (start, rest) = lines[0].split_once(' ').unwrap();
    assert!(
        start.len() == "2026-01-01T00:00:00.000000Z".len() && start.ends_with('Z'),
        "{start}"
    );
    let request = rest.strip_prefix("\"POST /a?b=").unwrap();
    let (path, rest) = request.split_once(" HTTP/1.1\" 200 - 5 5 ").unwrap();
    assert!(
        path.len() > 2 && path.ends_with('c'),
        "a quote is escaped: {path}"
    );
    let (duration, rest) = rest.split_once(' ').unwrap();
    assert!(duration.parse::<f64>().unwrap() > 0.0);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    assert_eq!(rest, format!("{upstream} \"h:1\" \"-\" \"id\" \"{trace}\""));
}

/// The one line that a request leaves in a log of JSON.
#[track_caller]
fn logged_json(request: &str) -> Value {
    let lines = logged("json", 1, |proxy, _| {
        RawClient::connect(proxy.addr()).ask(request);
    });
    serde_json::from_str(&lines[0]).unwrap()
}

#[test]
fn access_log_as_json_has_the_documented_fields() {
    let line = logged_json("GET /a/\"b HTTP/1.1\r\nhost: h\r\n\r\n");
    let text = |name: &str| line[name].as_str().unwrap();
    assert_eq!([text("method"), text("path")], ["GET", "/a/\"b"]);
    assert_eq!([text("protocol"), text("authority")], ["HTTP/1.1", "h"]);
    assert_eq!((&line["status"], text("flag")), (&200.into(), "-"));
    assert_eq!(
        (&line["bytes_in"], &line["bytes_out"]),
        (&0.into(), &0.into())
    );
    assert!(line["duration_ms"].as_f64().unwrap() > 0.0);
    assert!(text("start").ends_with('Z') && text("upstream").starts_with("127.0.0.1:"));
}

#[test]
fn absent_fields_are_left_out_of_an_access_log_of_json() {
    let line = logged_json("GET /none HTTP/1.0\r\nx-request-id: \u{e9}\r\n\r\n");
    let names: Vec<_> = line
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for absent in ["upstream", "authority", "peer", "trace_id"] {
        assert!(!names.contains(&absent), "{line}");
    }
    assert_eq!(
        (&line["status"], &line["flag"]),
        (&404.into(), &"NR".into())
    );
    assert!(names.contains(&"request_id"), "{line}");
}

#[test]
fn access_log_names_the_peer_of_the_certificate() {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let (server, client) = (ca.identity("server"), ca.identity("client"));
    let log = "accessLog: {path: /dev/stdout, format: json}";
    let proxy = start(&Sidecar::inbound(app.addr()).identity(&server).with(log));
    let connector = MeshConnector::new(&client.credentials(), &server.id);
    connector.connect(proxy.addr()).unwrap().get("/");
    let line = eventually("the line is there", || proxy.stdout_lines().pop());
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["peer"], client.id.to_string());
}

#[test]
fn access_log_has_the_request_id_that_was_added() {
    let app = EchoServer::start();
    let log = "accessLog: {path: /dev/stdout, format: json}";
    let proxy = start(
        &Sidecar::outbound(&[app.addr()])
            .with(log)
            .listener("requestId: true"),
    );
    RawClient::connect(proxy.addr()).get("/");
    let line = eventually("the line is there", || proxy.stdout_lines().pop());
    let line: Value = serde_json::from_str(&line).unwrap();
    let sent = app.requests()[0].header("x-request-id").unwrap().to_owned();
    assert_eq!(line["request_id"], sent, "{line}");
}

#[test]
fn refused_requests_are_in_the_access_log_too() {
    let lines = logged("json", 2, |proxy, _| {
        for request in [
            "GET /a HTTP/1.1\r\nhost : a\r\n\r\n",
            "POST /b HTTP/1.1\r\nhost: a\r\n\r\n",
        ] {
            RawClient::connect(proxy.addr()).ask(request);
        }
    });
    let lines = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ends: Vec<_> = lines
        .map(|line| (line["status"].clone(), line["flag"].clone()))
        .collect();
    assert_eq!(
        ends,
        [(400.into(), "DPE".into()), (404.into(), "NR".into())]
    );
}

#[test]
fn nothing_a_client_sends_ends_a_line_of_the_access_log() {
    let lines = logged("text", 1, |proxy, _| {
        let request = "GET /a\u{e9}\" HTTP/1.1\r\nhost: h\r\nx-request-id: a\"\tb\u{85}\r\n\r\n";
        RawClient::connect(proxy.addr()).ask(request);
    });
    assert!(lines[0].is_ascii(), "{}", lines[0]);
    // The request, four fields at the end: none of them is ended from inside.
    let ends = lines[0].replace("\\\"", "").matches('"').count();
    assert_eq!(ends, 10, "{}", lines[0]);
}

#[test]
fn access_log_is_appended_to_a_file_and_whole_at_the_end() {
    let app = EchoServer::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    std::fs::write(&path, "before\n").unwrap();
    let log = format!("accessLog: {{path: {}, format: text}}", path.display());
    let proxy = start(&Sidecar::outbound(&[app.addr()]).with(&log));
    let mut client = RawClient::connect(proxy.addr());
    (0..100).for_each(|_| drop(client.get("/")));
    drop(client);
    assert!(proxy.terminate().status.success());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\n"));
    assert_eq!(text.lines().count(), 101);
}
