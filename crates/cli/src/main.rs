//! `leno`, the command: parses the arguments and hands over to one file per subcommand.

mod commands;
mod examples;
mod output;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// A service mesh for places where resources are scarce, and the benchmarks that prove it.
#[derive(Parser)]
#[command(name = "leno", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(Box<commands::bench::Args>),
    Cert(commands::cert::Args),
    Check(commands::check::Args),
    Completion(commands::completion::Args),
    Demo(commands::demo::Args),
    Down(commands::down::Args),
    Exec(commands::exec::Args),
    Load(Box<commands::load::Args>),
    Logs(commands::logs::Args),
    Man(commands::man::Args),
    Policy(commands::policy::Args),
    Proxy(commands::proxy::Args),
    Ps(commands::ps::Args),
    Restart(commands::restart::Args),
    Top(commands::top::Args),
    Up(commands::up::Args),
    Upgrade(commands::upgrade::Args),
    #[command(hide = true)]
    Workload(commands::workload::Args),
}

fn main() -> ExitCode {
    let matches = examples::add(Cli::command()).get_matches();
    let parsed = Cli::from_arg_matches(&matches);
    let cli = parsed.unwrap_or_else(|error| error.format(&mut Cli::command()).exit());
    run(cli.command).unwrap_or_else(|error| {
        complain(&error);
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Bench(args) => commands::bench::run(*args)?,
        Command::Cert(args) => commands::cert::run(args)?,
        Command::Check(args) => return commands::check::run(&args),
        Command::Completion(args) => commands::completion::run(&args, for_people())?,
        Command::Demo(args) => commands::demo::run(args)?,
        Command::Down(args) => commands::down::run(args)?,
        Command::Exec(args) => commands::exec::run(&args)?,
        Command::Load(args) => commands::load::run(*args)?,
        Command::Logs(args) => commands::logs::run(&args)?,
        Command::Man(args) => commands::man::run(&args, for_people())?,
        Command::Policy(args) => return Ok(commands::policy::run(&args)),
        Command::Proxy(args) => commands::proxy::run(&args)?,
        Command::Ps(args) => commands::ps::run(&args)?,
        Command::Restart(args) => commands::restart::run(&args)?,
        Command::Top(args) => commands::top::run(&args)?,
        Command::Up(args) => commands::up::run(args)?,
        Command::Upgrade(args) => commands::upgrade::run(args)?,
        Command::Workload(args) => commands::workload::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what went wrong, then why, each reason on a line of its own, unless it was said already.
fn complain(error: &anyhow::Error) {
    let mut said = error.to_string();
    eprintln!("Error: {said}");
    for reason in error.chain().skip(1).map(ToString::to_string) {
        if !said.contains(&reason) {
            eprintln!("  because: {reason}");
        }
        said = reason;
    }
}

/// The options with their examples, without the commands that nobody types.
fn for_people() -> clap::Command {
    let all = examples::add(Cli::command());
    let (shown, _): (Vec<_>, Vec<_>) = all
        .get_subcommands()
        .cloned()
        .partition(|inner| !inner.is_hide_set());
    let about = all.get_about().cloned().unwrap_or_default();
    clap::Command::new("leno")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about(about)
        .after_help(all.get_after_help().cloned().unwrap_or_default())
        .subcommand_required(true)
        .subcommands(shown)
}
