//! `leno bench scale`: what a control plane costs and how fast it is with thousands of sidecars.
//! Called by the command; starts one real control plane for each mesh, and simulates the sidecars.

pub mod mesh;
pub mod outcome;
pub mod plane;

mod measure;

mod facts;
mod fleet;
mod ledger;
mod link;
mod real;
mod sidecar;

mod figures;
mod progress;
mod tables;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::cost::netns;
use crate::dataplane::find;
use crate::results::folder::write_whole;
use crate::{clock, machine};
use measure::Plan;
use mesh::{Mode, Shape};
use outcome::Outcome;
use progress::Progress;

/// Layout version of `run.json`.
const SCHEMA: u32 = 1;

/// Nobody waits longer for a window.
const SECONDS_MAX: f64 = 86_400.0;
/// Changes per second: from one in a quarter of an hour to more than files can be replaced.
const CHURN: RangeInclusive<f64> = 0.001..=100_000.0;

/// Options of `leno bench scale`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Sidecars that are simulated
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub sidecars: usize,
    /// Services, each of a Workload of its own
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub services: usize,
    /// Instances of each Workload
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub endpoints: usize,
    /// Services that each sidecar uses
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub interest: usize,
    /// Who may call whom; several are measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "scoped")]
    pub mode: Vec<Mode>,
    /// Endpoints that change per second
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub churn: f64,
    /// Seconds for which they change; a P99 of whole changes takes 2000 of them
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub churn_seconds: f64,
    /// Seconds of the window at rest; sidecars are asked every 30 whether they are there
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub rest: f64,
    /// Services used for the first time, one after the other (permissive)
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub first_uses: usize,
    /// Also a quarter and a half of the sidecars and Services, in every combination: how it grows
    #[arg(long)]
    pub grid: bool,
    /// A tenth of the sidecars and Services, short windows: a glance
    #[arg(long)]
    pub quick: bool,
    /// The leno-control to measure [default: beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// The leno-proxy that joins as a real sidecar [default: beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub proxy: Option<PathBuf>,
    /// Folder for the results [default: results/scale-DATE]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Measures every mesh that is asked for, and prints and keeps what was found; after a failure,
/// that of the meshes before.
///
/// # Errors
/// When the options make no sense, a program does not start, or a phase takes too long.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let args = &adjusted(args);
    let shapes = shapes(args);
    shapes.iter().try_for_each(Shape::check)?;
    check(args)?;
    netns::enter()?;
    crate::cost::raise_descriptors();
    let plan = plan(args)?;
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| Path::new("results").join(format!("scale-{}", clock::stamp())));
    let progress = Progress::begin()?;
    let mut outcome = Outcome {
        schema: SCHEMA,
        environment: machine::describe(),
        rows: Vec::new(),
    };
    let mut measured = Ok(());
    for shape in shapes {
        match measure::run(shape, &plan, &progress) {
            Ok(row) => outcome.rows.push(row),
            Err(error) => {
                measured = Err(error);
                break;
            }
        }
    }
    drop(progress);
    if !outcome.rows.is_empty() {
        save(&out, &outcome)?;
        println!("{}", tables::render(&outcome));
        println!("{}", out.display());
    }
    measured
}

fn check(args: &Args) -> anyhow::Result<()> {
    let is_time = |seconds: f64| seconds > 0.0 && seconds <= SECONDS_MAX;
    anyhow::ensure!(
        is_time(args.churn_seconds) && is_time(args.rest),
        "--churn-seconds and --rest take what is above 0, and no more than a day: {SECONDS_MAX}"
    );
    anyhow::ensure!(
        CHURN.contains(&args.churn),
        "--churn takes from {} to {} changes per second",
        CHURN.start(),
        CHURN.end()
    );
    Ok(())
}

/// What `--quick` stands for.
fn adjusted(args: &Args) -> Args {
    let mut args = args.clone();
    if args.quick {
        args.sidecars = args.sidecars.div_ceil(10);
        args.services = args.services.div_ceil(10);
        args.churn_seconds = args.churn_seconds.min(5.0);
        args.rest = args.rest.min(5.0);
        args.first_uses = args.first_uses.min(100);
    }
    args
}

/// The meshes to measure, small ones first.
fn shapes(args: &Args) -> Vec<Shape> {
    let parts: &[usize] = if args.grid { &[4, 2, 1] } else { &[1] };
    let mut shapes = Vec::new();
    for &mode in &args.mode {
        for services in parts {
            let of = |sidecars: &usize| Shape {
                sidecars: args.sidecars / sidecars,
                services: args.services / services,
                endpoints: args.endpoints,
                interest: args.interest,
                mode,
            };
            shapes.extend(parts.iter().map(of));
        }
    }
    shapes
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    Ok(Plan {
        launcher: std::env::current_exe().context("finding our own executable")?,
        control: find::beside(args.control.as_deref(), "leno-control")?,
        proxy: match &args.proxy {
            Some(path) => Some(find::beside(Some(path), "leno-proxy")?),
            None => find::beside(None, "leno-proxy").ok(),
        },
        rest: Duration::from_secs_f64(args.rest),
        churn_rate: args.churn,
        churn: Duration::from_secs_f64(args.churn_seconds),
        first_uses: args.first_uses,
    })
}

fn save(dir: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    let figures = dir.join("figures");
    std::fs::create_dir_all(&figures).with_context(|| format!("making {}", figures.display()))?;
    write_whole(&dir.join("run.json"), &serde_json::to_vec_pretty(outcome)?)?;
    write_whole(&dir.join("results.csv"), outcome::csv(outcome).as_bytes())?;
    for (name, svg) in figures::all(outcome) {
        write_whole(&figures.join(format!("{name}.svg")), svg.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn times_and_rates_that_nobody_can_wait_for_are_refused() {
        let checked = |option: &str, value: &str| {
            let line = Line::try_parse_from(["scale", &format!("--{option}={value}")]);
            check(&line.unwrap().args).map_err(|error| error.to_string())
        };
        for option in ["churn", "churn-seconds", "rest"] {
            assert_eq!(checked(option, "600"), Ok(()));
            for value in ["0", "-1", "NaN", "inf", "1e30", "1e-320"] {
                let refused = checked(option, value);
                let is_tiny_time = value == "1e-320" && option != "churn";
                assert_eq!(
                    refused.is_ok(),
                    is_tiny_time,
                    "{option} {value}: {refused:?}"
                );
            }
        }
    }
}
