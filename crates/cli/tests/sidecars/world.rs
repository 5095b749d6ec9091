//! A folder with the programs in it, and the mesh that they run.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::programs;

/// Before a test gives up: other builds may have the machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    folder: TempDir,
    file: String,
    name: String,
}

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    pub(crate) fn make() -> Option<Self> {
        let folder = programs::folder()?;
        let file = folder.path().join("mesh.yaml");
        fs::write(&file, mesh()).unwrap();
        Some(Self {
            file: file.to_str().unwrap().to_owned(),
            name: format!("s{}", std::process::id()),
            folder,
        })
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The option that says where the mesh is comes before what an `--` may hide.
    pub(crate) fn leno(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("leno"));
        let end = args.iter().position(|arg| *arg == "--");
        let (before, after) = args.split_at(end.unwrap_or(args.len()));
        command
            .args(before)
            .arg("--runtime")
            .arg(self.path("run"))
            .args(after);
        command.env("RUST_BACKTRACE", "0");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.leno(args).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.succeed(args)).unwrap()
    }

    #[track_caller]
    pub(crate) fn fail(&self, args: &[&str]) -> String {
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

/// What `observe` gives once it gives something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut observe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = observe() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "did not happen: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A strict server of two instances, one that it lets in and one that it does not, with addresses
/// that no other mesh of this machine has.
fn mesh() -> String {
    programs::config(144, std::process::id())
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
"
}
