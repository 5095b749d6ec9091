//! Successors that come to nothing: whoever serves goes on as if they had never come.

use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::Signal;
use testkit::{ControlPlane, EchoServer, ProxyProcess, RawClient, Sidecar, Traffic, until};

use crate::world::{PROXY, Place, ended, says, start};

struct World {
    place: Place,
    app: EchoServer,
    serving: ProxyProcess,
    traffic: Traffic,
}

impl World {
    fn start() -> Self {
        let (place, app) = (Place::new(), EchoServer::start());
        let serving = start(&Self::sidecar(&place, &app).yaml());
        let traffic = Traffic::start(serving.addr(), 2);
        traffic.goes_on(20);
        Self {
            place,
            app,
            serving,
            traffic,
        }
    }

    fn sidecar(place: &Place, app: &EchoServer) -> Sidecar {
        Sidecar::inbound(app.addr()).with(&place.key())
    }

    /// It serves, reloads, and can still be succeeded.
    #[track_caller]
    fn goes_on_well(self) {
        assert_eq!(self.serving.admin("/ready").text(), "ready\n");
        let sidecar = Self::sidecar(&self.place, &self.app);
        let changed = sidecar.route("filters: [{setResponseHeader: {name: x-new, value: a}}]");
        self.serving.reconfigure(&changed.yaml());
        until("it is reloaded", || {
            let answer = RawClient::connect(self.serving.addr()).get("/");
            answer.header("x-new") == Some("a")
        });
        self.traffic.goes_on(20);
        let successor = start(&changed.yaml());
        self.traffic.goes_on(20);
        self.traffic.finish().is_only(&[200]);
        let exit = self.serving.wait(now());
        assert!(exit.status.success(), "{exit:?}");
        assert_eq!(RawClient::connect(successor.addr()).get("/").status(), 200);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is not looked at"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[track_caller]
fn fails(yaml: &str, why: &str) {
    let Err(exit) = ProxyProcess::try_start(PROXY, yaml, &[]) else {
        panic!("it starts")
    };
    assert!(!exit.status.success());
    assert!(exit.stderr.contains(why), "{}", exit.stderr);
}

#[test]
fn successor_that_cannot_read_its_configuration_is_not_noticed() {
    let world = World::start();
    fails(&format!("{}\nfoo: 1\n", world.place.key()), "unknown key");
    assert!(!world.serving.stderr().contains("handing over"));
    world.goes_on_well();
}

#[test]
fn successor_that_cannot_bind_changes_nothing() {
    let world = World::start();
    let taken = EchoServer::start();
    let sidecar = World::sidecar(&world.place, &world.app);
    let sidecar = sidecar.listen(&taken.addr().to_string());
    fails(&sidecar.yaml(), "cannot be bound");
    says(&world.serving, "does not take over");
    world.goes_on_well();
}

/// One that has everything but somebody who tells it what to do.
fn waiting(plane: &mut ControlPlane, place: &Place) -> String {
    plane.stop();
    format!("{}{}\n", plane.sidecar("caller", ""), place.key())
}

#[test]
fn successor_that_dies_before_it_is_ready_changes_nothing() {
    let world = World::start();
    let mut plane = ControlPlane::start();
    for _ in 0..3 {
        let before = world.serving.stderr().matches("handing over").count();
        let successor = ProxyProcess::launch(PROXY, &waiting(&mut plane, &world.place), &[]);
        until("it is given the sockets", || {
            world.serving.stderr().matches("handing over").count() > before
        });
        world.traffic.goes_on(20);
        successor.process().signal(Signal::KILL);
        until("it is given up", || {
            world.serving.stderr().matches("does not take over").count() > before
        });
    }
    world.goes_on_well();
}

#[test]
fn only_one_at_a_time_takes_over() {
    let world = World::start();
    let mut plane = ControlPlane::start();
    let first = ProxyProcess::launch(PROXY, &waiting(&mut plane, &world.place), &[]);
    says(&world.serving, "handing over");
    let second = World::sidecar(&world.place, &world.app).yaml();
    fails(&second, "another one is taking over");
    first.process().signal(Signal::KILL);
    says(&world.serving, "does not take over");
    world.goes_on_well();
}

#[test]
fn process_that_ends_meanwhile_leaves_its_sockets() {
    let place = Place::new();
    let app = EchoServer::start();
    let mut plane = ControlPlane::start();
    let yaml = World::sidecar(&place, &app).yaml();
    let serving = start(&yaml);
    let successor = ProxyProcess::launch(PROXY, &waiting(&mut plane, &place), &[]);
    says(&serving, "handing over");
    assert!(serving.terminate().status.success());
    plane.resume();
    let successor = successor.ready().unwrap_or_else(|exit| panic!("{exit:?}"));
    assert!(successor.stderr().contains("has ended by itself"));
    ended_well(successor);
}

fn ended_well(proxy: ProxyProcess) {
    assert!(proxy.terminate().status.success());
}

#[test]
fn what_a_killed_process_left_is_replaced() {
    let (place, app) = (Place::new(), EchoServer::start());
    let yaml = World::sidecar(&place, &app).yaml();
    let killed = start(&yaml);
    killed.signal(Signal::KILL);
    assert!(!killed.wait(now()).status.success());
    assert!(place.path().exists());
    // Of one that was killed while it started.
    let beside = place.path().with_extension("new");
    drop(UnixListener::bind(&beside).unwrap());
    let old = start(&yaml);
    assert!(!beside.exists());
    let new = start(&yaml);
    assert_eq!(new.addr(), old.addr());
    ended(old);
}

#[test]
fn folder_that_is_not_there_is_an_error() {
    let app = EchoServer::start();
    let sidecar = Sidecar::inbound(app.addr());
    fails(
        &sidecar.with("handover: no-such-folder/handover").yaml(),
        "make its folder",
    );
    let long = Path::new("/").join("x".repeat(120));
    let sidecar = Sidecar::inbound(app.addr()).with(&format!("handover: {long:?}"));
    fails(&sidecar.yaml(), "the path has 121 bytes");
}
