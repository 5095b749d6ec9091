//! `cargo xtask qemu`: the proxy's own test suites against the aarch64 proxy, run by qemu-user.
//! The tests run natively; only the proxy under test is foreign.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{command, dist, doctor};

/// What `cargo xtask qemu` takes.
#[derive(clap::Args)]
pub struct Args {
    /// The cargo profile of the proxy under test
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The test files of the proxy to run; default: HTTP/1 and TLS
    tests: Vec<String>,
}

/// The suites that say whether the data plane works on another processor. Those that load the
/// proxy would load the emulator.
pub const SUITES: &[&str] = &["http1", "tls"];

/// Builds the proxy for aarch64 and runs the suites against it; an error when a tool is missing or
/// a test fails.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let asked: Vec<_> = args.tests.iter().map(String::as_str).collect();
    run_suites(
        root,
        &args.profile,
        if asked.is_empty() { SUITES } else { &asked },
    )
}

/// The same without a command line.
pub fn run_suites(root: &Path, profile: &str, suites: &[&str]) -> Result<()> {
    let qemu = doctor::qemu().context(
        "qemu-aarch64-static is not installed (Debian: apt-get install qemu-user-static)",
    )?;
    let target = dist::TARGETS
        .iter()
        .find(|target| target.processor == "aarch64");
    let target = target.expect("aarch64 is one of the targets");
    let built = dist::build(root, target, profile, &["proxy"])?;
    let mut cargo = command::cargo(root);
    cargo.args(["test", "--locked", "--no-fail-fast", "--package", "proxy"]);
    cargo.args(suites.iter().flat_map(|suite| ["--test", suite]));
    cargo
        .env("LENO_PROXY", built.join("leno-proxy"))
        .env("LENO_PROXY_RUNNER", qemu);
    command::run(&mut cargo)
}

/// Whether both the emulator and the cross compiler are here.
#[must_use]
pub fn is_possible() -> bool {
    doctor::qemu().is_some() && command::find("aarch64-linux-gnu-gcc").is_some()
}
