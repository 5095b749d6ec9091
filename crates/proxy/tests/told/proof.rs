//! How the sidecar proves who it is, and to whom it says anything at all.

use std::net::TcpStream;

use testkit::{ControlPlane, DeadPort, EchoServer, ProxyProcess, RawClient, until};
use xds::kind::Kind;

use crate::world::{PROXY, WEB, ask, launch, plane_with, says, start};

#[test]
fn starts_with_a_token_and_serves_the_first_request() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    assert_eq!((ask(&proxy, WEB), app.request_count()), (200, 1));
    let seen = plane.seen();
    let peers: Vec<_> = seen
        .peers
        .iter()
        .map(|id| id.as_ref().map(|id| id.as_str()))
        .collect();
    let own = "spiffe://cluster.local/ns/default/sa/caller";
    assert_eq!(peers, [None, Some(own)]);
    let node = seen.requests[0].node.as_ref().unwrap();
    assert_eq!((&*node.id, &*node.cluster), ("caller.default", "caller"));
}

#[test]
fn is_not_ready_before_it_was_told_anything() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    plane.mute(&[Kind::Listener]);
    let port = DeadPort::hold();
    let admin = format!("admin: {}", port.addr());
    let mut proxy = launch(
        &plane
            .sidecar("caller", "")
            .replace("admin: 127.0.0.1:0", &admin),
    );
    plane.until("the bundle is in use", |seen| {
        seen.accepted(Kind::Secret) > 0
    });
    assert_eq!(RawClient::connect(port.addr()).get("/ready").status(), 503);
    assert!(!proxy.is_ready());
    plane.release();
    let proxy = proxy
        .ready()
        .unwrap_or_else(|exit| panic!("{}", exit.stderr));
    assert_eq!(RawClient::connect(port.addr()).get("/ready").status(), 200);
    assert_eq!(ask(&proxy, WEB), 200);
}

#[test]
fn token_is_shown_once_and_found_nowhere() {
    let plane = plane_with(WEB, &[]);
    let yaml = plane.sidecar("caller", "");
    let proxy = ProxyProcess::start_with(PROXY, &yaml, &["--log-level", "debug"]);
    plane.hang_up();
    plane.until("it is back", |seen| seen.streams == 2);
    let tokens = plane.seen().tokens;
    assert_eq!(tokens.len(), 1);
    let pages = ["/config_dump", "/control", "/certs", "/clusters", "/stats"];
    let shown = pages.map(|path| proxy.admin(path).text()).concat() + &proxy.stderr();
    // The path of its file is no secret, and has its name here.
    let path = format!("{}", plane.dir().join(&tokens[0]).display());
    assert!(!shown.replace(&path, "").contains(&tokens[0]), "{shown}");
}

#[test]
fn wrong_token_is_said_and_another_start_works() {
    let plane = plane_with(WEB, &[]);
    let yaml = plane.sidecar("caller", "");
    drop(ProxyProcess::start(PROXY, &yaml));
    let mut again = launch(&yaml);
    plane.until("it keeps trying", |seen| seen.tokens.len() >= 3);
    says(again.process(), "that token is unknown or was used");
    assert!(!again.is_ready());
    drop(again);
    drop(start(&plane));
}

#[test]
fn nothing_is_said_to_another_workload_of_the_mesh() {
    let plane = ControlPlane::start_as("impostor");
    let proxy = launch(&plane.sidecar("caller", ""));
    plane.until("it keeps trying", |seen| seen.connections >= 2);
    says(proxy.process(), "may not answer here");
    let seen = plane.seen();
    assert_eq!((seen.tokens.len(), seen.csrs.len()), (0, 0));
}

#[test]
fn nothing_is_said_to_a_stranger() {
    let (plane, stranger) = (ControlPlane::start(), ControlPlane::start());
    let yaml = plane.sidecar("caller", "");
    let yaml = yaml.replace(&plane.addr().to_string(), &stranger.addr().to_string());
    let proxy = launch(&yaml);
    stranger.until("it keeps trying", |seen| seen.connections >= 2);
    says(proxy.process(), "UnknownIssuer");
    let seen = stranger.seen();
    assert_eq!((seen.tokens.len(), seen.csrs.len()), (0, 0));
    assert_eq!(plane.seen().connections, 0);
}

#[test]
fn first_address_that_answers_will_do() {
    let plane = plane_with(WEB, &[]);
    let dead = testkit::dead_address();
    let addr = plane.addr();
    let both = format!("addresses: [\"{dead}\", \"{addr}\"]");
    let yaml = plane.sidecar("caller", "");
    let yaml = yaml.replace(&format!("addresses: [\"{addr}\"]"), &both);
    let proxy = ProxyProcess::start(PROXY, &yaml);
    for round in 2..5 {
        plane.hang_up();
        plane.until("it is back", |seen| seen.streams == round);
    }
    until("it is there", || {
        TcpStream::connect(proxy.admin_addr()).is_ok()
    });
}
