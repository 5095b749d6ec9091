//! A contestant set up in a topology: its processes, where requests enter, what it has used.
//! `run` starts one for each contestant and measures them in turn.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::config::{self, Place, Role};
use super::contestant::{Contestant, Given, Topology};
use super::probe;
use super::process::{Process, free_address};

/// A running contestant; dropped, it ends its processes.
pub(crate) struct Subject {
    pub(crate) contestant: Contestant,
    pub(crate) topology: Topology,
    /// Where the generator connects.
    pub(crate) entry: SocketAddr,
    /// Where the server's side of the mesh listens; the entry when there is one hop.
    mesh: SocketAddr,
    /// In the order that a request crosses them.
    processes: Vec<Process>,
    /// From the first spawn to the first answered request.
    pub(crate) start_up: Duration,
}

/// What every subject of a run shares.
#[derive(Clone)]
pub(crate) struct Stage<'a> {
    pub(crate) backend: SocketAddr,
    pub(crate) folder: &'a Path,
    pub(crate) given: &'a Given,
    pub(crate) core: Option<usize>,
    /// Downstream connections that a contestant must be able to hold.
    pub(crate) connections_max: usize,
    /// Congestion control of sockets that choose for themselves.
    pub(crate) congestion: String,
    /// Put before each program, e.g. an instruction counter; empty to run it as it is.
    pub(crate) wrapper: Vec<String>,
}

impl Subject {
    /// Starts `contestant` and waits for its first answer.
    ///
    /// # Errors
    /// When a program is missing, ends early, or does not answer.
    pub(crate) fn start(
        contestant: Contestant,
        topology: Topology,
        stage: &Stage<'_>,
    ) -> anyhow::Result<Self> {
        let entry = free_address()?;
        let mesh = if topology == Topology::Mtls {
            free_address()?
        } else {
            entry
        };
        let hops = match topology {
            Topology::Plain => vec![(Role::Plain, entry, stage.backend)],
            Topology::Mtls => {
                vec![
                    (Role::ServerSide, mesh, stage.backend),
                    (Role::ClientSide, entry, mesh),
                ]
            }
        };
        let connections_max = stage.connections_max;
        let begun = Instant::now();
        let mut processes = Vec::new();
        for (role, listen, to) in hops {
            let place = Place {
                role,
                listen,
                to,
                connections_max,
                folder: stage.folder,
            };
            let log = stage
                .folder
                .join(format!("{}-{}.log", contestant.name(), listen.port()));
            let mut command = command(contestant, &place, stage)?;
            let mut process = Process::start(&mut command, stage.core, &log)?;
            process.wait_listening(listen)?;
            processes.push(process);
        }
        probe::first_answer(entry)?;
        let start_up = begun.elapsed();
        processes.reverse();
        Ok(Self {
            contestant,
            topology,
            entry,
            mesh,
            processes,
            start_up,
        })
    }

    /// The same contestant once more, beside this one.
    ///
    /// # Errors
    /// As [`Subject::start`].
    pub(crate) fn again(&self, stage: &Stage<'_>) -> anyhow::Result<Self> {
        Self::start(self.contestant, self.topology, stage)
    }

    /// Where a peer in the mesh connects: mutual TLS in that topology, else plaintext.
    pub(crate) fn mesh_entry(&self) -> SocketAddr {
        self.mesh
    }

    /// Ends its processes as an operator would, and waits until they have left.
    ///
    /// # Errors
    /// When one does not leave in time.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        self.processes.iter_mut().try_for_each(Process::end)
    }

    /// CPU time of all processes so far, in nanoseconds.
    pub(crate) fn cpu_nanos(&self) -> anyhow::Result<u64> {
        self.processes.iter().map(Process::cpu_nanos).sum()
    }

    /// Memory of the dearest of its processes: what one sidecar takes.
    pub(crate) fn pss_bytes(&self) -> anyhow::Result<u64> {
        let each: Result<Vec<u64>, _> = self.processes.iter().map(Process::pss_bytes).collect();
        Ok(each?.into_iter().max().unwrap_or(0))
    }
}

fn command(
    contestant: Contestant,
    place: &Place<'_>,
    stage: &Stage<'_>,
) -> anyhow::Result<Command> {
    let program = contestant.program(stage.given)?;
    let file = stage.folder.join(format!(
        "{}-{}.conf",
        contestant.name(),
        place.listen.port()
    ));
    fs::write(&file, config::text(contestant, place))?;
    let mut words = stage.wrapper.clone();
    words.push(program.display().to_string());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null());
    match contestant {
        Contestant::Floor => {
            command.args([
                "bench",
                "relay",
                "--congestion",
                &stage.congestion,
                "--listen",
            ]);
            command
                .arg(place.listen.to_string())
                .arg("--to")
                .arg(place.to.to_string());
        }
        Contestant::Leno => drop(command.arg("--config").arg(&file)),
        Contestant::Haproxy => drop(command.arg("-f").arg(&file)),
        Contestant::Nginx => drop(command.arg("-p").arg(stage.folder).arg("-c").arg(&file)),
        Contestant::Envoy => {
            // Envoy tells the format of a file by its ending.
            let yaml = file.with_extension("yaml");
            fs::rename(&file, &yaml)?;
            command.args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "off",
                "-c",
            ]);
            command.arg(yaml);
        }
    }
    Ok(command)
}
