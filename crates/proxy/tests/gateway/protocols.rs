//! What else comes through a gateway than plain requests: WebSocket, gRPC, HTTP/2 from end to end.

use model::{Edge, Protocol, Route};
use testkit::h2::Request;
use testkit::{EchoServer, H2Client, H2Server, RawClient, ScriptedUpstream, Step};

use crate::world::{SHOP, cluster, gateway, listener, plane, secured, start, to_app};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
     Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
     Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
     Sec-WebSocket-Version: 13\r\n\r\n";

#[test]
fn websocket_through_tls() {
    let script = vec![
        Step::ReadHead,
        Step::send(SWITCH),
        Step::send("hi"),
        Step::ReadBytes(3),
        Step::send("bye"),
    ];
    let app = ScriptedUpstream::always(script);
    let (_plane, proxy, browser) = secured(app.addr());
    let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
    client.send(ASK);
    assert_eq!(client.response().status(), 101);
    client.expect("hi");
    client.send("abc");
    client.expect("bye");
}

#[test]
fn timeouts_are_not_for_websockets() {
    // For a busy machine, too, to answer in.
    let timeout = Some(std::time::Duration::from_secs(1));
    let script = vec![
        Step::ReadHead,
        Step::send(SWITCH),
        Step::ReadBytes(3),
        Step::send("bye"),
    ];
    let app = ScriptedUpstream::always(script);
    let plane = plane(app.addr());
    let route = Route {
        timeout,
        ..Route::to("app")
    };
    plane.listener(&listener(Edge::Plaintext, vec![route]));
    let proxy = start(&plane);
    let mut client = RawClient::connect(gateway(&proxy));
    client.send(ASK);
    assert_eq!(client.response().status(), 101);
    // Another request has been given up meanwhile, for which the same limit holds.
    let slow = ScriptedUpstream::always(vec![Step::ReadRequest, Step::ReadEnd]);
    plane.cluster(&cluster("slow", slow.addr(), Protocol::Auto));
    let again = Route {
        prefix: "/slow".to_owned(),
        timeout,
        ..Route::to("slow")
    };
    plane.listener(&listener(Edge::Plaintext, vec![Route::to("app"), again]));
    testkit::until("the route is there", || {
        let dump = proxy.admin("/config_dump").text();
        dump.contains("/slow")
    });
    assert_eq!(
        RawClient::connect(gateway(&proxy)).get("/slow").status(),
        504
    );
    client.send("abc");
    client.expect("bye");
}

#[test]
fn applications_of_which_nothing_is_said_are_asked_over_http_1() {
    let app = EchoServer::start();
    let (plane, proxy, browser) = secured(app.addr());
    let mut client = browser.connect_h2(gateway(&proxy), SHOP);
    assert_eq!(client.post("/one", "hello").text(), "hello");
    assert_eq!(app.requests()[0].start, "POST /one HTTP/1.1");
    // Declared, they are asked as they want.
    let app = H2Server::start();
    plane.cluster(&cluster("app", app.addr(), Protocol::Http2));
    let dump = || proxy.admin("/config_dump").text();
    testkit::until("it is declared", || dump().contains("\"http2\""));
    assert_eq!(client.post("/two", "").status, 200);
    let _ = app.request("/two");
}

#[test]
fn grpc_through_tls() {
    let app = H2Server::start();
    let (_plane, proxy, browser) = secured(app.addr());
    let mut client = browser.connect_h2(gateway(&proxy), SHOP);
    let answer = client.ask(&Request::grpc("/trailers"), b"\0\0\0\0\0");
    assert_eq!((answer.status, answer.grpc_status()), (200, Some("0")));
    let answer = client.ask(&Request::grpc("/trailers-only"), b"\0\0\0\0\0");
    assert_eq!(answer.grpc_status(), Some("5"));
}

#[test]
fn http_2_without_tls_is_taken_by_prior_knowledge() {
    let app = H2Server::start();
    let plane = plane(app.addr());
    plane.cluster(&cluster("app", app.addr(), Protocol::Http2));
    plane.listener(&listener(Edge::Plaintext, to_app()));
    let proxy = start(&plane);
    let mut client = H2Client::connect(gateway(&proxy));
    assert_eq!(client.get("/bytes/100000").body.len(), 100_000);
    let request = app.request("/bytes/100000");
    assert_eq!(request.header("x-forwarded-proto"), Some("http"));
}
