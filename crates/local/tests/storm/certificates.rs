//! Certificates, issuers and roots that are replaced, and taken back: nothing is lost but what is
//! to be.

use serde_json::Value;

use crate::echo::{self, Opaque};
use crate::load::{Load, URL};
use crate::resources;
use crate::world::{Haste, World, is_soak, until};

const WORKLOADS: [&str; 4] = ["client", "one", "two", "other"];

#[test]
fn new_certificates_lose_no_request() {
    let (leaf_ttl, turns) = if is_soak() { ("60s", 7) } else { ("12s", 3) };
    let haste = Haste {
        leaf_ttl,
        ..Haste::default()
    };
    let Some(world) = World::make(haste) else {
        return;
    };
    world.up(&resources::mesh());
    let load = Load::begin(&world, URL);
    for turn in 1..=turns {
        let before = WORKLOADS.map(|workload| world.serials(workload));
        let is_asked_for = turn == turns;
        if is_asked_for {
            world.operate("POST", "/v1/rotate-leaves");
        }
        for (workload, [leaf, issuer]) in WORKLOADS.iter().zip(&before) {
            let is_new = |[own, by]: [String; 2]| own != *leaf && (!is_asked_for || by != *issuer);
            let renewed = || is_new(world.serials(workload)).then_some(());
            until(renewed, || format!("{workload} still has {leaf}"));
        }
        load.pass(50);
    }
    load.assert_nothing_lost();
    assert!(world.issued() >= WORKLOADS.len() * (turns + 1));
}

#[test]
fn another_root_loses_no_request() {
    let haste = Haste {
        renewal_spread: "4s",
        ..Haste::default()
    };
    let Some(world) = World::make(haste) else {
        return;
    };
    world.up(&resources::mesh());
    let load = Load::begin(&world, URL);
    let mut opaque = Opaque::open(&world, "client", 4);
    let old = status(&world)["roots"][0].as_str().unwrap().to_owned();
    world.operate("POST", "/v1/rotate-root");
    await_phase(&world, "issuing");
    opaque.assert_alive();
    await_phase(&world, "stable");
    // What is not read cannot be made anew elsewhere: it ends with what it rests on.
    opaque.await_end();
    Opaque::open(&world, "client", 1);
    assert_eq!(status(&world)["roots"].as_array().unwrap().len(), 1);
    for workload in WORKLOADS {
        let page = world.page(workload, "/certs");
        assert!(!page.contains(&old), "{workload} trusts {old}: {page}");
    }
    load.pass(50);
    load.assert_nothing_lost();
}

fn status(world: &World) -> Value {
    world.operate("GET", "/v1/status")
}

#[track_caller]
fn await_phase(world: &World, phase: &str) {
    let is_there = || (status(world)["phase"] == phase).then_some(());
    until(is_there, || status(world).to_string());
}

#[test]
fn what_is_removed_is_cut_off_and_nothing_else() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&resources::mesh());
    let load = Load::begin(&world, URL);
    let mut others = Opaque::open(&world, "client", 2);
    let mut cut = Opaque::open(&world, "other", 2);
    assert!(echo::is_served(&world, "other"));
    world.remove("other");
    cut.await_end();
    assert_eq!(world.operate("GET", "/v1/status")["revoked"], 1);
    // The one whose certificate it is does not know, and goes on showing it.
    assert!(!echo::is_served(&world, "other"));
    // The alert may be there before the figure: the pages have a thread of their own.
    let refused = |workload| world.count(workload, "leno_tls_handshake_failures_total", "revoked");
    let is_counted = || (refused("one") + refused("two") > 0).then_some(());
    until(is_counted, || "no handshake is counted as refused".into());
    load.pass(50);
    others.assert_alive();
    load.assert_nothing_lost();
}
