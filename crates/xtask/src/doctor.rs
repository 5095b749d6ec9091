//! `cargo xtask doctor`: which optional tools this machine has, and what is left out without them.
//! Printed at the start of `make test`; must never fail.

use std::path::Path;

use crate::command::find;

/// Something that the tests or benchmarks can use but do not need.
struct Tool {
    name: &'static str,
    without: &'static str,
    look: fn() -> Option<String>,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "root",
        without: "tests that bind namespaces or write cgroups are skipped; no limits in benchmarks",
        look: || is_root().then(|| "yes: a skipped privileged test is a failure".into()),
    },
    Tool {
        name: "cgroups",
        without: "sidecars run without CPU and memory limits, CPU and memory come from /proc",
        look: cgroups,
    },
    Tool {
        name: "network",
        without: "meshes on this machine are not tested (Debian: iproute2, nftables or iptables)",
        look: || find("ip").and_then(|_| program("nft").or_else(|| program("iptables"))),
    },
    Tool {
        name: "envoy",
        without: "comparisons with Envoy are left out (`make envoy` installs it)",
        look: || program("envoy"),
    },
    Tool {
        name: "haproxy",
        without: "`leno bench cost` leaves it out",
        look: || program("haproxy"),
    },
    Tool {
        name: "nginx",
        without: "`leno bench cost` leaves it out",
        look: || program("nginx"),
    },
    Tool {
        name: "fortio",
        without: "cross-checks of `leno load` and of its JSON against fortio are skipped",
        look: || program("fortio"),
    },
    Tool {
        name: "go",
        without: "h2spec, gRPC and smuggled requests are skipped by `cargo xtask interop`",
        look: || program("go"),
    },
    Tool {
        name: "node",
        without: "`cargo xtask interop` leaves it out",
        look: || program("node"),
    },
    Tool {
        name: "postgres",
        without: "`cargo xtask interop` leaves it out (Debian: postgresql)",
        look: || program("psql"),
    },
    Tool {
        name: "redis",
        without: "`cargo xtask interop` leaves it out (Debian: redis-server)",
        look: || program("redis-server"),
    },
    Tool {
        name: "chromium",
        without: "the report's page is not tried in a browser (Debian: chromium)",
        look: || program("chromium").or_else(|| program("chromium-browser")),
    },
    Tool {
        name: "qemu",
        without: "the aarch64 proxy is not tested (Debian: qemu-user-static)",
        look: || program("qemu-aarch64-static").or_else(|| program("qemu-aarch64")),
    },
    Tool {
        name: "cross cc",
        without: "no aarch64 binaries (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)",
        look: || program("aarch64-linux-gnu-gcc"),
    },
    Tool {
        name: "valgrind",
        without: "instructions per request are not counted",
        look: || program("valgrind"),
    },
];

/// Prints one line per tool.
pub fn print() {
    println!("optional tools (what is missing is skipped, never an error):");
    for tool in TOOLS {
        match (tool.look)() {
            Some(found) => println!("  {:9} {found}", tool.name),
            None => println!("  {:9} missing: {}", tool.name, tool.without),
        }
    }
}

/// Whether we may do what only root may.
#[must_use]
pub fn is_root() -> bool {
    // The effective uid is the second of the four; without /proc we are not on our kind of machine.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}

/// The emulator for aarch64 programs, if there is one.
#[must_use]
pub fn qemu() -> Option<std::path::PathBuf> {
    find("qemu-aarch64-static").or_else(|| find("qemu-aarch64"))
}

fn program(name: &str) -> Option<String> {
    find(name).map(|path| path.display().to_string())
}

/// Which cgroup controllers could be written, by the owner bits of their folders.
fn cgroups() -> Option<String> {
    if !is_root() {
        return None;
    }
    let v2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let has = |name: &str| v2.split_whitespace().any(|controller| controller == name);
    if has("cpu") && has("memory") {
        return Some("v2".into());
    }
    let v1 = ["cpu", "memory"]
        .iter()
        .all(|name| Path::new("/sys/fs/cgroup").join(name).is_dir());
    v1.then(|| "v1".into())
}
