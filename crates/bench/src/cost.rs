//! `leno bench cost`: CPU per request, rate, memory and start-up of Leno against the floor and
//! others.
//! Called by the command; starts every process itself, on loopback only, and ends each of them.

pub mod contestant;
pub mod floor;
pub mod interval;
pub mod outcome;
pub mod ratio;

mod config;
mod drive;
mod instructions;
mod latency;
mod memory;
mod netns;
mod pki;
mod probe;
mod process;
mod rounds;
mod subject;
mod tables;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use contestant::{Contestant, Topology};
pub use outcome::Outcome;

use contestant::Given;

/// Options of `leno bench cost`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Contestants that take part (default: all that are installed).
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Contestant>,
    /// Topologies to measure (default: both).
    #[arg(long, value_delimiter = ',')]
    pub topology: Vec<Topology>,
    /// Connections of the closed loop.
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Bytes of an answer's body.
    #[arg(long, default_value_t = 1024)]
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
    /// Also measure what is added to the median latency at 1,000 requests per second.
    #[arg(long)]
    pub latency: bool,
    /// Also measure memory with 200 connections and per further idle connection.
    #[arg(long)]
    pub memory: bool,
    /// Also count instructions per request, with callgrind.
    #[arg(long)]
    pub instructions: bool,
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

/// Runs the comparison and prints its tables.
///
/// # Errors
/// When no contestant can be started, or a window cannot be measured.
pub fn run(args: &Args) -> anyhow::Result<()> {
    netns::enter()?;
    process::raise_descriptors();
    let mut outcome = rounds::run(&Plan::of(args))?;
    outcome.ratios = ratio::all(&outcome);
    println!("{}", tables::render(&outcome));
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&outcome)?)?;
    }
    Ok(())
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

/// The options with defaults resolved.
pub(crate) struct Plan {
    pub(crate) contestants: Vec<Contestant>,
    /// Whether the contestants were named: then one that is missing is an error.
    pub(crate) named: bool,
    pub(crate) topologies: Vec<Topology>,
    pub(crate) connections: usize,
    pub(crate) size: usize,
    pub(crate) window: Duration,
    pub(crate) rounds: u32,
    pub(crate) latency: bool,
    pub(crate) memory: bool,
    pub(crate) instructions: bool,
    pub(crate) given: Given,
    pub(crate) seed: u64,
}

impl Plan {
    fn of(args: &Args) -> Self {
        let or_all = |chosen: &[Contestant], all: &[Contestant]| {
            if chosen.is_empty() {
                all.to_vec()
            } else {
                chosen.to_vec()
            }
        };
        Self {
            contestants: or_all(&args.only, &Contestant::ALL),
            named: !args.only.is_empty(),
            topologies: if args.topology.is_empty() {
                Topology::ALL.to_vec()
            } else {
                args.topology.clone()
            },
            connections: args.connections,
            size: args.size,
            window: Duration::from_secs_f64(if args.quick { 1.0 } else { args.duration }),
            rounds: if args.quick { 3 } else { args.rounds },
            latency: args.latency,
            memory: args.memory,
            instructions: args.instructions,
            given: Given {
                proxy: args.proxy.clone(),
                envoy: args.envoy.clone(),
            },
            seed: args.seed,
        }
    }
}
