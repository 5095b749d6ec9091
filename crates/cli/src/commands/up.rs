//! `leno up`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use local::command::up_within;
use local::explicit::{NOTE, is_rootless};
use local::name::MeshName;
use local::{Programs, READY_WITHIN, Start, supervisor, table};

use super::progress;

/// Run a mesh on this machine: every workload of a file in a network of its own, with its sidecar.
///
/// Returns when everything is ready, and leaves a supervisor behind that keeps it; `leno down` ends
/// it. A mesh that is up gets the file: only what differs is changed. Without root, workloads share
/// this machine's loopback and are told where to call, see docs/rootless.md.
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
    #[command(flatten)]
    patience: Patience,
    /// leno-control [default: the one beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// leno-proxy [default: the one beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    proxy: Option<PathBuf>,
    /// Envoy, for workloads with `dataPlane: envoy` [default: the one in $PATH]
    #[arg(long, value_name = "PATH")]
    envoy: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Where meshes are kept.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Folder for what runs: one folder in it for each mesh [default: /run/leno; without root, leno
    /// in $XDG_RUNTIME_DIR, or /tmp/leno-UID]
    #[arg(
        long,
        value_name = "DIR",
        default_value_os_t = local::folder::base_here(),
        hide_default_value = true
    )]
    pub(crate) runtime: PathBuf,
}

/// One of the meshes that are up.
#[derive(clap::Args)]
pub(crate) struct Chosen {
    /// The mesh [default: the only one]
    #[arg(long)]
    name: Option<MeshName>,
    #[command(flatten)]
    place: Place,
}

impl Chosen {
    /// Where it is kept, and what it is called.
    ///
    /// # Errors
    /// When none is named and there is not exactly one.
    pub(crate) fn find(&self) -> anyhow::Result<(&Path, MeshName)> {
        let base = &*self.place.runtime;
        let name = self.name.clone().map_or_else(|| local::only(base), Ok)?;
        Ok((base, name))
    }
}

/// For how long is waited.
#[derive(clap::Args)]
pub(crate) struct Patience {
    /// Say who is not ready after that, and why; nothing is taken back
    #[arg(long, value_name = "SECONDS", default_value_t = READY_WITHIN.as_secs())]
    timeout: u64,
}

impl Patience {
    pub(crate) const fn time(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs {
        control: args.control,
        proxy: args.proxy,
        envoy: args.envoy,
    };
    let start = Start::check(args.name, args.place.runtime, &args.file, &programs)?;
    if is_rootless() {
        eprintln!("{NOTE}");
    }
    if args.foreground {
        return supervisor::run(&start, |state| print!("{}", table::show(state)));
    }
    let state = up_within(&start, args.patience.time(), &mut progress::show)?;
    print!("{}", table::show(&state));
    Ok(())
}
