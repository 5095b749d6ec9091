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
    #[command(mut_arg("connections", |arg| arg.help(LATENCY_CONNECTIONS)))]
    Latency(bench::options::Args),
    /// CPU of the sidecars, in all and for each request, against the rate.
    #[command(mut_arg("qps", |arg| arg.help(CPU_RATES)))]
    Cpu(bench::options::Args),
    /// Requests per second of the bookinfo sample, and what sidecars with little CPU make of them.
    #[command(mut_arg("duration", |arg| arg.help(THROUGHPUT_DURATION)))]
    #[command(mut_arg("warmup", |arg| arg.help(THROUGHPUT_WARMUP)))]
    Throughput(bench::throughput::Args),
    /// The highest rate that keeps a latency objective, by search.
    #[command(mut_arg("qps", |arg| arg.help(FIRST_RATE)))]
    Capacity(bench::capacity::Args),
    /// CPU per request, rate and memory of Leno, HAProxy, nginx and Envoy against a bare relay.
    Cost(bench::cost::Args),
    /// Memory, CPU and delays of a control plane with thousands of sidecars.
    Scale(bench::scale::Args),
    /// Makes pages, tables and figures anew from the raw data of runs.
    Report(bench::report::again::Args),
    /// Says what changed between two runs beyond their noise.
    Compare(bench::compare::Args),
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

// Options are shared, but not what they are unless given.
const LATENCY_CONNECTIONS: &str = "Connections of the generator [default: 2,4,8,16,32,64]";
const THROUGHPUT_DURATION: &str =
    "Length of each measured window, e.g. 30, 2.5s or 4m [default: 5m]";
const THROUGHPUT_WARMUP: &str = "Load before each window [default: 2m]";
const FIRST_RATE: &str = "Requests per second that the search begins with [default: 1000]";
const CPU_RATES: &str = "Requests per second over all connections, or max for a closed loop \
                         [default: 10,100,200,400,800,1000,2000,3000]";

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.what {
        What::Latency(args) => bench::latency::run(&args),
        What::Cpu(args) => bench::cpu::run(&args),
        What::Throughput(args) => bench::throughput::run(&args),
        What::Capacity(args) => bench::capacity::run(&args),
        What::Cost(args) => bench::cost::run(&args),
        What::Scale(args) => bench::scale::run(&args),
        What::Report(args) => bench::report::again::run(&args),
        What::Compare(args) => bench::compare::run(&args),
        What::Relay(args) => bench::cost::relay(&args),
        What::Place { placing, program } => Err(bench::process::place(&placing, &program)),
    }
}
