//! Endpoints that are asked for only when a connection wants to go there.

use testkit::client::End;
use testkit::{EchoServer, RawClient, until};
use xds::kind::Kind;

use crate::world::{
    MAIL, WEB, applied, ask, cluster, connect, plane, says, serve_on_demand, start,
};

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: web\r\n\r\n";

fn asked(seen: &testkit::control::Seen, name: &str) -> usize {
    let asked = seen.subscribed(Kind::Endpoints);
    asked.into_iter().filter(|one| *one == name).count()
}

/// A connection that has asked and waits.
#[track_caller]
fn waiting(
    plane: &testkit::ControlPlane,
    proxy: &testkit::ProxyProcess,
    (name, address): (&str, &str),
) -> RawClient {
    let mut client = connect(proxy, address);
    client.send(REQUEST);
    plane.until("it is asked for", |seen| asked(seen, name) > 0);
    client
}

#[test]
fn endpoints_are_asked_for_once_and_at_first_use() {
    let app = EchoServer::start();
    let plane = plane();
    serve_on_demand(&plane, "web", WEB, &[app.addr()]);
    serve_on_demand(&plane, "mail", MAIL, &[app.addr()]);
    let proxy = start(&plane);
    assert_eq!(asked(&plane.seen(), "web"), 0);
    for _ in 0..3 {
        assert_eq!(ask(&proxy, WEB), 200);
    }
    let seen = plane.seen();
    assert_eq!((asked(&seen, "web"), asked(&seen, "mail")), (1, 0));
}

#[test]
fn request_waits_until_it_is_known_where_to() {
    let app = EchoServer::start();
    let plane = plane();
    serve_on_demand(&plane, "web", WEB, &[app.addr()]);
    plane.mute(&[Kind::Endpoints]);
    let proxy = start(&plane);
    let mut client = waiting(&plane, &proxy, ("web", WEB));
    assert_eq!(app.connection_count(), 0);
    plane.release();
    assert_eq!(client.response().status(), 200);
}

#[test]
fn connection_is_reset_when_nobody_says_where_to() {
    let plane = plane();
    serve_on_demand(&plane, "web", WEB, &[]);
    plane.mute(&[Kind::Endpoints]);
    let proxy = start(&plane);
    let mut client = waiting(&plane, &proxy, ("web", WEB));
    assert_eq!(client.read_to_end(), (vec![], End::Reset));
    says(&proxy, "the control plane has not said where web is");
}

#[test]
fn nobody_waits_for_what_another_waits_for() {
    let app = EchoServer::start();
    let plane = plane();
    serve_on_demand(&plane, "web", WEB, &[app.addr()]);
    serve_on_demand(&plane, "mail", MAIL, &[app.addr()]);
    plane.withhold(Kind::Endpoints, "mail");
    let proxy = start(&plane);
    let mut slow = waiting(&plane, &proxy, ("mail", MAIL));
    assert_eq!(ask(&proxy, WEB), 200);
    // Which shows that the other has not been given up meanwhile.
    plane.release();
    assert_eq!(slow.response().status(), 200);
}

#[test]
fn what_is_wanted_while_the_control_plane_is_away_is_asked_for_when_it_is_back() {
    let app = EchoServer::start();
    let mut plane = plane();
    serve_on_demand(&plane, "web", WEB, &[app.addr()]);
    let proxy = start(&plane);
    plane.stop();
    says(&proxy, "the control plane at");
    let mut client = connect(&proxy, WEB);
    client.send(REQUEST);
    plane.resume();
    assert_eq!(client.response().status(), 200);
}

#[test]
fn service_without_endpoints_answers_for_itself() {
    let plane = plane();
    serve_on_demand(&plane, "web", WEB, &[]);
    plane.remove(Kind::Endpoints, "web");
    let proxy = start(&plane);
    assert_eq!(ask(&proxy, WEB), 503);
}

#[test]
fn endpoints_that_were_asked_for_follow_their_changes() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let plane = plane();
    serve_on_demand(&plane, "web", WEB, &[old.addr()]);
    let proxy = start(&plane);
    assert_eq!((ask(&proxy, WEB), old.request_count()), (200, 1));
    serve_on_demand(&plane, "web", WEB, &[new.addr()]);
    until("the new one is asked", || {
        assert_eq!(ask(&proxy, WEB), 200);
        new.request_count() > 0
    });
    plane.remove(Kind::Listener, "web");
    applied(&proxy, "it is gone", |config| {
        !crate::world::has(config, "listeners", "web")
    });
    plane.cluster(&cluster("other", &[]));
    plane.until("it is not asked for any more", |seen| {
        let gone = seen
            .requests
            .iter()
            .flat_map(|one| &one.resource_names_unsubscribe);
        gone.filter(|name| *name == "web").count() == 2
    });
}
