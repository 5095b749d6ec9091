//! What is said where something is missing, word by word.

use super::*;
use local::machine::Groups;

/// A machine that has everything.
fn machine() -> Facts {
    Facts {
        is_root: true,
        kernel: ("6.8.0-45-generic".into(), Some((6, 8))),
        user_namespaces: true,
        network_namespace: Some(Ok(())),
        iproute2: Some("iproute2-6.1.0".into()),
        nft: Tool::Works,
        iptables: Tool::Works,
        ip6tables: Tool::Works,
        original_destination: Some(true),
        pidfd: true,
        ipv6: true,
        cgroups: Groups {
            version: Some(2),
            cpu: true,
            memory: true,
            writable: true,
        },
        wanted: vec!["10.77.0.0/16".into(), "10.78.0.0/16".into()],
        taken: Vec::new(),
        bridge_filter: Some(false),
        forwarding: (true, true),
        runtime: ("/run/leno".into(), None),
        descriptors: Some(1_048_576),
        clock: CLOCK_MIN + 1,
    }
}

/// Every line that is not ok, as `name status: found; follows; hint`.
fn said(change: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = machine();
    change(&mut facts);
    let lines = judge(&facts).into_iter();
    let odd = lines.filter(|line| line.status != Status::Ok);
    let shown = odd.map(|line| {
        let rest = [line.follows, line.hint].join("; ");
        format!(
            "{} {}: {}; {rest}",
            line.name,
            line.status.label(),
            line.found
        )
    });
    shown.collect()
}

#[test]
fn a_machine_that_has_everything_is_fine() {
    assert_eq!(said(|_| {}), [""; 0]);
    let names: Vec<_> = judge(&machine()).iter().map(|line| line.name).collect();
    assert_eq!(names.len(), 17, "{names:?}");
}

#[test]
fn without_root() {
    let lines = said(|facts| {
        facts.is_root = false;
        facts.network_namespace = None;
        facts.original_destination = None;
        facts.cgroups.writable = false;
        (facts.nft, facts.iptables, facts.ip6tables) =
            (Tool::Untried, Tool::Untried, Tool::Untried);
    });
    let expected = [
        "root warning: no; without root: no network namespaces, no users for workloads and no \
         interception; `leno up` runs everything as you, on loopback, and tells applications where \
         to call; run it with sudo for all of it; docs/rootless.md",
        "network namespaces warning: not tried without root; ; run it with sudo",
        "interception warning: nft or iptables is there, not tried without root; ; run it with \
         sudo",
        "interception of IPv6 warning: not tried without root; ; run it with sudo",
        "original destination warning: not tried; ; run it with sudo, and with nft or iptables",
        "cgroups warning: version 2, not tried without root; ; run it with sudo",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn without_root_nothing_of_the_network_is_needed() {
    let mut facts = machine();
    facts.is_root = false;
    (facts.iproute2, facts.network_namespace) = (None, None);
    (facts.nft, facts.iptables, facts.ip6tables) = (Tool::Absent, Tool::Absent, Tool::Absent);
    let is_missing = |line: &Line| line.status == Status::Missing;
    assert!(!judge(&facts).iter().any(is_missing));
    facts.is_root = true;
    assert!(judge(&facts).iter().any(is_missing));
}

#[test]
fn without_nft() {
    assert_eq!(
        said(|facts| facts.nft = Tool::Absent),
        [""; 0],
        "iptables does it"
    );
    let lines = said(|facts| {
        (facts.nft, facts.iptables, facts.ip6tables) = (Tool::Absent, Tool::Absent, Tool::Absent);
    });
    let expected = [
        "interception missing: neither nft nor iptables is in $PATH; without nft and iptables: no \
         interception; `leno up` cannot lead connections to a sidecar, and runs only workloads \
         with `sidecar: {enabled: false}` or `interception: none`; install the package nftables",
        "interception of IPv6 missing: nft is not there; ip6tables is not there; IPv6 would pass \
         beside the sidecar, so `leno up` does not start; install the package nftables, or boot \
         with ipv6.disable=1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn where_nft_fails_it_is_said_what_it_said() {
    let lines = said(|facts| {
        facts.nft = Tool::Fails("not supported".into());
        facts.iptables = Tool::Absent;
        facts.ipv6 = false;
        facts.forwarding = (true, false);
    });
    let expected = "interception missing: nft fails: not supported; iptables is not there; without \
                    rules: no interception; `leno up` cannot lead connections to a sidecar; load \
                    the kernel's modules nf_tables, nft_redir, nft_chain_nat";
    assert_eq!(lines[0], expected);
}

#[test]
fn without_cgroups() {
    let lines = said(|facts| {
        facts.cgroups = Groups {
            version: None,
            cpu: false,
            memory: false,
            writable: false,
        };
    });
    let expected = "cgroups warning: none; without cgroups: limits of workloads cannot hold, and \
                    `leno ps` shows neither CPU nor memory; meshes without `resources` run; mount \
                    cgroup2 at /sys/fs/cgroup";
    assert_eq!(lines, [expected]);
    let lines = said(|facts| facts.cgroups.memory = false);
    let expected = "cgroups warning: version 2 without memory; `resources: {limits: …}` of memory \
                    is refused; add the controller to cgroup.subtree_control, or to the kernel's \
                    command line";
    assert_eq!(lines, [expected]);
    assert!(said(|facts| facts.cgroups.writable = false)[0].contains("not writable"));
}

#[test]
fn without_ipv6() {
    let lines = said(|facts| {
        facts.ipv6 = false;
        facts.forwarding = (true, false);
        facts.ip6tables = Tool::Absent;
    });
    let expected = "IPv6 warning: no; without IPv6: workloads and Services have IPv4 addresses \
                    only; nothing to do; or boot without ipv6.disable=1";
    assert_eq!(lines, [expected]);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let expect = |change: fn(&mut Facts), words: &[&str]| {
        let lines = said(change);
        assert_eq!(lines.len(), 1, "{lines:?}");
        for word in words {
            assert!(lines[0].contains(word), "{word}: {lines:?}");
        }
    };
    let taken = ("10.77.0.0/16".to_owned(), "dev docker0".to_owned());
    expect(
        |facts| facts.kernel = ("4.19.1".into(), Some((4, 19))),
        &["kernel missing: 4.19.1"],
    );
    expect(
        |facts| facts.iproute2 = None,
        &["iproute2 missing", "install the package iproute2"],
    );
    expect(
        |facts| facts.network_namespace = Some(Err("Operation not permitted".into())),
        &[
            "network namespaces missing: cannot be made (Operation not permitted)",
            "privileged",
        ],
    );
    expect(
        |facts| facts.original_destination = Some(false),
        &["missing", "nf_conntrack"],
    );
    expect(|facts| facts.pidfd = false, &["pidfd missing", "5.3"]);
    let lines = said(|facts| facts.taken = vec![taken]);
    let expected = "addresses warning: 10.77.0.0/16 leads to dev docker0; `leno up` refuses a mesh \
                    with these ranges; take the mesh down that has them, or give others: \
                    workloadCIDRs and serviceCIDRs of MeshConfig";
    assert_eq!(lines, [expected]);
    expect(
        |facts| facts.bridge_filter = Some(true),
        &["bridges warning", "br_netfilter", "ACCEPT"],
    );
    expect(
        |facts| facts.forwarding = (false, false),
        &["forwarding warning: off", "ip_forward=1"],
    );
    expect(
        |facts| facts.runtime.1 = Some("read-only file system".into()),
        &[
            "runtime folder missing: /run/leno: read-only file system",
            "--runtime",
        ],
    );
    expect(
        |facts| facts.descriptors = Some(1024),
        &[
            "descriptors warning: 1024 for a process",
            "about 512 connections",
        ],
    );
    expect(
        |facts| facts.clock = 0,
        &["clock missing: is before 2025", "NTP"],
    );
}
