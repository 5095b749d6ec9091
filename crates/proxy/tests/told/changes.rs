//! What becomes of changes: they take effect, and what is under way does not notice.

use testkit::{DeadPort, EchoServer, RawClient, ScriptedUpstream, Step, until};
use xds::kind::Kind;

use model::{Direction, Discovery, Listener, ListenerProtocol};

use crate::world::{
    MAIL, WEB, applied, ask, cluster, connect, connect_at, has, listener, plane, plane_with, route,
    serve, start,
};

#[test]
fn endpoints_change_and_connections_to_those_that_stay_are_kept() {
    let (stays, comes) = (EchoServer::start(), EchoServer::start());
    let plane = plane_with(WEB, &[stays.addr()]);
    let proxy = start(&plane);
    let mut client = connect(&proxy, WEB);
    assert_eq!(client.get("/").status(), 200);
    plane.cluster(&cluster("web", &[stays.addr(), comes.addr()]));
    until("both are asked", || {
        assert_eq!(client.get("/").status(), 200);
        comes.request_count() > 0
    });
    plane.cluster(&cluster("web", &[stays.addr()]));
    until("the other is left", || comes.open_connections() == 0);
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(stays.connection_count(), 1);
}

#[test]
fn requests_follow_the_weights() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let plane = plane();
    plane.cluster(&cluster("old", &[old.addr()]));
    plane.cluster(&cluster("new", &[new.addr()]));
    let split = |weights: [u32; 2]| Listener {
        routes: vec![route(&[("old", weights[0]), ("new", weights[1])])],
        ..listener("web", WEB, "old")
    };
    plane.listener(&split([1, 0]));
    let proxy = start(&plane);
    let mut client = connect(&proxy, WEB);
    (0..20).for_each(|_| assert_eq!(client.get("/").status(), 200));
    assert_eq!((old.request_count(), new.request_count()), (20, 0));
    plane.listener(&split([1, 1]));
    until("both are asked", || {
        assert_eq!(client.get("/").status(), 200);
        new.request_count() > 0
    });
}

#[test]
fn services_come_and_go() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    serve(&plane, "mail", MAIL, &[app.addr()]);
    applied(&proxy, "it has come", |config| {
        has(config, "listeners", "mail")
    });
    let mut client = connect(&proxy, MAIL);
    assert_eq!(client.get("/").status(), 200);
    plane.remove(Kind::Listener, "mail");
    plane.remove(Kind::Cluster, "mail");
    applied(&proxy, "it is gone", |config| {
        !has(config, "listeners", "mail") && !has(config, "clusters", "mail")
    });
    assert_eq!(client.get("/").status(), 404, "the connection outlives it");
    assert_eq!(ask(&proxy, WEB), 200);
    let seen = plane.seen();
    let unsubscribed = seen
        .requests
        .iter()
        .flat_map(|one| &one.resource_names_unsubscribe);
    assert_eq!(unsubscribed.filter(|name| *name == "mail").count(), 2);
}

#[test]
fn sockets_open_and_close() {
    let app = EchoServer::start();
    let plane = plane_with(WEB, &[app.addr()]);
    let proxy = start(&plane);
    let port = DeadPort::hold();
    plane.listener(&Listener {
        bind: true,
        ..listener("extra", &port.addr().to_string(), "web")
    });
    let refused = || std::net::TcpStream::connect(port.addr()).is_err();
    until("it listens", || !refused());
    let mut client = RawClient::connect(port.addr());
    assert_eq!(client.get("/").status(), 200);
    plane.remove(Kind::Listener, "extra");
    until("it does not", refused);
    drop(proxy);
}

/// F7: rolling changes must not cut what lasts.
#[test]
fn f07_opaque_connections_outlive_every_change() {
    let round = || [Step::ReadUntil(b"?".to_vec()), Step::send("!")];
    let script = (0..21).flat_map(|_| round()).chain([Step::ReadEnd]);
    let app = ScriptedUpstream::always(script.collect());
    let plane = plane();
    plane.cluster(&cluster("mail", &[app.addr()]));
    let mail = Listener {
        protocol: ListenerProtocol::Tcp,
        ..listener("mail", MAIL, "mail")
    };
    plane.listener(&mail);
    let proxy = start(&plane);
    let mut client = connect(&proxy, MAIL);
    for round in 0..20 {
        client.send("?");
        client.expect("!");
        serve(
            &plane,
            &format!("web-{round}"),
            &format!("10.78.1.{round}:80"),
            &[],
        );
    }
    plane.remove(Kind::Listener, "mail");
    plane.cluster(&cluster("mail", &[]));
    applied(&proxy, "it is gone", |config| {
        !has(config, "listeners", "mail")
    });
    client.send("?");
    client.expect("!");
    assert_eq!(app.connection_count(), 1);
}

#[test]
fn what_arrives_in_another_order_is_put_together() {
    let app = EchoServer::start();
    let plane = plane();
    let proxy = start(&plane);
    let (listener, cluster) = (listener("web", WEB, "web"), cluster("web", &[app.addr()]));
    assert_eq!(cluster.discovery, Discovery::Eager);
    let parts = [
        testkit::control::parts_of_listener(&listener),
        testkit::control::parts_of_cluster(&cluster),
    ];
    for (count, part) in (1..).zip(parts.concat().into_iter().rev()) {
        plane.set([part]);
        plane.until("it is heard", |seen| {
            Kind::ALL
                .iter()
                .map(|kind| seen.accepted(*kind))
                .sum::<usize>()
                >= count
        });
    }
    applied(&proxy, "it is whole", |config| {
        has(config, "listeners", "web")
    });
    assert_eq!(ask(&proxy, WEB), 200);
}

/// A headless service has its endpoints' addresses, one of which is the workload's own.
#[test]
fn own_address_is_another_thing_inbound_and_outbound() {
    let (app, others) = (EchoServer::start(), EchoServer::start());
    let plane = plane();
    let own = "10.77.0.2:80";
    serve(&plane, "headless", own, &[others.addr()]);
    plane.cluster(&cluster("app", &[app.addr()]));
    plane.cluster(&cluster("nobody", &[]));
    let inbound = |name: &str, address: &str, cluster: &str| Listener {
        direction: Direction::Inbound,
        ..listener(name, address, cluster)
    };
    plane.listener(&inbound("a-port", own, "app"));
    plane.listener(&Listener {
        bind: true,
        original_destination: true,
        proxy_protocol: true,
        ..inbound("inbound", "127.0.0.1:0", "nobody")
    });
    let proxy = start(&plane);
    let mut client = connect_at(proxy.listener("inbound"), own);
    assert_eq!((client.get("/").status(), app.request_count()), (200, 1));
    assert_eq!((ask(&proxy, own), others.request_count()), (200, 1));
}
