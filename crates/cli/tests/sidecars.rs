//! `leno proxy`, `leno policy check` and `leno top --once` on a mesh that runs, with the real
//! control plane and sidecars, which are built beside `leno`. Needs root; without it the tests say
//! that they were skipped.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;
#[expect(dead_code, reason = "shared with tests that name their mesh")]
#[path = "shared/world.rs"]
mod world;

use std::process::Command;

use serde_json::Value;
use testkit::eventually;
use world::World;

/// A strict server of two instances, one that it lets in and one that it does not.
pub(crate) const MESH: &str = "\
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: hello, labels: {app: hello}}
spec:
  serviceAccount: hello
  replicas: 2
  mode: strict
  ports: [{name: http, port: 8080}]
  command: [\"${LENO}\", load, serve, --address, \"::\", --port, \"8080\"]
---
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers-of-hello}
spec: {serviceAccount: hello, callers: [{serviceAccount: client, namespace: shop}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: client, namespace: shop}
spec: {serviceAccount: client}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: stranger}
spec: {serviceAccount: stranger}
";

/// One mesh for all of it: bringing it up takes longer than all questions.
#[test]
fn sidecars_tell_what_they_run() {
    let Some(world) = World::make("look") else {
        return;
    };
    let file = world.write(MESH);
    world.up(&file);
    pages(&world);
    programs_are_shown(&world);
    instances(&world);
    policies(&world, &file);
    edges(&world, "0.5");
    mistakes(&world);
}

/// The same questions, where the data plane is Envoy.
#[test]
fn envoys_tell_what_they_run() {
    let Some(world) = World::with_envoy("envoys") else {
        return;
    };
    let sidecar = "  sidecar: {dataPlane: envoy}\n  replicas: 2";
    let resources = MESH.replace("  replicas: 2", sidecar);
    let account = "serviceAccount: client}\n";
    let client = "serviceAccount: client, sidecar: {dataPlane: envoy}}\n";
    assert!(resources.contains(account));
    let file = world.write(&resources.replace(account, client));
    world.up(&file);
    let shown = world.succeed(&["ps"]);
    assert_eq!(shown.matches(" envoy ").count(), 3, "{shown}");
    let config = world.succeed(&["proxy", "config", "hello"]);
    assert!(config.contains("\ndata plane    envoy 1."), "{config}");
    pages(&world);
    instances(&world);
    policies(&world, &file);
    // Envoy tells how long requests took every 5 seconds.
    edges(&world, "6");
}

fn pages(world: &World) {
    let config = world.succeed(&["proxy", "config", "client.shop"]);
    for line in [
        "identity      spiffe://cluster.local/ns/shop/sa/client\n",
        "ready         yes\n",
    ] {
        assert!(config.contains(line), "{config}");
    }
    let cluster = "outbound|80|hello.default.svc.cluster.local";
    let id = "spiffe://cluster.local/ns/default/sa/hello";
    let clusters = world.succeed(&["proxy", "clusters", "client.shop"]);
    assert!(
        clusters.starts_with("CLUSTER ") && clusters.contains(cluster),
        "{clusters}"
    );
    let endpoints = clusters.lines().filter(|line| line.ends_with(id)).count();
    assert_eq!(endpoints, 2, "{clusters}");
    let listeners = world.succeed(&["proxy", "listeners", "hello"]);
    assert!(listeners.contains("\ninbound"), "{listeners}");
    let routes = world.succeed(&["proxy", "routes", "hello"]);
    assert!(
        routes.contains("spiffe://cluster.local/ns/shop/sa/client"),
        "{routes}"
    );
    let certs = world.succeed(&["proxy", "certs", "hello"]);
    assert!(certs.starts_with(&format!("{id}\n")), "{certs}");
    assert!(
        certs.contains(" h ") && !certs.contains("EXPIRED"),
        "{certs}"
    );
    let yaml = world.succeed(&["proxy", "config", "hello", "-o", "yaml"]);
    assert!(yaml.contains("\nready: true\n"), "{yaml}");
    let stats = [
        "proxy",
        "stats",
        "client.shop",
        "--filter",
        "leno_proxy_info",
    ];
    let stats = world.succeed(&stats);
    assert!(stats.contains("workload=client"), "{stats}");
}

/// What programs are shown of a sidecar of ours.
fn programs_are_shown(world: &World) {
    let listeners = world.succeed(&["proxy", "listeners", "hello"]);
    assert!(listeners.contains(" strict "), "{listeners}");
    let cluster = "outbound|80|hello.default.svc.cluster.local";
    let json: Value = json(world, &["proxy", "clusters", "client.shop", "-o", "json"]);
    let found = json
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == cluster);
    assert_eq!(
        found.unwrap()["endpoints"][0]["activeRequests"],
        0,
        "{json}"
    );
}

#[track_caller]
fn json(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(&world.succeed(args)).unwrap()
}

/// A workload's name, and those of its instances.
fn instances(world: &World) {
    for (name, instance) in [
        ("hello", "hello-0"),
        ("hello-0", "hello-0"),
        ("hello-1", "hello-1"),
    ] {
        let config = world.succeed(&["proxy", "config", name]);
        assert!(
            config.starts_with(&format!("workload      {instance}.default\n")),
            "{config}"
        );
    }
}

fn policies(world: &World, file: &str) {
    let verdict = |pair: [&str; 2], more: &[&str]| {
        let output = world.run(&[&["policy", "check"], &pair[..], more].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    };
    for more in [&[][..], &["--file", file]] {
        let (code, text) = verdict(["client.shop", "hello"], more);
        assert!(
            code == 0 && text.starts_with("client.shop may call hello: "),
            "{text}"
        );
        let (code, text) = verdict(["stranger", "hello"], more);
        assert!(
            code == 1 && text.starts_with("stranger may NOT call hello: "),
            "{text}"
        );
        assert_eq!(verdict(["nobody", "hello"], more), (2, String::new()));
    }
}

/// Calls while they are watched.
fn edges(world: &World, interval: &str) {
    let mut load = world
        .leno(&["exec", "client.shop", "--"])
        .arg(world.path("leno"))
        .args([
            "load",
            "http://hello.default/",
            "--qps",
            "100",
            "-c",
            "1",
            "-t",
            "60s",
        ])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let top = ["top", "--once", "--interval", interval, "-o", "json"];
    let edge = eventually("an edge with requests", || {
        let frame = json(world, &top);
        let edges = frame["edges"].as_array().unwrap().iter();
        let mut found = edges.filter(|edge| edge["source"]["name"] == "client.shop");
        found
            .find(|edge| edge["ratePerSecond"].as_f64() > Some(0.0))
            .cloned()
    });
    let text = world.succeed(&["top", "--once", "--interval", interval]);
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(edge["destination"]["name"], "hello", "{edge}");
    assert_eq!(edge["mutualTls"], true, "{edge}");
    assert_eq!(edge["success"], 1.0, "{edge}");
    let id = "spiffe://cluster.local/ns/shop/sa/client";
    assert_eq!(edge["source"]["identity"], id, "{edge}");
    assert!(edge["p99Millis"].as_f64() > Some(0.0), "{edge}");
    assert!(text.starts_with("SOURCE "), "{text}");
    assert!(text.contains("\nclient.shop  hello "), "{text}");
}

fn mistakes(world: &World) {
    let said = world.fail(&["proxy", "certs", "nobody"]);
    assert!(
        said.contains("take one of hello, client.shop, stranger"),
        "{said}"
    );
    let said = world.fail(&["proxy", "certs", "hello", "--name", "none"]);
    assert!(said.contains("no mesh none"), "{said}");
    let said = world.fail(&["proxy", "certs"]);
    assert!(said.contains("<WORKLOAD>"), "{said}");
}

#[test]
fn a_sidecar_by_itself_is_asked_by_its_address() {
    let leno = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_leno"))
            .args(args)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    // Nobody listens on the port that means "any".
    let said = leno(&["proxy", "certs", "--port", "0"]);
    assert!(said.contains("no answer from 127.0.0.1:0"), "{said}");
    assert!(said.contains("see whether the sidecar runs"), "{said}");
    let both = leno(&["proxy", "certs", "hello", "--port", "1"]);
    assert!(both.contains("cannot be used with"), "{both}");
}
