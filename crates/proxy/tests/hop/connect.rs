//! CONNECT (RFC 9110, section 9.3.6): a tunnel where the listener allows one, refused by status
//! where it does not. It ends at the sidecar that is asked, whose route says where it leads.

use crate::frames::{DATA, END_STREAM, Frames};
use crate::world::{PROXY, echo};
use testkit::client::End;
use testkit::{MeshConnector, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, TestCa};

struct World {
    proxy: ProxyProcess,
    app: ScriptedUpstream,
}

fn world() -> World {
    let script = vec![
        Step::ReadBytes(4),
        Step::send("pong"),
        Step::ReadEnd,
        Step::send("end"),
    ];
    let app = ScriptedUpstream::always(script);
    let sidecar = Sidecar::outbound(&[app.addr()]).listener("protocol: http");
    let proxy = ProxyProcess::start(PROXY, &sidecar.listener("connect: true").yaml());
    World { proxy, app }
}

#[test]
fn tunnel_carries_bytes_and_ends() {
    for version in ["1.1", "1.0"] {
        let world = world();
        let mut client = RawClient::connect(world.proxy.addr());
        client.send(format!(
            "CONNECT b.example:443 HTTP/{version}\r\nHost: b.example:443\r\n\r\n"
        ));
        client.expect("HTTP/1.1 200 Connection established\r\n\r\n");
        client.send("ping");
        client.expect("pong");
        client.half_close();
        assert_eq!(client.read_to_end(), (b"end".to_vec(), End::Closed));
        assert_eq!(world.app.received_text(0), "ping");
    }
}

#[test]
fn bytes_may_come_with_the_request() {
    let world = world();
    let mut client = RawClient::connect(world.proxy.addr());
    client.send("CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\nping");
    client.expect("HTTP/1.1 200 Connection established\r\n\r\npong");
}

#[test]
fn tunnel_over_http2_carries_bytes_and_ends() {
    let world = world();
    let mut frames = Frames::new(RawClient::connect(world.proxy.addr()));
    frames.open(
        1,
        &[(":method", "CONNECT"), (":authority", "b.example:443")],
    );
    assert_eq!(frames.status(1), 200);
    frames.send(DATA, 0, 1, b"ping");
    assert_eq!(frames.data(1, 4), b"pong");
    frames.send(DATA, END_STREAM, 1, b"");
    assert_eq!(frames.data(1, 3), b"end");
    assert_eq!(world.app.received_text(0), "ping");
}

#[test]
fn tunnel_to_nobody_is_answered_so() {
    let sidecar = Sidecar::outbound(&[testkit::dead_address()]).listener("protocol: http");
    let proxy = ProxyProcess::start(PROXY, &sidecar.listener("connect: true").yaml());
    let mut client = RawClient::connect(proxy.addr());
    client.send("CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\n");
    assert_eq!(client.response().status(), 503);
}

#[test]
fn tunnel_is_refused_unless_allowed() {
    let pair = echo();
    let mut client = pair.client();
    client.send("CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\n");
    assert_eq!(client.response().status(), 501);
    assert_eq!(pair.app.connection_count(), 0);
}

#[test]
fn tunnel_is_for_those_who_may_use_every_route() {
    const TUNNEL: &str = "CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\nping";
    let (ca, world) = (TestCa::new(), world());
    let [server, good, other] = ["server", "good", "other"].map(|name| ca.identity(name));
    let inbound = Sidecar::inbound(world.app.addr()).identity(&server);
    let inbound = inbound.strict().listener("connect: true");
    let only = format!("allow: [\"{}\"]", good.id);
    let closed_first = inbound.clone().route(&only);
    let closed_first = closed_first.further_route("{prefix: /open, cluster: main}");
    let closed_last = format!("{{prefix: /admin, cluster: main, {only}}}");
    let closed_last = inbound.clone().further_route(&closed_last);
    let elsewhere = format!("{{hosts: [c], cluster: main, {only}}}");
    let elsewhere = inbound.further_route(&elsewhere);
    for sidecar in [closed_first, closed_last, elsewhere] {
        let proxy = ProxyProcess::start(PROXY, &sidecar.yaml());
        let before = world.app.connection_count();
        let through = "200 Connection established\r\n\r\npong";
        for (who, answer) in [(&other, "403 "), (&good, through)] {
            let mesh = MeshConnector::new(&who.credentials(), &server.id);
            let mut client = mesh.connect(proxy.addr()).unwrap();
            client.send(TUNNEL);
            client.expect(format!("HTTP/1.1 {answer}"));
        }
        assert_eq!(world.app.connection_count(), before + 1);
    }
}
