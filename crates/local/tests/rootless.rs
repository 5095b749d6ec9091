//! A mesh without root, with the real programs, run as a user who may do nothing special: as root
//! the tests take one that nobody is, otherwise their own. Needs `leno`, `leno-control` and
//! `leno-proxy` as a build of the workspace leaves them; without these the tests say that they were
//! skipped.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

#[path = "rootless/world.rs"]
mod world;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use local::state::State;
use rustix::process::Signal;
use world::{World, get, is_listening, until};

/// A server that lets in `curl` alone, and two that want to call it.
const HELLO: &str = "\
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers-of-hello}
spec: {serviceAccount: hello, callers: [{serviceAccount: curl}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: curl}
spec:
  serviceAccount: curl
  env: [{name: URL, value: \"http://${HELLO_SERVICE_HOST}:${HELLO_SERVICE_PORT_HTTP}/\"}]
  command: [sleep, infinity]
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: other}
spec: {serviceAccount: other, command: [sleep, infinity]}
---
";

fn hello(replicas: u32) -> String {
    let server = format!(
        "apiVersion: leno.dev/v1alpha1\nkind: Workload\n\
         metadata: {{name: hello, labels: {{app: hello}}}}\n\
         spec:\n  serviceAccount: hello\n  mode: strict\n  replicas: {replicas}\n  \
         ports: [{{name: http, port: 8080}}]\n  resources: {{limits: {{memory: 128Mi}}}}\n  \
         command: [\"${{LENO}}\", load, serve, --address, \"${{LENO_ADDRESS}}\", \
         --port, \"8080\"]\n"
    );
    HELLO.to_owned() + &server
}

/// Where an instance calls the Service.
fn outbound(state: &State, instance: &str) -> SocketAddr {
    let one = state.instance(&instance.parse().unwrap()).unwrap();
    one.explicit.as_ref().unwrap().outbound[0].address
}

/// Until everybody has heard of everybody.
#[track_caller]
fn eventually_answers(address: SocketAddr) {
    until(|| {
        let answer = get(address, "/");
        (answer.starts_with("HTTP/1.1 200 "), answer)
    });
}

#[test]
fn workloads_talk_through_both_sidecars_with_mutual_tls() {
    let Some(world) = World::make("talk") else {
        return;
    };
    let said = world.up(&hello(1));
    assert!(said.contains("without root: "), "{said}");
    let state = world.state();
    // Whoever finds the socket is taken for the instance whose it is.
    let curl = outbound(&state, "curl-0");
    eventually_answers(curl);
    // The server's sidecar knows its caller by the certificate, and lets in nobody else.
    let hello = state.instance(&"hello-0".parse().unwrap()).unwrap();
    let inbound = "leno_requests_total{direction=\"inbound\",source_workload=\"curl\"";
    until(|| {
        let metrics = get(SocketAddr::new(hello.addresses[0], 15010), "/metrics");
        (metrics.contains(inbound), metrics)
    });
    let other = get(outbound(&state, "other-0"), "/");
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    let door = hello.explicit.as_ref().unwrap().inbound[0].address;
    assert_eq!(get(door, "/"), "", "plaintext");
    // Programs are told, and `leno` finds what it looks for.
    let url = format!("http://{curl}/\n");
    assert_eq!(
        world.leno(&["exec", "curl", "--", "sh", "-c", "echo $URL"]),
        url
    );
    let certificates = world.leno(&["proxy", "certs", "curl"]);
    assert!(
        certificates.contains("ns/default/sa/curl"),
        "{certificates}"
    );
    let logs = world.leno(&["logs", "hello"]);
    assert!(logs.contains("\"event\":\"ready\""), "{logs}");
    world.down();
}

#[test]
fn no_request_fails_while_instances_come_go_and_are_upgraded() {
    let Some(world) = World::make("scale") else {
        return;
    };
    world.up(&hello(1));
    let curl = outbound(&world.state(), "curl-0");
    eventually_answers(curl);
    let (stop, world) = (AtomicBool::new(false), &world);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut failed = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let answer = get(curl, "/");
                failed.extend((!answer.starts_with("HTTP/1.1 200 ")).then_some(answer));
            }
            failed
        });
        for replicas in [2, 1] {
            world.up(&hello(replicas));
            assert_eq!(world.count("hello"), replicas as usize);
        }
        world.leno(&["restart", "hello"]);
        world.leno(&["upgrade"]);
        assert_eq!(world.count("hello"), 1);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(load.join().unwrap(), [""; 0]);
    });
    world.down();
}

#[test]
fn connections_wait_for_a_sidecar_that_is_started_again() {
    let Some(world) = World::make("wait") else {
        return;
    };
    world.up(&hello(1));
    let state = world.state();
    for name in ["curl-0", "hello-0"] {
        let one = state.instance(&name.parse().unwrap()).unwrap();
        world.kill(one.sidecar.process.unwrap(), Signal::KILL);
        assert!(is_listening(outbound(&state, "curl-0")), "{name}");
    }
    // The caller's waits for its successor; the called one's may be away for a moment longer.
    eventually_answers(outbound(&state, "curl-0"));
    world.down();
}

#[test]
fn what_a_killed_supervisor_left_is_kept_by_the_next_and_leaves_nothing() {
    let Some(world) = World::make("adopt") else {
        return;
    };
    world.up(&hello(1));
    let before = world.state();
    let curl = outbound(&before, "curl-0");
    eventually_answers(curl);
    world.kill(before.supervisor, Signal::KILL);
    assert!(get(curl, "/").starts_with("HTTP/1.1 200 "));
    world.up(&hello(1));
    let after = world.state();
    assert_ne!(before.supervisor, after.supervisor);
    assert_eq!(before.processes(), after.processes());
    // A sidecar that ends now is given sockets at the same addresses.
    let sidecar = |state: &State| state.instances[0].sidecar.process;
    world.kill(sidecar(&after).unwrap(), Signal::KILL);
    eventually_answers(curl);
    // Though nobody keeps it.
    world.kill(world.state().supervisor, Signal::KILL);
    world.down();
    assert!(!is_listening(curl));
}

#[test]
fn two_meshes_have_addresses_of_their_own() {
    let Some(world) = World::make("two") else {
        return;
    };
    let mesh = hello(1);
    world.up_as("a", &mesh);
    world.up_as("b", &mesh);
    let address = |name: &str| world.state_of(name).instances[0].addresses[0];
    assert_ne!(address("a"), address("b"));
    for name in ["a", "b"] {
        eventually_answers(outbound(&world.state_of(name), "curl-0"));
    }
    world.leno(&["down", "a"]);
    let curl = outbound(&world.state_of("b"), "curl-0");
    assert!(get(curl, "/").starts_with("HTTP/1.1 200 "));
    world.leno(&["down", "b"]);
    world.check_empty();
}

/// A gateway at `address` with a route to `hello`.
fn gateway(address: SocketAddr) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: edge}}\n\
         spec: {{serviceAccount: curl, gateway: edge}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge}}\n\
         spec:\n  gatewayClassName: leno\n  addresses: [{{type: IPAddress, value: {}}}]\n  \
         listeners: [{{name: http, protocol: HTTP, port: {}}}]\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: edge}}\n\
         spec:\n  parentRefs: [{{name: edge}}]\n  \
         rules: [{{backendRefs: [{{name: hello, port: 80}}]}}]\n",
        address.ip(),
        address.port()
    )
}

#[test]
fn what_an_application_leaves_behind_is_ended_before_it_starts_again() {
    let Some(world) = World::make("left") else {
        return;
    };
    world.up(
        "apiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {name: a}\n\
         spec: {command: [sh, -c, \"setsid sleep 6061 & exec sleep infinity\"]}\n",
    );
    // The one that is started again begins with its own.
    let left = || world.running("sleep 6061");
    until(|| (left().len() == 1, format!("{:?}", left())));
    let before = left();
    let application = world.state().instances[0].application.clone();
    world.kill(application.unwrap().process.unwrap(), Signal::KILL);
    until(|| {
        (
            left().iter().any(|pid| !before.contains(pid)),
            format!("{:?}", left()),
        )
    });
    assert_eq!(left().len(), 1);
    world.down();
}

#[test]
fn a_gateway_goes_on_while_one_supervisor_follows_another() {
    let Some(world) = World::make("edge") else {
        return;
    };
    let address = format!("127.79.{}.1:0", std::process::id() % 256);
    let free = TcpListener::bind(address).unwrap().local_addr().unwrap();
    world.up(&(hello(1) + &gateway(free)));
    eventually_answers(free);
    let sidecar = |state: State| {
        let edge = state.instance(&"edge-0".parse().unwrap()).unwrap();
        edge.sidecar.process.unwrap()
    };
    let before = sidecar(world.state());
    world.kill(world.state().supervisor, Signal::KILL);
    // What it does first is done when it has made one more.
    world.up(&(hello(2) + &gateway(free)));
    assert_eq!(before, sidecar(world.state()));
    assert!(before.is_alive());
    world.down();
}

#[test]
fn a_gateway_lets_in_at_ports_that_a_user_may_have() {
    let Some(world) = World::make("gateway") else {
        return;
    };
    // Nobody else takes it between now and then: the address is of this test alone.
    let address = format!("127.78.{}.1:0", std::process::id() % 256);
    let free = TcpListener::bind(address).unwrap().local_addr().unwrap();
    world.up(&(hello(1) + &gateway(free)));
    eventually_answers(free);
    world.down();
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if first.trim().parse::<u16>().unwrap() <= 80 {
        println!("SKIPPED: every user may have port 80 here");
        return;
    }
    let refused = SocketAddr::new(free.ip(), 80);
    let said = world.refused(&(hello(1) + &gateway(refused)));
    let expected = format!("listen on {refused}: ports below 1024 take root");
    assert!(said.contains(&expected), "{said}");
    world.check_empty();
}
