//! How it ends when it is told to.

use std::io::Write;

use rustix::process::Signal;
use testkit::{RawClient, until};

use crate::world::{PROXY, Slow, World, ask, envoy_of, is_over, signal};
use testkit::ProxyProcess;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

fn start(world: &World, drain_timeout: &str) -> ProxyProcess {
    let limits = format!("limits: {{drainTimeout: {drain_timeout}}}\n");
    ProxyProcess::start(PROXY, &(world.yaml("web", "") + &limits))
}

/// Tells it to end, and waits until it drains.
#[track_caller]
fn end(proxy: &ProxyProcess) {
    proxy.signal(Signal::TERM);
    let status = |path| proxy.admin(path).status();
    until("Envoy drains", || status("/envoy/ready") == 503);
    assert_eq!(status("/ready"), 503);
}

#[test]
fn requests_in_flight_end_before_envoy_does() {
    let app = Slow::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = start(&world, "1m");
    let envoy = envoy_of(&proxy);
    let mut client = RawClient::connect(proxy.addr());
    client.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n");
    let mut request = app.request();
    end(&proxy);
    assert!(!is_over(envoy));
    request.write_all(ANSWER).unwrap();
    let answer = client.response();
    assert_eq!(
        (answer.status(), answer.header("connection")),
        (200, Some("close"))
    );
    drop((request, client));
    let exit = proxy.wait(std::time::Instant::now());
    assert!(exit.status.success(), "{}", exit.stderr);
    assert!(is_over(envoy));
}

#[test]
fn nobody_is_waited_for_longer_than_the_limit() {
    let app = Slow::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = start(&world, "200ms");
    let mut client = RawClient::connect(proxy.addr());
    client.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n");
    let _request = app.request();
    assert!(proxy.terminate().status.success());
}

#[test]
fn told_to_end_again_it_ends_at_once() {
    let app = Slow::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = start(&world, "1h");
    let mut client = RawClient::connect(proxy.addr());
    client.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n");
    let _request = app.request();
    end(&proxy);
    assert!(proxy.terminate().status.success());
}

#[test]
fn connections_without_a_request_are_not_waited_for() {
    let app = testkit::EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = start(&world, "2s");
    assert_eq!(ask(&proxy), 200);
    let mut client = RawClient::connect(proxy.addr());
    assert_eq!(client.get("/").status(), 200);
    assert!(proxy.terminate().status.success());
}

#[test]
fn an_envoy_that_hangs_is_waited_for_no_longer_than_the_limit() {
    let app = testkit::EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = start(&world, "200ms");
    let envoy = envoy_of(&proxy);
    signal(envoy, Signal::STOP);
    let exit = proxy.terminate();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert!(exit.stderr.contains("is killed"), "{}", exit.stderr);
    // It was not asked three times, each with the time of an answer.
    assert!(!exit.stderr.contains("does not answer"), "{}", exit.stderr);
    assert!(is_over(envoy));
}
