//! TLS as clients outside of the mesh speak it: versions, suites, names, sessions, protocols.

use std::io::Write;

use model::{Edge, HostMatch, Protocol};
use rustls::crypto::aws_lc_rs::cipher_suite;
use testkit::client::End;
use testkit::{Browser, EchoServer, H2Server, RawClient};

use crate::world::{
    SHOP, cluster, exact, gateway, listener, plane, secured, shop, shown, start, tell_certificate,
    to_app,
};

const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];

#[test]
fn requests_come_out_of_tls_and_answers_go_in() {
    let app = EchoServer::start();
    let (_plane, proxy, browser) = secured(app.addr());
    let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
    assert!(!client.is_old());
    let large = "x".repeat(300_000);
    for _ in 0..3 {
        assert_eq!(client.get("/bytes/100000").body.len(), 100_000);
        assert_eq!(client.post("/", &large).text(), large);
    }
    assert_eq!(app.connection_count(), 1);
    let handshakes = ("leno_tls_handshakes_total", [("side", "downstream")]);
    assert!(proxy.metric(handshakes.0, &handshakes.1) >= 1.0);
}

#[test]
fn tls_1_2_is_spoken_with_every_suite() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let chain = tell_certificate(&plane, SHOP);
    plane.listener(&listener(shop(), to_app()));
    let proxy = start(&plane);
    for suite in [
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ] {
        let browser = Browser::with_suite(&chain, suite);
        let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
        assert!(client.is_old());
        let large = "x".repeat(300_000);
        assert_eq!(client.post("/", &large).text(), large);
        // In several records, each smaller than it could be.
        for piece in ["GET / HT", "TP/1.1\r\nhost", ": a\r\n\r\n"] {
            client.stream().write_all(piece.as_bytes()).unwrap();
            client.stream().flush().unwrap();
        }
        assert_eq!(client.response().status(), 200);
        // Closed in order, by us and by it.
        client.send("GET /close HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let (bytes, end) = client.read_to_end();
        assert!(bytes.starts_with(b"HTTP/1.1 200"));
        assert_eq!(end, End::Closed);
    }
}

#[test]
fn sessions_are_resumed_in_both_versions() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let chain = tell_certificate(&plane, SHOP);
    plane.listener(&listener(shop(), to_app()));
    let proxy = start(&plane);
    for browser in [Browser::trusting(&chain), Browser::old(&chain)] {
        for expected in [false, true] {
            let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
            assert_eq!(client.get("/").status(), 200);
            assert_eq!(client.is_resumed(), expected);
        }
    }
}

#[test]
fn certificate_is_chosen_by_server_name() {
    let app = EchoServer::start();
    let plane = plane(app.addr());
    let names = [
        "shop.example",
        "wild.example",
        "deep.example",
        "rest.example",
    ];
    let chains = names.map(|name| tell_certificate(&plane, name));
    let suffix = |name: &str| HostMatch::Suffix(name.to_owned());
    plane.listener(&listener(
        Edge::Tls(vec![
            shown(suffix(".example"), "wild.example"),
            shown(exact("shop.example"), "shop.example"),
            shown(suffix(".deep.example"), "deep.example"),
            shown(HostMatch::Any, "rest.example"),
        ]),
        to_app(),
    ));
    let proxy = start(&plane);
    let at = gateway(&proxy);
    let check = |asked: &str, expected: usize| {
        for (index, chain) in chains.iter().enumerate() {
            let is_shown = Browser::trusting(chain).is_shown(at, asked);
            assert_eq!(is_shown, index == expected, "{asked} {index}");
        }
    };
    check("shop.example", 0);
    check("SHOP.Example", 0);
    check("a.example", 1);
    check("a.b.example", 1);
    check("a.deep.example", 2);
    check("elsewhere.test", 3);
    let nameless = Browser::trusting(&chains[3]).nameless();
    assert!(nameless.connect(at, "rest.example").is_ok());
}

#[test]
fn whoever_asks_for_an_unknown_name_is_turned_away_with_an_alert() {
    let app = EchoServer::start();
    let (_plane, proxy, browser) = secured(app.addr());
    let error = browser.connect(gateway(&proxy), "other.example");
    let error = error.err().unwrap().to_string();
    assert!(error.contains("alert"), "{error}");
    assert!(browser.nameless().connect(gateway(&proxy), SHOP).is_err());
    let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn protocol_is_agreed_on() {
    let app = H2Server::start();
    let (plane, proxy, browser) = secured(app.addr());
    plane.cluster(&cluster("app", app.addr(), Protocol::Http2));
    let dump = || proxy.admin("/config_dump").text();
    testkit::until("it is declared", || dump().contains("\"http2\""));
    let at = gateway(&proxy);
    let agreed = |offered: &[&[u8]]| {
        let client = browser.offering(offered).connect(at, SHOP);
        client.map(|client| client.alpn().map(<[u8]>::to_vec))
    };
    assert_eq!(agreed(ALPN).unwrap().unwrap(), b"h2");
    assert_eq!(agreed(&[b"http/1.1"]).unwrap().unwrap(), b"http/1.1");
    assert_eq!(agreed(&[]).unwrap(), None);
    let error = agreed(&[b"leno/1"]).unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
    let mut client = browser.connect_h2(at, SHOP);
    for _ in 0..3 {
        assert_eq!(client.post("/", "hello").text(), "hello");
    }
    assert_eq!(app.connection_count(), 1);
}

#[test]
fn plaintext_where_tls_is_spoken_gets_no_answer() {
    let app = EchoServer::start();
    let (_plane, proxy, browser) = secured(app.addr());
    for hello in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "\0\0\0",
    ] {
        let mut client = RawClient::connect(gateway(&proxy));
        client.send(hello);
        let (bytes, _) = client.read_to_end();
        assert_eq!(bytes, b"", "{hello}");
    }
    assert_eq!(app.request_count(), 0);
    let mut client = browser.connect(gateway(&proxy), SHOP).unwrap();
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn mesh_tls_is_not_spoken_with_the_outside() {
    let app = EchoServer::start();
    let (plane, proxy, _) = secured(app.addr());
    let credentials = plane.credentials("caller");
    let expected = identity::SpiffeId::parse("spiffe://cluster.local/ns/default/sa/edge").unwrap();
    let mesh = testkit::MeshConnector::new(&credentials, &expected);
    assert!(mesh.connect(gateway(&proxy)).is_err());
    assert_eq!(app.request_count(), 0);
}
