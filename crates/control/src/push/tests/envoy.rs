//! What is held for Envoys, and what they see of it.

use std::collections::{BTreeMap, BTreeSet};

use model::{Balance, TlsMode};

use super::parts::{cluster, listener};
use super::*;

fn on_envoy(world: &mut World, is_on: bool) {
    let own = workload("web", &Reach::All);
    let mut own = WorkloadParts::clone(&own);
    if is_on {
        own.data_plane = DataPlane::Envoy;
    }
    world.mesh.workloads.insert(web(), Arc::new(own));
    world.apply();
}

/// Resources by kind, and their bytes.
fn held(world: &World) -> [(usize, usize); Kind::COUNT] {
    let catalogue = world.push.catalogue();
    Kind::ALL.map(|kind| catalogue.size(kind))
}

/// What the workload's Envoy is told, by name; `None` if it is told nothing at all.
fn told(world: &World, kind: Kind) -> Option<BTreeMap<String, Vec<u8>>> {
    let catalogue = world.push.catalogue();
    let own = catalogue.workload(&web()).unwrap();
    let sight = own.sight_of(Flavour::Envoy, &catalogue, &own.reach)?;
    let entries = sight.all(kind).map(|id| sight.entry(kind, id).unwrap());
    let entries = entries.map(|entry| (entry.name.clone(), entry.encoded.to_vec()));
    Some(entries.collect())
}

#[test]
fn nothing_is_held_for_envoys_while_nobody_is_on_one() {
    let mut world = World::new(&Reach::All);
    let before = held(&world);
    assert_eq!(told(&world, Kind::Cluster), None);
    on_envoy(&mut world, true);
    assert!(held(&world) > before);
    let catalogue = world.push.catalogue();
    let own = catalogue.workload(&web()).unwrap();
    for kind in Kind::ALL {
        let leno: BTreeSet<_> = own
            .told(&catalogue, kind)
            .map(|it| it.name.clone())
            .collect();
        let envoy: BTreeSet<_> = told(&world, kind).unwrap().into_keys().collect();
        assert_eq!(envoy, leno, "{kind:?}");
    }
    on_envoy(&mut world, false);
    assert_eq!(held(&world), before);
    assert_eq!(told(&world, Kind::Cluster), None);
}

#[test]
fn changes_reach_both_flavours() {
    let mut world = World::new(&Reach::All);
    on_envoy(&mut world, true);
    let before = told(&world, Kind::Endpoints).unwrap();
    world.mesh.services.insert(key("a"), service("a", 2));
    world.mesh.services.remove(&key("b"));
    world.apply();
    let after = told(&world, Kind::Endpoints).unwrap();
    assert_ne!(before["outbound|a"], after["outbound|a"]);
    assert!(before.contains_key("outbound|b") && !after.contains_key("outbound|b"));
}

/// A headless Service with an endpoint that others may have as well.
fn headless(name: &str) -> Arc<ServiceParts> {
    let name = format!("outbound|{name}");
    Arc::new(ServiceParts {
        listeners: vec![listener(&name, &name)],
        clusters: vec![model::Cluster {
            balance: Balance::OriginalDestination,
            ..cluster(&name, 1)
        }],
    })
}

#[test]
fn an_address_is_of_one_listener_in_envoy() {
    let mut world = World::new(&Reach::All);
    for name in ["a", "b"] {
        world.mesh.services.insert(key(name), headless(name));
    }
    on_envoy(&mut world, true);
    let has = |world: &World, name| told(world, Kind::Listener).unwrap().contains_key(name);
    assert!(has(&world, "outbound|a") && !has(&world, "outbound|b"));
    world.mesh.services.remove(&key("a"));
    world.apply();
    assert!(has(&world, "outbound|b"), "it passes to the next");
    world.mesh.services.insert(key("a"), headless("a"));
    world.apply();
    assert!(has(&world, "outbound|a") && !has(&world, "outbound|b"));
}

#[test]
fn envoy_has_callers_prove_themselves_again_when_some_are_trusted_no_more() {
    let mut world = World::new(&Reach::All);
    let mut own = WorkloadParts::clone(&workload("web", &Reach::All));
    own.data_plane = DataPlane::Envoy;
    let bound = |name: &str| model::Listener {
        direction: model::Direction::Inbound,
        tls: TlsMode::Strict,
        ..listener(name, name)
    };
    let port = bound("inbound|port");
    own.listeners = vec![
        model::Listener {
            bind: true,
            original_destination: true,
            protocol: model::ListenerProtocol::Tcp,
            address: ([0, 0, 0, 0], 15003).into(),
            ..bound("inbound")
        },
        port,
    ];
    world.mesh.workloads.insert(web(), Arc::new(own));
    world.apply();
    let mut number = 0;
    let mut told_with = |revocations: &str, roots: Roots| {
        let bundle = TrustBundle {
            name: xds::TRUST_BUNDLE.to_owned(),
            authorities: parts::AUTHORITY.to_owned(),
            revocations: revocations.to_owned(),
        };
        number += 1;
        world.push.apply_bundle((&bundle, &roots), number, 0);
        told(&world, Kind::Listener).unwrap()["inbound"].clone()
    };
    let before = told_with("", parts::roots(1, 1, 1));
    let revoked = told_with("list", parts::roots(1, 1, 1));
    assert_ne!(before, revoked);
    let both = told_with("list", parts::roots(2, 1, 2));
    assert_eq!(both, revoked, "nobody is trusted less");
    assert_ne!(told_with("list", parts::roots(2, 2, 1)), revoked);
    let all = told(&world, Kind::Listener).unwrap();
    assert!(!all.contains_key("inbound|port"), "it is in the other");
}

#[test]
fn envoy_makes_connections_anew_at_each_step_from_one_root_to_another() {
    let mut world = World::new(&Reach::All);
    on_envoy(&mut world, true);
    let bundle = TrustBundle {
        name: xds::TRUST_BUNDLE.to_owned(),
        authorities: parts::AUTHORITY.to_owned(),
        revocations: String::new(),
    };
    let steps = [(1, 1, 1), (1, 1, 2), (2, 1, 2), (2, 2, 1)];
    let mut seen = BTreeSet::new();
    for (preferred, oldest, count) in steps {
        let roots = parts::roots(preferred, oldest, count);
        world.push.apply_bundle((&bundle, &roots), 1, 0);
        assert!(seen.insert(told(&world, Kind::Cluster)), "{roots:?}");
        world.push.apply_bundle((&bundle, &roots), 1, 0);
        assert!(!seen.insert(told(&world, Kind::Cluster)), "{roots:?}");
    }
}
