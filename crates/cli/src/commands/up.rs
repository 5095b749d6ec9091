//! `leno up`.

use std::path::PathBuf;

use local::name::MeshName;
use local::{Programs, Start, supervisor, table};

/// Run a mesh on this machine: every workload of a file in a network of its own, with its sidecar.
///
/// Needs root. Returns when all workloads run, and leaves a supervisor behind that keeps them;
/// `leno down` ends it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The mesh: Workloads, Services, policies, as YAML
    file: PathBuf,
    /// What it is called on this machine
    #[arg(long, default_value = "default")]
    name: MeshName,
    /// Stay, and take the mesh down when interrupted
    #[arg(long)]
    foreground: bool,
    /// leno-control [default: the one beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// leno-proxy [default: the one beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    proxy: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Where meshes are kept.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Folder for what runs: one folder in it for each mesh
    #[arg(long, value_name = "DIR", default_value = local::folder::BASE)]
    pub(crate) runtime: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs {
        control: args.control,
        proxy: args.proxy,
    };
    let start = Start::check(args.name, args.place.runtime, &args.file, &programs)?;
    if args.foreground {
        return supervisor::run(&start, |state| print!("{}", table::show(state)));
    }
    print!("{}", table::show(&local::up(&start)?));
    Ok(())
}
