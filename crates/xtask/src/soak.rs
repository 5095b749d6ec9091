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

/// Growth is a slope from the rest after one turn of all loads to the next; this many turns, the
/// first of them to warm up, are the fewest that have one.
const TURNS_MIN: u64 = 4;
/// About what a rest takes: unused connections have to grow old.
const REST_SECONDS: u64 = 5;
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
    let of_turn = (args.seconds / TURNS_MIN).saturating_sub(REST_SECONDS);
    let of_each = of_turn / loads.len() as u64;
    let length = args.round.unwrap_or(of_each).clamp(1, ROUND_SECONDS_MAX);
    let pair = Pair::start(root, &args.profile)?;
    let mut soak = Soak {
        quiet: pair.sample()?,
        pair,
        length: Duration::from_secs(length),
        begun: Instant::now(),
        rounds: 0,
        faults: Vec::new(),
    };
    let columns = Sample::HEAD;
    println!("      s  load        requests  while           outbound, inbound: {columns}");
    let mut rests = Vec::new();
    while soak.begun.elapsed() < Duration::from_secs(args.seconds) {
        for load in &loads {
            soak.round(load)?;
        }
        rests.push(soak.rest()?);
    }
    soak.faults.extend(soak.pair.complaints()?);
    match growth::find(&rests) {
        Some(grown) => soak.faults.extend(grown),
        None => println!("too short to tell growth: needs {TURNS_MIN} turns of all loads"),
    }
    let faults = soak.faults;
    if faults.is_empty() {
        println!("nothing lost, nothing grown");
        return Ok(());
    }
    bail!("{} faults:\n  {}", faults.len(), faults.join("\n  "))
}

/// A run, so far.
struct Soak {
    pair: Pair,
    /// Before the first request.
    quiet: Sample,
    /// Of one round.
    length: Duration,
    begun: Instant,
    rounds: usize,
    faults: Vec<String>,
}

impl Soak {
    fn round(&mut self, load: &Load) -> Result<()> {
        let disturbance = DISTURBANCES[self.rounds % DISTURBANCES.len()];
        self.rounds += 1;
        let answers = run_load(&self.pair, load, self.length, disturbance)?;
        let (sample, seconds) = (self.pair.sample()?, self.begun.elapsed().as_secs());
        let (name, total) = (load.name, answers.total);
        println!("{seconds:7}  {name:10} {total:9}  {disturbance:14}  {sample}");
        if let Some(fault) = answers.fault() {
            println!("         {fault}");
            self.faults
                .push(format!("{name} after {seconds} s: {fault}"));
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<Sample> {
        let (left, sample) = self.pair.rest(&self.quiet)?;
        let seconds = self.begun.elapsed().as_secs();
        println!("{seconds:7}  {:36}  {sample}", "at rest");
        let left = left
            .iter()
            .map(|fault| format!("after {seconds} s: {fault}"));
        self.faults.extend(left);
        Ok(sample)
    }
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
