//! A certificate says who somebody is, to both sides: that of another service account opens
//! nothing.

use std::process::Command;

use local::state::State;

use crate::world::{World, address, find, idle, policy, server, service, until};

/// Takes the address of `whose` from one workload and gives it to another.
fn move_address(state: &State, whose: &str, [from, to]: [&str; 2]) {
    let addr = address(state, whose, false);
    for (verb, workload) in [("del", from), ("add", to)] {
        let ip = format!("{addr}/24");
        run(state, workload, &["addr", verb, &ip, "dev", "eth0"]);
    }
    for instance in &state.instances {
        let workload = instance.id.to_string();
        run(state, &workload, &["neigh", "flush", "dev", "eth0"]);
    }
}

#[track_caller]
fn run(state: &State, workload: &str, args: &[&str]) {
    let namespace = find(state, workload).netns.file_name().unwrap();
    let status = Command::new("ip")
        .arg("-n")
        .arg(namespace)
        .args(args)
        .status();
    assert!(status.unwrap().success(), "{workload} {args:?}");
}

/// Requests that an application has seen.
fn seen(world: &World, workload: &str) -> usize {
    let log = world.runtime(&format!("workloads/{workload}-0/application.out"));
    std::fs::read_to_string(log)
        .unwrap()
        .matches("request")
        .count()
}

#[test]
fn who_answers_in_place_of_an_endpoint_with_a_certificate_of_its_own_is_refused() {
    let Some(world) = World::make("fake") else {
        return;
    };
    let ports = ", ports: [{name: http, port: 8080}, {name: raw, port: 9000, protocol: tcp}]";
    let serves = ["8080:web", "9000:greet"];
    let resources = [
        idle("caller"),
        server("bank", &serves, ports),
        server("thief", &serves, ports),
        service(
            "bank",
            "bank",
            "{name: http, port: 80, targetPort: 8080}, \
            {name: raw, port: 9000, targetPort: 9000, appProtocol: tcp}",
        ),
        service("thief", "thief", "{port: 80, targetPort: 8080}"),
    ];
    let state = world.up("mode: permissive", &resources.concat());
    // They are there, and ready to answer whoever calls.
    world.eventually_gets("bank", "http://127.0.0.1:8080/", "200 bank");
    world.eventually_gets("caller", "http://thief/", "200 thief");
    let before = seen(&world, "thief");
    move_address(&state, "bank", ["bank", "thief"]);
    let found = world.tool("caller", &["get", "http://bank/"]);
    assert!(found["http://bank/"].starts_with("done 503"), "{found:?}");
    let found = world.tool("caller", &["talk", "bank", "9000"]);
    assert!(!found["bank 9000"].contains("220"), "{found:?}");
    // They got as far as the certificate, and no further.
    assert!(world.metric("thief", "leno_connections_opened_total", &["inbound"]) >= 3);
    let labels = ["destination_workload=\"bank\"", "flag=\"UTLS\""];
    world.metric_becomes("caller", ("leno_requests_total", &labels), 2);
    assert_eq!(seen(&world, "thief"), before);
    move_address(&state, "bank", ["thief", "bank"]);
    run(
        &state,
        "bank",
        &["route", "replace", "default", "via", &gateway(&state)],
    );
    world.eventually_gets("caller", "http://bank/", "200 bank");
}

fn gateway(state: &State) -> String {
    crate::world::gateway(state, false).to_string()
}

#[test]
fn a_caller_that_no_policy_names_is_refused_by_the_called_sidecar() {
    let Some(world) = World::make("policy") else {
        return;
    };
    let ports = ", ports: [{name: http, port: 8080}, {name: raw, port: 9000, protocol: tcp}]";
    let mode = format!("{ports}, mode: strict");
    // A Service that has one who lets everybody in is known to everybody, and so are the others.
    let open = server("open", &["7:greet"], "").replace("app: open", "app: vault");
    let resources = [
        idle("friend"),
        idle("stranger"),
        server("vault", &["8080:web", "9000:greet"], &mode),
        open,
        policy("vault", "friend"),
        service(
            "vault",
            "vault",
            "{name: http, port: 80, targetPort: 8080}, \
            {name: raw, port: 9000, targetPort: 9000, appProtocol: tcp}",
        ),
    ];
    world.up("mode: permissive", &resources.concat());
    let http = |caller| {
        let found = world.tool(caller, &["get", "http://vault/"]);
        found["http://vault/"].clone()
    };
    let raw = |caller| world.tool(caller, &["talk", "vault", "9000"])["vault 9000"].clone();
    // Of two endpoints one has nobody at its port: what it says is what the vault does not.
    let until_said = |ask: &dyn Fn() -> String, expected: &str| {
        until(|| {
            let said = ask();
            ((said == expected).then_some(()), said)
        });
    };
    until_said(&|| http("friend"), "done 200 vault");
    until_said(&|| raw("friend"), "done 220 vault 250 ehlo");
    until(|| {
        let said = http("stranger");
        assert!(!said.contains("200"), "{said}");
        (said.starts_with("done 403").then_some(()), said)
    });
    until(|| {
        let said = raw("stranger");
        assert!(!said.contains("220"), "{said}");
        let labels = ["\"stranger\"", "\"tcp\"", "\"RBAC\""];
        let count = world.metric("vault", "leno_requests_total", &labels);
        ((count > 0).then_some(()), said)
    });
    assert_eq!(seen(&world, "vault"), 1);
}
