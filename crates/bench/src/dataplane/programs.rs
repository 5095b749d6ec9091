//! Where the data planes' programs are, and what makes the load, as options that every experiment
//! has.

use std::path::PathBuf;

use super::command::Definition;
use crate::loader;

/// The programs that take part.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Programs {
    /// leno-proxy [default: beside leno, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub proxy: Option<PathBuf>,
    /// Envoy [default: $LENO_ENVOY, in $PATH, or in .venv]
    #[arg(long, value_name = "PATH")]
    pub envoy: Option<PathBuf>,
    /// HAProxy [default: in $PATH or /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pub haproxy: Option<PathBuf>,
    /// nginx [default: in $PATH or /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pub nginx: Option<PathBuf>,
    /// Pipy [default: in $PATH]
    #[arg(long, value_name = "PATH")]
    pub pipy: Option<PathBuf>,
    /// A data plane of your own: NAME=COMMAND, or a YAML file; repeatable, see docs/bench.md
    #[arg(long, value_name = "PLANE", value_parser = parse_definition)]
    pub command: Vec<Definition>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap reads documentation of flattened fields")]
    pub load: loader::Options,
}

fn parse_definition(text: &str) -> Result<Definition, String> {
    Definition::parse(text).map_err(|error| format!("{error:#}"))
}
