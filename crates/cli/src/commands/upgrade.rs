//! `leno upgrade`.

use std::path::PathBuf;

use local::name::WorkloadId;
use local::{Programs, command};

use super::progress;
use super::up::Chosen;

/// Have newer programs take over from those that run, without a connection lost.
///
/// Sidecars one after the other: each takes the listening sockets of the one before, which serves
/// on until the new one is ready, and then brings to an end what it carries. The first that cannot
/// leaves everything after it as it was. Instances whose data plane is envoy are replaced, as by
/// `leno restart`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose sidecars: workloads or instances [default: all]
    workloads: Vec<WorkloadId>,
    /// The new leno-proxy [default: what is now where the old one was]
    #[arg(long, value_name = "PATH")]
    proxy: Option<PathBuf>,
    /// The new leno-control [default: the control plane goes on]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// The new Envoy, for workloads with `dataPlane: envoy` [default: the one that there was]
    #[arg(long, value_name = "PATH")]
    envoy: Option<PathBuf>,
    #[command(flatten)]
    mesh: Chosen,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let (base, name) = args.mesh.find()?;
    let programs = Programs {
        control: args.control,
        proxy: args.proxy,
        envoy: args.envoy,
    };
    command::upgrade(
        (base, &name),
        &programs,
        &args.workloads,
        &mut progress::show,
    )
}
