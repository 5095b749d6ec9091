//! The rules in real network namespaces, with real sockets and users, for both backends. Needs
//! root; without it the tests say that they were skipped.

#[path = "namespaces/world.rs"]
mod world;

use std::io::ErrorKind;
use std::net::SocketAddr;

use intercept::{Backend, Ipv6, Policy, apply, remove};
use world::World;

const APPLICATION: u32 = 1000;
const SIDECAR: u32 = 1500;
const ROOT: u32 = 0;
const BACKENDS: [Backend; 2] = [Backend::Nft, Backend::Iptables];

#[test]
fn what_a_workload_sends_goes_to_its_sidecar_and_what_the_sidecar_sends_does_not() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        let policy = Policy {
            excluded_outbound_ports: vec![9090..=9090],
            excluded_cidrs: world.second().map(world::only).to_vec(),
            ..Policy::default()
        };
        world.intercept(&policy, backend);
        world.inside("outbound", "[::]:15001");
        world.outside("peer", "[::]:8080");
        world.outside("excluded", "[::]:9090");
        for (peer, second) in world.peer().into_iter().zip(world.second()) {
            let [target, excluded] = [8080, 9090].map(|port| SocketAddr::new(peer, port));
            let taken = format!("outbound {target}");
            assert_eq!(
                world.ask(APPLICATION, target).unwrap(),
                taken,
                "{backend:?}"
            );
            assert_eq!(world.ask(ROOT, target).unwrap(), taken, "{backend:?}");
            assert_eq!(world.ask(SIDECAR, target).unwrap(), "peer -");
            assert_eq!(world.ask(APPLICATION, excluded).unwrap(), "excluded -");
            let second = SocketAddr::new(second, 8080);
            assert_eq!(world.ask(APPLICATION, second).unwrap(), "peer -");
        }
    }
}

#[test]
fn what_comes_for_a_workload_goes_to_its_sidecar_first() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        world.intercept(&Policy::default(), backend);
        world.inside("inbound", "[::]:15003");
        world.inside("outbound", "[::]:15001");
        world.inside("metrics", "[::]:15010");
        world.inside("application", "[::]:8080");
        for own in world.own() {
            // A destination that is the sidecar itself is seen as such.
            for port in [8080, 15000, 15001] {
                let target = SocketAddr::new(own, port);
                let answer = world.ask_from_outside(target).unwrap();
                assert_eq!(answer, format!("inbound {target}"), "{backend:?}");
            }
            let itself = SocketAddr::new(own, 15003);
            assert_eq!(world.ask_from_outside(itself).unwrap(), "inbound -");
            let metrics = SocketAddr::new(own, 15010);
            assert_eq!(world.ask_from_outside(metrics).unwrap(), "metrics -");
            // Its own sidecar, and whoever runs beside the application, reach it straight.
            let application = SocketAddr::new(own, 8080);
            assert_eq!(world.ask(SIDECAR, application).unwrap(), "application -");
            assert_eq!(
                world.ask(APPLICATION, application).unwrap(),
                "application -"
            );
        }
    }
}

#[test]
fn names_are_asked_of_the_sidecar_whoever_is_asked() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        world.intercept(&Policy::default(), backend);
        world.inside("dns", "127.0.0.1:15053");
        world.inside("dns", "[::1]:15053");
        for peer in world.peer() {
            world.outside("resolver", &SocketAddr::new(peer, 53).to_string());
            world.outside("other", &SocketAddr::new(peer, 5000).to_string());
        }
        let resolvers = world.peer().into_iter().chain(world::loopback());
        for resolver in resolvers.map(|addr| SocketAddr::new(addr, 53)) {
            assert_eq!(
                world.send(APPLICATION, resolver).unwrap(),
                "dns",
                "{resolver}"
            );
            let answer = world.ask(APPLICATION, resolver).unwrap();
            assert_eq!(answer, format!("dns {resolver}"), "{backend:?}");
        }
        for peer in world.peer() {
            let [resolver, other] = [53, 5000].map(|port| SocketAddr::new(peer, port));
            assert_eq!(
                world.send(SIDECAR, resolver).unwrap(),
                "resolver",
                "{backend:?}"
            );
            assert_eq!(
                world.send(APPLICATION, other).unwrap(),
                "other",
                "{backend:?}"
            );
        }
    }
}

#[test]
fn names_are_not_answered_to_others() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        world.intercept(&Policy::default(), backend);
        for own in world.own() {
            let [dns, open] = [15053, 5000].map(|port| SocketAddr::new(own, port));
            let first = world.first_of_two_from_outside(dns, open);
            assert_eq!(first, open, "{backend:?}");
        }
    }
}

#[test]
fn an_application_does_not_reach_its_sidecars_own_ports() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        world.intercept(&Policy::default(), backend);
        for (name, port) in [("admin", 15000), ("outbound", 15001), ("inbound", 15003)] {
            for address in world::loopback().map(|addr| SocketAddr::new(addr, port)) {
                world.inside(name, &address.to_string());
                let error = world.ask(APPLICATION, address).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{backend:?}");
                let answer = format!("{name} -");
                assert_eq!(world.ask(SIDECAR, address).unwrap(), answer, "{backend:?}");
                assert_eq!(world.ask(ROOT, address).unwrap(), answer, "{backend:?}");
            }
        }
    }
}

#[test]
fn ipv6_that_cannot_be_redirected_never_passes() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        let policy = Policy {
            ipv6: Ipv6::Drop,
            ..Policy::default()
        };
        world.intercept(&policy, backend);
        world.inside("outbound", "[::]:15001");
        world.outside("peer", "[::]:8080");
        let [v4, v6] = world.peer().map(|addr| SocketAddr::new(addr, 8080));
        assert_eq!(
            world.ask(APPLICATION, v4).unwrap(),
            format!("outbound {v4}")
        );
        for user in [APPLICATION, SIDECAR] {
            let error = world.ask(user, v6).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{backend:?}");
        }
        let [v4, v6] = world.own().map(|addr| SocketAddr::new(addr, 5000));
        assert_eq!(world.first_of_two_from_outside(v6, v4), v4, "{backend:?}");
    }
}

#[test]
fn applied_twice_is_applied_once_and_removed_is_gone() {
    for backend in BACKENDS {
        let Some(world) = World::make() else { return };
        let others = world.add_rules_of_others();
        let namespace = Some(world.namespace());
        world.intercept(&Policy::default(), backend);
        let once = world.rules();
        assert!(once.to_lowercase().contains("leno"), "{once}");
        let other = Policy {
            inbound_port: 16003,
            ..Policy::default()
        };
        world.intercept(&other, backend);
        assert!(world.rules().contains("16003") && !world.rules().contains("15003"));
        world.intercept(&Policy::default(), backend);
        assert_eq!(world.rules(), once, "{backend:?}");
        for _ in 0..2 {
            remove(namespace, backend).unwrap();
            let left = world.rules();
            assert!(!left.to_lowercase().contains("leno"), "{left}");
            assert!(others.iter().all(|rule| left.contains(rule)), "{left}");
        }
    }
}

#[test]
fn the_backend_that_was_found_is_told_and_removed() {
    let Some(world) = World::make() else { return };
    let namespace = Some(world.namespace());
    let found = apply(namespace, &Policy::default(), Backend::Detect).unwrap();
    assert!(BACKENDS.contains(&found));
    remove(namespace, Backend::Detect).unwrap();
    assert!(
        !world.rules().to_lowercase().contains("leno"),
        "{}",
        world.rules()
    );
}

#[test]
fn a_namespace_that_is_not_there_is_an_error_that_says_so() {
    let path = std::path::Path::new("/run/netns/leno-nowhere");
    let error = apply(Some(path), &Policy::default(), Backend::Nft).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("/run/netns/leno-nowhere") && text.contains("make it first"),
        "{text}"
    );
}
