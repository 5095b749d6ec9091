//! Workloads find each other by name and talk with mutual TLS, each as who it is.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::world::{World, address, idle, server, service};

#[test]
fn a_request_by_name_is_answered_over_mutual_tls_soon_after_the_mesh_came_up() {
    let Some(world) = World::make("talk") else {
        return;
    };
    let begun = Instant::now();
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
    let took = begun.elapsed();
    println!("the first answer came {took:?} after `leno up` was typed");
    // A bound on what is broken, not on what is slow.
    assert!(took < Duration::from_secs(20), "{took:?}");

    for (workload, side) in [("hello", "downstream"), ("caller", "upstream")] {
        let certificates = world.certificates(workload);
        let id = format!("spiffe://cluster.local/ns/default/sa/{workload}");
        assert_eq!(certificates["id"], id);
        assert_eq!(certificates["certificateChain"][0]["subject"], id);
        let side = format!("side=\"{side}\"");
        assert!(world.metric(workload, "leno_tls_handshakes_total", &[&side]) > 0);
        let labels = [
            "source_workload=\"caller\"",
            "destination_workload=\"hello\"",
            "status_class=\"2xx\"",
        ];
        assert_eq!(world.metric(workload, "leno_requests_total", &labels), 1);
    }
}

#[test]
fn names_are_answered_as_applications_ask_for_them() {
    let Some(world) = World::make("names") else {
        return;
    };
    let resources = [idle("caller"), service("hello", "nobody", "{port: 80}")];
    let state = world.up("mode: permissive", &resources.concat());
    let known = ["hello", "hello.default", "hello.default.svc.cluster.local"];
    let mut asked = vec!["names"];
    asked.extend(known);
    asked.extend(["nobody.default.svc.cluster.local", "nobody.example.com"]);
    let found = world.tool("caller", &asked);
    let both = &found["hello"];
    let [ipv4, ipv6] = [false, true].map(|is_ipv6| address(&state, "caller", is_ipv6));
    assert_eq!(both.split(' ').count(), 3, "{both} {ipv4} {ipv6}");
    assert!(both.contains('.') && both.contains(':'), "{both}");
    for name in known {
        assert_eq!(found[name], *both);
    }
    // Neither is what somebody who waited in vain is told.
    assert!(found["nobody.default.svc.cluster.local"].contains("EAI_NONAME"));
    assert!(found["nobody.example.com"].contains("EAI_"), "{found:?}");

    let mut others = vec!["getent ahostsv4", "getent ahostsv6"];
    if Path::new("/usr/bin/node").exists() {
        others.push("node -e require('dns').lookup(process.argv[1],{all:true},(e,a)=>e?process.exit(2):console.log(JSON.stringify(a)))");
    }
    for asker in others {
        for name in known {
            let mut command: Vec<_> = asker.splitn(3, ' ').collect();
            command.push(name);
            let said = world.run("caller", &command);
            let addresses = both.split(' ').skip(1);
            let mut given = addresses.filter(|addr| said.contains(addr));
            assert!(given.next().is_some(), "{command:?}: {said}");
        }
        let mut command: Vec<_> = asker.splitn(3, ' ').collect();
        command.push("nobody");
        assert_eq!(world.run("caller", &command), "", "{asker}");
    }
}
