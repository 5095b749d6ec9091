//! `leno restart`.

use local::command;
use local::name::{MeshName, WorkloadId};

use super::progress;
use super::up::{Patience, Place};

/// Replace the instances of a workload, one after the other, each when the next is ready.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload, or one instance: NAME, or NAME.NAMESPACE
    workload: WorkloadId,
    /// The mesh [default: the only one]
    #[arg(long)]
    name: Option<MeshName>,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let base = &args.place.runtime;
    let name = args.name.clone().map_or_else(|| local::only(base), Ok)?;
    let place = (&**base, &name);
    command::restart(
        place,
        &args.workload,
        args.patience.time(),
        &mut progress::show,
    )
}
