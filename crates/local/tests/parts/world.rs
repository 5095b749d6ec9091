//! A network namespace that no other test has, with an address of each family, and the rules of a
//! sidecar that does not run: what they redirect is refused. Removed when dropped.

use std::fs::DirEntry;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use command_fds::{CommandFdExt, FdMapping};
use intercept::{Backend, Policy, netns};
use local::cgroup::{self, Cgroups};
use local::job::{Job, PATH};
use local::probe::Prober;
use local::process::Launcher;

const STAND_IN: &str = env!("CARGO_BIN_EXE_leno-stand-in");
/// A user that nobody else has.
pub(super) const USER: u32 = 61_100;
const ADDRESSES: [&str; 2] = ["10.9.0.2", "fd09::2"];

pub(super) struct World {
    name: String,
    cgroups: Cgroups,
    groups: Vec<PathBuf>,
}

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    pub(super) fn make(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "this test needs root, which was promised");
            println!("SKIPPED: a network namespace needs root");
            return None;
        }
        let name = format!("parts{}-{name}", std::process::id());
        let cgroups = Cgroups::of(&name.parse().unwrap());
        let groups = cgroups.make("a");
        let world = Self {
            name,
            cgroups,
            groups,
        };
        ip(&["netns", "add", &world.name]);
        ip(&["-n", &world.name, "link", "set", "lo", "up"]);
        for address in ADDRESSES {
            ip(&["-n", &world.name, "address", "add", address, "dev", "lo"]);
        }
        let apply = || intercept::apply(None, &Policy::default(), Backend::Detect);
        netns::inside(&world.path(), apply).unwrap().unwrap();
        Some(world)
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// An application that listens at `address` and port 0; the port.
    pub(super) fn listen(&self, address: &str) -> (TcpListener, u16) {
        let address: IpAddr = address.parse().unwrap();
        let bind = || TcpListener::bind((address, 0)).unwrap();
        let listener = netns::inside(&self.path(), bind).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// One that answers every connection with `answer`, once it was asked something.
    pub(super) fn serve(&self, address: &str, answer: &'static str) -> u16 {
        let (listener, port) = self.listen(address);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                // A probe that only connects asks nothing.
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        port
    }

    pub(super) fn prober(&self) -> Prober {
        let addresses = ADDRESSES.map(|address| address.parse().unwrap());
        let launcher = Launcher {
            program: STAND_IN.into(),
            args: vec!["workload".into()],
        };
        Prober::new(self.path(), addresses.into(), launcher)
    }

    /// A script of the shell's, as a user in here.
    pub(super) fn job(&self, script: &str) -> Job {
        Job {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            directory: "/".into(),
            environment: vec![("PATH".into(), PATH.into())],
            user: USER,
            netns: Some(self.path()),
            cgroups: self.groups.clone(),
            ..Job::default()
        }
    }

    /// Whether nothing of a job is left, be it a group of its own.
    pub(super) fn is_empty(&self) -> bool {
        let is_file = |entry: std::io::Result<DirEntry>| entry.unwrap().path().is_file();
        self.groups.iter().all(|group| {
            let procs = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
            procs.is_empty() && group.read_dir().unwrap().all(is_file)
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        cgroup::kill(&self.groups);
        let left = self.cgroups.remove();
        ip(&["netns", "del", &self.name]);
        assert!(left.is_empty() || thread::panicking(), "left: {left:?}");
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args:?}: {said}");
}

/// Starts a job in a process that has inherited `inherited` as descriptors from 3 on; what it says
/// when it cannot become its program.
pub(super) fn start(job: &Job, inherited: Vec<OwnedFd>) -> Result<Child, String> {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let inherited = (3..).zip(inherited);
    let inherited = inherited.map(|(child_fd, parent_fd)| FdMapping {
        parent_fd,
        child_fd,
    });
    let mut command = Command::new(STAND_IN);
    command
        .args(["workload", "run"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .fd_mappings(inherited.collect())
        .unwrap();
    let mut child = command.spawn().unwrap();
    drop(command);
    let text = serde_json::to_string(job).unwrap();
    ours.write_all(text.as_bytes()).unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    if said.is_empty() {
        return Ok(child);
    }
    child.wait().unwrap();
    Err(said)
}
