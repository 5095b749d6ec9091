//! `leno-control`: parses the command line and runs the control plane.

use clap::Parser;
use control::options::Options;
use std::process::ExitCode;

/// What thousands of sidecars take when all come at once is given back when they have it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Its settings, where it looks for them by itself, whoever builds this from wherever: one arena,
/// and what is free goes back to the machine within a second (ADR 0020). Ends with a zero.
#[expect(
    unsafe_code,
    reason = "jemalloc declares this very name for a pointer to text"
)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_SETTINGS: &[u8; 47] = b"narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0\0";

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
