//! Runs floor, tokio and rt under the same closed-loop load, interleaved in random order, and
//! prints CPU per request. Options: `--rounds N`, `--seconds S`, `--connections N`,
//! `--also "name=program args"` (repeatable; a profiler may be the program), `--tokio "args"`,
//! `--log true` (shows what the programs count).

use anyhow::Result;
use executor_spike::measure::contestant::{Contestant, Sample, Window};
use executor_spike::measure::figures::{Dice, median, ratio};
use executor_spike::measure::{echo, pin};
use executor_spike::options::Options;
use std::time::{Duration, SystemTime};

const HOP_CPU: usize = 0;
const LOAD_CPU: usize = 1;

fn contestants(options: &Options) -> Result<Vec<Contestant>> {
    let tuned: String = options.find("--tokio")?.unwrap_or_default();
    let tokio = format!("tokio=hop-tokio {tuned}");
    let fixed = ["floor=floor", &tokio, "rt=hop-rt"];
    fixed
        .into_iter()
        .chain(options.all("--also"))
        .map(Contestant::parse)
        .collect()
}

fn run_rounds(
    contestants: &[Contestant],
    window: Window,
    rounds: usize,
    dice: &mut Dice,
) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::with_capacity(rounds); contestants.len()];
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    for round in 1..=rounds {
        dice.shuffle(&mut order);
        for &number in &order {
            samples[number].push(contestants[number].sample(window)?);
        }
        let row = contestants.iter().zip(&samples);
        let shown = row.map(|(who, all)| format!("{} {:.2}", who.name, all[round - 1].micros));
        println!(
            "round {round:2}: {} us/request",
            shown.collect::<Vec<_>>().join("  ")
        );
    }
    Ok(samples)
}

fn column(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(of).collect()
}

fn print_table(contestants: &[Contestant], samples: &[Vec<Sample>], dice: &mut Dice) {
    const BASE: usize = 2;
    let base = column(&samples[BASE], |sample| sample.micros);
    println!(
        "\n{:14} us/request  sleeps/request  requests/s  Pss KiB  against rt [95 %]",
        "median"
    );
    for (who, all) in contestants.iter().zip(samples) {
        let micros = column(all, |sample| sample.micros);
        let (middle, low, high) = ratio(&micros, &base, dice);
        println!(
            "{:14} {:10.2} {:15.3} {:11.0} {:8.0}  {middle:.3} [{low:.3}, {high:.3}]",
            who.name,
            median(&micros),
            median(&column(all, |sample| sample.sleeps)),
            median(&column(all, |sample| sample.rate)),
            median(&column(all, |sample| sample.pss_kib as f64)),
        );
    }
    let floor = column(&samples[0], |sample| sample.micros);
    let (middle, low, high) = ratio(&base, &floor, dice);
    println!("rt/floor {middle:.3} [{low:.3}, {high:.3}]");
}

fn main() -> Result<()> {
    let known = [
        "--rounds",
        "--seconds",
        "--connections",
        "--also",
        "--tokio",
        "--log",
    ];
    let options = Options::parse(&known)?;
    let contestants = contestants(&options)?;
    let seconds: f64 = options.find("--seconds")?.unwrap_or(2.0);
    let window = Window {
        echo: echo::start(LOAD_CPU)?,
        connections: options.find("--connections")?.unwrap_or(64),
        length: Duration::from_secs_f64(seconds),
        cpu: LOAD_CPU,
        log: options.find("--log")?.unwrap_or(false),
    };
    // Inherited by the programs started from here.
    pin(HOP_CPU)?;
    let seed = SystemTime::UNIX_EPOCH.elapsed()?.subsec_nanos();
    let mut dice = Dice::new(u64::from(seed) << 20);
    let rounds = options.find("--rounds")?.unwrap_or(10);
    let samples = run_rounds(&contestants, window, rounds, &mut dice)?;
    print_table(&contestants, &samples, &mut dice);
    Ok(())
}
