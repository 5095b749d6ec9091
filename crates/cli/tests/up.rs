//! `leno up`, `ps`, `exec` and `down` from the command line, with the real control plane and
//! sidecars, which are built beside `leno`. Needs root; without it the tests say that they were
//! skipped.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with the programs in it, which every user may enter.
struct World {
    folder: TempDir,
    name: String,
}

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    fn make(name: &str) -> Option<Self> {
        let folder = programs::folder()?;
        let name = format!("c{}-{name}", std::process::id());
        Some(Self { folder, name })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn leno(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("leno"));
        let (verb, rest) = args.split_first().unwrap();
        command
            .arg(verb)
            .arg("--runtime")
            .arg(self.path("run"))
            .args(rest);
        command.env("RUST_BACKTRACE", "0");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.leno(args).output().unwrap()
    }

    #[track_caller]
    fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn fail(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.path("run").join(&self.name).exists() {
            let _ = self.run(&["down", &self.name]);
        }
    }
}

/// One server and one client, with addresses that no other mesh of this machine has.
fn mesh(world: &World) -> String {
    // Tests of one program share its number, and are told apart by their names.
    let own = world.name.bytes().map(u32::from).sum::<u32>();
    let config = programs::config(128, std::process::id() * 16 + own);
    config
        + "apiVersion: v1
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
"
}

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
    let file = world.path("mesh.yaml");
    fs::write(&file, mesh(&world)).unwrap();
    let up = ["up", file.to_str().unwrap(), "--name", &world.name];
    let shown = world.succeed(&up);
    assert!(
        shown.contains(&format!("mesh {}: running", world.name)),
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
        format!("mesh {}: down\n", world.name)
    );
    assert!(
        world
            .fail(&["down", &world.name])
            .contains("there is no mesh")
    );
    assert!(world.succeed(&["ps"]).contains("no mesh is up"));
}

#[test]
fn a_mesh_that_is_up_is_changed_upgraded_and_read() {
    let Some(world) = World::make("change") else {
        return;
    };
    let file = world.path("mesh.yaml");
    fs::write(&file, mesh(&world)).unwrap();
    let up = ["up", file.to_str().unwrap(), "--name", &world.name];
    world.succeed(&up);
    let more = mesh(&world).replace("serviceAccount: hello\n", "replicas: 2\n");
    assert_ne!(more, mesh(&world));
    fs::write(&file, more).unwrap();
    let output = world.run(&up);
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
    let file = world.path("run").join(&world.name).join("workloads");
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
    let file = world.path("mesh.yaml");
    fs::write(&file, mesh(&world)).unwrap();
    let refused = |args: &[&str]| {
        let output = world.leno(args).uid(65534).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // Where root has its meshes, nobody else can have one.
    let up = ["up", file.to_str().unwrap(), "--name", &world.name];
    let said = refused(&up);
    assert!(
        said.starts_with("without root: ") && said.contains("Error: make "),
        "{said}"
    );
    assert!(!world.path("run").exists());
    world.succeed(&up);
    for args in [&["down", &world.name][..], &["restart", "client.shop"]] {
        let error = refused(args);
        assert!(
            error.contains("was brought up by root: run it with sudo"),
            "{error}"
        );
    }
}
