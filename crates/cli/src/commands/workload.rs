//! `leno workload`, which nobody types: what `leno up` starts to become a workload's processes and
//! its own supervisor.

/// Become a process of a mesh, as told on standard input.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// One process in its place
    Run,
    /// The supervisor of a mesh
    Supervise,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args.role {
        Role::Run => Err(local::job::run_from_stdin()),
        Role::Supervise => local::supervisor::run_detached(),
    }
}
