//! Another root takes the place of one while connections stand: they come anew before the old one
//! goes, and no request meets one that is closed.

use crate::frames::{Frames, GOAWAY, HEADERS};
use crate::trust::trust;
use crate::world::echo;
use identity::tls::ALPN_HTTP1;
use std::thread;
use testkit::client::{End, TlsClient};
use testkit::{EchoServer, MeshConnector, Pair, TestCa, until};

/// The stream of a goodbye that ends nothing that is on its way (RFC 9113, section 6.8).
const ALL: u32 = 0x7fff_ffff;
/// How many ids a request is behind the one that was sent last.
const UNDER_WAY: u32 = 32;
const GET: [(&str, &str); 3] = [(":method", "GET"), (":path", "/"), ("Host", "a")];

/// A caller whose requests come one after the other, after its first one.
fn caller(pair: &Pair<EchoServer>) -> TlsClient {
    let id = &pair.server.id;
    let connector = MeshConnector::with_alpn(&pair.client.credentials(), id, &[ALPN_HTTP1]);
    let mut caller = connector.connect(pair.inbound.addr()).unwrap();
    assert_eq!(caller.get("/").header("connection"), None);
    caller
}

#[test]
fn request_under_way_tells_its_client_to_come_anew() {
    let pair = echo();
    let mut caller = caller(&pair);
    caller.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12");
    until("the head is passed on", || {
        pair.inbound
            .metric("leno_requests_active", &[("direction", "inbound")])
            > 0.5
    });
    trust(&pair, &[&pair.ca, &TestCa::new()]);
    caller.send("34");
    let answer = caller.response();
    assert_eq!((answer.status(), answer.text()), (200, "1234".to_owned()));
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    assert_eq!(caller.read_to_end(), (Vec::new(), End::Closed));
}

#[test]
fn client_that_rests_is_told_with_its_next_answer() {
    let pair = echo();
    let mut caller = caller(&pair);
    trust(&pair, &[&pair.ca, &TestCa::new()]);
    let answer = caller.get("/");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
}

#[test]
fn connection_that_rests_is_closed_while_its_root_is_trusted() {
    let pair = echo();
    let mut caller = caller(&pair);
    trust(&pair, &[&TestCa::new(), &pair.ca]);
    assert_eq!(caller.read_to_end(), (Vec::new(), End::Closed));
    let served = self::caller(&pair).get("/");
    assert_eq!(served.status(), 200, "its root is trusted still");
}

#[test]
fn connection_that_rests_is_closed_at_once_when_its_root_is_gone() {
    let pair = echo();
    let mut caller = caller(&pair);
    trust(&pair, &[&TestCa::new()]);
    assert_eq!(caller.read_to_end(), (Vec::new(), End::Closed));
}

#[test]
fn stream_that_was_begun_before_the_goodbye_was_heard_is_served() {
    let pair = echo();
    let mut frames = Frames::new(pair.hop().connect(pair.inbound.addr()).unwrap());
    frames.request(1, &GET);
    assert_eq!(frames.status(1), 200);
    trust(&pair, &[&TestCa::new(), &pair.ca]);
    frames.request(3, &GET);
    let goodbye = frames.of(3);
    assert_eq!((goodbye.kind, last(&goodbye.payload)), (GOAWAY, ALL));
    assert_eq!(frames.status(3), 200);
}

#[test]
fn nothing_is_refused_before_the_goodbye_is_said() {
    let pair = echo();
    let mut frames = Frames::new(pair.hop().connect(pair.inbound.addr()).unwrap());
    let (others, ids) = (TestCa::new(), (1..).step_by(2));
    thread::scope(|scope| {
        scope.spawn(|| trust(&pair, &[&others]));
        // Always some on their way, and never more than it takes.
        for stream in ids {
            frames.request(stream, &GET);
            if stream <= UNDER_WAY {
                continue;
            }
            match frames.of(stream - UNDER_WAY).kind {
                HEADERS => {}
                GOAWAY => return,
                kind => panic!("stream {stream} is answered by a frame of kind {kind}"),
            }
        }
    });
}

/// Of a goodbye.
fn last(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}
