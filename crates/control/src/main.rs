//! `leno-control`: parses the command line and runs the control plane.

use clap::Parser;
use control::options::Options;
use std::process::ExitCode;

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
