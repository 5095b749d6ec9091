//! Sidecars that are told what to do: what they were told goes from one to the next on disk, which
//! only the last of them writes.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;
use testkit::control::Seen;
use testkit::{ControlPlane, EchoServer, ProxyProcess, RawClient, Traffic, until};
use xds::kind::Kind;

use crate::world::{Load, PROXY, Place, brief, says, start};

/// A listener with a socket, and where it leads.
fn tell(plane: &ControlPlane, app: SocketAddr) {
    let yaml = format!(
        "workload: {{name: w}}\nlisteners:\n- {{name: main, direction: outbound, \
         address: \"127.0.0.1:0\", protocol: http, routes: [{{cluster: app}}]}}\n\
         clusters:\n- {{name: app, endpoints: [{{address: \"{app}\"}}]}}\n"
    );
    let config = proxy::config::parse(&yaml, Path::new("")).unwrap();
    plane.cluster(&config.clusters[0]);
    plane.listener(&config.listeners[0]);
}

/// The sidecar beside `caller`, with what it keeps and one who proves it, or nobody.
fn sidecar(plane: &ControlPlane, place: &Place, token: bool) -> String {
    let state = plane.dir().join("state");
    let more = format!(", state: {state:?}");
    let yaml = match token {
        true => plane.sidecar("caller", &more),
        false => plane.sidecar_with("caller", &more),
    };
    format!("{yaml}{}\n", place.key())
}

fn asked(app: &EchoServer, proxy: &ProxyProcess) {
    until("it is asked", || {
        let before = app.request_count();
        assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
        app.request_count() > before
    });
}

#[test]
fn told_sidecars_succeed_each_other_without_their_control_plane() {
    let (place, app) = (Place::new(), EchoServer::start());
    let mut plane = ControlPlane::start();
    tell(&plane, app.addr());
    let mut serving = start(&sidecar(&plane, &place, true));
    let addr = serving.addr();
    let kept = Traffic::start(addr, 2);
    let others = Load::start("a connection per request", 2, brief(addr));
    let mut succeeded = Vec::new();
    for round in 0..5 {
        kept.goes_on(30);
        others.goes_on(20);
        match round {
            1 => plane.stop(),
            3 => plane.resume(),
            _ => {}
        }
        let successor = start(&sidecar(&plane, &place, false));
        assert_eq!(successor.addr(), addr);
        succeeded.push(std::mem::replace(&mut serving, successor));
    }
    kept.goes_on(30);
    kept.finish().is_only(&[200]);
    others.finish();
    succeeded.into_iter().for_each(ended_if_well);
    let new = EchoServer::start();
    tell(&plane, new.addr());
    asked(&new, &serving);
    // One certificate has done for all.
    assert_eq!(plane.seen().tokens.len(), 1);
}

#[test]
fn what_was_told_last_is_known_to_the_successor() {
    let (place, apps) = (Place::new(), [(); 4].map(|()| EchoServer::start()));
    let mut plane = ControlPlane::start();
    tell(&plane, apps[0].addr());
    let mut serving = start(&sidecar(&plane, &place, true));
    for app in &apps[1..] {
        tell(&plane, app.addr());
        asked(app, &serving);
        // Nothing is written down so soon by itself.
        plane.stop();
        let successor = start(&sidecar(&plane, &place, false));
        let answer = RawClient::connect(successor.addr()).get("/");
        assert_eq!(answer.status(), 200);
        asked(app, &successor);
        ended_if_well(std::mem::replace(&mut serving, successor));
        plane.resume();
    }
}

#[test]
fn connections_that_outlive_a_handover_hear_of_changes() {
    let (place, old, new) = (Place::new(), EchoServer::start(), EchoServer::start());
    let plane = ControlPlane::start();
    tell(&plane, old.addr());
    let serving = start(&sidecar(&plane, &place, true));
    let mut kept: Vec<_> = (0..50)
        .map(|_| RawClient::connect(serving.addr()))
        .collect();
    kept.iter_mut()
        .for_each(|one| assert_eq!(one.get("/").status(), 200));
    let successor = start(&sidecar(&plane, &place, false));
    let streams = |seen: &Seen| seen.openings(Kind::Cluster).len();
    plane.until("both hear it", |seen| streams(seen) == 3);
    let before = plane.seen().accepted(Kind::Cluster);
    tell(&plane, new.addr());
    plane.until("both know it", |seen| {
        seen.accepted(Kind::Cluster) >= before + 2
    });
    // Each has one more answer of the old one.
    until("it is put to use", || {
        let answer = kept.pop().expect("it takes no time").get("/");
        assert_eq!(answer.status(), 200);
        new.request_count() > 0
    });
    drop(kept);
    ended_if_well(serving);
    // It has written nothing over what its successor knows.
    asked(&new, &successor);
}

#[test]
fn sidecar_that_is_not_succeeded_hears_and_writes_on() {
    let (place, old, new) = (Place::new(), EchoServer::start(), EchoServer::start());
    let mut plane = ControlPlane::start();
    let mut other = ControlPlane::start();
    tell(&plane, old.addr());
    let serving = start(&sidecar(&plane, &place, true));
    // One who is told nothing.
    other.stop();
    let lost = format!("{}{}\n", other.sidecar("caller", ""), place.key());
    let successor = ProxyProcess::launch(PROXY, &lost, &[]);
    says(&serving, "handing over");
    let page = || serving.admin("/control").text();
    assert!(page().contains("a successor takes over"), "{}", page());
    tell(&plane, new.addr());
    assert_eq!(RawClient::connect(serving.addr()).get("/").status(), 200);
    assert_eq!(new.request_count(), 0);
    successor.process().signal(Signal::KILL);
    asked(&new, &serving);
    // It is written down when it ends, if not before.
    assert!(serving.terminate().status.success());
    plane.stop();
    let again = start(&sidecar(&plane, &place, false));
    asked(&new, &again);
}

/// It may have complained that its control plane is away.
#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is not looked at"
)]
fn ended_if_well(proxy: ProxyProcess) {
    let exit = proxy.wait(std::time::Instant::now());
    assert!(exit.status.success(), "{exit:?}");
}
