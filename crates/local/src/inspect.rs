//! Looking at the sidecars of a mesh from outside: which there are, what their admin pages say, and
//! what they count for whom. Called by the commands proxy, top and policy. Must never change
//! anything, nor leave the caller's thread in another namespace.

mod edges;
mod page;
mod samples;
mod watch;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::command::{find_instance, state_of};
use crate::folder::Folder;
use crate::name::{MeshName, WorkloadId};
use crate::state::{Running, State};
use crate::written::own_address;

pub use edges::{Edge, Key, Latency, Peer, Protocol, Reading, Services, Totals, rates};
pub use page::Error;
pub use samples::{Sample, parse};
pub use watch::{Look, Watch};

/// Where a sidecar has its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// In a network namespace, which is entered for it.
    Inside {
        /// Where the namespace is mounted.
        namespace: PathBuf,
        /// There.
        address: SocketAddr,
    },
    /// In our own.
    Here(SocketAddr),
}

impl Address {
    /// The address, wherever it is one.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        match self {
            Self::Inside { address, .. } | Self::Here(address) => *address,
        }
    }

    /// The text of a page.
    ///
    /// # Errors
    /// When nobody answers there, or has no such page.
    pub fn text(&self, path: &str) -> Result<String, Error> {
        page::fetch(self, path)
    }

    /// A page that is JSON.
    ///
    /// # Errors
    /// As [`Self::text`], and when it is something else.
    pub fn json(&self, path: &str) -> anyhow::Result<Value> {
        let text = self.text(path)?;
        serde_json::from_str(&text).with_context(|| format!("the page {path} is no JSON"))
    }
}

/// The sidecar of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Whose instance it is.
    pub workload: WorkloadId,
    /// The instance.
    pub instance: WorkloadId,
    /// Its pages; a companion's, where there is an Envoy.
    pub pages: Address,
    /// Whether there is.
    pub envoy: bool,
}

/// The mesh of that name, or the only one.
///
/// # Errors
/// When there is none, several and none is named, or its state cannot be read.
pub fn state(base: &Path, name: Option<&MeshName>) -> anyhow::Result<State> {
    let name = name.map_or_else(|| crate::only(base), |name| Ok(name.clone()))?;
    state_of(base, &name)
}

/// Every sidecar of a mesh that runs, in the order in which instances were made.
#[must_use]
pub fn sidecars(state: &State) -> Vec<Sidecar> {
    state.instances.iter().filter_map(sidecar).collect()
}

/// None where none runs now.
fn sidecar(instance: &Running) -> Option<Sidecar> {
    instance.sidecar.process?;
    Some(Sidecar {
        workload: instance.workload.clone(),
        instance: instance.id.clone(),
        pages: pages(instance)?,
        envoy: instance.envoy,
    })
}

/// Where an instance's sidecar has its pages, or would.
pub(crate) fn pages(instance: &Running) -> Option<Address> {
    let port = intercept::Policy::default().admin_port?;
    Some(match own_address(instance) {
        Some(address) => Address::Here(SocketAddr::new(address, port)),
        None => Address::Inside {
            namespace: instance.netns.clone(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        },
    })
}

/// The sidecar that is meant: of the workload's first ready instance, or of the instance.
///
/// # Errors
/// When there is none, with those that there are.
pub fn find(state: &State, wanted: &WorkloadId) -> anyhow::Result<Sidecar> {
    let instance = find_instance(state, wanted)?;
    sidecar(instance).with_context(|| {
        let name = &instance.id;
        format!("{name} has no sidecar that runs: `leno ps` shows why")
    })
}

/// Asks the control plane of a mesh, over its operator socket.
///
/// # Errors
/// When it does not answer, or refuses.
pub fn ask_control(base: &Path, mesh: &MeshName, path: &str) -> anyhow::Result<Value> {
    let socket = Folder::new(base, mesh).operator();
    let text = page::ask(&socket, path)
        .with_context(|| format!("ask the control plane at {}", socket.display()))?;
    serde_json::from_str(&text).context("the control plane's answer is no JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Instances by name, workload, whether they are ready and whether a sidecar runs.
    fn state(instances: &[(&str, &str, bool, bool)]) -> State {
        let id = |text: &str| json!(text.parse::<WorkloadId>().unwrap());
        let own = json!(crate::process::Identity::own().unwrap());
        let life = |runs: bool| json!({"process": runs.then_some(&own), "restarts": 0});
        let instance = |(name, workload, ready, runs): &(&str, &str, bool, bool)| {
            json!({
                "id": id(name), "workload": id(workload), "ordinal": 0, "offset": 0,
                "generation": 0, "service_account": "a", "user": 1, "addresses": [],
                "netns": format!("/run/netns/leno-demo.{name}"), "cgroups": [],
                "sidecar_cgroups": [], "directory": "/", "has_resolver": true, "since": 0,
                "step": "application", "ready": ready, "sidecar": life(*runs),
            })
        };
        let wanted = |name: &str| json!({"id": id(name), "replicas": 1, "generation": 0});
        let wanted = ["hello", "db.shop"].map(wanted);
        let state = json!({
            "name": "demo", "source": "/mesh.yaml", "trust_domain": "td", "workload_cidrs": [],
            "supervisor": own, "phase": "running", "control": life(true), "control_user": 1,
            "resolver": life(true), "resolver_user": 1,
            "workloads": wanted,
            "instances": instances.iter().map(instance).collect::<Vec<_>>(),
        });
        serde_json::from_value(state).unwrap()
    }

    #[test]
    fn a_workload_stands_for_its_first_ready_instance() {
        let state = state(&[
            ("hello-0", "hello", false, true),
            ("hello-1", "hello", true, true),
            ("db-0.shop", "db.shop", false, false),
        ]);
        let found = |text: &str| {
            let found = find(&state, &text.parse().unwrap());
            found.map(|found| found.instance.to_string())
        };
        assert_eq!(found("hello").unwrap(), "hello-1");
        assert_eq!(found("hello-0").unwrap(), "hello-0");
        let error = found("curl").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no workload curl in demo: take one of hello, db.shop"
        );
        let error = found("db.shop").unwrap_err().to_string();
        assert_eq!(
            error,
            "db-0.shop has no sidecar that runs: `leno ps` shows why"
        );
        let all = sidecars(&state);
        assert_eq!(all.len(), 2);
        let address = "127.0.0.1:15000".parse().unwrap();
        let namespace = "/run/netns/leno-demo.hello-0".into();
        assert_eq!(all[0].pages, Address::Inside { namespace, address });
    }
}
