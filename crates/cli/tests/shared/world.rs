//! A mesh by the real programs: a folder with these in it, a name and addresses that no other mesh
//! of this machine has. Taken down when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testkit::Subnet;

use crate::programs;

pub(crate) struct World {
    folder: TempDir,
    name: String,
    pub(crate) subnet: Subnet,
}

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    pub(crate) fn make(name: &str) -> Option<Self> {
        let folder = programs::folder()?;
        let name = format!("c{}-{name}", std::process::id());
        let subnet = Subnet::claim();
        Some(Self {
            folder,
            name,
            subnet,
        })
    }

    /// Likewise, with an Envoy, where there is one.
    pub(crate) fn with_envoy(name: &str) -> Option<Self> {
        let world = Self::make(name)?;
        lay_envoy(&world.path("envoy"))?;
        Some(world)
    }

    /// Brings up the mesh of that file.
    #[track_caller]
    pub(crate) fn up(&self, file: &str) -> String {
        let envoy = self.path("envoy");
        let mut words = vec!["up", file, "--name", &self.name];
        if envoy.exists() {
            words.extend(["--envoy", envoy.to_str().unwrap()]);
        }
        self.succeed(&words)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has the mesh's file say `resources`; where the file is.
    pub(crate) fn write(&self, resources: &str) -> String {
        self.write_to("mesh.yaml", resources)
    }

    /// Likewise, of a file that nobody looks at yet.
    pub(crate) fn write_to(&self, name: &str, resources: &str) -> String {
        let config = "apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n";
        let spec = self.subnet.spec();
        let file = self.path(name);
        fs::write(&file, format!("{config}spec: {{{spec}}}\n---\n{resources}")).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The option that says where the mesh is comes before what an `--` may hide.
    pub(crate) fn leno(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("leno"));
        let end = args.iter().position(|arg| *arg == "--");
        let (before, after) = args.split_at(end.unwrap_or(args.len()));
        let place = ["--runtime".into(), self.path("run").into_os_string()];
        command.args(before).args(place).args(after);
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

/// Puts Envoy's program there; none, said aloud, where there is no Envoy.
fn lay_envoy(place: &Path) -> Option<()> {
    let Some(found) = local::program::envoy(None).unwrap() else {
        let promised = std::env::var_os("LENO_REQUIRE_ENVOY").is_some();
        assert!(
            !promised,
            "there is no envoy in $PATH, and one was promised"
        );
        println!("SKIPPED: there is no envoy in $PATH: `make envoy`");
        return None;
    };
    let linked = fs::hard_link(&found, place);
    linked
        .or_else(|_| fs::copy(&found, place).map(drop))
        .unwrap();
    Some(())
}
