//! Configuration that changes: nothing is lost, and sidecars use it soon.

use std::net::SocketAddr;
use std::time::Instant;

use crate::load::{Load, URL};
use crate::world::{Haste, World, is_soak, until};
use crate::{resources, told};

#[test]
fn changes_lose_no_request() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&resources::mesh());
    let load = Load::begin(&world, URL);
    let two = SocketAddr::new(world.address("two"), 8080);
    let generation = || world.control_count("leno_control_generation", "");
    let (before, rounds) = (generation(), if is_soak() { 25 } else { 5 });
    for round in 0..rounds {
        change(&world, &load, two, round);
    }
    load.assert_nothing_lost();
    let passed = generation() - before;
    println!("{} changes, {passed} generations", rounds * 8);
    assert!(passed >= rounds * 6);
    for workload in ["one", "two", "other"] {
        assert!(
            world.count(workload, "leno_requests_total", "inbound") > 0,
            "{workload}"
        );
    }
}

/// Eight changes.
fn change(world: &World, load: &Load<'_>, two: SocketAddr, round: u64) {
    let is_current = || world.control_count("leno_control_source_current", "") == 1;
    let more = format!("more{round}");
    let gone = world.withdraw("two");
    world.await_config("client", |config| !told::has(config, two));
    world.tell("more", &resources::service(&more));
    world.await_config("client", |config| told::is_known(config, &more));
    world.tell("wrong", "apiVersion: v1\nkind: Servise\n");
    until(
        || (!is_current()).then_some(()),
        || "it is taken for right".into(),
    );
    gone.restore();
    load.pass(30);
    world.tell("wrong", "");
    world.await_config("client", |config| told::has(config, two));
    world.tell("split", &resources::split(20 + round));
    world.await_config("client", |config| told::share(config) == 20 + round);
    load.pass(30);
    world.tell("more", "");
    world.await_config("client", |config| !told::is_known(config, &more));
    world.tell("split", "");
    world.await_config("client", |config| told::share(config) == 0);
    load.pass(30);
}

#[test]
fn changes_are_in_use_while_requests_go_on() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&resources::mesh());
    let two = SocketAddr::new(world.address("two"), 8080);
    // Endpoints are told of once they are asked for.
    let load = Load::begin(&world, URL);
    let mut times = Vec::new();
    for _ in 0..15 {
        let mut measure = |change: &dyn Fn(), is_there| {
            let begun = Instant::now();
            change();
            world.await_config("client", |config| told::has(config, two) == is_there);
            times.push(begun.elapsed());
        };
        let gone = std::cell::Cell::new(None);
        measure(&|| gone.set(Some(world.withdraw("two"))), false);
        measure(&|| gone.take().unwrap().restore(), true);
    }
    load.assert_nothing_lost();
    times.sort_unstable();
    let median = times[times.len() / 2];
    println!(
        "a change is in use after {median:?} (median), {:?} at most",
        times[times.len() - 1]
    );
}
