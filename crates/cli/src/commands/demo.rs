//! `leno demo`.

use std::path::PathBuf;

use bench::dataplane::programs::Programs;

/// Show in about a minute what the mesh costs on this machine: no mesh, Leno, and Envoy if found.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// leno-proxy [default: beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    proxy: Option<PathBuf>,
    /// Envoy [default: $LENO_ENVOY, in $PATH, or in .venv]
    #[arg(long, value_name = "PATH")]
    envoy: Option<PathBuf>,
    /// Folder for the results [default: results/latency-DATE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs {
        proxy: args.proxy,
        envoy: args.envoy,
        ..Programs::default()
    };
    bench::latency::demo(programs, args.out)
}
