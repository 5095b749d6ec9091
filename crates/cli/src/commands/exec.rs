//! `leno exec`.

use local::name::WorkloadId;

use super::up::Chosen;

/// Run a command where a workload runs: in its network, as its user.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The workload, or one instance: NAME, or NAME.NAMESPACE
    workload: WorkloadId,
    #[command(flatten)]
    mesh: Chosen,
    /// What to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (base, name) = args.mesh.find()?;
    Err(local::exec(base, &name, &args.workload, &args.command))
}
