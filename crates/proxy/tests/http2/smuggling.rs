//! Extended CONNECT (RFC 8441) that asks for what nobody allows, or brings what is the proxy's to
//! say: what goes behind it reaches no application.

use crate::world::{World, scripted1};
use testkit::h2::Frame;
use testkit::{ScriptedUpstream, Step};

const SMUGGLED: &str = "GET /admin HTTP/1.1\r\nhost: secret\r\n\r\n";
const CONNECT: [(&str, &str); 4] = [
    (":method", "CONNECT"),
    (":scheme", "http"),
    (":path", "/open"),
    (":authority", "a"),
];

fn connect(protocol: &str, further: &[(&str, &str)]) -> Frame {
    let head = [&CONNECT[..], &[(":protocol", protocol)], further].concat();
    Frame::headers(1, &head, false)
}

fn answering() -> World<ScriptedUpstream> {
    let once = [Step::ReadRequest, Step::answer("ok")];
    let script = [&once[..], &once, &[Step::ReadEnd]].concat();
    scripted1(vec![script])
}

#[test]
fn bytes_behind_a_connect_for_an_unknown_protocol_reach_nobody() {
    for protocol in ["foo", "h2c", "connect-udp"] {
        let world = answering();
        let mut frames = world.frames();
        frames.send(&[connect(protocol, &[]), Frame::data(1, SMUGGLED, true)]);
        assert_eq!(frames.status(1), 501, "{protocol}");
        frames.sync();
        assert_eq!(world.upstream.connection_count(), 0, "{protocol}");
        assert_eq!(world.http1().get("/victim").text(), "ok");
        let received = world.upstream.received_text(0);
        assert!(
            received.starts_with("GET /victim "),
            "{protocol}: {received}"
        );
    }
}

#[test]
fn websocket_key_of_the_clients_own_is_not_said_twice() {
    for key in [None, Some("sec-websocket-key")] {
        let switch = "HTTP/1.1 101 Go\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhi";
        let script = vec![Step::ReadHead, Step::send(switch), Step::ReadEnd];
        let world = scripted1(vec![script]);
        let further = key.map(|name| (name, "dGhlIHNhbXBsZSBub25jZQ=="));
        let further = [further.as_slice(), &[("sec-websocket-version", "13")]].concat();
        let mut frames = world.frames();
        frames.send(&[connect("websocket", &further)]);
        assert_eq!(frames.status(1), 200);
        let received = world.upstream.received_text(0);
        let keys: Vec<_> = received
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("sec-websocket-key:"))
            .collect();
        assert_eq!(keys.len(), 1, "{received}");
        assert_eq!(
            received.matches("sec-websocket-version: 13\r\n").count(),
            1,
            "{received}"
        );
    }
}
