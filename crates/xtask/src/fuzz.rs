//! `cargo xtask fuzz`: libFuzzer looks for inputs that break what the fuzz targets check, some
//! targets at a time, from the seeds and from what it found before. Also a step of `cargo xtask
//! test`. Needs the pinned toolchain and a C++ compiler, neither `cargo fuzz` nor a nightly one.

mod build;
mod target;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use target::Target;

/// What `cargo xtask fuzz` takes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these targets; default: all
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = QUICK_SECONDS)]
    seconds: u64,
    /// Run the one target that is named on this input only, to see what it breaks
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// With AddressSanitizer, which needs a nightly toolchain. Slower, and our own code has
    /// nothing unsafe in it that it could find
    #[arg(long)]
    asan: bool,
}

/// As a step of the tests: finds what a change has just broken.
const QUICK_SECONDS: u64 = 20;

/// Runs what was asked for; an error names the targets that broke, after saying how to see it
/// again.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let targets = target::find(root, &args.targets)?;
    let folder = build::all(root, args.asan)?;
    let Some(input) = &args.input else {
        return run_all(&targets, &folder, Duration::from_secs(args.seconds));
    };
    let [target] = targets.as_slice() else {
        bail!("--input is for one target: name it")
    };
    let input = input
        .canonicalize()
        .with_context(|| input.display().to_string())?;
    command::run(target.command(&folder).arg(input))
}

/// All targets for a short time; gives what was skipped, with why.
pub fn run_quick(root: &Path) -> Result<Vec<String>> {
    if command::find("c++").is_none() {
        return Ok(vec![
            "no C++ compiler, which libFuzzer is built with".into(),
        ]);
    }
    let targets = target::find(root, &[])?;
    let folder = build::all(root, false)?;
    run_all(&targets, &folder, Duration::from_secs(QUICK_SECONDS))?;
    Ok(Vec::new())
}

/// As many at a time as there are CPUs.
fn run_all(targets: &[Target], folder: &Path, length: Duration) -> Result<()> {
    let at_once = thread::available_parallelism().map_or(1, NonZero::get);
    let waiting = Mutex::new(targets.iter());
    let next = || waiting.lock().expect("nobody panics with it").next();
    let run_some = || {
        let mut broken = Vec::new();
        while let Some(target) = next() {
            if !report(target, &target.run(folder, length)) {
                broken.push(target.name.as_str());
            }
        }
        broken
    };
    let broken: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(run_some)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .flat_map(|broken| broken.expect("a target's end is no panic"))
            .collect()
    });
    ensure!(broken.is_empty(), "broken: {}", broken.join(", "));
    Ok(())
}

/// Says how a target ended; whether it holds.
fn report(target: &Target, result: &Result<String>) -> bool {
    match result {
        Ok(found) => println!("{:16} {found}", target.name),
        Err(error) => println!("{:16} BROKEN\n{error:#}", target.name),
    }
    result.is_ok()
}
