//! Bridge, namespaces, wires and addresses, as scripts for `ip`: few processes, however many
//! workloads. Called by the supervisor and by whoever cleans up after it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use intercept::{Backend, Cidr, Policy, netns};

use crate::name::MeshName;
use crate::plan::{Placed, Plan};

/// Where `ip` keeps the namespaces that have names.
const NAMESPACES: &str = "/run/netns";
/// The interface of a workload.
const INTERFACE: &str = "eth0";

/// Settings of every workload's namespace: addresses hold at once and are ours alone, and what has
/// no privileges may still have a low port and `ping`.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/eth0/accept_dad", "0"),
    ("ipv6/conf/eth0/accept_ra", "0"),
    ("ipv4/ip_unprivileged_port_start", "0"),
    ("ipv4/ping_group_range", "0 2147483647"),
];

/// The path of a workload's namespace.
pub(crate) fn path(plan: &Plan, placed: &Placed) -> PathBuf {
    Path::new(NAMESPACES).join(plan.name.namespace(placed.id()))
}

/// Makes everything, with the rules of `policy` in each namespace.
pub(crate) fn build(plan: &Plan, policy: &Policy) -> anyhow::Result<()> {
    ip(&outer_script(plan)).context("make the mesh's network")?;
    quieten(&plan.name.bridge());
    for placed in &plan.workloads {
        quieten(&plan.name.link(placed.index));
        let build = || {
            for (name, value) in SETTINGS {
                set(name, value)?;
            }
            ip(&inner_script(plan, placed))?;
            intercept::apply(None, policy, Backend::Detect)?;
            anyhow::Ok(())
        };
        let built = netns::inside(&path(plan, placed), build).map_err(anyhow::Error::from);
        built
            .flatten()
            .with_context(|| format!("make the network of {}", placed.id()))?;
    }
    Ok(())
}

/// Removes whatever carries the mesh's name; gives what could not be.
pub(crate) fn remove(name: &MeshName) -> Vec<String> {
    let bridge = name.bridge();
    let ports = names(&Path::new("/sys/class/net").join(&bridge).join("brif"));
    let mut script = String::new();
    // Before the namespaces: their own links vanish with them, but not at once.
    for link in ports.chain(is_link(&bridge).then_some(bridge)) {
        let _ = writeln!(script, "link del {link}");
    }
    let prefix = name.prefix();
    for namespace in names(Path::new(NAMESPACES)).filter(|name| name.starts_with(&prefix)) {
        let _ = writeln!(script, "netns del {namespace}");
    }
    let failed = ip_all(&script).err().map(|error| format!("{error:#}"));
    failed.filter(|_| is_there(name)).into_iter().collect()
}

/// Whether anything carries the mesh's name.
pub(crate) fn is_there(name: &MeshName) -> bool {
    is_link(&name.bridge()) || !namespaces(name).is_empty()
}

/// The namespaces that carry the mesh's name.
pub(crate) fn namespaces(name: &MeshName) -> Vec<PathBuf> {
    let prefix = name.prefix();
    let ours = names(Path::new(NAMESPACES)).filter(|name| name.starts_with(&prefix));
    ours.map(|name| Path::new(NAMESPACES).join(name)).collect()
}

/// Ranges that this machine sends packets to, and by what.
pub(crate) fn routes() -> anyhow::Result<Vec<(Cidr, String)>> {
    let mut routes = Vec::new();
    for family in ["-4", "-6"] {
        let output = Command::new("ip")
            .args([family, "-o", "route", "show"])
            .output();
        let output = output.context(MISSING)?;
        // Without IPv6 there are none.
        routes.extend(read_routes(&String::from_utf8_lossy(&output.stdout)));
    }
    Ok(routes)
}

const MISSING: &str = "run `ip`: install the package iproute2";

fn read_routes(text: &str) -> Vec<(Cidr, String)> {
    let read = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let at = words.iter().position(|word| range(word).is_some())?;
        let rest = words[at + 1..].iter().take(2).copied();
        Some((range(words[at])?, rest.collect::<Vec<_>>().join(" ")))
    };
    let lines = text.lines().filter(|line| !line.starts_with("default"));
    lines.filter_map(read).collect()
}

fn range(word: &str) -> Option<Cidr> {
    let single = || {
        let addr: IpAddr = word.parse().ok()?;
        Cidr::new(addr, if addr.is_ipv4() { 32 } else { 128 })
    };
    word.parse().ok().or_else(single)
}

/// What is made in our own namespace.
fn outer_script(plan: &Plan) -> String {
    let bridge = plan.name.bridge();
    let mut script = format!("link add {bridge} type bridge mcast_snooping 0\n");
    for (gateway, prefix) in plan.gateways.iter().zip(&plan.prefixes) {
        let _ = writeln!(script, "{}", address(*gateway, *prefix, &bridge));
    }
    let _ = writeln!(script, "link set {bridge} up");
    for placed in &plan.workloads {
        let (namespace, link) = (
            plan.name.namespace(placed.id()),
            plan.name.link(placed.index),
        );
        let _ = writeln!(script, "netns add {namespace}");
        let peer = format!("peer name {INTERFACE} netns {namespace}");
        let _ = writeln!(script, "link add {link} master {bridge} type veth {peer}");
        let _ = writeln!(script, "link set {link} up");
    }
    script
}

/// What is made in a workload's.
fn inner_script(plan: &Plan, placed: &Placed) -> String {
    let mut script = format!("link set lo up\nlink set {INTERFACE} up\n");
    for (addr, prefix) in placed.addresses.iter().zip(&plan.prefixes) {
        let _ = writeln!(script, "{}", address(*addr, *prefix, INTERFACE));
    }
    for gateway in &plan.gateways {
        let _ = writeln!(script, "route add default via {gateway}");
    }
    // What is redirected to loopback from a socket that is bound to the interface stays here too.
    script.push_str("route add unreachable 127.0.0.0/8\n");
    script
}

fn address(addr: IpAddr, prefix: u8, link: &str) -> String {
    // Nobody else has it: it need not be asked for.
    let nodad = if addr.is_ipv4() { "" } else { " nodad" };
    format!("addr add {addr}/{prefix} dev {link}{nodad}")
}

/// This machine's ends of the wires listen to no router.
fn quieten(link: &str) {
    let _ = set(&format!("ipv6/conf/{link}/accept_ra"), "0");
    let _ = set(&format!("ipv6/conf/{link}/accept_dad"), "0");
}

fn set(name: &str, value: &str) -> anyhow::Result<()> {
    let path = Path::new("/proc/sys/net").join(name);
    if name.starts_with("ipv6/") && !path.exists() {
        return Ok(());
    }
    fs::write(&path, value).with_context(|| format!("write {}", path.display()))
}

fn is_link(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn ip(script: &str) -> anyhow::Result<()> {
    run_ip(&["-batch", "-"], script)
}

/// Goes on after a line that fails.
fn ip_all(script: &str) -> anyhow::Result<()> {
    run_ip(&["-force", "-batch", "-"], script)
}

fn run_ip(args: &[&str], script: &str) -> anyhow::Result<()> {
    if script.is_empty() {
        return Ok(());
    }
    let mut child = Command::new("ip")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context(MISSING)?;
    // Who does not read to the end says why.
    let written = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    written.transpose().context("write to ip").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::{Mesh, Workload};
    use crate::plan;

    fn plan() -> Plan {
        let workload = Workload {
            id: "hello.shop".parse().unwrap(),
            service_account: "hello".into(),
            command: Vec::new(),
            user: None,
        };
        let mesh = Mesh {
            trust_domain: "cluster.local".into(),
            workload_cidrs: ["10.77.0.0/16", "fd77::/112"]
                .map(|cidr| cidr.parse().unwrap())
                .into(),
            workloads: vec![workload],
        };
        plan::make("demo".parse().unwrap(), mesh, &plan::Taken::default()).unwrap()
    }

    #[test]
    fn scripts_are_as_an_operator_would_type_them() {
        let plan = plan();
        let outer = "\
link add leno-demo type bridge mcast_snooping 0
addr add 10.77.0.1/16 dev leno-demo
addr add fd77::1/112 dev leno-demo nodad
link set leno-demo up
netns add leno-demo.hello.shop
link add lndemo-0 master leno-demo type veth peer name eth0 netns leno-demo.hello.shop
link set lndemo-0 up
";
        assert_eq!(outer_script(&plan), outer);
        let inner = "\
link set lo up
link set eth0 up
addr add 10.77.0.2/16 dev eth0
addr add fd77::2/112 dev eth0 nodad
route add default via 10.77.0.1
route add default via fd77::1
route add unreachable 127.0.0.0/8
";
        assert_eq!(inner_script(&plan, &plan.workloads[0]), inner);
    }

    #[test]
    fn routes_that_lead_everywhere_are_no_clash() {
        let text = "default via 192.0.2.1 dev eth0\n10.1.0.0/16 dev br0 proto kernel scope link\n\
                    unreachable fd00::/8 dev lo metric 1024\n192.0.2.7 dev eth0\n";
        let shown: Vec<_> = read_routes(text)
            .iter()
            .map(|(c, by)| format!("{c} {by}"))
            .collect();
        let expected = [
            "10.1.0.0/16 dev br0",
            "fd00::/8 dev lo",
            "192.0.2.7/32 dev eth0",
        ];
        assert_eq!(shown, expected);
    }
}
