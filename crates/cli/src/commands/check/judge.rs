//! What the facts mean: a line for each, with what follows and what to do. Pure.

use local::machine::Tool;
use serde::Serialize;

use super::facts::Facts;

/// What each process is watched by (`pidfd_open`) came with it.
const KERNEL_MIN: (u32, u32) = (5, 3);
/// A sidecar takes 10,000 connections unless told otherwise; each may have one to an endpoint.
const DESCRIPTORS_MIN: u64 = 20_000;
/// 2025-01-01: clocks that were never set begin in 1970, 2000 or when their firmware was made.
const CLOCK_MIN: u64 = 1_735_689_600;

/// Checks of what only meshes of root use.
const OF_ROOT: [&str; 5] = [
    "iproute2",
    "network namespaces",
    "interception",
    "interception of IPv6",
    "original destination",
];

/// Whether all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// It is.
    Ok,
    /// Something will not work, or not as expected.
    Warning,
    /// `leno up` will not work.
    Missing,
}

impl Status {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) status: Status,
    pub(super) found: String,
    /// Empty where all is well, as is `hint`.
    pub(super) follows: String,
    pub(super) hint: String,
}

fn ok(name: &'static str, found: impl Into<String>) -> Line {
    line(name, Status::Ok, found, ["", ""])
}

/// `said`: what follows, and what to do.
fn line(name: &'static str, status: Status, found: impl Into<String>, said: [&str; 2]) -> Line {
    let [follows, hint] = said.map(str::to_owned);
    Line {
        name,
        status,
        found: found.into(),
        follows,
        hint,
    }
}

use Status::{Missing, Warning};

/// Every check, in the order in which a mesh comes up.
pub(super) fn judge(facts: &Facts) -> Vec<Line> {
    let checks: [fn(&Facts) -> Line; 17] = [
        root,
        kernel,
        iproute2,
        network_namespaces,
        user_namespaces,
        interception,
        interception_v6,
        original_destination,
        pidfd,
        ipv6,
        cgroups,
        addresses,
        bridge_filter,
        forwarding,
        runtime,
        descriptors,
        clock,
    ];
    let mut lines: Vec<_> = checks.iter().map(|check| check(facts)).collect();
    // Without root, a mesh needs nothing of the network but loopback.
    let spared = lines
        .iter_mut()
        .filter(|line| !facts.is_root && OF_ROOT.contains(&line.name));
    for line in spared.filter(|line| line.status == Missing) {
        line.status = Warning;
    }
    lines
}

fn root(facts: &Facts) -> Line {
    let name = "root";
    if facts.is_root {
        return ok(name, "yes");
    }
    let follows = "without root: no network namespaces, no users for workloads and no \
                   interception; `leno up` runs everything as you, on loopback, and tells \
                   applications where to call";
    let hint = "run it with sudo for all of it; docs/rootless.md";
    line(name, Warning, "no", [follows, hint])
}

fn kernel(facts: &Facts) -> Line {
    let (shown, version) = &facts.kernel;
    let name = "kernel";
    if version.is_none_or(|version| version >= KERNEL_MIN) {
        return ok(name, shown);
    }
    let follows = "before 5.3: processes cannot be watched (pidfd); `leno up` cannot keep them";
    line(name, Missing, shown, [follows, "take a newer kernel"])
}

fn iproute2(facts: &Facts) -> Line {
    let name = "iproute2";
    if let Some(version) = &facts.iproute2 {
        return ok(name, version);
    }
    let follows = "without ip: no network namespaces; `leno up` cannot make a mesh's network";
    line(
        name,
        Missing,
        "no `ip` in $PATH",
        [follows, "install the package iproute2"],
    )
}

fn network_namespaces(facts: &Facts) -> Line {
    let name = "network namespaces";
    match &facts.network_namespace {
        Some(Ok(())) => ok(name, "can be made"),
        None => line(
            name,
            Warning,
            "not tried without root",
            ["", "run it with sudo"],
        ),
        Some(Err(said)) => {
            let follows = "without network namespaces: `leno up` has no place for workloads";
            let hint = "in a container: run it privileged, with /run/netns writable";
            line(
                name,
                Missing,
                format!("cannot be made ({said})"),
                [follows, hint],
            )
        }
    }
}

fn user_namespaces(facts: &Facts) -> Line {
    let name = "user namespaces";
    if facts.user_namespaces {
        return ok(name, "may be made by everybody");
    }
    // Root needs none.
    ok(name, "only for root; nothing follows: leno makes none")
}

/// How connections reach a sidecar.
fn interception(facts: &Facts) -> Line {
    let name = "interception";
    match (&facts.nft, &facts.iptables) {
        (Tool::Works, _) => ok(name, "nft works"),
        (nft, Tool::Works) => ok(name, format!("iptables works ({})", why("nft", nft))),
        (Tool::Untried, _) | (_, Tool::Untried) => {
            let found = "nft or iptables is there, not tried without root";
            line(name, Warning, found, ["", "run it with sudo"])
        }
        (Tool::Absent, Tool::Absent) => {
            let follows = "without nft and iptables: no interception; `leno up` cannot lead \
                           connections to a sidecar, and runs only workloads with `sidecar: \
                           {enabled: false}` or `interception: none`";
            let found = "neither nft nor iptables is in $PATH";
            line(
                name,
                Missing,
                found,
                [follows, "install the package nftables"],
            )
        }
        (nft, iptables) => {
            let found = format!("{}; {}", why("nft", nft), why("iptables", iptables));
            let follows = "without rules: no interception; `leno up` cannot lead connections to a \
                           sidecar";
            let hint = "load the kernel's modules nf_tables, nft_redir, nft_chain_nat";
            line(name, Missing, found, [follows, hint])
        }
    }
}

fn why(name: &str, tool: &Tool) -> String {
    match tool {
        Tool::Absent => format!("{name} is not there"),
        Tool::Untried => format!("{name} was not tried"),
        Tool::Works => format!("{name} works"),
        Tool::Fails(said) => format!("{name} fails: {said}"),
    }
}

/// nft does both families; of iptables, each has a program of its own.
fn interception_v6(facts: &Facts) -> Line {
    let name = "interception of IPv6";
    match (&facts.nft, &facts.ip6tables) {
        _ if !facts.ipv6 => ok(name, "not needed: there is no IPv6"),
        (Tool::Works, _) => ok(name, "nft works"),
        (_, Tool::Works) => ok(name, "ip6tables works"),
        (Tool::Untried, _) | (_, Tool::Untried) => line(
            name,
            Warning,
            "not tried without root",
            ["", "run it with sudo"],
        ),
        (nft, ip6tables) => {
            let found = format!("{}; {}", why("nft", nft), why("ip6tables", ip6tables));
            let follows = "IPv6 would pass beside the sidecar, so `leno up` does not start";
            let hint = "install the package nftables, or boot with ipv6.disable=1";
            line(name, Missing, found, [follows, hint])
        }
    }
}

fn original_destination(facts: &Facts) -> Line {
    let name = "original destination";
    match facts.original_destination {
        Some(true) => ok(name, "the kernel tells it"),
        None => line(
            name,
            Warning,
            "not tried",
            ["", "run it with sudo, and with nft or iptables"],
        ),
        Some(false) => {
            let follows = "a sidecar cannot know where a redirected connection was made to, and \
                           closes it";
            let hint = "load the kernel's modules nf_conntrack and nf_nat";
            line(
                name,
                Missing,
                "the kernel does not tell it (SO_ORIGINAL_DST)",
                [follows, hint],
            )
        }
    }
}

fn pidfd(facts: &Facts) -> Line {
    let name = "pidfd";
    if facts.pidfd {
        return ok(name, "yes");
    }
    let follows = "processes cannot be watched; `leno up` cannot keep them";
    line(
        name,
        Missing,
        "no",
        [
            follows,
            "take a kernel of 5.3 or later; in a container, allow pidfd_open",
        ],
    )
}

fn ipv6(facts: &Facts) -> Line {
    let name = "IPv6";
    if facts.ipv6 {
        return ok(name, "yes");
    }
    let follows = "without IPv6: workloads and Services have IPv4 addresses only";
    let hint = "nothing to do; or boot without ipv6.disable=1";
    line(name, Warning, "no", [follows, hint])
}

fn cgroups(facts: &Facts) -> Line {
    let name = "cgroups";
    let cgroups = &facts.cgroups;
    let Some(version) = cgroups.version else {
        let follows = "without cgroups: limits of workloads cannot hold, and `leno ps` shows \
                       neither CPU nor memory; meshes without `resources` run";
        return line(
            name,
            Warning,
            "none",
            [follows, "mount cgroup2 at /sys/fs/cgroup"],
        );
    };
    let found = format!("version {version}");
    if !cgroups.writable && !facts.is_root {
        let found = format!("{found}, not tried without root");
        return line(name, Warning, found, ["", "run it with sudo"]);
    }
    if !cgroups.writable {
        let follows = "limits of workloads cannot hold; meshes without `resources` run";
        let hint = "in a container: run it with its own writable cgroup tree";
        return line(
            name,
            Warning,
            format!("{found}, not writable"),
            [follows, hint],
        );
    }
    let missing: Vec<_> = [("cpu", cgroups.cpu), ("memory", cgroups.memory)]
        .into_iter()
        .filter_map(|(controller, is_there)| (!is_there).then_some(controller))
        .collect();
    if missing.is_empty() {
        return ok(name, format!("{found} with cpu and memory"));
    }
    let without = missing.join(" and ");
    let follows = format!("`resources: {{limits: …}}` of {without} is refused");
    let hint = "add the controller to cgroup.subtree_control, or to the kernel's command line";
    line(
        name,
        Warning,
        format!("{found} without {without}"),
        [&follows, hint],
    )
}

fn addresses(facts: &Facts) -> Line {
    let name = "addresses";
    if facts.taken.is_empty() {
        return ok(name, format!("{} are free", facts.wanted.join(", ")));
    }
    let taken = facts
        .taken
        .iter()
        .map(|(range, by)| format!("{range} leads to {by}"));
    let found = taken.collect::<Vec<_>>().join(", ");
    let follows = "`leno up` refuses a mesh with these ranges";
    let hint = "take the mesh down that has them, or give others: workloadCIDRs and serviceCIDRs \
                of MeshConfig";
    line(name, Warning, found, [follows, hint])
}

fn bridge_filter(facts: &Facts) -> Line {
    let name = "bridges";
    match facts.bridge_filter {
        None | Some(false) => ok(name, "what crosses them is not filtered"),
        Some(true) => {
            let follows = "if the machine's rules drop what is forwarded (Docker's do), workloads \
                           cannot reach each other";
            let hint = "let the bridges leno-MESH pass: iptables -I FORWARD -i leno-+ -o leno-+ -j \
                        ACCEPT";
            line(
                name,
                Warning,
                "what crosses them is filtered (br_netfilter)",
                [follows, hint],
            )
        }
    }
}

fn forwarding(facts: &Facts) -> Line {
    let name = "forwarding";
    match facts.forwarding {
        (true, true) => ok(name, "on"),
        (true, false) if !facts.ipv6 => ok(name, "on"),
        (v4, _) => {
            let found = if v4 { "on for IPv4 only" } else { "off" };
            let follows = "workloads reach each other and this machine, and nothing beyond";
            let hint = "only where they shall: sysctl net.ipv4.ip_forward=1 \
                        net.ipv6.conf.all.forwarding=1, and source NAT for workloadCIDRs";
            line(name, Warning, found, [follows, hint])
        }
    }
}

fn runtime(facts: &Facts) -> Line {
    let (path, wrong) = &facts.runtime;
    let name = "runtime folder";
    let shown = path.display().to_string();
    let Some(wrong) = wrong else {
        return ok(name, format!("{shown} can be written"));
    };
    let follows = "`leno up` has no place for what it keeps";
    let hint = "give another folder with --runtime, one that is yours alone";
    line(name, Missing, format!("{shown}: {wrong}"), [follows, hint])
}

fn descriptors(facts: &Facts) -> Line {
    let name = "descriptors";
    match facts.descriptors {
        None => ok(name, "without limit"),
        Some(limit) if limit >= DESCRIPTORS_MIN => ok(name, limit.to_string()),
        Some(limit) => {
            // One towards the caller and one towards the called.
            let connections = limit / 2;
            let follows = format!("a sidecar takes about {connections} connections at a time");
            let hint = "raise the hard limit: ulimit -Hn, or LimitNOFILE of the unit";
            line(
                name,
                Warning,
                format!("{limit} for a process"),
                [&follows, hint],
            )
        }
    }
}

fn clock(facts: &Facts) -> Line {
    let name = "clock";
    if facts.clock >= CLOCK_MIN {
        return ok(name, "was set");
    }
    let follows = "certificates would be of a time that is not now: none but this machine's own \
                   sidecars take them, and these not after the clock is set";
    line(
        name,
        Missing,
        "is before 2025",
        [follows, "set it before `leno up`: NTP, or date -s"],
    )
}

#[cfg(test)]
mod tests;
