//! The sidecar's own certificate through its life, and those of its peers.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use identity::SpiffeId;
use identity::ca::requested_key;
use identity::tls::ALPN_TCP;
use model::{Cluster, Direction, Endpoint, Listener, ListenerProtocol, TlsMode, Transport};
use testkit::{
    ControlPlane, EchoServer, MeshConnector, ProxyProcess, ScriptedUpstream, Step, Traffic, until,
};
use xds::kind::Kind;

use crate::world::{
    MAIL, PROXY, WEB, applied, ask, cluster, connect_at, has, launch, listener, plane, plane_with,
    says, serve, start,
};

const SERVER: &str = "spiffe://cluster.local/ns/default/sa/server";

/// A sidecar that takes mesh TLS only, in front of the application at `app`.
#[track_caller]
fn inbound(plane: &ControlPlane, app: SocketAddr, protocol: ListenerProtocol) -> ProxyProcess {
    plane.cluster(&cluster("app", &[app]));
    plane.listener(&Listener {
        direction: Direction::Inbound,
        bind: true,
        tls: TlsMode::Strict,
        protocol,
        ..listener("inbound", "127.0.0.1:0", "app")
    });
    ProxyProcess::start(PROXY, &plane.sidecar("server", ""))
}

#[test]
fn certificates_are_renewed_and_no_request_notices() {
    let app = EchoServer::start();
    let plane = plane();
    plane.sign(|signing| signing.ttl = Duration::from_secs(6));
    let server = inbound(&plane, app.addr(), ListenerProtocol::Http);
    let endpoint = Endpoint {
        address: server.listener("inbound"),
        transport: Transport::Leno,
        identities: vec![SERVER.to_owned()],
    };
    plane.cluster(&Cluster {
        endpoints: vec![endpoint],
        ..cluster("web", &[])
    });
    plane.listener(&listener("web", WEB, "web"));
    let caller = start(&plane);
    let outbound = caller.listener("outbound");
    let traffic = Traffic::with(4, usize::MAX, move || connect_at(outbound, WEB));
    traffic.goes_on(100);
    let before = plane.seen().csrs.len();
    plane.until("certificates are renewed", |seen| {
        seen.csrs.len() >= before + 4
    });
    traffic.goes_on(100);
    let tally = traffic.finish();
    assert_eq!(
        (tally.count(200), tally.broken.as_slice()),
        (tally.requests(), &[][..])
    );
    let csrs = plane.seen().csrs;
    let keys: BTreeSet<_> = csrs.iter().map(|csr| requested_key(csr).unwrap()).collect();
    assert_eq!(keys.len(), csrs.len(), "each has a key of its own");
}

#[test]
fn newer_authority_has_the_certificate_renewed() {
    let plane = plane_with(WEB, &[]);
    let proxy = ProxyProcess::start(PROXY, &plane.sidecar("caller", ", renewalSpread: 0s"));
    let issuer = || proxy.page("/certs")["certificateChain"][0]["issuer"].clone();
    let before = issuer();
    plane.rotate();
    until("another has issued it", || issuer() != before);
    let seen = plane.seen();
    assert_eq!((seen.csrs.len(), seen.tokens.len()), (2, 1));
    plane.until("it is back with the new one", |seen| seen.streams == 2);
}

#[test]
fn renewal_that_fails_ends_nothing_and_is_tried_again() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    plane.sign(|signing| signing.ttl = Duration::from_secs(18));
    let proxy = start(&plane);
    plane.sign(|signing| signing.is_refused = true);
    plane.until("it is tried again", |seen| seen.csrs.len() >= 3);
    serve(&plane, "mail", MAIL, &[app.addr()]);
    applied(&proxy, "changes are heard", |config| {
        has(config, "listeners", "mail")
    });
    assert_eq!(plane.seen().streams, 1);
    plane.sign(|signing| signing.is_refused = false);
    plane.until("it is renewed", |seen| seen.streams == 2);
}

#[test]
fn opaque_connection_of_a_peer_that_is_revoked_ends() {
    let (app, plane) = (opaque(), plane());
    let server = inbound(&plane, app.addr(), ListenerProtocol::Tcp);
    let server_id = SpiffeId::parse(SERVER).unwrap();
    let [leaves, stays] = ["leaves", "stays"].map(|name| {
        let credentials = plane.credentials(name);
        MeshConnector::with_alpn(&credentials, &server_id, &[ALPN_TCP])
    });
    let mut clients = [&leaves, &stays].map(|mesh| {
        let mut client = mesh.connect(server.listener("inbound")).unwrap();
        client.send("?");
        client.expect("!");
        client
    });
    plane.revoke("leaves");
    let [leaves_client, stays_client] = &mut clients;
    assert_eq!(leaves_client.read_to_end().0, b"");
    assert!(!is_let_in(&leaves, &server) && is_let_in(&stays, &server));
    stays_client.send("more");
    until("the other goes on", || app.received(1).ends_with(b"more"));
}

/// Whether a question is answered. In TLS 1.3 a client learns with the answer that it was refused.
fn is_let_in(mesh: &MeshConnector, server: &ProxyProcess) -> bool {
    let mut client = mesh.connect(server.listener("inbound")).unwrap();
    let asked = client.try_send("?");
    asked.and_then(|()| client.stream().read(&mut [0])).is_ok()
}

fn opaque() -> ScriptedUpstream {
    let question = Step::ReadUntil(b"?".to_vec());
    ScriptedUpstream::always(vec![question, Step::send("!"), Step::ReadEnd])
}

/// One certificate takes the place of another in the list: their number is the same.
#[test]
fn revocations_that_change_and_are_as_many_take_effect() {
    let (app, plane) = (opaque(), plane());
    let server = inbound(&plane, app.addr(), ListenerProtocol::Tcp);
    let server_id = SpiffeId::parse(SERVER).unwrap();
    let [first, second] = ["first", "second"]
        .map(|name| MeshConnector::with_alpn(&plane.credentials(name), &server_id, &[ALPN_TCP]));
    plane.revoke("first");
    until("the first is not let in", || !is_let_in(&first, &server));
    assert!(is_let_in(&second, &server));
    plane.pardon();
    plane.revoke("second");
    until("the second is not let in", || !is_let_in(&second, &server));
    assert!(is_let_in(&first, &server));
}

/// An answer may be lost, or be of no use yet: the token is good for the key it was shown with.
#[test]
fn token_is_shown_with_the_same_key_until_it_is_of_use() {
    let plane = plane_with(WEB, &[]);
    plane.sign(|signing| signing.is_refused = true);
    let proxy = launch(&plane.sidecar("caller", ""));
    plane.until("it is tried again", |seen| seen.csrs.len() >= 3);
    plane.sign(|signing| signing.is_refused = false);
    assert!(proxy.ready().is_ok());
    let csrs = plane.seen().csrs;
    let keys: BTreeSet<_> = csrs.iter().map(|csr| requested_key(csr).unwrap()).collect();
    assert_eq!(keys.len(), 1);
}

#[test]
fn certificate_that_nobody_takes_any_more_is_made_up_for_by_a_token() {
    let plane = plane_with(WEB, &[]);
    let state = plane.dir().join("state");
    let start = |openings, tokens| {
        let yaml = plane.sidecar("caller", &format!(", state: {state:?}"));
        let proxy = ProxyProcess::start(PROXY, &yaml);
        plane.until("it is told", |seen| {
            seen.openings(Kind::Listener).len() == openings
        });
        assert_eq!(plane.seen().tokens.len(), tokens);
        assert!(proxy.terminate().status.success());
    };
    start(1, 1);
    start(2, 1);
    plane.revoke("caller");
    start(3, 2);
}

/// F21: clocks differ.
#[test]
fn f21_clock_that_is_behind_a_little_does_no_harm() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    plane.sign(|signing| signing.ahead = Duration::from_secs(4 * 60));
    assert_eq!(ask(&start(&plane), WEB), 200);
}

/// F21: and where they differ too much, that is said.
#[test]
fn f21_clock_that_is_far_behind_is_named() {
    let plane = plane_with(WEB, &[]);
    plane.sign(|signing| signing.ahead = Duration::from_secs(60 * 60));
    let mut proxy = launch(&plane.sidecar("caller", ""));
    says(proxy.process(), "set the clock");
    assert!(!proxy.is_ready());
}
