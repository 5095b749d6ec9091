//! Builds the fuzz targets with the instrumentation that libFuzzer steers by. Called by `fuzz`;
//! knows compilers, not targets.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{command, dist};

/// What `cargo fuzz` passes: counters for each edge, a table of what they stand for, and what is
/// compared with what. Checks of debug builds are kept: they are half of what is looked for.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// Builds all targets and gives the folder that they are in.
pub(super) fn all(root: &Path, asan: bool) -> Result<PathBuf> {
    let triple = host(root)?;
    let folder = folder(root).join(if asan { "asan" } else { "build" });
    let mut flags = FLAGS.join(" ");
    let mut cargo = match asan {
        false => command::cargo(root),
        true => {
            flags.push_str(" -Zsanitizer=address");
            nightly(root)
        }
    };
    cargo.args(["build", "--release", "--locked", "--bins"]);
    cargo.args(["--manifest-path", "fuzz/Cargo.toml"]);
    // A target that is named keeps the flags from build scripts, which have no libFuzzer.
    cargo
        .args(["--target", &triple, "--target-dir"])
        .arg(&folder);
    cargo.env("RUSTFLAGS", flags);
    command::run(&mut cargo).context("build the fuzz targets")?;
    Ok(folder.join(triple).join("release"))
}

/// Where everything is that fuzzing makes.
pub(super) fn folder(root: &Path) -> PathBuf {
    dist::target_folder(root).join("fuzz")
}

/// The pinned toolchain is named by the environment of whoever runs us, or by a file.
fn nightly(root: &Path) -> Command {
    let mut cargo = Command::new("rustup");
    cargo.args(["run", "nightly", "cargo"]).current_dir(root);
    cargo
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC")
        .env_remove("CARGO");
    cargo
}

fn host(root: &Path) -> Result<String> {
    let said = command::read(Command::new("rustc").arg("-vV").current_dir(root))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not say what it runs on")?
        .to_owned())
}
