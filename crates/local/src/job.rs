//! A program and the place it runs in: namespace, cgroups, user, files. [`Job::run`] turns this
//! process into it, giving up on the way everything that a workload must not have.
//! Called by the hidden `leno workload run`, which has one thread, and by `leno exec`.

use std::fs;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use rustix::fs::Mode;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{
    Gid, Signal, Uid, geteuid, ioctl_tiocsctty, set_parent_process_death_signal, setsid, umask,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, clear_ambient_capability_set,
    move_into_link_name_space, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

use crate::users;

/// Listening sockets that a program is given.
pub(crate) mod sockets;

/// What a program finds at `/etc/resolv.conf`.
mod resolver;

const RESOLVER: &str = "/etc/resolv.conf";

/// What is run, and where.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// The program, looked for in `PATH` where it has no slash.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder it begins in.
    pub directory: PathBuf,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// Its user and group; never root. Ours, where we are not root.
    pub user: u32,
    /// The network namespace it enters; none: ours.
    pub netns: Option<PathBuf>,
    /// The cgroups it joins, as folders.
    pub cgroups: Vec<PathBuf>,
    /// What it finds at `/etc/resolv.conf`; none: what we find there.
    pub resolver: Option<PathBuf>,
    /// Addresses of this machine's own network, where sockets listen that it is given: as systemd's
    /// socket activation has it, from descriptor 3 on. Not of [`Job::run_attached`].
    #[serde(default)]
    pub sockets: Vec<SocketAddr>,
    /// What it reads from its standard input; none: nothing. Not of [`Job::run_attached`].
    pub input: Option<String>,
    /// Whether what is passed with it are no sockets: its standard input, and the terminal that it
    /// has, if any. It ends with whoever started it then.
    #[serde(default)]
    pub is_attached: bool,
}

/// The paths that programs are looked for in.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Reads a job from standard input and becomes it. When that fails, whoever wrote it is told
/// through the same socket, which closes itself when it succeeds.
pub fn run_from_stdin() -> anyhow::Error {
    // Beyond the descriptors that are given away: it is needed until the very last.
    let beyond = sockets::FIRST + sockets::SOCKETS_MAX as i32;
    let socket = match fcntl_dupfd_cloexec(io::stdin(), beyond) {
        Ok(socket) => UnixStream::from(socket),
        Err(error) => return anyhow!("duplicate the standard input: {error}"),
    };
    let error = match read(&socket) {
        Ok((job, passed)) => job.run(passed),
        Err(error) => error,
    };
    // With nobody there to be told, our own standard error has it.
    let _ = (&socket).write_all(format!("{error:#}").as_bytes());
    error
}

/// The job, and sockets that came with it.
fn read(mut socket: &UnixStream) -> anyhow::Result<(Job, Vec<OwnedFd>)> {
    let (passed, mut text) = sockets::receive(socket).context("take sockets")?;
    socket.read_to_end(&mut text)?;
    let job = serde_json::from_slice(&text).context("a job was expected on standard input")?;
    Ok((job, passed))
}

impl Job {
    /// Becomes the program, in a session of its own, with listening sockets that were `passed`
    /// before its own. Returns only when that fails.
    pub fn run(&self, passed: Vec<OwnedFd>) -> anyhow::Error {
        if self.is_attached {
            return self.run_at(passed);
        }
        let become_it = || {
            setsid().context("begin a session")?;
            let stdin = self.stdin()?;
            let own = sockets::open(&self.sockets)?;
            self.enter()?;
            Ok((stdin, passed.into_iter().chain(own).collect()))
        };
        match become_it() {
            Ok((stdin, sockets)) => self.execute(stdin, sockets),
            Err(error) => error,
        }
    }

    /// Becomes the program with a standard input, and a terminal if there is another descriptor.
    fn run_at(&self, passed: Vec<OwnedFd>) -> anyhow::Error {
        let become_it = || {
            let mut passed = passed.into_iter();
            let stdin = passed.next().context("no standard input was passed")?;
            // Nothing of whoever started us can be typed into or read from then.
            setsid().context("begin a session")?;
            if let Some(terminal) = passed.next() {
                ioctl_tiocsctty(&terminal).context("take the terminal")?;
            }
            self.enter()?;
            // Only now: who takes another user forgets it.
            set_parent_process_death_signal(Some(Signal::KILL)).context("end with the caller")?;
            anyhow::Ok(Stdio::from(stdin))
        };
        match become_it() {
            Ok(stdin) => self.execute(stdin, Vec::new()),
            Err(error) => error,
        }
    }

    /// Becomes the program in this process, which must have no terminal that it could take hold
    /// of. Returns only when that fails.
    pub fn run_attached(&self) -> anyhow::Error {
        match self.enter() {
            Ok(()) => self.execute(Stdio::inherit(), Vec::new()),
            Err(error) => error,
        }
    }

    fn stdin(&self) -> io::Result<Stdio> {
        let Some(input) = &self.input else {
            return Ok(Stdio::null());
        };
        let (reader, mut writer) = io::pipe()?;
        // A token is far shorter than what a pipe holds.
        writer.write_all(input.as_bytes())?;
        Ok(reader.into())
    }

    /// Everything that takes root, then giving it up.
    fn enter(&self) -> anyhow::Result<()> {
        for group in &self.cgroups {
            let procs = group.join("cgroup.procs");
            fs::write(&procs, "0").with_context(|| format!("join {}", procs.display()))?;
        }
        if let Some(path) = &self.netns {
            let context = || format!("enter the network namespace {}", path.display());
            let namespace = fs::File::open(path).with_context(context)?;
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).with_context(context)?;
        }
        if let Some(file) = &self.resolver {
            resolver::cover(file, Path::new(RESOLVER))?;
        }
        umask(Mode::from_raw_mode(0o022));
        drop_privileges(self.user)?;
        let directory = &self.directory;
        rustix::process::chdir(directory).with_context(|| {
            let (user, directory) = (self.user, directory.display());
            format!("user {user} may not enter {directory}: let others read it and what is above")
        })
    }

    fn execute(&self, stdin: Stdio, sockets: Vec<OwnedFd>) -> anyhow::Error {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(stdin);
        if let Err(error) = sockets::hand_over(&mut command, sockets) {
            return error;
        }
        let error = command.exec();
        let (program, user) = (self.program.display(), self.user);
        match error.kind() {
            io::ErrorKind::NotFound => anyhow!(
                "there is no {program}: give a path from {}, or a name in {PATH}",
                self.directory.display()
            ),
            io::ErrorKind::PermissionDenied => anyhow!(
                "user {user} may not execute {program}: let others read and execute it, and enter \
                 the folders above"
            ),
            _ => anyhow!(error).context(format!("execute {program}")),
        }
    }
}

/// Leaves root for good: no capability, no group, and no way back through a setuid program.
fn drop_privileges(user: u32) -> anyhow::Result<()> {
    anyhow::ensure!(user != 0, "root is no user for a workload");
    let own = geteuid();
    if !own.is_root() {
        anyhow::ensure!(
            own.as_raw() == user,
            "only root starts a program as user {user}"
        );
        return forgo();
    }
    empty_bounding_set().context("drop capabilities")?;
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(users::group_of(user)));
    set_thread_groups(&[]).context("leave all groups")?;
    set_thread_res_gid(gid, gid, gid).context("take the group")?;
    set_thread_res_uid(uid, uid, uid).context("take the user")?;
    forgo()
}

/// Nothing more than what every program of this user may do, now and later.
fn forgo() -> anyhow::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).context("drop capabilities")?;
    clear_ambient_capability_set().context("drop capabilities")?;
    set_no_new_privs(true).context("forgo new privileges")
}

fn empty_bounding_set() -> rustix::io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match remove_capability_from_bounding_set(capability) {
            // This kernel knows no more than those before.
            Err(Errno::INVAL) => return Ok(()),
            result => result?,
        }
    }
    Ok(())
}
