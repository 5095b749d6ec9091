//! A user without rights, with programs, a runtime folder and meshes; what is left of these is
//! ended when it is dropped.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use local::folder::Folder;
use local::process::Identity;
use local::state::State;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
const PROGRAMS: [&str; 3] = ["leno", "leno-control", "leno-proxy"];
/// A user that systems leave to nobody; whoever runs the tests, unless they are root.
const USER: u32 = 61_500;

pub(crate) struct World {
    /// Has everything, and so is told to all processes.
    folder: TempDir,
    user: Option<u32>,
}

impl World {
    /// None, said aloud, where programs are missing; a failure where they were promised.
    pub(crate) fn make(name: &str) -> Option<Self> {
        let missing: Vec<_> = PROGRAMS
            .into_iter()
            .filter(|one| !built(one).exists())
            .collect();
        if !missing.is_empty() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "build the workspace first: {missing:?}");
            println!("SKIPPED: {name} needs {missing:?}: build the workspace");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let world = Self {
            folder,
            user: geteuid().is_root().then_some(USER),
        };
        fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        for program in PROGRAMS {
            let (built, ours) = (built(program), world.path(program));
            fs::hard_link(&built, &ours)
                .or_else(|_| fs::copy(&built, &ours).map(drop))
                .unwrap();
        }
        fs::create_dir(world.path("run")).unwrap();
        fs::set_permissions(world.path("run"), fs::Permissions::from_mode(0o700)).unwrap();
        chown(world.path("run"), world.user, world.user).unwrap();
        Some(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "120"]);
        command
            .arg(self.path("leno"))
            .args(args)
            .stdin(Stdio::null());
        command.env_clear().env("PATH", local::job::PATH);
        command.env("XDG_RUNTIME_DIR", self.path("run"));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn output(&self, args: &[&str]) -> (bool, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(args).output().unwrap();
        let both = [stdout, stderr].concat();
        (
            status.success(),
            String::from_utf8_lossy(&both).into_owned(),
        )
    }

    /// What it says.
    #[track_caller]
    pub(crate) fn leno(&self, args: &[&str]) -> String {
        let (went_well, said) = self.output(args);
        assert!(went_well, "leno {args:?}: {said}");
        said
    }

    #[track_caller]
    pub(crate) fn up(&self, mesh: &str) -> String {
        self.up_as("default", mesh)
    }

    #[track_caller]
    pub(crate) fn up_as(&self, name: &str, mesh: &str) -> String {
        let file = self.write(mesh);
        self.leno(&["up", "--name", name, &file])
    }

    /// What is said of a mesh that cannot come up.
    #[track_caller]
    pub(crate) fn refused(&self, mesh: &str) -> String {
        let file = self.write(mesh);
        let (went_well, said) = self.output(&["up", &file]);
        assert!(!went_well, "{said}");
        said
    }

    fn write(&self, mesh: &str) -> String {
        let path = self.path("mesh.yaml");
        fs::write(&path, mesh).unwrap();
        path.display().to_string()
    }

    /// Takes the mesh down; nothing of it is left.
    #[track_caller]
    pub(crate) fn down(&self) {
        self.leno(&["down"]);
        self.check_empty();
    }

    #[track_caller]
    pub(crate) fn check_empty(&self) {
        let left = fs::read_dir(self.path("run/leno")).unwrap().count();
        assert_eq!(left, 0, "runtime folders");
        until(|| {
            let left = self.processes();
            (left.is_empty(), format!("{left:?}"))
        });
    }

    /// The processes that run that.
    pub(crate) fn running(&self, command: &str) -> Vec<i32> {
        let all = self.processes().into_iter();
        let of_it = all.filter(|(_, line)| line.starts_with(command));
        of_it.map(|(pid, _)| pid).collect()
    }

    /// Those in whose command lines or environment our folder is.
    fn processes(&self) -> Vec<(i32, String)> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let all = pids.filter_map(|pid| {
            let read = |name| fs::read(format!("/proc/{pid}/{name}")).ok();
            let both = [read("cmdline")?, read("environ").unwrap_or_default()].concat();
            Some((pid, String::from_utf8_lossy(&both).replace('\0', " ")))
        });
        let folder = self.folder.path().display().to_string();
        all.filter(|(_, line)| line.contains(&folder)).collect()
    }

    pub(crate) fn state(&self) -> State {
        self.state_of("default")
    }

    pub(crate) fn state_of(&self, name: &str) -> State {
        let base = self.path("run/leno");
        let folder = Folder::new(&base, &name.parse().unwrap());
        State::load(&folder.state()).unwrap().unwrap()
    }

    /// How many instances of a workload are ready; all there are must be.
    pub(crate) fn count(&self, workload: &str) -> usize {
        let state = self.state();
        let of_it = state.instances.iter();
        let of_it: Vec<_> = of_it
            .filter(|one| one.workload.name() == workload)
            .collect();
        assert!(of_it.iter().all(|one| one.ready), "{of_it:?}");
        of_it.len()
    }

    /// Returns when it is gone.
    pub(crate) fn kill(&self, process: Identity, signal: Signal) {
        kill_process(Pid::from_raw(process.pid).unwrap(), signal).unwrap();
        until(|| (!process.is_alive(), format!("{process:?} lives")));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Of a test that has failed.
        for (pid, _) in self.processes() {
            _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

fn built(program: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_leno-stand-in")).with_file_name(program)
}

/// All that is answered to a request on a connection of its own; nothing if it is closed.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let mut answer = Vec::new();
    let mut ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: hello\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        stream.read_to_end(&mut answer)
    };
    match ask() {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => return format!("{address}: {error}"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether connections are taken, if only to wait.
pub(crate) fn is_listening(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// Looks again until it is so; `holds` says what there is instead.
#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> (bool, String)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (holds, instead) = holds();
        if holds {
            return;
        }
        assert!(Instant::now() < deadline, "{instead}");
        thread::sleep(Duration::from_millis(10));
    }
}
