//! `cargo xtask qemu`: the proxy's own test suites against the aarch64 proxy, run by qemu-user.
//! The tests run natively; only the proxy under test is foreign.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{command, dist, doctor};

/// What `cargo xtask qemu` takes.
#[derive(clap::Args)]
pub struct Args {
    /// The cargo profile of the proxy under test
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The test files of the proxy to run; default: all that make sense there
    tests: Vec<String>,
}

/// Where the suites are, one file each.
const FOLDER: &str = "crates/proxy/tests";
/// Suites that say nothing about another processor: they measure the process, here the emulator.
const NATIVE_ONLY: &[&str] = &["memory", "resources", "sizes"];

/// Builds the proxy for aarch64 and runs the suites against it; an error when a tool is missing or
/// a test fails.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let suites = if args.tests.is_empty() {
        suites(root)?
    } else {
        args.tests.clone()
    };
    run_suites(root, &args.profile, &suites)
}

/// The same without a command line.
pub fn run_suites(root: &Path, profile: &str, suites: &[String]) -> Result<()> {
    let qemu = doctor::qemu().context(
        "qemu-aarch64-static is not installed (Debian: apt-get install qemu-user-static)",
    )?;
    let target = dist::TARGETS
        .iter()
        .find(|target| target.processor == "aarch64");
    let target = target.expect("aarch64 is one of the targets");
    let built = dist::build(root, target, profile, &["proxy"])?;
    let mut cargo = command::cargo(root);
    cargo.args(["test", "--locked", "--package", "proxy"]);
    cargo.args(suites.iter().flat_map(|suite| ["--test", suite]));
    cargo
        .env("LENO_PROXY", built.join("leno-proxy"))
        .env("LENO_PROXY_RUNNER", qemu);
    command::run(&mut cargo)
}

/// The names of the proxy's suites that make sense under an emulator.
pub fn suites(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let mut suites = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let suite = name
            .strip_suffix(".rs")
            .filter(|suite| !NATIVE_ONLY.contains(suite));
        suites.extend(suite.map(str::to_owned));
    }
    suites.sort();
    Ok(suites)
}

/// Whether both the emulator and the cross compiler are here.
#[must_use]
pub fn is_possible() -> bool {
    doctor::qemu().is_some() && command::find("aarch64-linux-gnu-gcc").is_some()
}
