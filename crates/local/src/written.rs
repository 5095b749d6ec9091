//! The files that are written for the control plane, sidecars and applications.
//! Called by the supervisor. Invariant: who reads one sees the old or the new, and nothing between.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use intercept::Policy;
use serde_json::json;

use crate::folder::WorkloadFolder;
use crate::mesh::Workload;
use crate::name::WorkloadId;
use crate::plan::{Placed, Plan};

/// The port of the control plane.
pub(crate) const CONTROL_PORT: u16 = 15128;
/// The port of a sidecar's metrics, which the rules let pass.
const METRICS_PORT: u16 = 15010;

/// Writes a file beside `path` and renames it.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let context = || format!("write {}", path.display());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o644);
    let mut file = options.open(&new).with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    fs::rename(&new, path).with_context(context)
}

/// Where the control plane of `plan` listens.
pub(crate) fn control_addresses(plan: &Plan) -> Vec<SocketAddr> {
    let gateways = plan.gateways.iter();
    gateways
        .map(|addr| SocketAddr::new(*addr, CONTROL_PORT))
        .collect()
}

/// Where a workload lives, as a resource.
pub(crate) fn status(id: &WorkloadId, addresses: &[IpAddr]) -> String {
    // JSON is YAML too, and needs no thought about quotes.
    let resource = json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "WorkloadStatus",
        "metadata": {"name": id.name(), "namespace": id.namespace()},
        "status": {"addresses": addresses},
    });
    format!("{resource:#}\n")
}

/// What a sidecar reads at its start.
pub(crate) fn bootstrap(plan: &Plan, placed: &Placed, folder: &WorkloadFolder) -> String {
    let policy = Policy::default();
    let domain = &plan.trust_domain;
    let Workload {
        id,
        service_account,
        ..
    } = &placed.workload;
    let config = json!({
        "workload": {
            "name": id.name(),
            "namespace": id.namespace(),
            "serviceAccount": service_account,
        },
        "control": {
            "addresses": control_addresses(plan),
            "identity": format!("spiffe://{domain}/ns/leno-system/sa/leno-control"),
            "trustBundle": folder.trust_bundle(),
            "trustDomain": domain,
            "token": "stdin",
            "state": folder.sidecar_home(),
        },
        "dns": policy.dns_port.map(|port| format!("[::]:{port}")),
        "admin": policy.admin_port.map(|port| format!("127.0.0.1:{port}")),
        "metrics": format!("[::]:{METRICS_PORT}"),
    });
    format!("{config:#}\n")
}

/// What an application has for `/etc/resolv.conf`: whoever it asks, its sidecar answers.
pub(crate) fn resolver(plan: &Plan, id: &WorkloadId) -> String {
    let servers = plan
        .gateways
        .iter()
        .map(|addr| format!("nameserver {addr}\n"));
    let servers: String = servers.collect();
    let namespace = id.namespace();
    let domain = "svc.cluster.local";
    format!("{servers}search {namespace}.{domain} {domain} cluster.local\noptions ndots:5\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_its_workload_and_all_addresses() {
        let addresses = ["10.77.0.2", "fd77::2"].map(|addr| addr.parse().unwrap());
        let text = status(&"hello.shop".parse().unwrap(), &addresses);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value["metadata"],
            json!({"name": "hello", "namespace": "shop"})
        );
        assert_eq!(
            value["status"]["addresses"],
            json!(["10.77.0.2", "fd77::2"])
        );
    }

    #[test]
    fn what_is_replaced_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for text in ["one", "two"] {
            replace(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
