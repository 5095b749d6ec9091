//! `cargo xtask test`: every check and test, one step after the other, and a summary with what was
//! skipped. A failed step does not hide the next ones.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::{command, doctor, qemu, tidy};

/// What `cargo xtask test` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Only the steps with these names
    steps: Vec<String>,
}

/// How a step ended, unless it failed.
enum Outcome {
    Passed,
    Skipped(&'static str),
}

struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<Outcome>,
}

/// In the order from cheap to dear: a stray blank should not cost a quarter of an hour.
const STEPS: &[Step] = &[
    Step {
        name: "tidy",
        run: |root| tidy::run(root).map(|()| Outcome::Passed),
    },
    Step {
        name: "format",
        run: |root| cargo(root, "fmt --all --check"),
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
        run: |root| cargo(root, "test --workspace --locked --no-fail-fast"),
    },
    Step {
        name: "aarch64",
        run: aarch64,
    },
];

/// Runs the steps; an error names those that failed.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    doctor::print();
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    let is_wanted = |name: &str| args.steps.is_empty() || args.steps.iter().any(|s| s == name);
    for step in STEPS.iter().filter(|step| is_wanted(step.name)) {
        println!("\n== {}", step.name);
        let begun = Instant::now();
        let outcome = match (step.run)(root) {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(error) => {
                eprintln!("{error:#}");
                failed.push(step.name);
                "FAILED".to_owned()
            }
        };
        summary.push(format!(
            "  {:8} {:4} s  {outcome}",
            step.name,
            begun.elapsed().as_secs()
        ));
    }
    println!("\nsummary:\n{}", summary.join("\n"));
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("failed: {}", failed.join(", "))
    }
}

fn cargo(root: &Path, words: &str) -> Result<Outcome> {
    let mut cargo = command::cargo(root);
    cargo.args(words.split_whitespace());
    if doctor::is_root() {
        // With root there is no excuse: a privileged test that skips itself fails instead.
        cargo.env("LENO_REQUIRE_PRIVILEGED", "1");
    }
    command::run(&mut cargo).map(|()| Outcome::Passed)
}

/// Twice: tests may unwrap and have clocks, and clippy does not take the functions beside them for
/// tests.
fn lint(root: &Path) -> Result<Outcome> {
    cargo(
        root,
        "clippy --workspace --lib --bins --locked -- -D warnings",
    )?;
    let allowed = "-A clippy::unwrap_used -A clippy::disallowed_methods";
    let tests = "clippy --workspace --tests --benches --examples --locked";
    cargo(root, &format!("{tests} -- -D warnings {allowed}"))
}

fn aarch64(root: &Path) -> Result<Outcome> {
    if !qemu::is_possible() {
        return Ok(Outcome::Skipped(
            "qemu or the cross compiler is missing, see above",
        ));
    }
    qemu::run_suites(root, "dev", &qemu::suites(root)?).map(|()| Outcome::Passed)
}
