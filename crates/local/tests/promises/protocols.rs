//! Protocols that are not a request with its answer, and names that are more than one address.

use crate::world::{World, address, find, idle, server, service, workload};

#[test]
fn a_tcp_service_and_an_http_service_share_a_port() {
    let Some(world) = World::make("shared") else {
        return;
    };
    let ports = |protocol| format!(", ports: [{{name: main, port: 9000, protocol: {protocol}}}]");
    let resources = [
        server("page", &["9000:web"], &ports("http")),
        server("mail", &["9000:greet"], &ports("tcp")),
        idle("caller"),
        service("page", "page", "{port: 9000, appProtocol: http}"),
        service("mail", "mail", "{port: 9000, appProtocol: tcp}"),
    ];
    world.up("mode: permissive", &resources.concat());
    world.eventually_gets("caller", "http://page:9000/", "200 page");
    // Who waits for a greeting gets it.
    until_talks(&world, "caller", ["mail", "9000"], "220 mail 250 ehlo");
    world.eventually_gets("caller", "http://page:9000/", "200 page");
    for (workload, protocol) in [("page", "http1"), ("mail", "tcp")] {
        let labels = [
            "source_workload=\"caller\"",
            &format!("protocol=\"{protocol}\""),
        ];
        // Told when it is over.
        crate::world::until(|| {
            let count = world.metric(workload, "leno_requests_total", &labels);
            ((count > 0).then_some(()), workload.to_owned())
        });
        let side = ["side=\"downstream\""];
        assert!(
            world.metric(workload, "leno_tls_handshakes_total", &side) > 0,
            "{workload}"
        );
    }
}

#[track_caller]
fn until_talks(world: &World, caller: &str, target: [&str; 2], expected: &str) {
    crate::world::until(|| {
        let found = world.tool(caller, &["talk", target[0], target[1]]);
        let said = found.into_values().next().unwrap();
        ((said == format!("done {expected}")).then_some(()), said)
    });
}

#[test]
fn who_speaks_second_hears_who_speaks_first_on_declared_ports_and_others() {
    let Some(world) = World::make("first") else {
        return;
    };
    let resources = [
        server(
            "mail",
            &["2525:greet", "2526:greet"],
            ", ports: [{name: smtp, port: 2525, protocol: tcp}]",
        ),
        idle("caller"),
        service(
            "mail",
            "mail",
            "{name: smtp, port: 25, targetPort: 2525, appProtocol: tcp}, \
            {name: unsaid, port: 2526}",
        ),
    ];
    let state = world.up("mode: permissive", &resources.concat());
    let hosts = [false, true].map(|is_ipv6| address(&state, "mail", is_ipv6).to_string());
    let expected = "220 mail 250 ehlo";
    until_talks(&world, "caller", ["mail", "25"], expected);
    // A Service port that says no protocol, and a port that nobody declared at all.
    until_talks(&world, "caller", ["mail", "2526"], expected);
    for host in &hosts {
        until_talks(&world, "caller", [host, "2526"], expected);
        until_talks(&world, "caller", [host, "2525"], expected);
    }
    // By its own name, from inside.
    until_talks(&world, "mail", ["mail", "25"], expected);
}

#[test]
fn a_headless_service_is_its_endpoints_each_as_who_it_is() {
    let Some(world) = World::make("headless") else {
        return;
    };
    let replica = |name: &str| {
        let ports = ", ports: [{name: http, port: 8080}]";
        server(name, &["8080:web"], ports).replace(&format!("app: {name}"), "app: db")
    };
    let headless = service("db", "db", "{port: 8080, appProtocol: http}");
    let resources = [
        replica("db-0"),
        replica("db-1"),
        idle("caller"),
        headless.replace("spec: {", "spec: {clusterIP: None, "),
    ];
    let state = world.up("mode: permissive", &resources.concat());
    let replicas = ["db-0", "db-1"].map(|name| find(&state, name));
    let mut expected: Vec<_> = replicas.iter().flat_map(|one| &one.addresses).collect();
    expected.sort_by_key(ToString::to_string);
    let found = world.tool("caller", &["names", "db"]);
    let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
    assert_eq!(found["db"], format!("done {}", expected.join(" ")));
    for replica in replicas {
        let (name, addr) = (replica.workload.to_string(), replica.addresses[0]);
        let url = format!("http://{addr}:8080/");
        world.eventually_gets("caller", &url, &format!("200 {name}"));
        let id = format!("spiffe://cluster.local/ns/default/sa/{name}");
        assert_eq!(world.certificates(&name)["id"], id);
        assert!(world.page("caller", "/clusters").contains(&id));
        let side = ["side=\"downstream\""];
        assert!(
            world.metric(&name, "leno_tls_handshakes_total", &side) > 0,
            "{name}"
        );
    }
}

#[test]
fn a_workload_calls_itself_by_the_name_of_its_service_and_a_web_socket_stays_open() {
    let Some(world) = World::make("self") else {
        return;
    };
    let resources = [
        server(
            "hello",
            &["8080:web"],
            ", ports: [{name: http, port: 8080, protocol: http}]",
        ),
        workload("caller", "command: [sleep, infinity]"),
        service(
            "hello",
            "hello",
            "{port: 80, targetPort: 8080, appProtocol: http}",
        ),
    ];
    for mode in ["permissive", "strict"] {
        let policies = [
            crate::world::policy("hello", "hello"),
            crate::world::policy("hello", "caller"),
        ];
        let state = world.up(
            &format!("mode: {mode}"),
            &[&resources.concat(), &*policies.concat()].concat(),
        );
        world.eventually_gets("hello", "http://hello/", "200 hello");
        for caller in ["hello", "caller"] {
            let found = world.tool(caller, &["websocket", "hello", "80"]);
            assert_eq!(found["websocket"], "done 101 one two", "{mode} {caller}");
        }
        assert!(state.supervisor.is_alive());
        world.down();
    }
}
