//! `cargo xtask soak`: one sidecar pair under every kind of traffic for as long as it is told, with
//! reloads, changing endpoints and new certificates meanwhile, watched from outside for lost
//! requests and for growth. Needs built programs; must never judge speed.

mod configuration;
mod generator;
mod growth;
mod loads;
mod origin;
mod pair;
mod process;
mod visits;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use generator::Answers;
use growth::Sample;
use loads::{LOADS, Load};
use pair::{Disturbance, Pair};

/// What `cargo xtask soak` takes.
#[derive(clap::Args)]
pub struct Args {
    /// How long to go on
    #[arg(long, default_value_t = 1800)]
    seconds: u64,
    /// Seconds of one kind of load; default: so that each kind has its turn at least four times
    #[arg(long)]
    round: Option<u64>,
    /// The folder of cargo's to take the programs from
    #[arg(long, default_value = "release")]
    profile: String,
    /// Only the loads with these names
    #[arg(long)]
    only: Vec<String>,
}

/// Growth is a slope through what each turn of all loads held at least; this many turns, the first
/// of them to warm up, are the fewest that have one.
const TURNS_MIN: u64 = 4;
/// A longer round shows nothing that several do not.
const ROUND_SECONDS_MAX: u64 = 10;

/// What happens to the sidecars while a load runs, in turn. No divisor of the number of loads, so
/// that each load meets each of them.
const DISTURBANCES: &[Disturbance] = &[
    Disturbance::Configurations,
    Disturbance::Certificates,
    Disturbance::None,
];

/// Runs the pair and prints a line per round; an error when a request was lost, a sidecar ended or
/// complained, or something grew or stayed.
pub fn run(root: &Path, args: &Args) -> Result<()> {
    let is_wanted = |load: &&Load| args.only.is_empty() || args.only.iter().any(|n| n == load.name);
    let loads: Vec<_> = LOADS.iter().filter(is_wanted).collect();
    if loads.is_empty() {
        let names: Vec<_> = LOADS.iter().map(|load| load.name).collect();
        bail!("no such load; there are {}", names.join(", "));
    }
    let of_each = args.seconds / (loads.len() as u64 * TURNS_MIN);
    let round = args.round.unwrap_or(of_each).clamp(1, ROUND_SECONDS_MAX);
    let pair = Pair::start(root, &args.profile)?;
    let quiet = pair.sample()?;
    let begun = Instant::now();
    let (mut samples, mut faults) = (Vec::new(), Vec::new());
    println!(
        "      s  load        requests  while           outbound, inbound: {}",
        Sample::HEAD
    );
    while begun.elapsed() < Duration::from_secs(args.seconds) {
        let load = loads[samples.len() % loads.len()];
        let disturbance = DISTURBANCES[samples.len() % DISTURBANCES.len()];
        let answers = run_load(&pair, load, Duration::from_secs(round), disturbance)?;
        let sample = pair.sample()?;
        let (seconds, name, total) = (begun.elapsed().as_secs(), load.name, answers.total);
        println!("{seconds:7}  {name:10} {total:9}  {disturbance:14}  {sample}");
        if let Some(fault) = answers.fault() {
            println!("         {fault}");
            faults.push(format!("{name} after {seconds} s: {fault}"));
        }
        samples.push(sample);
    }
    faults.extend(pair.rest(&quiet)?);
    faults.extend(pair.complaints()?);
    match growth::find(&samples, loads.len()) {
        Some(grown) => faults.extend(grown),
        None => println!("too short to tell growth: needs {TURNS_MIN} turns of all loads"),
    }
    if faults.is_empty() {
        println!("nothing lost, nothing grown");
        return Ok(());
    }
    bail!("{} faults:\n  {}", faults.len(), faults.join("\n  "))
}

/// All parts of a load at the same time, and the disturbance meanwhile.
fn run_load(
    pair: &Pair,
    load: &Load,
    length: Duration,
    disturbance: Disturbance,
) -> Result<Answers> {
    thread::scope(|scope| {
        let parts: Vec<_> = load
            .parts
            .iter()
            .map(|part| scope.spawn(move || part.run(pair, length)))
            .collect();
        let disturbed = pair.disturb(disturbance, length);
        let mut answers = Answers::default();
        for part in parts {
            answers.add(part.join().expect("a part does not panic")?);
        }
        disturbed.map(|()| answers)
    })
}
