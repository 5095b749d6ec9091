//! What takes the place of networks where there is no root: loopback addresses of this machine, one
//! for each instance, and sockets at them for its sidecar. Called by the supervisor, which keeps
//! these. Must never take a block of addresses that another mesh has.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use intercept::Cidr;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::job::sockets;
use crate::mesh::{Service, Workload};
use crate::plan::sides;
use crate::process;
use crate::written::CONTROL_PORT;

/// The loopback addresses of all meshes without root begin so; each has the 256 of one third
/// number.
const BLOCKS: [u8; 2] = [127, 77];
/// Of a block.
const PREFIX: u8 = 24;
/// Where a supervisor listens, at the first address of its block, so that no other takes it.
const CLAIM_PORT: u16 = 15127;
/// How often sockets are opened anew because the kernel chose a port that an application wants.
const TRIES: u32 = 16;

/// In the environment of every application: its instance's folder. What it has started is known by
/// it.
pub(crate) const MARK: &str = "LENO_RUNTIME";
/// The options by which sidecars and control planes are told of their folders.
const TOLD_BY: [&[u8]; 2] = [b"--config", b"--state"];
/// How often marked processes are looked for again: what is being killed may still have children.
const ROUNDS: u32 = 20;

/// What the user is told who brings a mesh up without root.
pub const NOTE: &str = "without root: everything runs as you, on loopback, and nothing is \
                        intercepted: applications call ports that they are told \
                        ($NAME_SERVICE_HOST, $NAME_SERVICE_PORT), and nothing stops them from \
                        going past the sidecar (docs/rootless.md)";

/// Whether this process can make networks, groups and users for others.
#[must_use]
pub fn is_rootless() -> bool {
    !geteuid().is_root()
}

/// Gives a file to a user and a group; without root, all are our own already.
pub(crate) fn give(path: &Path, user: Option<u32>, group: Option<u32>) -> std::io::Result<()> {
    match is_rootless() {
        true => Ok(()),
        false => chown(path, user, group),
    }
}

/// What processes of a mesh, or of an instance, are known by its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// Applications, with what they have started.
    Applications,
    /// What was told to read or write there: sidecars, and a control plane.
    Ours,
}

impl Marked {
    /// Everything.
    pub(crate) const ALL: [Self; 2] = [Self::Applications, Self::Ours];
}

/// Kills those of the mesh, or of the instance, in the folder `root`.
pub(crate) fn kill_marked(root: &Path, which: &[Marked]) {
    for _ in 0..ROUNDS {
        if !process::kill(|| marked(root, which)) {
            return;
        }
    }
}

fn marked(root: &Path, which: &[Marked]) -> Vec<i32> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |pid: &i32, which: &Marked| {
        // Of other users neither can be ours; sidecars hide their environment.
        let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        match which {
            Marked::Applications => {
                let environment = read("environ");
                let mut words = environment.split(|byte| *byte == 0);
                words.any(|word| is_mark(word, root))
            }
            Marked::Ours => is_own(*pid) && is_told(&read("cmdline"), root),
        }
    };
    pids.filter(|pid| *pid != own)
        .filter(|pid| which.iter().any(|which| is_marked(pid, which)))
        .collect()
}

fn is_mark(word: &[u8], root: &Path) -> bool {
    let value = word.strip_prefix(MARK.as_bytes());
    let value = value.and_then(|rest| rest.strip_prefix(b"="));
    value.is_some_and(|value| is_inside(value, root))
}

/// Whether it is the command line of a sidecar or of a control plane there.
fn is_told(command: &[u8], root: &Path) -> bool {
    let words: Vec<_> = command.split(|byte| *byte == 0).collect();
    let mut pairs = words.windows(2);
    pairs.any(|pair| TOLD_BY.contains(&pair[0]) && is_inside(pair[1], root))
}

fn is_inside(path: &[u8], root: &Path) -> bool {
    Path::new(OsStr::from_bytes(path)).starts_with(root)
}

fn is_own(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let user = users.and_then(|users| users.split_whitespace().next()?.parse().ok());
    user == Some(geteuid().as_raw())
}

/// A block of addresses that is ours as long as this is there.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) range: Cidr,
    _held: TcpListener,
}

impl Claim {
    /// One that nobody has.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let mut blocks = (0..=u8::MAX).map(block);
        let free = blocks.find_map(|range| Self::of(range).ok().filter(Self::is_quiet));
        free.with_context(|| {
            let [a, b] = BLOCKS;
            format!("all addresses of {a}.{b}.0.0/16 are taken by meshes: see `leno ps`")
        })
    }

    /// That one.
    pub(crate) fn of(range: Cidr) -> anyhow::Result<Self> {
        let first = range.nth(1).context("a block has a first address")?;
        let held = TcpListener::bind((first, CLAIM_PORT));
        let held = held.with_context(|| format!("another mesh has {range}"))?;
        Ok(Self { range, _held: held })
    }

    /// Whether no control plane is left of one whose supervisor was killed.
    fn is_quiet(&self) -> bool {
        let first = self.range.nth(1);
        first.is_some_and(|first| TcpListener::bind((first, CONTROL_PORT)).is_ok())
    }
}

fn block(number: u8) -> Cidr {
    let [a, b] = BLOCKS;
    let first = Ipv4Addr::new(a, b, number, 0);
    Cidr::new(first.into(), PREFIX).expect("32 bits are more than 24")
}

/// The addresses at which the sidecar of an instance listens for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explicit {
    /// For each port of the instance.
    pub inbound: Vec<Inbound>,
    /// For each port of each Service.
    pub outbound: Vec<Outbound>,
}

/// Where an instance is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    /// Where its application listens.
    pub port: u16,
    /// Where its sidecar does.
    pub address: SocketAddr,
}

/// Where an instance calls a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbound {
    /// The Service's namespace.
    pub namespace: String,
    /// Its name.
    pub service: String,
    /// Its port.
    pub port: u16,
    /// Where the sidecar listens for it.
    pub address: SocketAddr,
}

impl Explicit {
    /// Opens the sockets of an instance that lives at `address`: a port for each one on which it is
    /// called, and for each that it may call, as far as its sidecar has to do with them. Those of
    /// a gateway come last.
    ///
    /// # Errors
    /// When there are too many, or one of a gateway cannot be had.
    pub(crate) fn open(
        address: IpAddr,
        workload: &Workload,
        services: &[Service],
    ) -> anyhow::Result<(Self, Vec<OwnedFd>)> {
        let (inbound, outbound) = sides(workload.spec.sidecar.interception);
        let called: &[u16] = if inbound { &workload.called } else { &[] };
        // A gateway has no application that would call.
        let has_callers = outbound && workload.spec.gateway.is_none();
        let services = services.iter().filter(|_| has_callers);
        let calls: Vec<_> = services
            .flat_map(|service| service.ports.iter().map(move |port| (service, port.number)))
            .collect();
        let count = called.len() + calls.len();
        let context = || format!("open {count} sockets for its own ports and those of Services");
        let own = open_free(address, count, &workload.called).with_context(context)?;
        let addresses = own.iter().map(sockets::local_addr);
        let addresses: Vec<_> = addresses.collect::<Result<_, _>>()?;
        let (at_called, at_calls) = addresses.split_at(called.len());
        let gateway = sockets::open(&workload.sockets)?;
        let inbound = called.iter().zip(at_called);
        let outbound = calls.iter().zip(at_calls);
        let explicit = Self {
            inbound: inbound
                .map(|(port, address)| Inbound {
                    port: *port,
                    address: *address,
                })
                .collect(),
            outbound: outbound
                .map(|((service, port), address)| Outbound {
                    namespace: service.namespace.clone(),
                    service: service.name.clone(),
                    port: *port,
                    address: *address,
                })
                .collect(),
        };
        Ok((explicit, own.into_iter().chain(gateway).collect()))
    }

    /// Opens them again, which a supervisor has to that was not there when they were chosen.
    ///
    /// # Errors
    /// When somebody else has one of them now.
    pub(crate) fn reopen(&self, gateway: &[SocketAddr]) -> anyhow::Result<Vec<OwnedFd>> {
        let inbound = self.inbound.iter().map(|one| one.address);
        let outbound = self.outbound.iter().map(|one| one.address);
        let all: Vec<_> = inbound
            .chain(outbound)
            .chain(gateway.iter().copied())
            .collect();
        sockets::open(&all)
    }

    /// Where a port of a Service is called.
    pub(crate) fn outbound(&self, service: &Service, port: u16) -> Option<SocketAddr> {
        let is_it = |one: &&Outbound| {
            (&one.namespace, &one.service, one.port) == (&service.namespace, &service.name, port)
        };
        self.outbound.iter().find(is_it).map(|one| one.address)
    }

    /// As the control plane is told of them.
    pub(crate) fn describe(&self) -> Value {
        let inbound = self.inbound.iter();
        let inbound = inbound.map(|one| json!({"port": one.port, "address": one.address}));
        let outbound = self.outbound.iter().map(|one| {
            let service = format!("{}.{}", one.service, one.namespace);
            json!({"service": service, "port": one.port, "address": one.address})
        });
        let (inbound, outbound): (Vec<_>, Vec<_>) = (inbound.collect(), outbound.collect());
        json!({"inbound": inbound, "outbound": outbound})
    }
}

/// So many sockets at ports that the kernel chooses, none of which is among `wanted`.
fn open_free(address: IpAddr, count: usize, wanted: &[u16]) -> anyhow::Result<Vec<OwnedFd>> {
    ensure!(
        count <= sockets::SOCKETS_MAX,
        "{} can be given to a sidecar: without root, a mesh has room for fewer Services",
        sockets::SOCKETS_MAX
    );
    for _ in 0..TRIES {
        let found = sockets::open(&vec![SocketAddr::new(address, 0); count])?;
        let ports = found.iter().map(sockets::local_addr);
        let ports: Vec<_> = ports.collect::<Result<_, _>>()?;
        if !ports.iter().any(|chosen| wanted.contains(&chosen.port())) {
            return Ok(found);
        }
    }
    bail!("the kernel chooses ports at which applications are to listen: take others for them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn what_an_application_has_started_is_found_by_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new("sleep");
        let mark = folder.path().join("workloads/hello-0");
        let mut child = command.arg("600").env(MARK, &mark).spawn().unwrap();
        // While it turns into its program it has no environment that could be read.
        while marked(folder.path(), &Marked::ALL).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
        }
        kill_marked(&folder.path().join("workloads/hello"), &Marked::ALL);
        assert!(child.try_wait().unwrap().is_none(), "it is of hello-0");
        kill_marked(folder.path(), &[Marked::Ours]);
        assert!(child.try_wait().unwrap().is_none(), "it is no sidecar");
        kill_marked(folder.path(), &[Marked::Applications]);
        assert!(!child.wait().unwrap().success());
        assert!(!is_mark(b"PATH=/bin", Path::new("/bin")));
        let told = |command: &str| is_told(command.as_bytes(), Path::new("/run/leno/a"));
        assert!(told(
            "leno-proxy\0--config\0/run/leno/a/workloads/b/bootstrap.yaml\0"
        ));
        assert!(!told("leno-proxy\0--config\0/run/leno/ab/bootstrap.yaml\0"));
        assert!(!told("tail\0-f\0/run/leno/a/supervisor.log\0"));
    }

    #[test]
    fn a_block_has_one_owner_at_a_time() {
        let first = Claim::find().unwrap();
        let second = Claim::find().unwrap();
        assert_ne!(first.range, second.range);
        let range = first.range;
        assert!(Claim::of(range).is_err());
        drop(first);
        assert_eq!(Claim::of(range).unwrap().range, range);
    }

    #[test]
    fn sockets_are_opened_for_what_the_sidecar_has_to_do_with_and_again_at_the_same_place() {
        let mesh = crate::mesh::tests::read_text(
            "apiVersion: v1\nkind: Service\nmetadata: {name: hello}\n\
             spec: {selector: {app: hello}, ports: [{port: 80, targetPort: 9090}]}\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {name: names}\n\
             spec: {clusterIP: None, selector: {app: hello}, ports: [{port: 8080}]}\n---\n\
             apiVersion: leno.dev/v1alpha1\nkind: Workload\n\
             metadata: {name: hello, labels: {app: hello}}\nspec: {ports: [{port: 8080}]}\n---\n\
             apiVersion: leno.dev/v1alpha1\nkind: Workload\n\
             metadata: {name: half, labels: {app: hello}}\n\
             spec: {ports: [{port: 80}], sidecar: {interception: outbound}}\n",
        );
        let mesh = mesh.unwrap();
        let claim = Claim::find().unwrap();
        let address = claim.range.nth(2).unwrap();
        let open = |workload: &Workload| Explicit::open(address, workload, &mesh.services);
        let (explicit, held) = open(&mesh.workloads[0]).unwrap();
        let called: Vec<_> = explicit.inbound.iter().map(|one| one.port).collect();
        assert_eq!((called.as_slice(), held.len()), (&[8080, 9090][..], 3));
        let [outbound] = explicit.outbound.as_slice() else {
            panic!("{explicit:?}");
        };
        assert_eq!((outbound.service.as_str(), outbound.port), ("hello", 80));
        TcpStream::connect(outbound.address).unwrap();
        drop(held);
        assert_eq!(explicit.reopen(&[]).unwrap().len(), 3);
        let (half, _held) = open(&mesh.workloads[1]).unwrap();
        assert_eq!((half.inbound.len(), half.outbound.len()), (0, 1));
        let told = explicit.describe();
        assert_eq!(told["outbound"][0]["service"], "hello.default");
    }
}
