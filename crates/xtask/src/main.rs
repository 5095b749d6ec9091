//! `cargo xtask`: the chores of this repository, one file per verb. The Makefile is a menu over it.
//! Nothing here is shipped, and nothing that is shipped may depend on it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{
    benchmarks, dist, doctor, fields, fuzz, interop, outputs, qemu, repository, soak, test, tidy,
};

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check what no compiler checks: sizes, names, the dependency graph, documents
    Tidy,
    /// Say which optional tools are here and what is skipped without them
    Doctor,
    /// Run every check and test, one after the other, and sum up
    Test(test::Args),
    /// Fill in what the programs print where documents show it
    Outputs(outputs::Args),
    /// Write the page about fields of xDS, docs/xds-fields.md
    Fields,
    /// Build static binaries for x86-64 and aarch64 into dist/
    Dist(dist::Args),
    /// Run the proxy's HTTP/1 and TLS tests against the aarch64 proxy under qemu
    Qemu(qemu::Args),
    /// Look for inputs that break what reads bytes from peers
    Fuzz(fuzz::Args),
    /// Keep one sidecar pair under changing load and watch it for lost requests and growth
    Soak(soak::Args),
    /// Run every experiment of docs/benchmarks.md and fill it with their results
    Benchmarks(benchmarks::Args),
    /// Have real clients and servers talk through a pair of sidecars
    Interop(interop::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> anyhow::Result<()> {
    let root = repository::root();
    match verb {
        Verb::Tidy => tidy::run(&root),
        Verb::Doctor => {
            doctor::print();
            Ok(())
        }
        Verb::Test(args) => test::run(&root, &args),
        Verb::Outputs(args) => outputs::run(&root, &args),
        Verb::Fields => fields::run(&root),
        Verb::Dist(args) => dist::run(&root, &args),
        Verb::Qemu(args) => qemu::run(&root, &args),
        Verb::Fuzz(args) => fuzz::run(&root, &args),
        Verb::Soak(args) => soak::run(&root, &args),
        Verb::Benchmarks(args) => benchmarks::run(&root, &args),
        Verb::Interop(args) => interop::run(&root, &args),
    }
}
