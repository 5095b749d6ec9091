//! A PostgreSQL server of our own, in a folder of its own, ended and removed after use. Used by the
//! databases' group; must never touch one that runs on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::process::{self, Process, port};
use super::report::Missing;
use super::tools;
use super::world::World;
use crate::{command, doctor};

/// Where Debian keeps the programs of each version, beside the path.
const VERSIONS: &str = "/usr/lib/postgresql";

/// See the head of this file.
pub(super) struct Postgres {
    pub(super) process: Process,
    folder: PathBuf,
}

impl Postgres {
    /// Makes a cluster and starts its server.
    pub(super) fn start(world: &World) -> Result<Self> {
        let (initdb, server) = (find("initdb")?, find("postgres")?);
        for client in ["psql", "pgbench"] {
            tools::find(client)?;
        }
        // Not in the run's folder, which may lie where only we may go.
        let made =
            command::read(Command::new("mktemp").args(["-d", "-t", "leno-postgres-XXXXXX"]))?;
        let folder = PathBuf::from(made.trim());
        if doctor::is_root() {
            command::read(Command::new("chown").arg("postgres").arg(&folder))?;
        }
        let mut init = as_postgres(&initdb);
        init.args(["--auth=trust", "--username=postgres", "--no-sync", "-D"]);
        command::read(init.arg(&folder).current_dir(&folder))?;
        let address = process::free_address()?;
        let mut serve = as_postgres(&server);
        serve.args(["-p", port(&address), "-c", "listen_addresses=127.0.0.1"]);
        serve.args(["-c", "fsync=off", "-k"]).arg(&folder);
        serve.arg("-D").arg(&folder).current_dir(&folder);
        let process = Process::start_at(&mut serve, &address, &world.file("postgres.log"))?;
        Ok(Self { process, folder })
    }

    /// Ends the server as it wants to be ended, and removes what it wrote.
    pub(super) fn end(self) -> Result<()> {
        self.process.end("INT")?;
        fs::remove_dir_all(&self.folder)?;
        Ok(())
    }
}

/// The programs refuse to run as root.
fn as_postgres(program: &Path) -> Command {
    if !doctor::is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(program);
    command
}

fn find(program: &str) -> Result<PathBuf> {
    if let Ok(found) = tools::find(program) {
        return Ok(found);
    }
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut found = versions.map(|version| version.path().join("bin").join(program));
    let first = found.find(|path| path.is_file());
    first.ok_or_else(|| Missing(format!("{program} is not installed (Debian: postgresql)")).into())
}
