//! `leno up`, `ps`, `exec` and `down` from the command line, with the real control plane and
//! sidecars, which are built beside `leno`. Needs root; without it the tests say that they were
//! skipped.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;
#[expect(dead_code, reason = "shared with tests of what runs")]
#[path = "shared/world.rs"]
mod world;

use std::fs;
use std::os::unix::process::CommandExt;

use world::World;

/// One server and one client.
const MESH: &str = "\
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
  ports: [{name: http, port: 8080}]
  command: [\"${LENO}\", load, serve, --address, \"::\", --port, \"8080\"]
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: client, namespace: shop}
spec: {serviceAccount: client}
";

/// That the client is answered by the server, called by its name.
#[track_caller]
fn check_called(world: &World) {
    let load = "load http://hello.default/ --qps max -c 1 -t 200ms --json -";
    let called = world
        .leno(&["exec", "client.shop", "--"])
        .arg(world.path("leno"))
        .args(load.split(' '))
        .output()
        .unwrap();
    let json = String::from_utf8(called.stdout).unwrap();
    let error = String::from_utf8_lossy(&called.stderr).into_owned();
    assert!(json.contains("\"200\":"), "{json}{error}");
}

#[test]
fn a_file_becomes_a_mesh_in_which_names_are_called() {
    let Some(world) = World::make("call") else {
        return;
    };
    let file = world.write(MESH);
    let up = ["up", &file, "--name", world.name()];
    let shown = world.succeed(&up);
    assert!(
        shown.contains(&format!("mesh {}: running", world.name())),
        "{shown}"
    );
    assert!(shown.contains("\nclient-0.shop "), "{shown}");
    let listed = world.succeed(&["ps"]);
    assert_eq!(listed.lines().next(), shown.lines().next());
    let json = world.succeed(&["ps", "-o", "json"]);
    assert!(json.contains("\"name\": \"hello-0\""), "{json}");
    assert!(json.contains("\"ready\": true"), "{json}");
    check_called(&world);
    assert!(
        world
            .fail(&["exec", "curl", "--", "id"])
            .contains("take one of hello, client.shop")
    );
    let told = String::from_utf8(world.run(&up).stderr).unwrap();
    assert!(told.contains("nothing to change"), "{told}");
    assert_eq!(
        world.succeed(&["down"]),
        format!("mesh {}: down\n", world.name())
    );
    assert!(
        world
            .fail(&["down", world.name()])
            .contains("there is no mesh")
    );
    assert!(world.succeed(&["ps"]).contains("no mesh is up"));
}

#[test]
fn a_mesh_that_is_up_is_changed_upgraded_and_read() {
    let Some(world) = World::make("change") else {
        return;
    };
    let file = world.write(MESH);
    let up = ["up", &file, "--name", world.name()];
    world.succeed(&up);
    let more = MESH.replace("serviceAccount: hello\n", "replicas: 2\n");
    assert_ne!(more, MESH);
    // Not the file that is up: who keeps the mesh could take it first.
    let file = world.write_to("more.yaml", &more);
    let output = world.run(&["up", &file, "--name", world.name()]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("hello: 1 → 2 replicas"), "{told}");
    check_called(&world);
    world.succeed(&["restart", "hello"]);
    check_called(&world);
    let before = world.succeed(&["ps", "-o", "yaml"]);
    world.succeed(&["upgrade"]);
    assert_ne!(world.succeed(&["ps", "-o", "yaml"]), before);
    check_called(&world);
    let file = world.path("run").join(world.name()).join("workloads");
    let file = file.join("client-0.shop/sidecar.err");
    let logs = world.succeed(&["logs", "--sidecar", "client.shop"]);
    let kept = fs::read_to_string(file).unwrap();
    assert!(!kept.is_empty() && logs.contains(&kept), "{logs}");
    let last = world.succeed(&["logs", "--sidecar", "--tail", "1"]);
    assert!(last.contains("client-0.shop  "), "{last}");
}

#[test]
fn without_root_it_says_what_that_means_and_leaves_roots_alone() {
    let Some(world) = World::make("nobody") else {
        return;
    };
    let file = world.write(MESH);
    let refused = |args: &[&str]| {
        let output = world.leno(args).uid(65534).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // Where root has its meshes, nobody else can have one.
    let up = ["up", &file, "--name", world.name()];
    let said = refused(&up);
    assert!(
        said.starts_with("without root: ") && said.contains("Error: make "),
        "{said}"
    );
    assert!(!world.path("run").exists());
    world.succeed(&up);
    for args in [&["down", world.name()][..], &["restart", "client.shop"]] {
        let error = refused(args);
        assert!(
            error.contains("was brought up by root: run it with sudo"),
            "{error}"
        );
    }
}
