//! `cargo xtask test`: every check and test, one step after the other, and a summary with what was
//! skipped. A failed step does not hide the next ones.

mod harness;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{command, doctor, fuzz, interop, qemu, tidy};

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Only the steps with these names
    steps: Vec<String>,
}

/// What a step left out, unless it failed.
type Skipped = Vec<String>;

struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<Skipped>,
}

/// In the order from cheap to dear: a stray blank should not cost a quarter of an hour.
const STEPS: &[Step] = &[
    Step {
        name: "tidy",
        run: |root| tidy::run(root).map(|()| Vec::new()),
    },
    Step {
        name: "format",
        run: |root| cargo(root, "fmt --all -- --check -l"),
    },
    Step {
        name: "lint",
        run: lint,
    },
    Step {
        name: "build",
        run: |root| cargo(root, "build --workspace --bins --locked"),
    },
    Step {
        name: "test",
        run: tests,
    },
    Step {
        name: "fuzz",
        run: fuzz::run_quick,
    },
    Step {
        name: "interop",
        run: interop::run_quick,
    },
    Step {
        name: "aarch64",
        run: aarch64,
    },
];

/// Runs the steps; an error names those that failed.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let is_wanted =
        |step: &&Step| args.steps.is_empty() || args.steps.iter().any(|s| s == step.name);
    doctor::print();
    let mut summary = String::from("\nsummary\n");
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(is_wanted) {
        println!("\n== {}", step.name);
        let begun = Instant::now();
        let result = (step.run)(root);
        let ended = if result.is_ok() { "passed" } else { "FAILED" };
        let seconds = begun.elapsed().as_secs();
        summary.push_str(&format!("  {:8} {seconds:4} s  {ended}\n", step.name));
        match result {
            Ok(skipped) => skipped.iter().for_each(|what| {
                summary.push_str(&format!("{:19}skipped: {what}\n", ""));
            }),
            Err(error) => {
                eprintln!("{error:#}");
                failed.push(step.name);
            }
        }
    }
    println!("{}", summary.trim_end());
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("failed: {}", failed.join(", "))
    }
}

fn cargo(root: &Path, words: &str) -> Result<Skipped> {
    command::run(command::cargo(root).args(words.split_whitespace())).map(|()| Vec::new())
}

/// Twice: tests may unwrap and have clocks, and clippy does not take the functions beside them for
/// tests.
fn lint(root: &Path) -> Result<Skipped> {
    cargo(
        root,
        "clippy --workspace --lib --bins --locked -- -D warnings",
    )?;
    let allowed = "-A clippy::unwrap_used -A clippy::disallowed_methods";
    let tests = "clippy --workspace --tests --benches --examples --locked";
    cargo(root, &format!("{tests} -- -D warnings {allowed}"))
}

/// Unit, behaviour and documentation tests, the fuzz targets' seeds among them.
fn tests(root: &Path) -> Result<Skipped> {
    let mut cargo = command::cargo(root);
    cargo.args([
        "test",
        "--workspace",
        "--locked",
        "--no-fail-fast",
        "--",
        "--show-output",
    ]);
    if doctor::is_root() {
        // With root there is no excuse: a privileged test that skips itself fails instead.
        cargo.env("LENO_REQUIRE_PRIVILEGED", "1");
    }
    watch(&mut cargo)
}

fn aarch64(root: &Path) -> Result<Skipped> {
    if !qemu::is_possible() {
        return Ok(vec![
            "qemu or the cross compiler is missing, see the list at the start".into(),
        ]);
    }
    qemu::run_suites(root, "dev", qemu::SUITES).map(|()| Vec::new())
}

/// Runs tests and passes on what they print, but for the output of those that passed: of that only
/// what they say to have skipped is kept.
fn watch(command: &mut Command) -> Result<Skipped> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("start cargo")?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let skipped = harness::pass_on(stdout, std::io::stdout())?;
    let status = child.wait()?;
    if !status.success() {
        let skipped: String = skipped
            .iter()
            .map(|what| format!("\nskipped: {what}"))
            .collect();
        bail!("tests failed ({status}){skipped}");
    }
    Ok(skipped)
}
