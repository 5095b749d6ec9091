//! `leno`, the command: parses the arguments and hands over to one file per subcommand.

mod commands;

use clap::{Parser, Subcommand};

/// A service mesh for places where resources are scarce, and the benchmarks that prove it.
#[derive(Parser)]
#[command(name = "leno", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(commands::bench::Args),
    Cert(commands::cert::Args),
    Demo(commands::demo::Args),
    Load(Box<commands::load::Args>),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => commands::bench::run(args),
        Command::Cert(args) => commands::cert::run(args),
        Command::Demo(args) => commands::demo::run(args),
        Command::Load(args) => commands::load::run(*args),
    }
}
