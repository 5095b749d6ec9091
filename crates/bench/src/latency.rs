//! `leno bench latency` and `leno demo`: latency, and CPU and memory of the sidecars, against the
//! number of connections at a fixed rate.

use std::path::PathBuf;

use crate::dataplane::programs::Programs;
use crate::options::{self, Args, Grid};
use crate::results::{Experiment, Settings};
use crate::run::{self, planes};

/// Runs it: measures what is missing, then writes and prints what there is.
///
/// # Errors
/// When the options make no sense, a data plane does not come up, or a file cannot be written.
/// What was measured until then is kept, and `--resume` goes on with it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.resume {
        Some(dir) => run::resume(dir, &args.programs),
        None => run::begin(args.task(defaults(args.quick))?),
    }
}

/// The quick run of `none`, `leno` and, if found, `envoy`.
///
/// # Errors
/// As [`run`].
pub fn demo(programs: Programs, out: Option<PathBuf>) -> anyhow::Result<()> {
    let (data_planes, notes) = planes::of_demo(&programs)?;
    let grid = Grid {
        data_planes,
        ..Grid::default()
    };
    let args = Args {
        grid,
        programs,
        out,
        quick: true,
        ..Args::default()
    };
    let mut task = args.task(defaults(true))?;
    task.notes.extend(notes);
    run::begin(task)
}

fn defaults(quick: bool) -> Settings {
    let connections = match quick {
        true => vec![2, 16, 64],
        false => vec![2, 4, 8, 16, 32, 64],
    };
    Settings {
        connections,
        ..options::defaults(Experiment::Latency, quick)
    }
}
