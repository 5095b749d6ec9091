//! Without the control plane: for a while, or from the start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::{ControlPlane, EchoServer, ProxyProcess, until};
use xds::kind::Kind;

use crate::world::{
    MAIL, PROXY, WEB, ask, cluster, launch, plane, plane_with, says, serve_on_demand, start,
};

/// The sidecar beside `caller` that keeps its state, with a token.
fn keeping(plane: &ControlPlane) -> String {
    let state = plane.dir().join("state");
    plane.sidecar("caller", &format!(", state: {state:?}"))
}

/// The same, started again: its token was used, and is gone.
#[track_caller]
fn start_again(plane: &ControlPlane) -> ProxyProcess {
    let (state, gone) = (plane.dir().join("state"), plane.dir().join("no-token"));
    let more = format!(", token: {{file: {gone:?}}}, state: {state:?}");
    ProxyProcess::start(PROXY, &plane.sidecar_with("caller", &more))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// F22: a control plane that comes back must not be asked for everything.
#[test]
fn f22_serves_on_and_is_told_nothing_twice() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let mut plane = plane_with(WEB, &[old.addr()]);
    let proxy = start(&plane);
    plane.stop();
    says(&proxy, "the control plane at");
    assert_eq!(ask(&proxy, WEB), 200);
    let before = plane.seen();
    plane.resume();
    plane.until("it is back", |seen| seen.streams == 2);
    plane.cluster(&cluster("web", &[new.addr()]));
    until("the new one is asked", || {
        assert_eq!(ask(&proxy, WEB), 200);
        new.request_count() > 0
    });
    let after = plane.seen();
    let told: Vec<_> = after.sent[before.sent.len()..].to_vec();
    // The test tells a cluster with its endpoints.
    let changed = [
        (Kind::Cluster, "web".to_owned()),
        (Kind::Endpoints, "web".to_owned()),
    ];
    assert!(told.iter().all(|one| changed.contains(one)), "{told:?}");
    for kind in Kind::ALL {
        let opening = *after.openings(kind).last().unwrap();
        assert!(!opening.initial_resource_versions.is_empty(), "{kind:?}");
    }
}

#[test]
fn starts_and_serves_while_the_control_plane_is_gone() {
    let app = EchoServer::start();
    let mut plane = plane_with(WEB, &[app.addr()]);
    let state = plane.dir().join("state");
    let proxy = ProxyProcess::start(PROXY, &keeping(&plane));
    until("it is kept", || state.join("resources.pb").exists());
    assert!(proxy.terminate().status.success());
    plane.stop();
    let proxy = start_again(&plane);
    assert_eq!(ask(&proxy, WEB), 200);
    assert_eq!(mode(&state), 0o700);
    for file in fs::read_dir(&state).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    plane.resume();
    plane.until("it is back", |seen| {
        seen.openings(Kind::Listener).len() == 2
    });
    let seen = plane.seen();
    assert_eq!((seen.tokens.len(), seen.csrs.len()), (1, 1));
    let opening = seen.openings(Kind::Listener)[1];
    assert_eq!(opening.initial_resource_versions.len(), 2);
}

#[test]
fn endpoints_from_an_earlier_life_follow_their_changes() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let mut plane = plane();
    serve_on_demand(&plane, "web", WEB, &[old.addr()]);
    serve_on_demand(&plane, "mail", MAIL, &[old.addr()]);
    let proxy = ProxyProcess::start(PROXY, &keeping(&plane));
    assert_eq!(ask(&proxy, WEB), 200);
    // What is in use is kept before it is.
    assert!(proxy.terminate().status.success());
    plane.stop();
    let proxy = start_again(&plane);
    assert_eq!(ask(&proxy, WEB), 200);
    serve_on_demand(&plane, "web", WEB, &[new.addr()]);
    plane.resume();
    until("the new one is asked", || {
        assert_eq!(ask(&proxy, WEB), 200);
        new.request_count() > 0
    });
    assert!(!plane.seen().subscribed(Kind::Endpoints).contains(&"mail"));
}

#[test]
fn state_that_is_spoilt_costs_a_question() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let resources = plane.dir().join("state/resources.pb");
    let proxy = ProxyProcess::start(PROXY, &keeping(&plane));
    until("it is kept", || resources.exists());
    assert!(proxy.terminate().status.success());
    fs::write(&resources, [0xff; 100]).unwrap();
    let proxy = start_again(&plane);
    says(&proxy, "what was kept cannot be used");
    assert_eq!(ask(&proxy, WEB), 200);
    assert!(proxy.terminate().status.success());
    // As if it had ended between its certificate and the first that it was told.
    fs::remove_file(&resources).unwrap();
    assert_eq!(ask(&start_again(&plane), WEB), 200);
}

#[test]
fn certificate_that_another_workload_kept_is_not_used() {
    let plane = plane_with(WEB, &[]);
    drop(ProxyProcess::start(PROXY, &keeping(&plane)));
    let state = plane.dir().join("state");
    let other = plane.sidecar("other", &format!(", state: {state:?}"));
    let proxy = ProxyProcess::start(PROXY, &other);
    says(&proxy, "the certificate is that of");
    let seen = plane.seen();
    let last = seen.peers.last().unwrap().as_ref().unwrap();
    assert_eq!(last.as_str(), "spiffe://cluster.local/ns/default/sa/other");
}

#[test]
fn nothing_is_written_where_nothing_is_to_be_kept() {
    let plane = plane_with(WEB, &[]);
    let proxy = start(&plane);
    assert_eq!(ask(&proxy, WEB), 503);
    let mut names: Vec<_> = fs::read_dir(proxy.dir())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["proxy.yaml", "stderr"]);
}

#[test]
fn neither_token_nor_certificate_is_said() {
    let plane = plane();
    let proxy = launch(&plane.sidecar_with("caller", ""));
    says(
        proxy.process(),
        "there is neither a token nor a certificate",
    );
    assert_eq!(plane.seen().connections, 0);
}
