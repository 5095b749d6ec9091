//! A contestant set up in a topology: its processes, where requests enter, what it has used.
//! `run` starts one for each contestant and measures them in turn.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cell::{Protocol, Scene, Topology};
use super::config::{self, Place, Role};
use super::contestant::{Contestant, Given, Program};
use super::cores::Cores;
use super::far::Far;
use super::process::{Process, free_address};
use super::{module, probe};

/// A running contestant; dropped, it ends its processes.
pub(crate) struct Subject {
    pub(crate) contestant: Contestant,
    pub(crate) scene: Scene,
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
    pub(crate) cores: Cores,
    /// Downstream connections that a contestant must be able to hold.
    pub(crate) connections_max: usize,
    /// Congestion control of sockets that choose for themselves.
    pub(crate) congestion: String,
    /// Put before each program, e.g. an instruction counter; empty to run it as it is.
    pub(crate) wrapper: Vec<String>,
    /// Where the server's side of a pair and the backend are, if not here.
    pub(crate) far: Option<&'a Far>,
}

/// One process of a subject: its end of the hop, and the addresses that it joins.
struct Post {
    role: Role,
    listen: SocketAddr,
    to: SocketAddr,
}

impl Subject {
    /// Starts `contestant` and waits for its first answer.
    ///
    /// # Errors
    /// When a program is missing, ends early, or does not answer.
    pub(crate) fn start(
        contestant: Contestant,
        scene: Scene,
        stage: &Stage<'_>,
    ) -> anyhow::Result<Self> {
        let entry = free_address()?;
        let mesh = match scene.topology {
            Topology::Plain => entry,
            Topology::Mtls => stage.mesh_address()?,
        };
        let begun = Instant::now();
        let mut processes = Vec::new();
        for post in posts(scene, entry, mesh, stage.backend) {
            let mut command = command(contestant, scene.protocol, &post, stage)?;
            processes.push(stage.launch(contestant, &post, &mut command)?);
        }
        probe::first_answer(entry, scene.protocol)?;
        let start_up = begun.elapsed();
        processes.reverse();
        Ok(Self {
            contestant,
            scene,
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
        Self::start(self.contestant, self.scene, stage)
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

impl Stage<'_> {
    fn mesh_address(&self) -> anyhow::Result<SocketAddr> {
        self.far.map_or_else(free_address, Far::free_address)
    }

    /// Starts the process of `post` where it belongs and waits until it listens.
    fn launch(
        &self,
        contestant: Contestant,
        post: &Post,
        command: &mut Command,
    ) -> anyhow::Result<Process> {
        let name = format!("{}-{}.log", contestant.name(), post.listen.port());
        let log = self.folder.join(name);
        let (core, far) = match post.role {
            Role::Plain | Role::ClientSide => (self.cores.near_proxy, None),
            Role::ServerSide => (self.cores.far_proxy, self.far),
        };
        let mut start = || Process::start(command, core, &log);
        let mut process = match far {
            None => start()?,
            Some(far) => far.within(start)??,
        };
        process.wait_listening(post.listen)?;
        Ok(process)
    }
}

/// In the order of starting: what is dialled comes first.
fn posts(scene: Scene, entry: SocketAddr, mesh: SocketAddr, backend: SocketAddr) -> Vec<Post> {
    let post = |role, listen, to| Post { role, listen, to };
    match scene.topology {
        Topology::Plain => vec![post(Role::Plain, entry, backend)],
        Topology::Mtls => vec![
            post(Role::ServerSide, mesh, backend),
            post(Role::ClientSide, entry, mesh),
        ],
    }
}

fn command(
    contestant: Contestant,
    protocol: Protocol,
    post: &Post,
    stage: &Stage<'_>,
) -> anyhow::Result<Command> {
    let program = contestant.program().find(stage.given)?;
    let place = Place {
        role: post.role,
        protocol,
        hop: contestant.hop(),
        listen: post.listen,
        to: post.to,
        connections_max: stage.connections_max,
        folder: stage.folder,
        module: module::needed(contestant.program(), protocol, &program)?,
    };
    let name = format!("{}-{}.conf", contestant.name(), post.listen.port());
    let file = stage.folder.join(name);
    fs::write(&file, config::text(contestant, &place))?;
    let mut words = stage.wrapper.clone();
    words.push(program.display().to_string());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null());
    match contestant.program() {
        Program::Relay => {
            command.args(["bench", "relay", "--congestion", &stage.congestion]);
            command.arg("--listen").arg(post.listen.to_string());
            command.arg("--to").arg(post.to.to_string());
        }
        Program::Leno => drop(command.arg("--config").arg(&file)),
        Program::Haproxy => drop(command.arg("-f").arg(&file)),
        Program::Nginx => drop(command.arg("-p").arg(stage.folder).arg("-c").arg(&file)),
        Program::Envoy => {
            // Envoy tells the format of a file by its ending.
            let yaml = file.with_extension("yaml");
            fs::rename(&file, &yaml)?;
            command.args(["--concurrency", "1", "--disable-hot-restart", "-l", "off"]);
            command.arg("-c").arg(yaml);
        }
    }
    Ok(command)
}
