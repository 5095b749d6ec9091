//! Names of the mesh and of the world, as the resolvers of languages look them up: a sidecar in a
//! network namespace of its own, where it has the port that they ask at, and a name server behind
//! it. What they ask is in `docs/interop.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::process::{self, Process};
use super::report::{Missing, Report};
use super::tools;
use super::world::World;
use crate::doctor;

/// Java takes some seconds on a busy machine, and resolvers wait for 5 where nothing answers.
const LIMIT: Duration = Duration::from_secs(120);
/// Where the world's names are answered.
const OUTSIDE: &str = "127.0.0.1:5353";
/// More addresses than fit into a datagram.
const CROWD: u8 = 200;
/// The same of a name of the world, as our Go program has it.
const CROWD_OUTSIDE: u8 = 100;

/// As `leno up` gives it to its applications.
const RESOLV_CONF: &str = "\
nameserver 127.0.0.1
search default.svc.cluster.local svc.cluster.local cluster.local
options ndots:5
";

/// Becomes the program that it is given, where that has addresses of both families: resolvers leave
/// out a family that the machine does not have. The sidecar has no right to a port below 1,024.
const INSIDE: &str = "\
set -e
ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 10.77.0.2/16 dev eth0
ip address add fd77::2/64 dev eth0 nodad
ip link set eth0 up
ip link set eth1 up
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
mount --bind \"$0\" /etc/resolv.conf
exec \"$@\"
";

const SIDECAR: &str = "\
workload: {name: web}
admin: 'off'
metrics: 'off'
dns: {listen: '[::]:53', forward: 'OUTSIDE'}
listeners:
- name: main
  direction: outbound
  address: '127.0.0.1:0'
  originalDestination: true
  routes: [{cluster: none}]
LISTENERS
clusters:
- {name: none, endpoints: []}
";

const LISTENER: &str = "\
- name: NAME
  direction: outbound
  bind: false
  address: FIRST
  additionalAddresses: [OTHERS]
  names: [NAME.svc.cluster.local]
  routes: [{cluster: none}]
";

/// Names, with the addresses that they have.
type Addresses = BTreeMap<String, BTreeSet<IpAddr>>;

/// Who looks names up, and how it is run with them as arguments.
type Resolver = (&'static str, fn(&World) -> Result<Command>);

const RESOLVERS: &[Resolver] = &[
    ("glibc, getent", getent),
    ("glibc, Python", python),
    ("Go", |world| go(world, "netdns=go")),
    ("Go with cgo", |world| go(world, "netdns=cgo")),
    ("Node, lookup", |world| node(world, "lookup")),
    ("Node, c-ares", |world| node(world, "resolve")),
    ("Java", java),
];

/// One case for each resolver.
pub(super) fn run(world: &World, report: &mut Report) -> Result<()> {
    let expected = expected();
    let inside = Inside::start(world, &expected)?;
    for (name, resolver) in RESOLVERS {
        report.case(name, || {
            let found = inside.look_up(world, &resolver(world)?, expected.keys())?;
            for (name, addresses) in &expected {
                let found = found.get(name).context(name.clone())?;
                ensure!(found == addresses, "{name} is {found:?}, not {addresses:?}");
            }
            Ok(format!("{} names", expected.len()))
        });
    }
    Ok(())
}

/// What is to be found.
fn expected() -> Addresses {
    let crowd = |net: [u8; 3], count| {
        let address = |last| IpAddr::from(Ipv4Addr::new(net[0], net[1], net[2], last));
        (0..count).map(address).collect()
    };
    let mut all: Addresses = [
        ("ratings", "10.78.0.1 fd78::1"),
        ("ratings.default", "10.78.0.1 fd78::1"),
        ("ratings.default.svc", "10.78.0.1 fd78::1"),
        ("ratings.default.svc.cluster.local", "10.78.0.1 fd78::1"),
        ("RATINGS.default.svc.Cluster.local", "10.78.0.1 fd78::1"),
        ("headless.data", "10.77.0.5 10.77.0.6 fd77::5 fd77::6"),
        ("four", "10.78.0.4"),
        ("six", "fd78::6"),
        ("www.example.org", "192.0.2.7 2001:db8::7"),
        ("alias.example.org", "192.0.2.7 2001:db8::7"),
        ("absent", ""),
        ("absent.default.svc.cluster.local", ""),
        ("absent.example.org", ""),
    ]
    .into_iter()
    .map(|(name, addresses)| (name.to_owned(), parse(addresses)))
    .collect();
    all.insert("crowd".to_owned(), crowd([10, 79, 0], CROWD));
    let outside = crowd([198, 51, 100], CROWD_OUTSIDE);
    all.insert("crowd.example.org".to_owned(), outside);
    all
}

fn parse(words: &str) -> BTreeSet<IpAddr> {
    let words = words.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// The namespace, and who answers in it.
struct Inside {
    sidecar: Process,
    _outside: Process,
}

impl Inside {
    fn start(world: &World, names: &Addresses) -> Result<Self> {
        if !doctor::is_root() {
            return Err(Missing("namespaces need root".to_owned()).into());
        }
        for program in ["ip", "unshare", "nsenter"] {
            tools::find(program)?;
        }
        let nameserver = tools::go(world, "nameserver", "./nameserver")?;
        let (resolv, config) = (world.file("resolv.conf"), world.file("names.yaml"));
        fs::write(&resolv, RESOLV_CONF)?;
        fs::write(&config, sidecar(names))?;
        let proxy = world.proxy();
        let mut sidecar = Command::new("unshare");
        sidecar.args(["--net", "--mount", "sh", "-c", INSIDE]);
        sidecar.arg(&resolv).arg(proxy.get_program());
        sidecar
            .args(["--log-level", "warn", "--config"])
            .arg(&config);
        let sidecar = Process::start(&mut sidecar, &world.file("names-sidecar.log"));
        let sidecar = sidecar.context("sidecar")?;
        let mut outside = enter(&sidecar);
        outside.arg(nameserver).arg(OUTSIDE);
        let outside = Process::start(&mut outside, &world.file("names-outside.log"))?;
        Ok(Self {
            sidecar,
            _outside: outside,
        })
    }

    /// Runs a resolver with these names.
    fn look_up<'a>(
        &self,
        world: &World,
        resolver: &Command,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<Addresses> {
        let mut command = enter(&self.sidecar);
        command
            .arg(resolver.get_program())
            .args(resolver.get_args());
        for (key, value) in resolver.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        let said = process::output(command.args(names), LIMIT, &world.file("names.log"))?;
        let lines = said
            .lines()
            .filter_map(|line| line.split_once(' ').or(Some((line, ""))));
        Ok(lines
            .map(|(name, found)| (name.to_owned(), parse(found)))
            .collect())
    }
}

/// The names that are the mesh's, each once: short forms are left to the resolvers and the sidecar.
fn sidecar(names: &Addresses) -> String {
    let is_short = |name: &&str| !name.contains(".svc") && !name.ends_with(".org");
    let mut listeners = String::new();
    for (name, addresses) in names {
        let named = Some(name.as_str())
            .filter(is_short)
            .filter(|_| !addresses.is_empty());
        let all: Vec<_> = addresses
            .iter()
            .map(|ip| format!("'{}'", at_port(*ip)))
            .collect();
        let (Some(name), [first, others @ ..]) = (named, all.as_slice()) else {
            continue;
        };
        if name == "ratings.default" {
            continue;
        }
        let full = match name.contains('.') {
            true => name.to_owned(),
            false => format!("{name}.default"),
        };
        let listener = LISTENER.replace("NAME", &full).replace("FIRST", first);
        listeners.push_str(&listener.replace("OTHERS", &others.join(", ")));
    }
    SIDECAR
        .replace("OUTSIDE", OUTSIDE)
        .replace("LISTENERS\n", &listeners)
}

fn at_port(ip: IpAddr) -> std::net::SocketAddr {
    (ip, 80).into()
}

/// A command in the namespaces of the sidecar.
fn enter(sidecar: &Process) -> Command {
    let mut command = Command::new("nsenter");
    let target = sidecar.pid().to_string();
    command.args(["--net", "--mount", "--target", &target]);
    command
}

fn getent(_: &World) -> Result<Command> {
    const EACH: &str = "\
for name; do echo \"$name\" $(getent ahosts \"$name\" | cut -d ' ' -f 1 | sort -u); done";
    let mut command = Command::new("sh");
    tools::find("getent")?;
    command.args(["-c", EACH, "sh"]);
    Ok(command)
}

fn python(world: &World) -> Result<Command> {
    let mut command = Command::new(tools::find("python3")?);
    command.arg("-B").arg(program(world, "python/names.py"));
    Ok(command)
}

fn go(world: &World, whose: &str) -> Result<Command> {
    let mut command = Command::new(tools::go(world, "names", "./names")?);
    command.env("GODEBUG", whose);
    Ok(command)
}

fn node(world: &World, way: &str) -> Result<Command> {
    let mut command = Command::new(tools::find("node")?);
    command.arg(program(world, "node/names.js")).arg(way);
    Ok(command)
}

/// The sources' launcher is part of the compiler.
fn java(world: &World) -> Result<Command> {
    tools::find("javac")?;
    let mut command = Command::new(tools::find("java")?);
    command.arg(program(world, "java/Names.java"));
    Ok(command)
}

fn program(world: &World, path: impl AsRef<Path>) -> PathBuf {
    world.root.join("interop").join(path)
}
