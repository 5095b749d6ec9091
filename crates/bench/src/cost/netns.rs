//! A network of the benchmark's own, so that all contestants share one congestion control.
//! Called first by `leno bench cost`; leaves the network it was started in as it was.

use std::env;
use std::fs;
use std::process::{self, Command};

use anyhow::Context;

/// The algorithm that every contestant uses; others cost up to a tenth more CPU for equal work.
pub(super) const CONGESTION: &str = "cubic";

const INSIDE: &str = "LENO_BENCH_NETWORK";
pub(super) const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// All that is needed inside: loopback, and settings that may be written.
const TRY: &str = "ip link set lo up && test -w /proc/sys/net/ipv4/tcp_congestion_control";
/// Loopback up, then the very command that was given.
const ENTER: &str = "ip link set lo up && exec \"$0\" \"$@\"";

/// Runs this very command again inside a new network namespace and ends with its status, when
/// root; returns when already inside, or when there can be no such namespace.
///
/// # Errors
/// When the namespace's defaults cannot be set once inside.
pub(crate) fn enter() -> anyhow::Result<()> {
    if is_inside() {
        fs::write(DEFAULT, CONGESTION).context("set the congestion control")?;
        // Thousands of connections from one address need the whole range of ports.
        return fs::write(PORTS, "10240 65535").context("widen the range of ports");
    }
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // Root in a container may not: try before this command is replaced.
    let mut trial = Command::new("unshare");
    let trial = trial.args(["--net", "--", "sh", "-c", TRY]).status();
    if !trial.is_ok_and(|status| status.success()) {
        eprintln!("no network namespace can be made: the system's congestion control is used");
        return Ok(());
    }
    let before = fs::read_to_string(ALLOWED).unwrap_or_default();
    if !before.split_whitespace().any(|name| name == CONGESTION) {
        // A namespace may only choose what the machine allows to everybody.
        let _ = fs::write(ALLOWED, format!("{} {CONGESTION}", before.trim()));
    }
    let status = Command::new("unshare")
        .args(["--net", "--", "sh", "-c", ENTER])
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(INSIDE, "1")
        .status();
    let _ = fs::write(ALLOWED, before.trim());
    match status {
        Ok(status) => process::exit(status.code().unwrap_or(1)),
        Err(error) => eprintln!("no network namespace ({error}): system congestion control"),
    }
    Ok(())
}

/// Whether this is a network of the benchmark's own, which may be changed at will.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// The congestion control that sockets get here by default.
pub(crate) fn congestion() -> String {
    fs::read_to_string(DEFAULT)
        .unwrap_or_default()
        .trim()
        .to_owned()
}
