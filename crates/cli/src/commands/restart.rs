//! `leno restart`.

use local::command;
use local::name::WorkloadId;

use super::progress;
use super::up::{Chosen, Patience};

/// Replace the instances of a workload, one after the other, each when the next is ready.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload, or one instance: NAME, or NAME.NAMESPACE
    workload: WorkloadId,
    #[command(flatten)]
    mesh: Chosen,
    #[command(flatten)]
    patience: Patience,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (base, name) = args.mesh.find()?;
    let patience = args.patience.time();
    command::restart((base, &name), &args.workload, patience, &mut progress::show)
}
