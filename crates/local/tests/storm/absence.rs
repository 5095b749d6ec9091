//! The control plane comes and goes: nothing is lost, nothing is said twice, nobody needs it.

use rustix::process::Signal;
use serde_json::Value;

use crate::load::{Load, URL};
use crate::world::{Haste, World, is_soak, until};
use crate::{resources, told};

#[test]
fn f22_control_plane_that_comes_and_goes_loses_no_request() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&resources::mesh());
    let load = Load::begin(&world, URL);
    let issued = world.issued();
    for signal in [Signal::TERM, Signal::KILL] {
        world.end_control(signal);
        world.await_control();
        assert_known(&world);
    }
    world.leave_alone();
    // At the rate of the load: five seconds, and a minute.
    load.pass(if is_soak() { 60_000 } else { 1_500 });
    assert!(world.control_page("/ready").is_none());
    world.come_back();
    assert_known(&world);
    world.tell("more", &resources::service("more"));
    world.await_config("client", |config| told::is_known(config, "more"));
    load.assert_nothing_lost();
    assert_eq!(
        world.issued(),
        issued,
        "certificates were renewed that held"
    );
}

/// All sidecars are there again, and were told nothing that they knew.
fn assert_known(world: &World) {
    world.await_settled();
    let page = world.control_page("/metrics").unwrap();
    assert_eq!(
        crate::pages::sum(&page, "leno_control_resources_sent_total", ""),
        0,
        "{page}"
    );
    assert_eq!(
        crate::pages::sum(&page, "leno_control_signatures_total", ""),
        0,
        "{page}"
    );
}

#[test]
fn sidecars_that_start_without_control_plane_serve_what_they_knew() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&resources::mesh());
    Load::begin(&world, URL).assert_nothing_lost();
    let workloads = ["client", "one", "two"];
    let serials = workloads.map(|workload| world.serials(workload));
    let two = world.address("two").to_string();
    until(
        || world.is_kept("client", &two).then_some(()),
        || "it is not written down".into(),
    );
    world.leave_alone();
    for workload in workloads {
        world.restart_sidecar(workload);
        let page: Value = serde_json::from_str(&world.page(workload, "/control")).unwrap();
        assert_eq!(page["connected"], Value::Null);
    }
    Load::begin(&world, URL).assert_nothing_lost();
    assert_eq!(workloads.map(|workload| world.serials(workload)), serials);
    for workload in ["one", "two"] {
        assert!(
            world.count(workload, "leno_requests_total", "inbound") > 0,
            "{workload}"
        );
    }
    world.come_back();
    world.await_settled();
}
