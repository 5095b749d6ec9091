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
    Down(commands::down::Args),
    Exec(commands::exec::Args),
    Load(Box<commands::load::Args>),
    Ps(commands::ps::Args),
    Up(commands::up::Args),
    #[command(hide = true)]
    Workload(commands::workload::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Bench(args) => commands::bench::run(args),
        Command::Cert(args) => commands::cert::run(args),
        Command::Demo(args) => commands::demo::run(args),
        Command::Down(args) => commands::down::run(args),
        Command::Exec(args) => commands::exec::run(&args),
        Command::Load(args) => commands::load::run(*args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Up(args) => commands::up::run(args),
        Command::Workload(args) => commands::workload::run(&args),
    }
}
