//! `cargo xtask soak`: one sidecar pair under changing load for as long as it is told, with reloads
//! and new certificates meanwhile, watched from outside for lost requests and for growth.
//! Needs built programs; must never judge speed.

mod pair;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use pair::{Disturbance, Pair, Sample};

/// What `cargo xtask soak` takes.
#[derive(clap::Args)]
pub struct Args {
    /// How long to go on
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Seconds of one kind of load
    #[arg(long, default_value_t = 10)]
    round: u64,
    /// The folder of cargo's to take the programs from
    #[arg(long, default_value = "release")]
    profile: String,
}

/// Memory may grow by this much between the first quarter and the end: what malloc keeps after a
/// larger round. A leak of one buffer per connection or reload is far above it in an hour.
const GROWTH_KIB_MAX: u64 = 1024;
/// Descriptors that may be open more at the end: upstream connections that have not aged yet.
const GROWTH_FDS_MAX: usize = 16;

/// One kind of load: arguments of `leno load`.
struct Load {
    name: &'static str,
    args: &'static [&'static str],
}

/// Taken in turn: small and steady, many connections, large bodies, uploads, as fast as it goes.
const LOADS: &[Load] = &[
    Load {
        name: "steady",
        args: &["--qps", "500", "-c", "16", "--size", "1024"],
    },
    Load {
        name: "many",
        args: &["--qps", "1000", "-c", "500", "--size", "128"],
    },
    Load {
        name: "large",
        args: &["--qps", "50", "-c", "8", "--size", "1048576"],
    },
    Load {
        name: "uploads",
        args: &["--qps", "200", "-c", "8", "--body-size", "65536"],
    },
    Load {
        name: "full",
        args: &["--qps", "max", "-c", "64", "--size", "1024"],
    },
];

/// What happens to the sidecars while a load runs, in turn.
const DISTURBANCES: &[Disturbance] = &[
    Disturbance::None,
    Disturbance::Reloads,
    Disturbance::Certificates,
];

/// Runs the pair and prints a line per round; an error when a request was lost, a sidecar ended,
/// or something grew.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let pair = Pair::start(root, &args.profile)?;
    let begun = Instant::now();
    let length = Duration::from_secs(args.seconds);
    let mut samples = Vec::new();
    println!("      s  load       requests   while         client, server: KiB, descriptors");
    while begun.elapsed() < length {
        let load = &LOADS[samples.len() % LOADS.len()];
        let disturbance = DISTURBANCES[samples.len() % DISTURBANCES.len()];
        let answers = pair.load(load.args, args.round, disturbance)?;
        let sample = pair.sample()?;
        let (seconds, name, total) = (begun.elapsed().as_secs(), load.name, answers.total);
        println!("{seconds:7}  {name:8} {total:10}   {disturbance:12}  {sample}");
        ensure!(total > 0, "no request was answered");
        ensure!(
            answers.failed == 0,
            "{} of {total} requests failed",
            answers.failed
        );
        samples.push(sample);
    }
    judge(&samples)
}

/// Compares rounds of the same load, the first after a quarter of the time with the last.
fn judge(samples: &[Sample]) -> Result<()> {
    let from = samples.len() / 4;
    let Some(last) = samples.len().checked_sub(1) else {
        bail!("not one round was run")
    };
    let Some(first) = (from..last).find(|round| (last - round) % LOADS.len() == 0) else {
        println!("too short to tell growth: needs {} rounds", LOADS.len() * 2);
        return Ok(());
    };
    for (before, after) in samples[first]
        .sides()
        .into_iter()
        .zip(samples[last].sides())
    {
        let kib = after.kib.saturating_sub(before.kib);
        let fds = after.descriptors.saturating_sub(before.descriptors);
        ensure!(
            kib <= GROWTH_KIB_MAX,
            "a sidecar grew by {kib} KiB since round {first}"
        );
        ensure!(
            fds <= GROWTH_FDS_MAX,
            "a sidecar has {fds} descriptors more than in round {first}"
        );
    }
    println!("nothing lost, nothing grown");
    Ok(())
}
