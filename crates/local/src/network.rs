//! Bridge, namespaces, wires and addresses, as scripts for `ip`. Called by the supervisor and by
//! whoever cleans up after it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use intercept::{Backend, Cidr, Policy, netns};

use crate::name::{MeshName, WorkloadId};
use crate::plan::{Ground, Placed};

/// Where `ip` keeps the namespaces that have names.
const NAMESPACES: &str = "/run/netns";
/// This machine's place among the addresses.
const GATEWAY_OFFSET: u32 = 1;
/// The interface of an instance.
const INTERFACE: &str = "eth0";

/// Settings of every instance's namespace: addresses hold at once and are ours alone, and what has
/// no privileges may still have a low port and `ping`.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/eth0/accept_dad", "0"),
    ("ipv6/conf/eth0/accept_ra", "0"),
    ("ipv4/ip_unprivileged_port_start", "0"),
    ("ipv4/ping_group_range", "0 2147483647"),
];

/// The path of an instance's namespace.
pub(crate) fn path(name: &MeshName, instance: &WorkloadId) -> PathBuf {
    Path::new(NAMESPACES).join(name.namespace(instance))
}

/// Makes the bridge, with this machine's addresses.
pub(crate) fn build(ground: &Ground) -> anyhow::Result<()> {
    ip(&bridge_script(ground)).context("make the mesh's network")?;
    quieten(&ground.name.bridge());
    Ok(())
}

/// Makes the network of an instance, with the rules of `policy`.
pub(crate) fn build_instance(
    ground: &Ground,
    placed: &Placed,
    policy: Option<&Policy>,
) -> anyhow::Result<()> {
    let context = || format!("make the network of {}", placed.id);
    ip(&outer_script(ground, placed)).with_context(context)?;
    quieten(&ground.name.link(placed.offset));
    let build = || {
        for (name, value) in SETTINGS {
            set(name, value)?;
        }
        ip(&inner_script(ground, placed))?;
        if let Some(policy) = policy {
            intercept::apply(None, policy, Backend::Detect)?;
        }
        anyhow::Ok(())
    };
    let built = netns::inside(&path(&ground.name, &placed.id), build).map_err(anyhow::Error::from);
    built.flatten().with_context(context)
}

/// Removes the network of an instance, whatever there is of it.
pub(crate) fn remove_instance(name: &MeshName, instance: &WorkloadId, offset: u32) {
    let (link, namespace) = (name.link(offset), name.namespace(instance));
    let mut script = String::new();
    if is_link(&link) {
        let _ = writeln!(script, "link del {link}");
    }
    if Path::new(NAMESPACES).join(&namespace).exists() {
        let _ = writeln!(script, "netns del {namespace}");
    }
    // What is left is removed with the mesh.
    let _ = ip_all(&script);
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

/// Whether its bridge is there.
pub(crate) fn has_bridge(name: &MeshName) -> bool {
    is_link(&name.bridge())
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

/// The bridge.
fn bridge_script(ground: &Ground) -> String {
    let bridge = ground.name.bridge();
    let mac = mac(GATEWAY_OFFSET);
    let mut script = format!("link add {bridge} address {mac} type bridge mcast_snooping 0\n");
    for (gateway, range) in ground.gateways().into_iter().zip(&ground.ranges) {
        let _ = writeln!(script, "{}", address(gateway, range.prefix(), &bridge));
    }
    let _ = writeln!(script, "link set {bridge} up");
    script
}

/// What is made in our own namespace for an instance.
fn outer_script(ground: &Ground, placed: &Placed) -> String {
    let name = &ground.name;
    let (bridge, namespace) = (name.bridge(), name.namespace(&placed.id));
    let (link, mac) = (name.link(placed.offset), mac(placed.offset));
    let peer = format!("peer name {INTERFACE} address {mac} netns {namespace}");
    format!(
        "netns add {namespace}\n\
         link add {link} master {bridge} type veth {peer}\n\
         link set {link} up\n"
    )
}

/// The same for the same addresses, whoever has them: neighbours remember it for a while. A bridge
/// without one would change its own whenever an instance comes or goes.
fn mac(offset: u32) -> String {
    let [a, b, c, d] = offset.to_be_bytes();
    format!("02:6c:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// What is made in its own.
fn inner_script(ground: &Ground, placed: &Placed) -> String {
    let mut script = format!("link set lo up\nlink set {INTERFACE} up\n");
    for (addr, range) in placed.addresses.iter().zip(&ground.ranges) {
        let _ = writeln!(script, "{}", address(*addr, range.prefix(), INTERFACE));
    }
    for gateway in ground.gateways() {
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

    #[test]
    fn scripts_are_as_an_operator_would_type_them() {
        let ground = Ground {
            name: "demo".parse().unwrap(),
            trust_domain: "cluster.local".into(),
            ranges: ["10.77.0.0/16", "fd77::/112"]
                .map(|cidr| cidr.parse().unwrap())
                .into(),
            is_explicit: false,
        };
        let id = "hello-0.shop".parse().unwrap();
        let placed = ground.place(id, &[].into()).unwrap();
        let bridge = "\
link add leno-demo address 02:6c:00:00:00:01 type bridge mcast_snooping 0
addr add 10.77.0.1/16 dev leno-demo
addr add fd77::1/112 dev leno-demo nodad
link set leno-demo up
";
        assert_eq!(bridge_script(&ground), bridge);
        let outer = "\
netns add leno-demo.hello-0.shop
link add lndemo-2 master leno-demo type veth peer name eth0 address 02:6c:00:00:00:02 netns \
leno-demo.hello-0.shop
link set lndemo-2 up
";
        assert_eq!(outer_script(&ground, &placed), outer);
        let inner = "\
link set lo up
link set eth0 up
addr add 10.77.0.2/16 dev eth0
addr add fd77::2/112 dev eth0 nodad
route add default via 10.77.0.1
route add default via fd77::1
route add unreachable 127.0.0.0/8
";
        assert_eq!(inner_script(&ground, &placed), inner);
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
