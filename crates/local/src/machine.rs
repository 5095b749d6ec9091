//! What this machine allows, found out by trying: network namespaces, the rules of redirection,
//! control groups, addresses. Called by `leno check`. Must never leave anything behind, nor touch
//! what it did not make itself.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use intercept::{Backend, Cidr, Error, Policy, netns};
use rustix::io::Errno;
use rustix::net::sockopt::ip_original_dst;

use crate::cgroup::Cgroups;
use crate::network;

/// Those of `ranges` that lead somewhere already, and where to: `leno up` cannot have them. Without
/// `ip` nobody knows.
#[must_use]
pub fn taken(ranges: &[String]) -> Vec<(String, String)> {
    let routes = network::routes().unwrap_or_default();
    let clash = |text: &String| {
        let range: Cidr = text.parse().ok()?;
        let (_, by) = routes.iter().find(|(route, _)| route.overlaps(&range))?;
        Some((text.clone(), by.clone()))
    };
    ranges.iter().filter_map(clash).collect()
}

/// What may be used of control groups here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// 1 or 2: of those that have controllers; none: there are none.
    pub version: Option<u8>,
    /// Whether groups can be made.
    pub writable: bool,
    /// Whether they limit CPU.
    pub cpu: bool,
    /// Whether they limit memory.
    pub memory: bool,
}

impl Groups {
    /// Finds out by making a group as `leno up` does, and removing it.
    #[must_use]
    pub fn find() -> Self {
        let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounted = |kind: &str| mounted.contains(&format!(" - {kind} "));
        let version = match (mounted("cgroup"), mounted("cgroup2")) {
            (true, _) => Some(1),
            (false, true) => Some(2),
            (false, false) => None,
        };
        let name = format!("check-{}", std::process::id()).parse();
        let groups = name.ok().map(|name| Cgroups::of(&name));
        let made = groups.as_ref().map(|groups| groups.make("probe"));
        let made = made.unwrap_or_default();
        let has = |files: [&str; 2]| {
            let mut paths = made
                .iter()
                .flat_map(|group| files.map(|file| group.join(file)));
            paths.any(|path| path.exists())
        };
        let found = Self {
            version,
            writable: !made.is_empty(),
            cpu: has(["cpu.max", "cpu.cfs_quota_us"]),
            memory: has(["memory.max", "memory.limit_in_bytes"]),
        };
        // What is left of it has nobody in it, and a name of its own.
        groups.map(|groups| groups.remove());
        found
    }
}

/// A program that changes the kernel's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Not there.
    Absent,
    /// There; not tried, without root.
    Untried,
    /// It put our rules into a namespace.
    Works,
    /// It did not, and said that.
    Fails(String),
}

/// What was tried in a namespace that is gone again.
pub struct Trial {
    /// Whether a network namespace could be made, with what `ip` said; none: not tried.
    pub made: Option<Result<(), String>>,
    /// nft.
    pub nft: Tool,
    /// iptables-restore.
    pub iptables: Tool,
    /// ip6tables-restore.
    pub ip6tables: Tool,
    /// Whether the kernel says where a connection was made to; none: not tried.
    pub original_destination: Option<bool>,
}

impl Trial {
    /// Tries, as root; without, only looks which programs there are.
    #[must_use]
    pub fn run(is_root: bool) -> Self {
        let made = is_root.then(Namespace::make);
        let untried = |program| {
            if is_there(program) {
                Tool::Untried
            } else {
                Tool::Absent
            }
        };
        let mut trial = Self {
            nft: untried("nft"),
            iptables: untried("iptables-restore"),
            ip6tables: untried("ip6tables-restore"),
            original_destination: None,
            made: None,
        };
        match made {
            Some(Ok(namespace)) => {
                trial.made = Some(Ok(()));
                trial.try_rules(&namespace.path());
            }
            Some(Err(said)) => trial.made = Some(Err(said)),
            None => {}
        }
        trial
    }

    fn try_rules(&mut self, namespace: &Path) {
        let apply = |backend| intercept::apply(Some(namespace), &Policy::default(), backend);
        let mut original = |works: bool| {
            let answer = works.then(|| netns::inside(namespace, knows_destinations));
            let answer = answer.and_then(Result::ok).flatten();
            self.original_destination = self.original_destination.or(answer);
        };
        let nft = apply(Backend::Nft);
        original(nft.is_ok());
        self.nft = tool(nft.err());
        let _ = intercept::remove(Some(namespace), Backend::Nft);
        let iptables = apply(Backend::Iptables);
        original(iptables.is_ok());
        (self.iptables, self.ip6tables) = match iptables.err() {
            // It takes the two in turn.
            Some(error) if program(&error).is_some_and(|name| name.starts_with("ip6")) => {
                (Tool::Works, tool(Some(error)))
            }
            error => {
                let both = tool(error);
                (both.clone(), both)
            }
        };
    }
}

fn tool(error: Option<Error>) -> Tool {
    match error {
        None => Tool::Works,
        Some(Error::Missing { .. }) => Tool::Absent,
        Some(error) => Tool::Fails(error.to_string().lines().collect::<Vec<_>>().join(" ")),
    }
}

const fn program(error: &Error) -> Option<&'static str> {
    match error {
        Error::Missing { program, .. }
        | Error::Refused { program, .. }
        | Error::Run { program, .. } => Some(program),
        Error::Namespace { .. } | Error::Neither { .. } => None,
    }
}

/// Whether the kernel remembers where connections were made to. For one that was not redirected it
/// says that it has nothing, if it is able to.
fn knows_destinations() -> Option<bool> {
    run("ip", &["link", "set", "lo", "up"])?;
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let address = listener.local_addr().ok()?;
    let _client = TcpStream::connect(address).ok()?;
    let (accepted, _) = listener.accept().ok()?;
    match ip_original_dst(&accepted) {
        Ok(_) | Err(Errno::NOENT) => Some(true),
        Err(_) => Some(false),
    }
}

/// A network namespace, removed when dropped.
struct Namespace(String);

impl Namespace {
    fn make() -> Result<Self, String> {
        let name = format!("leno-check-{}", std::process::id());
        let output = run("ip", &["netns", "add", &name]).ok_or("there is no `ip`")?;
        match output.status.success() {
            true => Ok(Self(name)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run("ip", &["netns", "del", &self.0]);
    }
}

fn run(program: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).output().ok()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
