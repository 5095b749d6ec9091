//! How it starts, how it goes on without the control plane, and how it ends when nobody asked.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use rustix::process::Signal;
use testkit::{EchoServer, ProxyProcess, until};

use crate::world::{PROXY, World, ask, envoy_of, is_over, listener, signal};

#[test]
fn envoy_serves_when_the_companion_says_so() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    assert_eq!(ask(&proxy), 200);
    assert_eq!(proxy.admin("/ready").status(), 200);
    assert_eq!(proxy.page("/envoy/server_info")["state"], "LIVE");
    let folder = world.folder("web");
    let mode = folder.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let exit = proxy.terminate();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert!(!folder.exists(), "its folder is gone with it");
}

#[test]
fn pages_that_show_are_passed_on_and_no_others() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    let shown = proxy.page("/envoy/listeners?format=json");
    assert_eq!(shown["listener_statuses"][0]["name"], "main");
    for path in [
        "/envoy/quitquitquit",
        "/envoy/",
        "/envoy/logging",
        "/envoy//ready",
    ] {
        assert_eq!(proxy.admin(path).status(), 404, "{path}");
    }
    let scraped = proxy.admin("/stats/prometheus").text();
    assert!(scraped.contains("envoy_server_live"), "{scraped}");
    assert!(!scraped.contains("envoy_server_hot_restart"), "{scraped}");
    assert!(proxy.admin("/metrics").text().contains("leno_control"));
    assert_eq!(
        proxy.page("/config_dump")["config"]["envoy"]["xds"],
        "delta"
    );
}

#[test]
fn a_companion_takes_little_memory() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    // Of its own: the program's text is larger without optimisation.
    let taken = world.start().anon_kib();
    assert!(taken < 3 * 1024, "{taken} KiB");
}

#[test]
fn envoy_that_ends_takes_the_companion_along() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    signal(envoy_of(&proxy), Signal::KILL);
    let exit = proxy.wait(Instant::now());
    assert!(!exit.status.success());
    let words = "error: Envoy ended (signal: 9 (SIGKILL))";
    assert!(exit.stderr.contains(words), "{}", exit.stderr);
}

#[test]
fn envoy_ends_with_a_companion_that_is_killed() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    let envoy = envoy_of(&proxy);
    proxy.signal(Signal::KILL);
    drop(proxy.wait(Instant::now()));
    until("Envoy is gone", || is_over(envoy));
    let again = world.start();
    assert_eq!(ask(&again), 200, "what was left behind is no obstacle");
}

#[track_caller]
fn check_start(yaml: &str, words: &str) {
    let exit = ProxyProcess::try_start(PROXY, yaml, &[]).err().unwrap();
    assert!(exit.stderr.contains(words), "{}", exit.stderr);
}

#[test]
fn envoy_that_cannot_start_says_why() {
    let Some(mut world) = World::new() else {
        return;
    };
    let script = world.plane.dir().join("script");
    fs::write(&script, "#!/bin/sh\necho >&2 one; echo >&2 two; exit 3\n").unwrap();
    world.envoy.clone_from(&script);
    check_start(
        &world.yaml("web", ""),
        "script cannot be run: Permission denied",
    );
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let words = "Envoy ended (exit status: 3); it said last: one; two";
    check_start(&world.yaml("web", ""), words);
    fs::remove_file(&script).unwrap();
    check_start(&world.yaml("web", ""), "there is no Envoy at");
}

#[test]
fn envoy_serves_on_without_the_control_plane_and_hears_it_again() {
    let app = EchoServer::start();
    let Some(mut world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    world.plane.stop();
    assert_eq!(ask(&proxy), 200);
    world.plane.listener(&listener("late", "app"));
    world.plane.resume();
    let is_there = || proxy.admin("/envoy/listeners").text().contains("late::");
    until("Envoy hears of a listener", is_there);
    assert_eq!(ask(&proxy), 200);
}
