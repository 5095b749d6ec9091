//! `leno bench cpu`: CPU of each sidecar, in all and for each request, against the rate at a fixed
//! number of connections.

use crate::options::{self, Args};
use crate::results::{Experiment, Settings};
use crate::run;

/// Those of the published report.
const RATES: [u32; 8] = [10, 100, 200, 400, 800, 1000, 2000, 3000];

/// The quick run's.
const QUICK_RATES: [u32; 4] = [100, 400, 1000, 2000];

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

fn defaults(quick: bool) -> Settings {
    let rates: &[u32] = if quick { &QUICK_RATES } else { &RATES };
    Settings {
        qps: rates.iter().copied().map(Some).collect(),
        ..options::defaults(Experiment::Cpu, quick)
    }
}
