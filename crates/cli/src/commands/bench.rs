//! `leno bench`.

use std::ffi::OsString;

/// Measure data planes side by side.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Latency, and CPU and memory of the sidecars, without a mesh, with Leno and with Envoy.
    Latency(bench::latency::Args),
    /// CPU per request, rate and memory of Leno, HAProxy, nginx and Envoy against a bare relay.
    Cost(bench::cost::Args),
    /// Memory, CPU and delays of a control plane with thousands of sidecars.
    Scale(bench::scale::Args),
    /// The bare relay that `cost` measures against.
    #[command(hide = true)]
    Relay(bench::cost::RelayArgs),
    /// Becomes a program in its cgroup and on its CPUs; how benchmarks start their children.
    #[command(hide = true)]
    Place {
        #[command(flatten)]
        placing: bench::process::Placing,
        /// The program and its arguments
        #[arg(last = true)]
        program: Vec<OsString>,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.what {
        What::Latency(args) => bench::latency::run(&args),
        What::Cost(args) => bench::cost::run(&args),
        What::Scale(args) => bench::scale::run(&args),
        What::Relay(args) => bench::cost::relay(&args),
        What::Place { placing, program } => Err(bench::process::place(&placing, &program)),
    }
}
