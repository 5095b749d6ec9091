//! Looking at the sidecars of a mesh from outside: which there are, what their admin pages say, and
//! what they count for whom. Called by the commands proxy, top and policy. Must never change
//! anything, nor leave the caller's thread in another namespace.

mod edges;
mod page;
mod samples;
mod watch;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::cgroup::Cgroups;
use crate::folder::Folder;
use crate::name::{MeshName, WorkloadId};
use crate::state::State;

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
    /// Whether the instance takes requests.
    pub ready: bool,
    /// Its pages.
    pub pages: Address,
}

/// The mesh of that name, or the only one.
///
/// # Errors
/// When there is none, several and none is named, or its state cannot be read.
pub fn state(base: &Path, name: Option<&MeshName>) -> anyhow::Result<State> {
    let name = name.map_or_else(|| crate::only(base), |name| Ok(name.clone()))?;
    let state = State::load(&Folder::new(base, &name).state())?;
    state
        .with_context(|| format!("there is no mesh {name} here: `leno ps` shows those that are up"))
}

/// Every sidecar of a mesh that runs, in the order of the file.
#[must_use]
pub fn sidecars(state: &State) -> Vec<Sidecar> {
    let Some(port) = intercept::Policy::default().admin_port else {
        return Vec::new();
    };
    let sidecar = |one: &crate::state::Running| {
        let process = one.sidecar.process?;
        Some(Sidecar {
            workload: one.workload.clone(),
            instance: one.id.clone(),
            ready: one.ready && process.is_alive(),
            pages: Address::Inside {
                namespace: one.netns.clone(),
                address: SocketAddr::from(([127, 0, 0, 1], port)),
            },
        })
    };
    state.instances.iter().filter_map(sidecar).collect()
}

/// The sidecar that is meant: of the workload's first ready instance, or of the instance.
///
/// # Errors
/// When there is none, with those that there are.
pub fn find<'a>(sidecars: &'a [Sidecar], wanted: &WorkloadId) -> anyhow::Result<&'a Sidecar> {
    let of_workload = || sidecars.iter().filter(|one| one.workload == *wanted);
    let ready = of_workload().find(|one| one.ready);
    let instance = || sidecars.iter().find(|one| one.instance == *wanted);
    let found = ready.or_else(|| of_workload().next()).or_else(instance);
    if let Some(found) = found {
        return Ok(found);
    }
    if sidecars.is_empty() {
        bail!("no sidecar runs in this mesh: `leno ps` shows what does");
    }
    bail!(
        "there is no sidecar of a workload {wanted}: take one of {}",
        known(sidecars)
    )
}

/// Workloads, each with its instances if these have names of their own.
fn known(sidecars: &[Sidecar]) -> String {
    let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in sidecars {
        let instances = known.entry(&one.workload).or_default();
        if one.instance != one.workload {
            instances.push(one.instance.to_string());
        }
    }
    let shown = known.iter().map(|(workload, instances)| {
        if instances.is_empty() {
            return workload.to_string();
        }
        format!("{workload} ({})", instances.join(", "))
    });
    shown.collect::<Vec<_>>().join(", ")
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

/// Ranges that this machine sends packets to, and by what: `leno up` cannot have them.
///
/// # Errors
/// Without `ip`.
pub fn routes() -> anyhow::Result<Vec<(intercept::Cidr, String)>> {
    crate::network::routes()
}

/// What may be used of control groups here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// 1 or 2: of those that have controllers; none: there are none.
    pub version: Option<u8>,
    /// Whether groups can be made.
    pub writable: bool,
    /// Whether they limit CPU.
    pub cpu: bool,
    /// Whether they limit memory.
    pub memory: bool,
}

impl Groups {
    /// Finds out by making a group as `leno up` does, and removing it.
    #[must_use]
    pub fn find() -> Self {
        let mounted = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounted = |kind: &str| mounted.contains(&format!(" - {kind} "));
        let version = match (mounted("cgroup"), mounted("cgroup2")) {
            (true, _) => Some(1),
            (false, true) => Some(2),
            (false, false) => None,
        };
        let name = format!("check-{}", std::process::id()).parse();
        let groups = name.ok().map(|name| Cgroups::of(&name));
        let made = groups.as_ref().map(|groups| groups.make("probe"));
        let made = made.unwrap_or_default();
        let has = |files: [&str; 2]| {
            let mut paths = made
                .iter()
                .flat_map(|group| files.map(|file| group.join(file)));
            paths.any(|path| path.exists())
        };
        let found = Self {
            version,
            writable: !made.is_empty(),
            cpu: has(["cpu.max", "cpu.cfs_quota_us"]),
            memory: has(["memory.max", "memory.limit_in_bytes"]),
        };
        // What is left of it has nobody in it, and a name of its own.
        groups.map(|groups| groups.remove());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(workload: &str, instance: &str, ready: bool) -> Sidecar {
        Sidecar {
            workload: workload.parse().unwrap(),
            instance: instance.parse().unwrap(),
            ready,
            pages: Address::Here(SocketAddr::from(([127, 0, 0, 1], 1))),
        }
    }

    #[test]
    fn a_workload_stands_for_its_first_ready_instance() {
        let all = [
            sidecar("hello", "hello-0", false),
            sidecar("hello", "hello-1", true),
            sidecar("hello-1", "hello-1-0", true),
            sidecar("db.shop", "db-0.shop", false),
        ];
        let found = |text: &str| {
            let found = find(&all, &text.parse().unwrap()).unwrap();
            found.instance.to_string()
        };
        assert_eq!(found("hello"), "hello-1");
        assert_eq!(found("hello-0"), "hello-0");
        assert_eq!(found("hello-1"), "hello-1-0", "a workload's name wins");
        assert_eq!(found("db.shop"), "db-0.shop", "the only one, ready or not");
        let error = find(&all, &"curl".parse().unwrap()).unwrap_err();
        let expected = "there is no sidecar of a workload curl: take one of hello (hello-0, \
                        hello-1), hello-1 (hello-1-0), db.shop (db-0.shop)";
        assert_eq!(error.to_string(), expected);
    }
}
