//! Certificates are replaced under load, between all data planes: nothing is lost. Who is removed
//! is cut off from all of them.

use serde_json::Value;

use crate::ask::{ENDED, status};
use crate::decisions::pairs;
use crate::file::{PLANES, every, place};
use crate::load::{Load, Shape};
use crate::world::{Haste, World, until};

/// From every data plane to every data plane, each on connections that are kept.
struct Loads<'w> {
    world: &'w World,
    loads: Vec<Load<'w>>,
}

impl<'w> Loads<'w> {
    #[track_caller]
    fn begin(world: &'w World) -> Self {
        let begin = |[caller, callee]: [&str; 2]| {
            let url = format!("http://strict-{callee}.default.svc.cluster.local/");
            let name = format!("{caller}-{callee}");
            let shape = Shape {
                name: &name,
                url: &url,
                rate: "50",
                more: &["-c", "4"],
            };
            let leno = |words: &[&str]| world.leno(&format!("friend-{caller}"), words);
            Load::start_by(world, shape, leno)
        };
        let loads = Self {
            world,
            loads: pairs().map(begin).collect(),
        };
        loads.pass(50);
        loads
    }

    /// Waits until each caller has been answered so many times more.
    #[track_caller]
    fn pass(&self, requests: u64) {
        let sent = || PLANES.map(|plane| self.world.sent(&format!("friend-{plane}")));
        let goal = sent().map(|count| count + requests);
        let is_there = || sent().iter().zip(&goal).all(|(now, goal)| now >= goal);
        until(
            || is_there().then_some(()),
            || format!("{:?} of {goal:?}", sent()),
        );
    }

    #[track_caller]
    fn assert_nothing_lost(self) {
        self.loads.into_iter().for_each(Load::assert_nothing_lost);
    }
}

/// Who takes part in the load.
fn parties() -> [String; 4] {
    let [leno, envoy] = PLANES;
    [
        ("friend", leno),
        ("friend", envoy),
        ("strict", leno),
        ("strict", envoy),
    ]
    .map(|(name, plane)| format!("{name}-{plane}"))
}

/// Waits until the certificate that a workload shows others is the one that it has, and no longer
/// the one `before`.
#[track_caller]
fn await_renewal(world: &World, workload: &str, before: &[String; 2]) {
    let is_new = || {
        let [leaf, _] = world.serials(workload);
        let is_shown = !workload.ends_with("envoy") || shown_by_envoy(world, workload, &leaf);
        (leaf != before[0] && is_shown).then_some(())
    };
    until(is_new, || format!("{workload} still has {before:?}"));
}

/// Whether an Envoy uses that certificate.
fn shown_by_envoy(world: &World, workload: &str, serial: &str) -> bool {
    let page = world.page(workload, "/envoy/certs");
    let plain = |text: &str| text.replace(':', "").trim_start_matches('0').to_lowercase();
    let page: Value = serde_json::from_str(&page).unwrap_or_default();
    let chains = page["certificates"].as_array().into_iter().flatten();
    let mut own = chains.flat_map(|one| one["cert_chain"].as_array().into_iter().flatten());
    own.any(|one| plain(one["serial_number"].as_str().unwrap_or_default()) == plain(serial))
}

#[test]
fn new_certificates_lose_no_request_between_data_planes() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&every(&world));
    let loads = Loads::begin(&world);
    for _ in 0..3 {
        let before = parties().map(|one| world.serials(&one));
        world.operate("POST", "/v1/rotate-leaves");
        for (workload, before) in parties().iter().zip(&before) {
            await_renewal(&world, workload, before);
        }
        loads.pass(50);
    }
    loads.assert_nothing_lost();
}

#[test]
fn another_root_loses_no_request_between_data_planes() {
    let haste = Haste {
        renewal_spread: "4s",
        ..Haste::default()
    };
    let Some(world) = World::with_envoy(haste) else {
        return;
    };
    world.up(&every(&world));
    let loads = Loads::begin(&world);
    let before = parties().map(|one| world.serials(&one));
    let old = world.operate("GET", "/v1/status")["roots"][0].clone();
    world.operate("POST", "/v1/rotate-root");
    for phase in ["issuing", "reconnecting", "stable"] {
        await_phase(&world, phase);
        loads.pass(50);
    }
    for (workload, before) in parties().iter().zip(&before) {
        await_renewal(&world, workload, before);
        let page = world.page(workload, "/certs");
        let old = old.as_str().unwrap();
        assert!(!page.contains(old), "{workload} trusts {old}: {page}");
    }
    loads.pass(50);
    loads.assert_nothing_lost();
}

#[track_caller]
fn await_phase(world: &World, phase: &str) {
    let status = || world.operate("GET", "/v1/status");
    let is_there = || (status()["phase"] == phase).then_some(());
    until(is_there, || status().to_string());
}

#[test]
fn who_is_removed_is_cut_off_from_every_data_plane_and_nobody_else() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&every(&world));
    let loads = Loads::begin(&world);
    for removed in PLANES {
        let caller = format!("foe-{removed}");
        let ask = |callee| {
            let [address, _] = world.virtual_addresses(place("open", callee));
            world.inside(&caller, || status(address, 80, "/"))
        };
        assert_eq!(PLANES.map(ask), ["200", "200"], "{caller}");
        world.remove(&caller);
        for callee in PLANES {
            let is_cut = || [ENDED, "502", "503"].contains(&&*ask(callee)).then_some(());
            until(is_cut, || {
                format!("{caller} is still answered by open-{callee}")
            });
        }
    }
    loads.pass(100);
    loads.assert_nothing_lost();
}
