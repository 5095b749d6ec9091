//! `cargo xtask dist`: static binaries for both processors into dist/, with their sizes.
//! glibc rather than musl: see docs/adr/0005-static-glibc.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

/// What `cargo xtask dist` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Only this processor
    #[arg(long, value_name = "x86_64|aarch64")]
    only: Option<String>,
}

/// A processor that we build for.
#[derive(Debug)]
pub struct Target {
    /// As in `uname -m`.
    pub processor: &'static str,
    /// Rust's name.
    pub triple: &'static str,
    /// The C compiler, which links too.
    pub compiler: &'static str,
    /// `e_machine` of its ELF files.
    machine: u16,
}

/// The processors of edge boxes and servers.
pub const TARGETS: &[Target] = &[
    Target {
        processor: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        compiler: "x86_64-linux-gnu-gcc",
        machine: 62,
    },
    Target {
        processor: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        compiler: "aarch64-linux-gnu-gcc",
        machine: 183,
    },
];

const PROGRAMS: &[&str] = &["leno-proxy", "leno-control", "leno"];

/// Builds every program for every processor; an error when a compiler is missing or a binary is
/// not static.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let only = args.only.as_deref();
    let targets: Vec<_> = TARGETS
        .iter()
        .filter(|target| only.is_none_or(|only| target.processor == only))
        .collect();
    if targets.is_empty() {
        bail!("no such processor: use x86_64 or aarch64");
    }
    let folder = root.join("dist");
    fs::create_dir_all(&folder)?;
    for target in targets {
        let built = build(root, target, "dist", &["proxy", "control", "cli"])?;
        for program in PROGRAMS {
            let binary = folder.join(format!("{program}-{}-linux", target.processor));
            fs::copy(built.join(program), &binary)
                .with_context(|| format!("copy {program} to {}", binary.display()))?;
            check_static(&binary, target)?;
            let bytes = fs::metadata(&binary)?.len();
            println!("{:8.2} MiB  {}", mebibytes(bytes), relative(root, &binary));
        }
    }
    Ok(())
}

/// Builds `packages` statically for `target` and returns the folder with the binaries.
pub fn build(root: &Path, target: &Target, profile: &str, packages: &[&str]) -> Result<PathBuf> {
    add_target(root, target)?;
    let variable = target.triple.to_uppercase().replace('-', "_");
    let mut cargo = command::cargo(root);
    cargo.args([
        "build",
        "--locked",
        "--profile",
        profile,
        "--target",
        target.triple,
    ]);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    // One variable per target, so that build scripts and macros of this machine stay dynamic.
    cargo.env(
        format!("CARGO_TARGET_{variable}_RUSTFLAGS"),
        "-C target-feature=+crt-static",
    );
    if target.processor != std::env::consts::ARCH {
        let compiler = cross_compiler(target)?;
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), &compiler);
        // The TLS library is C and assembly: its build asks for the compiler under this name.
        cargo.env(format!("CC_{}", target.triple.replace('-', "_")), &compiler);
    }
    command::run(&mut cargo)?;
    // Cargo calls the folder of its `dev` profile `debug`.
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target_folder(root).join(target.triple).join(folder))
}

/// Where cargo builds.
#[must_use]
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

fn cross_compiler(target: &Target) -> Result<PathBuf> {
    command::find(target.compiler).with_context(|| {
        format!(
            "{} is not installed: it compiles and links for {} (Debian: apt-get install \
             gcc-{}-linux-gnu libc6-dev-arm64-cross), or build with --only {}",
            target.compiler,
            target.processor,
            target.processor,
            std::env::consts::ARCH,
        )
    })
}

/// Fetches the standard library for `target` where it is missing.
fn add_target(root: &Path, target: &Target) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc
        .current_dir(root)
        .args(["--print", "target-libdir", "--target", target.triple]);
    if Path::new(command::read(&mut rustc)?.trim()).is_dir() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    command::run(
        rustup
            .current_dir(root)
            .args(["target", "add", target.triple]),
    )
    .with_context(|| format!("the standard library for {} is missing", target.triple))
}

/// A static binary asks for no interpreter.
fn check_static(binary: &Path, target: &Target) -> Result<()> {
    let bytes = fs::read(binary)?;
    let elf = Elf::new(&bytes).with_context(|| format!("{} is no ELF file", binary.display()))?;
    if elf.machine != target.machine {
        bail!(
            "{} is for another processor ({})",
            binary.display(),
            elf.machine
        );
    }
    if elf.has_interpreter {
        bail!(
            "{} is linked dynamically: see what took +crt-static away",
            binary.display()
        );
    }
    Ok(())
}

/// What we ask of an executable.
#[derive(Debug, PartialEq, Eq)]
struct Elf {
    machine: u16,
    has_interpreter: bool,
}

impl Elf {
    /// Reads the header and program headers of a 64-bit little-endian ELF file.
    fn new(bytes: &[u8]) -> Option<Self> {
        const PT_INTERP: u32 = 3;
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let table = usize::try_from(word(0x20)?).ok()?;
        let (size, count) = (usize::from(half(0x36)?), usize::from(half(0x38)?));
        let mut kinds = (0..count).map(|index| word(table + index * size));
        let has_interpreter = kinds.any(|kind| kind == Some(PT_INTERP));
        Some(Self {
            machine: half(0x12)?,
            has_interpreter,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_this_test_itself_is() {
        let bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::new(&bytes).unwrap();
        let machine = if cfg!(target_arch = "aarch64") {
            183
        } else {
            62
        };
        assert_eq!(
            elf,
            Elf {
                machine,
                has_interpreter: cfg!(not(target_feature = "crt-static"))
            }
        );
    }

    #[test]
    fn a_text_is_no_program() {
        assert_eq!(Elf::new(b"#!/bin/sh\n"), None);
    }
}
