//! `leno exec`.

use local::name::{MeshName, WorkloadId};

use super::up::Place;

/// Run a command where a workload runs: in its network, as its user.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload, or one instance: NAME, or NAME.NAMESPACE
    workload: WorkloadId,
    /// The mesh [default: the only one]
    #[arg(long)]
    name: Option<MeshName>,
    #[command(flatten)]
    place: Place,
    /// What to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let base = &args.place.runtime;
    let name = args.name.clone().map_or_else(|| local::only(base), Ok)?;
    Err(local::exec(base, &name, &args.workload, &args.command))
}
