//! Too little of everything: who has limits is held back or ended, and nobody else sees it.

use std::fs::File;
use std::process::Child;

use local::cgroup::{Usage, usage};

use crate::apps::{app, came, find, workload, world};
use crate::load::{Load, Shape};
use crate::resources::{self, SERVE};
use crate::world::{World, is_soak, until};

const PORTS: &str = "ports: [{port: 8080}, {port: 9090}]";

/// Who is not limited, and who asks.
fn others() -> String {
    let client = resources::workload("client", "client", "[sleep, infinity]");
    let other = workload("other", SERVE, PORTS);
    resources::service("other") + &other + &client
}

fn url(name: &str) -> String {
    format!("http://{name}.default.svc.cluster.local/")
}

#[track_caller]
fn ask<'w>(world: &'w World, name: &str, rate: &str) -> Load<'w> {
    let load = Load::start(
        world,
        Shape {
            name,
            url: &url(name),
            rate,
            more: &["-c", "8"],
        },
    );
    load.pass(50);
    load
}

const fn rate() -> &'static str {
    "200"
}

/// As many requests as go through, until it is dropped.
struct Flood(Child);

impl Flood {
    fn begin(world: &World, name: &str) -> Self {
        let url = url(name);
        let words = [
            "load",
            &url,
            "--qps",
            "max",
            "-c",
            "64",
            "-t",
            "2h",
            "--progress",
            "never",
        ];
        let mut command = world.leno("client", &words);
        let out = File::create(world.file("flood.out")).unwrap();
        Self(
            command
                .stdout(out.try_clone().unwrap())
                .stderr(out)
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_sidecar_under_more_load_than_it_can_carry_is_held_back_and_recovers() {
    let Some(world) = world() else {
        return;
    };
    let limits = "sidecar: {resources: {limits: {cpu: 200m, memory: 64Mi}}}";
    let echo = workload("echo", SERVE, &format!("{PORTS}, {limits}"));
    world.up(&(resources::service("echo") + &echo + &others()));
    let before = find(&world, "echo");
    let used = || usage(&before.sidecar_cgroups);
    let others = ask(&world, "other", rate());
    let flood = Flood::begin(&world, "echo");
    let enough = if is_soak() { 300 } else { 30 };
    let held_back = || (used().throttled_periods >= enough).then_some(());
    until(held_back, || format!("{:?}", used()));
    // Those that share the machine and the client's sidecar with it have what they need.
    others.pass(200);
    drop(flood);
    let now = find(&world, "echo");
    assert_eq!(now.sidecar.process, before.sidecar.process);
    assert_eq!(now.sidecar.restarts, 0);
    let Usage { oom_kills, .. } = used();
    assert_eq!(oom_kills, 0);
    others.assert_nothing_lost();
    // What it was too slow for has gone with those who asked.
    let again = ask(&world, "echo", "20");
    again.pass(100);
    again.assert_nothing_lost();
}

#[test]
fn an_application_that_takes_all_memory_is_ended_and_comes_back_and_nobody_else_sees_it() {
    let Some(world) = world() else {
        return;
    };
    let spec = "ports: [{port: 8080}], resources: {limits: {memory: 64Mi}}";
    let hungry = resources::service("hungry") + &app("hungry", &["serve_on"], spec);
    world.up(&(hungry + &others()));
    let others = ask(&world, "other", rate());
    let before = find(&world, "hungry");
    let words = |path: &str| {
        [
            "/usr/bin/python3".into(),
            "app.py".into(),
            "ask".into(),
            url("hungry") + path,
        ]
    };
    let ask = |path: &str| {
        let words = words(path);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        assert!(world.exec("client", &words).status().unwrap().success());
        came(&world, "client-0").pop().unwrap()
    };
    assert_eq!(ask(""), "200");
    for round in 1..=2 {
        // By whoever was asked in vain, or when nobody is there to be asked again.
        assert!(["502", "503"].contains(&&*ask("eat")));
        let life = || find(&world, "hungry").application.unwrap();
        let again = || (life().restarts >= round && find(&world, "hungry").ready).then_some(());
        until(again, || format!("{:#?}", find(&world, "hungry")));
        assert!(life().ended.unwrap().contains("KILL"), "{:?}", life());
        until(
            || (ask("") == "200").then_some(()),
            || format!("{:?}", came(&world, "client-0")),
        );
    }
    let used = usage(&before.cgroups);
    assert!(used.oom_kills >= 2, "{used:?}");
    let now = find(&world, "hungry");
    assert_eq!(now.sidecar, before.sidecar);
    others.pass(100);
    others.assert_nothing_lost();
}
