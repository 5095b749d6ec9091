//! What an application sends by TCP meets its sidecar or nobody: whatever it tries, under either
//! kind of rules, by either family. What leaves a workload is seen at this machine's end of its
//! wire.

use std::net::IpAddr;

use intercept::{Backend, Policy, netns};
use local::state::State;

use crate::world::{Outcomes, World, address, find, gateway, idle, until};

/// Nobody's, and not in the mesh.
const FAR: [&str; 2] = ["198.51.100.9", "2001:db8::9"];

/// Everything that `tries` sent from the workload, but for the sidecar's talk with the control
/// plane, and what came of it.
fn watch(world: &World, state: &State, tries: &[&str]) -> (Outcomes, Vec<String>) {
    let link = world.name().link(find(state, "app").offset);
    let port = &*port(world);
    let sniffer = world.tool_outside_beside(&["sniff", &link, port]);
    let came = world.tool("app", tries);
    world.tool("app", &["mark", &gateway(state, false).to_string(), port]);
    let seen = sniffer.rest().into_keys();
    // No machine takes what comes by a wire for `::1` (RFC 4291 §2.5.3).
    let ours = |packet: &String| !packet.ends_with(" 15128") && !packet.starts_with("6 ::1 ");
    (came, seen.filter(ours).collect())
}

/// All ways to all of `hosts`, by all who may try.
#[track_caller]
fn check_nothing_escapes(world: &World, state: &State, hosts: &[String]) {
    let port = &*port(world);
    let mut plain = vec!["outbound", port];
    plain.extend(hosts.iter().map(String::as_str));
    for disguise in ["", "as_bypass", "apart"] {
        let skipped = usize::from(disguise.is_empty());
        let tries = [&[disguise], &*plain].concat();
        let (came, seen) = watch(world, state, &tries[skipped..]);
        assert_eq!(came.len(), 7 * hosts.len(), "{disguise} {came:?}");
        let answered = came.iter().find(|(_, came)| came.starts_with("done"));
        assert_eq!(answered, None, "{disguise}");
        assert!(seen.is_empty(), "{disguise} {seen:?}");
    }
}

/// That of a world's own on this machine.
fn port(world: &World) -> String {
    let number = world.name().as_str().bytes().map(u32::from).sum::<u32>();
    format!("{}", 20000 + (number * 97 + std::process::id()) % 10000)
}

/// Somebody who answers on this machine, in both families.
fn answerer(world: &World) -> crate::world::Beside {
    let port = &*port(world);
    let answers = world.tool_outside_beside(&["answer", "machine", port]);
    until(|| {
        let found = world.tool_outside(&["talk", "127.0.0.1", port]);
        let there = found.values().all(|came| came.starts_with("done"));
        (there.then_some(()), format!("{found:?}"))
    });
    answers
}

#[test]
fn nothing_goes_past_the_sidecar_whatever_an_application_tries() {
    let Some(world) = World::make("escape") else {
        return;
    };
    let state = world.up("egress: false", &idle("app"));
    let _answerer = answerer(&world);
    let gateways = [false, true].map(|is_ipv6| gateway(&state, is_ipv6).to_string());
    let hosts = [gateways.to_vec(), FAR.map(str::to_owned).to_vec()].concat();
    for backend in [Backend::Nft, Backend::Iptables] {
        world.rule("app", &Policy::default(), backend);
        let taken = || world.metric("app", "leno_connections_opened_total", &["outbound"]);
        let before = taken();
        check_nothing_escapes(&world, &state, &hosts);
        // By both disguises that are in this namespace at all; those that said another device hear
        // nothing from anybody.
        assert!(taken() - before >= 2 * 5 * hosts.len() as u64);
    }
    // That all of it would be seen and answered: without rules it is.
    intercept::remove(Some(&find(&state, "app").netns), Backend::Detect).unwrap();
    let port = &*port(&world);
    let (came, seen) = watch(
        &world,
        &state,
        &["outbound", port, &gateways[0], &gateways[1]],
    );
    let mut untold = came.iter().filter(|(_, came)| *came != "done 220 machine");
    // Machines do not follow such routes.
    assert!(
        untold.all(|(way, _)| way.starts_with("source_route")),
        "{came:?}"
    );
    let expected = gateways.map(|addr| format!("6 {addr} {port}"));
    assert_eq!(seen, expected);
}

#[test]
fn ipv6_does_not_go_past_the_sidecar_where_it_cannot_be_redirected() {
    let Some(world) = World::make("ipv4") else {
        return;
    };
    let state = world.up_with_ipv4_alone("egress: false", &idle("app"));
    let _answerer = answerer(&world);
    let namespace = &find(&state, "app").netns;
    // Somebody gives it a way out all the same.
    let bridge = world.name().bridge();
    run(&["ip", "addr", "add", "fd07::1/64", "dev", &bridge, "nodad"]);
    let give = || {
        run(&["ip", "addr", "add", "fd07::2/64", "dev", "eth0", "nodad"]);
        run(&["ip", "-6", "route", "add", "default", "via", "fd07::1"]);
    };
    netns::inside(namespace, give).unwrap();
    let hosts = ["fd07::1", FAR[1], &gateway(&state, false).to_string()].map(str::to_owned);
    let policy = Policy {
        ipv6: intercept::Ipv6::Drop,
        ..Policy::default()
    };
    // As it came up, and then with either.
    check_nothing_escapes(&world, &state, &hosts);
    for backend in [Backend::Nft, Backend::Iptables] {
        world.rule("app", &policy, backend);
        check_nothing_escapes(&world, &state, &hosts);
    }
    intercept::remove(Some(namespace), Backend::Detect).unwrap();
    let (came, _) = watch(&world, &state, &["outbound", &port(&world), "fd07::1"]);
    assert_eq!(came["plain fd07::1"], "done 220 machine");
}

#[test]
fn ipv6_that_is_switched_off_in_a_namespace_stays_off() {
    let Some(world) = World::make("off") else {
        return;
    };
    let state = world.up("egress: false", &idle("app"));
    let off = || std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
    netns::inside(&find(&state, "app").netns, off).unwrap();
    let IpAddr::V6(own) = address(&state, "app", true) else {
        unreachable!()
    };
    let hosts = [
        gateway(&state, true).to_string(),
        own.to_string(),
        FAR[1].into(),
    ];
    check_nothing_escapes(&world, &state, &hosts);
}

#[track_caller]
fn run(command: &[&str]) {
    let status = std::process::Command::new(command[0])
        .args(&command[1..])
        .status();
    assert!(status.unwrap().success(), "{command:?}");
}
