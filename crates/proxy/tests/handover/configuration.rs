//! What a successor does with another configuration than its predecessor's.

use std::net::{SocketAddr, TcpStream};

use testkit::config::listeners;
use testkit::{EchoServer, RawClient, Traffic, until};

use crate::world::{Place, ended, start};

fn sidecar(place: &Place, app: SocketAddr, all: &[(&str, &str)]) -> String {
    format!("{}\n{}", place.key(), listeners(app, all))
}

#[test]
fn listener_that_is_gone_closes_and_one_that_is_new_opens() {
    let (place, app) = (Place::new(), EchoServer::start());
    let both = [("main", "127.0.0.1:0"), ("gone", "127.0.0.1:0")];
    let old = start(&sidecar(&place, app.addr(), &both));
    let (main, gone) = (old.addr(), old.listener("gone"));
    let traffic = Traffic::start(main, 2);
    let both = [("new", "127.0.0.1:0"), ("main", "127.0.0.1:0")];
    let new = start(&sidecar(&place, app.addr(), &both));
    assert_eq!(new.addr(), main);
    until("it refuses", || TcpStream::connect(gone).is_err());
    let answer = RawClient::connect(new.listener("new")).get("/");
    assert_eq!(answer.status(), 200);
    traffic.goes_on(50);
    traffic.finish().is_only(&[200]);
    ended(old);
}

#[test]
fn address_stays_though_the_listener_has_another_name() {
    let (place, app) = (Place::new(), EchoServer::start());
    let old = start(&sidecar(&place, app.addr(), &[("old", "127.0.0.1:0")]));
    let addr = old.listener("old");
    let traffic = Traffic::start(addr, 2);
    traffic.goes_on(20);
    let new = start(&sidecar(&place, app.addr(), &[("main", &addr.to_string())]));
    assert_eq!(new.addr(), addr);
    traffic.goes_on(50);
    traffic.finish().is_only(&[200]);
    ended(old);
}

#[test]
fn what_a_reload_has_opened_is_handed_over_too() {
    let (place, app) = (Place::new(), EchoServer::start());
    let one = sidecar(&place, app.addr(), &[("main", "127.0.0.1:0")]);
    let free = testkit::dead_address().to_string();
    let both = [("main", "127.0.0.1:0"), ("later", &free)];
    let both = sidecar(&place, app.addr(), &both);
    let old = start(&one);
    old.reconfigure(&both);
    let new = start(&both);
    assert_eq!(new.addr(), old.addr());
    assert_eq!(new.listener("later").to_string(), free);
    let answer = RawClient::connect(new.listener("later")).get("/");
    assert_eq!(answer.status(), 200);
    ended(old);
}

#[test]
fn pages_come_from_the_successor_and_the_old_one_says_that_it_drains() {
    let (place, app) = (Place::new(), EchoServer::start());
    let yaml = sidecar(&place, app.addr(), &[("main", "127.0.0.1:0")]);
    let old = start(&yaml);
    let mut busy = RawClient::connect(old.addr());
    busy.send("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 8\r\n\r\nhalf");
    old.metric_becomes("leno_requests_active", &[], 1.0);
    let mut watching = RawClient::connect(old.admin_addr());
    assert_eq!(watching.get("/ready").text(), "ready\n");
    let new = start(&yaml);
    assert_eq!(new.admin_addr(), old.admin_addr());
    // Beyond what both may have accepted at the moment of the handover.
    until("the old one drains", || {
        watching.get("/ready").text() == "draining\n"
    });
    for _ in 0..10 {
        assert_eq!(new.admin("/ready").text(), "ready\n");
        assert_eq!(new.metric("leno_requests_active", &[]), 0.0);
    }
    busy.send("more");
    assert_eq!(busy.response().text(), "halfmore");
    drop(watching);
    ended(old);
}
