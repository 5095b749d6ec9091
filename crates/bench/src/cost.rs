//! `leno bench cost`: CPU per request, rate, memory and start-up of Leno against the floor and
//! others.
//! Called by the command; starts every process itself, on loopback only, and ends each of them.

pub mod cell;
pub mod contestant;
pub mod cores;
pub mod floor;
pub mod interval;
pub mod must;
pub mod outcome;
pub mod ratio;

mod plan;

mod config;
mod far;
mod link;
mod module;
pub(crate) mod netns;
mod probe;
mod process;
mod subject;

mod drive;
mod rounds;

mod h2load;
mod instructions;
mod latency;
mod lossy;
mod memory;
mod mixed;

mod tables;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use cell::{Placement, Protocol, Topology};
pub use contestant::Contestant;
pub use outcome::Outcome;

use outcome::Setting;
use plan::Plan;
pub(crate) use process::raise_descriptors;

/// Options of `leno bench cost`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Contestants that take part (default: all that are installed).
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Contestant>,
    /// What the application speaks (default: http1).
    #[arg(long, value_delimiter = ',')]
    pub protocol: Vec<Protocol>,
    /// Topologies to measure (default: both).
    #[arg(long, value_delimiter = ',')]
    pub topology: Vec<Topology>,
    /// Where the proxies of a pair run (default: shared).
    #[arg(long, value_delimiter = ',')]
    pub placement: Vec<Placement>,
    /// Connections of the closed loop, a cell for each (default: 64; http2 and grpc: 10 and 1).
    #[arg(long, value_delimiter = ',')]
    pub connections: Vec<usize>,
    /// Requests in flight on each connection of http2 and grpc; lists are paired with
    /// --connections in order (default: 10 and 100).
    #[arg(long, value_delimiter = ',')]
    pub streams: Vec<usize>,
    /// Bytes of an answer's body, with grpc and tcp also of the request's; from 1MiB on, bytes per
    /// CPU second are compared.
    #[arg(long, visible_alias = "payload", value_name = "BYTES", default_value = "1024",
        value_parser = plan::bytes)]
    pub size: usize,
    /// Seconds of one window.
    #[arg(long, default_value_t = 2.0)]
    pub duration: f64,
    /// Rounds; in each, every contestant has one window, in random order.
    #[arg(long, default_value_t = 10)]
    pub rounds: u32,
    /// Three rounds of one second: a glance, not a verdict.
    #[arg(long)]
    pub quick: bool,
    /// Also measure what is added to the latency at 1,000 requests per second.
    #[arg(long)]
    pub latency: bool,
    /// Also measure memory with 200 connections and per further idle connection.
    #[arg(long)]
    pub memory: bool,
    /// Also count instructions per request, with callgrind.
    #[arg(long)]
    pub instructions: bool,
    /// Also measure a pair with a slow and lossy link in between; needs root.
    #[arg(long)]
    pub netem: bool,
    /// Also measure small requests beside one with a huge body on the same pair.
    #[arg(long)]
    pub mixed: bool,
    /// Also put h2load on each cell of http2, to confirm ours.
    #[arg(long)]
    pub h2load: bool,
    /// The leno-proxy to measure (default: beside leno, or in $PATH).
    #[arg(long)]
    pub proxy: Option<PathBuf>,
    /// The envoy to measure (default: $LENO_ENVOY, in $PATH, or in .venv).
    #[arg(long)]
    pub envoy: Option<PathBuf>,
    /// Also write the outcome as JSON to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Seed of the order within rounds.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Options of `leno bench relay`, the floor as a process.
#[derive(Debug, clap::Args)]
pub struct RelayArgs {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Address that each accepted connection is joined to.
    #[arg(long)]
    pub to: SocketAddr,
    /// Congestion control of its sockets.
    #[arg(long, default_value = "cubic")]
    pub congestion: String,
}

/// Runs the comparison and prints its tables; after a failure, those of what was measured before.
///
/// # Errors
/// When no contestant can be started, or a window cannot be measured.
pub fn run(args: &Args) -> anyhow::Result<()> {
    netns::enter()?;
    process::raise_descriptors();
    let plan = Plan::of(args)?;
    let mut outcome = Outcome::new(Setting::of(&plan));
    let measured = rounds::run(&plan, &mut outcome);
    if !outcome.rows.is_empty() {
        outcome.ratios = ratio::all(&outcome);
        println!("{}", tables::render(&outcome));
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&outcome)?)?;
    }
    measured
}

/// Runs the floor's relay until it is killed.
///
/// # Errors
/// When the address cannot be bound.
pub fn relay(args: &RelayArgs) -> anyhow::Result<()> {
    let ready = |address: SocketAddr| {
        let pid = std::process::id();
        println!(r#"{{"event":"ready","pid":{pid},"address":"{address}"}}"#);
    };
    Ok(floor::relay(args.listen, args.to, &args.congestion, ready)?)
}
