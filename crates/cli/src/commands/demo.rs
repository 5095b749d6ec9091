//! `leno demo`.

/// Show in under a minute what the mesh costs on this machine: no mesh, Leno, and Envoy if found.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    programs: bench::dataplane::programs::Programs,
    /// Folder for the results [default: results/latency-DATE]
    #[arg(long, value_name = "DIR")]
    out: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    bench::latency::demo(args.programs, args.out)
}
