//! Where connections go, and who may make them.

use testkit::client::End;
use testkit::{DeadPort, ProxyProcess, RawClient, Sidecar};

use super::{Pair, QUESTION, answering, ask, start};

#[track_caller]
fn is_refused(proxy: &ProxyProcess) {
    let mut client = RawClient::connect(proxy.addr());
    client.send(QUESTION);
    assert_eq!(client.read_to_end(), (vec![], End::Reset));
}

#[track_caller]
fn flagged(proxy: &ProxyProcess, flag: &str, count: f64) {
    let labels = [
        ("flag", flag),
        ("protocol", "tcp"),
        ("status_class", "none"),
    ];
    proxy.metric_becomes("leno_requests_total", &labels, count);
}

#[test]
fn only_those_who_may_are_passed_on() {
    let app = answering();
    let pair = Pair::new(&app, |sidecar, caller| {
        sidecar.allow(std::slice::from_ref(&caller.id))
    });
    drop(ask(&pair.client));
    flagged(&pair.server, "-", 1.0);
    let other = pair.ca.identity("other");
    let closed = Pair::new(&app, |sidecar, _| sidecar.allow(&[other.id]));
    is_refused(&closed.client);
    flagged(&closed.server, "RBAC", 1.0);
    assert_eq!(app.connection_count(), 1);
}

#[test]
fn whoever_may_not_use_every_route_is_not_passed_on_unread() {
    let app = answering();
    let proxy = start(
        &Sidecar::inbound(app.addr()).further_route("{hosts: [a], cluster: main, allow: []}"),
    );
    is_refused(&proxy);
    flagged(&proxy, "RBAC", 1.0);
    assert_eq!(app.connection_count(), 0);
}

#[test]
fn endpoint_that_is_down_is_passed_over() {
    let (dead, app) = (DeadPort::hold(), answering());
    let proxy = start(&Sidecar::outbound(&[dead.addr(), app.addr()]));
    for _ in 0..4 {
        drop(ask(&proxy));
    }
    assert_eq!(app.connection_count(), 4);
    let proxy = start(&Sidecar::outbound(&[dead.addr()]));
    is_refused(&proxy);
    flagged(&proxy, "UF", 1.0);
    let proxy = start(&Sidecar::outbound(&[]));
    is_refused(&proxy);
    flagged(&proxy, "NE", 1.0);
}

#[test]
fn shared_transport_gives_unread_connections_one_of_their_own() {
    let app = answering();
    let pair = Pair::new(&app, |sidecar, _| sidecar);
    let ids = [pair.ca.identity("server").id];
    let outbound = Sidecar::outbound(&[pair.server.addr()]).identity(&pair.caller);
    let client = start(&outbound.leno(&ids));
    let (one, other) = (ask(&client), ask(&client));
    pair.server
        .metric_becomes("leno_connections_active", &[("direction", "inbound")], 2.0);
    drop((one, other));
}
