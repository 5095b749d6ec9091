//! `leno proxy`: what a sidecar really runs, from its own admin pages. Called by `main`; one file
//! per page. Must never change anything in a sidecar.

mod certs;
mod clusters;
mod config;
mod envoy;
mod listeners;
mod pages;
mod routes;
mod stats;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, bail};
use local::inspect::{self, Address};
use local::name::{MeshName, WorkloadId};

use super::up::Place;
use crate::output::Output;

/// Show what a sidecar really runs: what it was told, whom it trusts, what it counts.
///
/// Asks the sidecar itself, inside the workload's network namespace, which takes root. A workload
/// stands for its first ready instance; `hello-1` is that instance. A sidecar that runs by itself
/// is asked by --port or --address, without root and without a mesh. Where the data plane is Envoy
/// it is asked through its companion; -o json and -o yaml show its pages as they are.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    page: Page,
}

#[derive(clap::Subcommand)]
enum Page {
    /// What it is: workload, identity, control plane, addresses
    ///
    /// With -o json or -o yaml, the whole configuration in force.
    Config(Whose),
    /// Where its requests go: clusters with their endpoints, health, transport and identities
    Clusters(Whose),
    /// Where its connections come in: listeners with address, direction, TLS mode and protocol
    Listeners(Whose),
    /// Which requests go where: host, path, cluster, share, and who may send them
    Routes(Whose),
    /// Who it is and whom it trusts: certificate, issuer, validity, trust bundle
    Certs(Whose),
    /// What it counts, see docs/metrics.md
    Stats(Stats),
}

/// Which sidecar.
#[derive(clap::Args)]
struct Whose {
    /// The workload, or one instance: NAME, or NAME.NAMESPACE
    #[arg(required_unless_present_any = ["port", "address"])]
    workload: Option<WorkloadId>,
    /// The mesh [default: the only one]
    #[arg(long, conflicts_with_all = ["port", "address"])]
    name: Option<MeshName>,
    /// Admin port of a sidecar on this machine's loopback, without a mesh
    #[arg(long, conflicts_with_all = ["workload", "address"])]
    port: Option<u16>,
    /// Admin address of a sidecar, without a mesh
    #[arg(long, value_name = "IP:PORT", conflicts_with = "workload")]
    address: Option<SocketAddr>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

/// Which sidecar, and what of its counters.
#[derive(clap::Args)]
struct Stats {
    #[command(flatten)]
    whose: Whose,
    /// Only metrics with this in their name or in a label
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
}

impl Whose {
    fn pages(&self) -> anyhow::Result<Address> {
        if let Some(port) = self.port {
            return Ok(Address::Here(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        if let Some(address) = self.address {
            return Ok(Address::Here(address));
        }
        let wanted = self.workload.as_ref().context("name a workload")?;
        let state = inspect::state(&self.place.runtime, self.name.as_ref())?;
        let pages = inspect::find(&state, wanted)?.pages;
        check_reachable(&pages)?;
        Ok(pages)
    }
}

/// Entering a namespace takes it; the mesh's names may be read by everybody.
pub(super) fn check_reachable(pages: &Address) -> anyhow::Result<()> {
    let is_inside = matches!(pages, Address::Inside { .. });
    if is_inside && !rustix::process::geteuid().is_root() {
        bail!(
            "a workload's network namespace may be entered by root alone: run it with sudo, or ask \
             a sidecar that is reached without by --port or --address"
        );
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.page {
        Page::Config(whose) => config::show(&whose.pages()?, whose.output),
        Page::Clusters(whose) => clusters::show(&whose.pages()?, whose.output),
        Page::Listeners(whose) => listeners::show(&whose.pages()?, whose.output),
        Page::Routes(whose) => routes::show(&whose.pages()?, whose.output),
        Page::Certs(whose) => certs::show(&whose.pages()?, whose.output),
        Page::Stats(stats) => {
            let whose = &stats.whose;
            stats::show(&whose.pages()?, whose.output, &stats.filter)
        }
    }
}

/// A page as what we understand of it.
fn read<T: serde::de::DeserializeOwned>(page: serde_json::Value) -> anyhow::Result<T> {
    serde_json::from_value(page)
        .context("the sidecar's page is not as this leno knows it: are both of one version?")
}
