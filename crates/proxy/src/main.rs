//! `leno-proxy`: parses the command line and runs the sidecar.

use clap::Parser;
use proxy::options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(error) = proxy::envoy::become_envoy(std::env::args_os()) {
        eprintln!("leno-proxy: error: {error:#}");
        return ExitCode::FAILURE;
    }
    let options = Options::parse();
    proxy::log::set_level(options.log_level.into());
    match proxy::app::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leno-proxy: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
