//! Workloads find each other by name and talk with mutual TLS, each as who it is.

use std::path::Path;

use crate::world::{World, address, idle, server, service, workload};

#[test]
fn a_request_by_name_is_answered_over_mutual_tls() {
    let Some(world) = World::make("talk") else {
        return;
    };
    let resources = [
        server(
            "hello",
            &["8080:web"],
            ", ports: [{name: http, port: 8080}]",
        ),
        idle("caller"),
        service("hello", "hello", "{port: 80, targetPort: 8080}"),
    ];
    world.up("mode: permissive", &resources.concat());
    world.eventually_gets("caller", "http://hello/", "200 hello");
    for (workload, side) in [("hello", "downstream"), ("caller", "upstream")] {
        let certificates = world.certificates(workload);
        let id = format!("spiffe://cluster.local/ns/default/sa/{workload}");
        assert_eq!(certificates["id"], id);
        assert_eq!(certificates["certificateChain"][0]["subject"], id);
        let side = format!("side=\"{side}\"");
        assert!(world.metric(workload, "leno_tls_handshakes_total", &[&side]) > 0);
        let labels = [
            // Each sidecar knows itself as an instance, and the other as a workload.
            "source_workload=\"caller",
            "destination_workload=\"hello",
            "status_class=\"2xx\"",
        ];
        world.metric_becomes(workload, ("leno_requests_total", &labels), 1);
    }
}

#[test]
fn names_are_answered_as_applications_ask_for_them() {
    let Some(world) = World::make("names") else {
        return;
    };
    let resources = [idle("caller"), service("hello", "nobody", "{port: 80}")];
    world.up("mode: permissive", &resources.concat());
    let known = ["hello", "hello.default", "hello.default.svc.cluster.local"];
    let unknown = ["nobody.default.svc.cluster.local", "nobody.example.com"];
    let found = world.tool("caller", &[&["names"], &known[..], &unknown].concat());
    let both = &found["hello"];
    let addresses: Vec<_> = both.split(' ').skip(1).collect();
    assert!(
        addresses.len() == 2 && both.contains('.') && both.contains(':'),
        "{both}"
    );
    assert!(known.iter().all(|name| found[*name] == *both), "{found:?}");
    assert!(found[unknown[0]].contains("EAI_NONAME"), "{found:?}");
    assert!(found[unknown[1]].contains("EAI_"), "{found:?}");
    check_others(&world, &known, &addresses);
}

/// Who asks otherwise than through `getaddrinfo` for either family.
#[track_caller]
fn check_others(world: &World, known: &[&str], addresses: &[&str]) {
    let mut askers = vec![vec!["getent", "ahostsv4"], vec!["getent", "ahostsv6"]];
    match Path::new("/usr/bin/node").exists() {
        true => askers.push(vec!["node", "-e", LOOKUP]),
        false => println!("SKIPPED: names as node asks for them: there is no node"),
    }
    for asker in askers {
        let ask = |name| world.run("caller", &[&*asker, &[name]].concat());
        for name in known {
            let said = ask(name);
            assert!(
                addresses.iter().any(|addr| said.contains(addr)),
                "{asker:?}: {said}"
            );
        }
        assert_eq!(ask("nobody"), "", "{asker:?}");
    }
}

const LOOKUP: &str = "require('dns').lookup(process.argv[1], {all: true}, (error, found) => \
                      error ? process.exit(2) : console.log(JSON.stringify(found)))";

#[test]
fn applications_are_told_where_services_are_as_kubernetes_does() {
    let Some(world) = World::make("told") else {
        return;
    };
    let client = workload(
        "caller",
        "command: [sleep, infinity], \
         env: [{name: URL, value: \"http://${HELLO_SERVICE_HOST}:${HELLO_SERVICE_PORT_HTTP}/\"}]",
    );
    let resources = [
        server("hello", &["8080:web"], ", ports: [{port: 8080}]"),
        client,
        service("hello", "hello", "{name: http, port: 81, targetPort: 8080}"),
    ];
    world.up("mode: permissive", &resources.concat());
    let url = world.run("caller", &["sh", "-c", "echo $URL"]);
    let (url, own) = (
        url.trim(),
        world.run("caller", &["sh", "-c", "echo $LENO_ADDRESS"]),
    );
    assert!(
        url.starts_with("http://10.") && url.ends_with(":81/"),
        "{url}"
    );
    assert_eq!(
        own.trim(),
        address(&world.state(), "caller", false).to_string()
    );
    world.eventually_gets("caller", url, "200 hello");
}
