//! `leno-control`: parses the command line and runs the control plane.

use clap::Parser;
use control::options::Options;
use std::process::ExitCode;

/// What thousands of sidecars take when all come at once is given back when they have it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let options = Options::parse();
    control::log::set_level(options.log_level.into());
    match control::app::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leno-control: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
