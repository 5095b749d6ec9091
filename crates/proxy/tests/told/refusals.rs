//! What the sidecar does not take: it says what and why, keeps what it had, and uses the rest.

use std::net::TcpListener;

use model::{Cluster, Endpoint, Listener, Transport};
use testkit::ControlPlane;
use testkit::EchoServer;
use xds::kind::Kind;

use crate::world::{
    MAIL, WEB, applied, ask, cluster, has, launch, listener, plane, plane_with, says, serve, start,
};

/// A field of number 9000, which nobody has.
const UNKNOWN: &[u8] = &[0xc0, 0xb2, 0x04, 0x01];
/// `envoy.config.listener.v3.Listener.stat_prefix`, 28.
const STAT_PREFIX: &[u8] = &[0xe2, 0x01, 1, b'x'];

fn spoil(plane: &ControlPlane, kind: Kind, name: &str, with: &[u8]) {
    let bytes = [&plane.raw(kind, name), with].concat();
    plane.set_raw(kind, name, bytes);
}

#[test]
fn refused_resource_is_named_and_the_rest_of_the_push_is_used() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    plane.together(|| {
        spoil(&plane, Kind::Cluster, "web", UNKNOWN);
        serve(&plane, "mail", MAIL, &[app.addr()]);
    });
    applied(&proxy, "the rest is used", |config| {
        has(config, "listeners", "mail")
    });
    let seen = plane.seen();
    let [refusal] = *seen.refusals(Kind::Cluster) else {
        panic!("{:?}", seen.refusals(Kind::Cluster))
    };
    assert!(
        refusal.contains("cluster web") && refusal.contains("9000"),
        "{refusal}"
    );
    assert_eq!((ask(&proxy, WEB), ask(&proxy, MAIL)), (200, 200));
}

#[test]
fn state_of_a_refused_resource_stays_as_it_was() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let plane = plane_with(WEB, &[old.addr()]);
    let proxy = start(&plane);
    plane.together(|| {
        plane.cluster(&cluster("web", &[new.addr()]));
        spoil(&plane, Kind::Endpoints, "web", UNKNOWN);
    });
    plane.until("it is refused", |seen| {
        !seen.refusals(Kind::Endpoints).is_empty()
    });
    serve(&plane, "mail", MAIL, &[]);
    applied(&proxy, "a later change is used", |config| {
        has(config, "listeners", "mail")
    });
    assert_eq!((ask(&proxy, WEB), old.request_count()), (200, 1));
    plane.cluster(&cluster("web", &[new.addr()]));
    testkit::until("the next one is taken", || {
        assert_eq!(ask(&proxy, WEB), 200);
        new.request_count() > 0
    });
}

#[test]
fn peers_of_another_trust_domain_keep_nothing_else_from_being_used() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    let stranger = Endpoint {
        address: app.addr(),
        transport: Transport::Leno,
        identities: vec!["spiffe://other.example/ns/a/sa/b".to_owned()],
    };
    plane.cluster(&Cluster {
        endpoints: vec![stranger],
        ..cluster("mail", &[])
    });
    plane.listener(&listener("mail", MAIL, "mail"));
    applied(&proxy, "the listener is used", |config| {
        has(config, "listeners", "mail")
    });
    let seen = plane.seen();
    let refusal = seen.refusals(Kind::Endpoints).concat();
    assert!(refusal.contains("`cluster.local`"), "{refusal}");
    assert_eq!(ask(&proxy, WEB), 200);
}

#[test]
fn bytes_that_are_nothing_are_refused() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    for kind in [Kind::Cluster, Kind::Listener] {
        plane.set_raw(kind, "noise", vec![0xff; 100]);
        plane.until("it is refused", |seen| !seen.refusals(kind).is_empty());
    }
    let another = plane.raw(Kind::Cluster, "web");
    plane.set_raw(Kind::Cluster, "alias", another);
    plane.until("its name is not its own", |seen| {
        seen.refusals(Kind::Cluster)
            .concat()
            .contains("calls itself web")
    });
    assert_eq!(ask(&proxy, WEB), 200);
}

#[test]
fn trust_bundle_that_trusts_nobody_is_refused() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    let before = proxy.page("/certs");
    plane.trust("nonsense", "");
    plane.until("it is refused", |seen| {
        !seen.refusals(Kind::Secret).is_empty()
    });
    plane.remove(Kind::Secret, "ROOTCA");
    serve(&plane, "mail", MAIL, &[]);
    applied(&proxy, "a later change is used", |config| {
        has(config, "listeners", "mail")
    });
    assert_eq!(proxy.page("/certs")["trustBundle"], before["trustBundle"]);
}

#[test]
fn page_shows_what_was_taken_and_what_was_not() {
    let plane = plane_with(WEB, &[]);
    spoil(&plane, Kind::Listener, "web", STAT_PREFIX);
    let proxy = start(&plane);
    plane.set_raw(Kind::Cluster, "noise", vec![0xff; 100]);
    plane.until("it is refused", |seen| {
        !seen.refusals(Kind::Cluster).is_empty()
    });
    testkit::until("the page shows it", || {
        proxy.page("/control")["kinds"]["cluster"]["refused"] == 1
    });
    let control = proxy.page("/control");
    assert_eq!(control["connected"], plane.addr().to_string());
    assert_eq!(control["kinds"]["cluster"]["accepted"], 2, "{control}");
    let refusal = control["kinds"]["cluster"]["lastRefusal"].as_str().unwrap();
    assert!(refusal.starts_with("cluster noise"), "{refusal}");
    assert_eq!(
        control["ignoredFields"]["listener.stat_prefix"], 1,
        "{control}"
    );
    assert!(control["certificateUntil"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn address_that_is_another_s_is_taken_when_it_is_free() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let plane = plane();
    plane.cluster(&cluster("web", &[]));
    plane.listener(&Listener {
        bind: true,
        ..listener("extra", &taken.local_addr().unwrap().to_string(), "web")
    });
    let mut proxy = launch(&plane.sidecar("caller", ""));
    says(proxy.process(), "configuration kept as it was");
    assert!(!proxy.is_ready());
    drop(taken);
    let proxy = proxy
        .ready()
        .unwrap_or_else(|exit| panic!("{}", exit.stderr));
    assert!(has(
        &proxy.page("/config_dump")["config"],
        "listeners",
        "extra"
    ));
}
