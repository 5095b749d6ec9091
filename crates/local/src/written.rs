//! The files that are written for the control plane, sidecars and applications.
//! Called by the supervisor. Invariant: who reads one sees the old or the new, and nothing between.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use intercept::Policy;
use serde_json::json;

use crate::folder::Folder;
use crate::inspect;
use crate::name::WorkloadId;
use crate::plan::Ground;
use crate::state::Running;

/// The port of the control plane.
pub(crate) const CONTROL_PORT: u16 = 15128;
/// The port of what answers for names of other machines.
const RESOLVER_PORT: u16 = 15054;
/// The socket on which a sidecar hands over, in a folder of its own.
const HANDOVER: &str = "s";
/// The port of a sidecar's metrics, which the rules let pass.
const METRICS_PORT: u16 = 15010;

/// Writes a file beside `path` and renames it.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, text, 0o644)
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let context = || format!("write {}", path.display());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(mode);
    let mut file = options.open(&new).with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    fs::rename(&new, path).with_context(context)
}

/// Writes a file that nobody but root may read.
pub(crate) fn replace_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, text, 0o600)
}

/// Where the control plane of a mesh listens.
pub(crate) fn control_addresses(ground: &Ground) -> Vec<SocketAddr> {
    addresses(ground, CONTROL_PORT)
}

/// Where names of other machines are asked for.
pub(crate) fn resolver_addresses(ground: &Ground) -> Vec<SocketAddr> {
    addresses(ground, RESOLVER_PORT)
}

fn addresses(ground: &Ground, port: u16) -> Vec<SocketAddr> {
    let gateways = ground.gateways().into_iter();
    gateways.map(|addr| SocketAddr::new(addr, port)).collect()
}

/// Where the instances of a workload live, as a resource.
pub(crate) fn status(id: &WorkloadId, instances: &[&Running]) -> String {
    let instance = |one: &&Running| {
        let mut told = json!({
            "name": one.id.name(), "addresses": one.addresses, "ready": one.ready,
        });
        if let Some(explicit) = &one.explicit {
            told["explicit"] = explicit.describe();
        }
        told
    };
    let instances: Vec<_> = instances.iter().map(instance).collect();
    // JSON is YAML too, and needs no thought about quotes.
    let resource = json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "WorkloadStatus",
        "metadata": {"name": id.name(), "namespace": id.namespace()},
        "status": {"instances": instances},
    });
    format!("{resource:#}\n")
}

/// What the sidecar of an instance reads at its start; a companion's with Envoy's program.
pub(crate) fn bootstrap(
    ground: &Ground,
    one: &Running,
    folder: &Folder,
    envoy: Option<&Path>,
) -> String {
    let policy = Policy::default();
    let domain = &ground.trust_domain;
    let own = folder.instance(&one.id);
    let mut config = json!({
        "workload": {
            "name": one.id.name(),
            "namespace": one.id.namespace(),
            "serviceAccount": one.service_account,
        },
        "control": {
            "addresses": control_addresses(ground),
            "identity": format!("spiffe://{domain}/ns/leno-system/sa/leno-control"),
            "trustBundle": own.trust_bundle(),
            "trustDomain": domain,
            "token": "stdin",
            "state": own.sidecar_home(),
        },
        "admin": inspect::pages(one).map(|pages| pages.address()),
        "metrics": SocketAddr::new(
            own_address(one).unwrap_or_else(|| Ipv6Addr::UNSPECIFIED.into()),
            METRICS_PORT,
        ),
    });
    match envoy {
        // It has no sockets that another could be given.
        Some(program) => {
            config["envoy"] = json!({"program": program, "folder": folder.envoy(one.offset)});
        }
        None => config["handover"] = json!(folder.handover(one.offset).join(HANDOVER)),
    }
    // Nobody asks a sidecar for names who is told where to call.
    if let Some(port) = policy.dns_port.filter(|_| !ground.is_explicit) {
        config["dns"] = json!({
            "listen": format!("[::]:{port}"),
            "forward": resolver_addresses(ground),
        });
    }
    format!("{config:#}\n")
}

/// The address that tells an instance from others where it shares the machine's with them.
pub(crate) fn own_address(one: &Running) -> Option<IpAddr> {
    let first = one.addresses.first().copied();
    first.filter(|_| one.explicit.is_some())
}

/// What the process reads that answers for names of other machines.
pub(crate) fn resolver_config(ground: &Ground) -> String {
    let dns = json!({"listen": resolver_addresses(ground), "forward": "system"});
    format!("{:#}\n", json!({"dns": dns}))
}

/// What an application has for `/etc/resolv.conf`: whoever it asks, its sidecar answers.
pub(crate) fn resolver(ground: &Ground, id: &WorkloadId) -> String {
    let gateways = ground.gateways();
    let servers = gateways.iter().map(|addr| format!("nameserver {addr}\n"));
    let servers: String = servers.collect();
    let namespace = id.namespace();
    let domain = "svc.cluster.local";
    format!("{servers}search {namespace}.{domain} {domain} cluster.local\noptions ndots:5\n")
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn what_is_secret_is_so_though_the_file_was_there() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("template.json");
        fs::write(&path, "").unwrap();
        replace_secret(&path, "secret").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
