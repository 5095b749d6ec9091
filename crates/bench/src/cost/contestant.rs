//! Who takes part in a cost run, and where each program is found.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;

use crate::dataplane::find;

/// A proxy that may take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Contestant {
    /// The relay that only moves bytes.
    Floor,
    /// `leno-proxy`.
    Leno,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
    /// Envoy.
    Envoy,
}

/// What the requests cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One hop without TLS.
    Plain,
    /// Two sidecars, mutual TLS and HTTP/1.1 between them; for the floor two relays without TLS.
    Mtls,
}

/// Programs given by hand instead of found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    pub(crate) proxy: Option<PathBuf>,
    pub(crate) envoy: Option<PathBuf>,
}

impl Contestant {
    /// Every contestant, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::Floor,
        Self::Leno,
        Self::Haproxy,
        Self::Nginx,
        Self::Envoy,
    ];

    /// The word used in tables, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Leno => "leno",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
        }
    }

    /// The program to start.
    ///
    /// # Errors
    /// When it is not installed; the message says how to name it.
    pub(crate) fn program(self, given: &Given) -> anyhow::Result<PathBuf> {
        match self {
            Self::Floor => Ok(env::current_exe()?),
            Self::Leno => find::beside(given.proxy.as_deref(), "leno-proxy"),
            Self::Haproxy | Self::Nginx => {
                in_path(self.name()).with_context(|| format!("{} is not installed", self.name()))
            }
            Self::Envoy => find::envoy(given.envoy.as_deref())?
                .context("envoy is not installed: run make envoy or name it with --envoy"),
        }
    }
}

impl Topology {
    /// Both, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Mtls];

    /// The word used in tables, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mtls => "mtls",
        }
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    // Where distributions put servers, which is not in everybody's path.
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(system)
        .map(|d| d.join(name))
        .find(|f| f.is_file())
}
