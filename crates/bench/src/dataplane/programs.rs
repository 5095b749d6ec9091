//! Where the data planes' programs are, as options that every experiment has.

use std::path::PathBuf;

/// Where the data planes' programs are.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Programs {
    /// leno-proxy [default: beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub proxy: Option<PathBuf>,
    /// Envoy [default: $LENO_ENVOY, in $PATH, or in .venv]
    #[arg(long, value_name = "PATH")]
    pub envoy: Option<PathBuf>,
}
