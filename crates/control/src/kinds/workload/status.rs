//! WorkloadStatus: which instances of a Workload there are, where each lives, and whether it is
//! ready. Called by `kinds`. Must never hold an address that others cannot reach.

use std::net::IpAddr;

use yaml::{Fault, Fields, Node, quote};

use super::explicit::{self, Explicit};
use super::sidecar::{self, Sidecar};
use crate::kinds::AccountKey;
use crate::kinds::endpoint_slice::check_reachable;
use crate::kinds::metadata::{self, Metadata};

/// Which instances of a Workload there are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadStatus {
    /// In the order in which they are written; names are unique.
    pub instances: Vec<Instance>,
}

/// One process of a Workload, with its own addresses, sidecar and certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The Workload's own name, or that with `-` and an ordinal.
    pub name: String,
    /// Where it lives; the first of each family is where others reach it.
    pub addresses: Vec<IpAddr>,
    /// Whether it is to be called.
    pub ready: bool,
    /// Under which account it was started, if that is not certain to be the Workload's: this may
    /// have changed since, and its certificate does not.
    pub account: Option<AccountKey>,
    /// With which sidecar it was started, if that is not certain to be the Workload's.
    pub sidecar: Option<Sidecar>,
    /// Where its sidecar listens, if nothing is intercepted: whoever calls it, and it itself, are
    /// told of these. `None`: connections come and go by interception.
    pub explicit: Option<Explicit>,
}

impl WorkloadStatus {
    /// Every address of an instance.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.instances.iter().flat_map(|one| &one.addresses);
        all.copied()
    }
}

pub(in crate::kinds) fn read(node: &Node, metadata: &Metadata) -> Result<WorkloadStatus, Fault> {
    const KEYS: &[&str] = &["instances", "addresses"];
    let fields = Fields::open(node, "a WorkloadStatus's status", KEYS)?;
    let mut status = WorkloadStatus::default();
    match (fields.optional("instances"), fields.optional("addresses")) {
        (Some(list), None) => {
            for node in list.list()? {
                let instance = instance(node, metadata, &status)?;
                status.instances.push(instance);
            }
        }
        (None, Some(list)) => status.instances.push(Instance {
            name: metadata.name.clone(),
            addresses: addresses(list, &status, check_reachable)?,
            ready: true,
            account: None,
            sidecar: None,
            explicit: None,
        }),
        (Some(_), Some(second)) => {
            let hint = "keep `instances`; `addresses` is short for one that has this name";
            return Err(second.fault("both `instances` and `addresses`", hint));
        }
        (None, None) => return fields.required("instances").map(|_| status),
    }
    Ok(status)
}

fn instance(node: &Node, metadata: &Metadata, others: &WorkloadStatus) -> Result<Instance, Fault> {
    const KEYS: &[&str] = &[
        "name",
        "addresses",
        "ready",
        "serviceAccount",
        "sidecar",
        "explicit",
    ];
    let fields = Fields::open(node, "an instance", KEYS)?;
    let named = fields.required("name")?;
    let name = metadata::label(named)?;
    if !is_of(&name, &metadata.name) {
        let message = format!("{} is not the name of an instance of it", quote(&name));
        let hint = format!("write `{0}`, or `{0}-N` with a number", metadata.name);
        return Err(named.fault(message, hint));
    }
    if others.instances.iter().any(|other| other.name == name) {
        return Err(named.fault(format!("{name} is listed twice"), "remove one of them"));
    }
    // Who listens where it says needs no address that is reached from elsewhere.
    let check = match fields.optional("explicit") {
        Some(_) => explicit::check_own,
        None => check_reachable,
    };
    let addresses = addresses(fields.required("addresses")?, others, check)?;
    let explicit = fields.map("explicit", |node| {
        explicit::read(node, &addresses, &metadata.namespace)
    })?;
    Ok(Instance {
        name,
        addresses,
        explicit,
        ready: fields.required("ready")?.switch()?,
        account: fields
            .map("serviceAccount", metadata::subdomain)?
            .map(|account| AccountKey::new(&*metadata.namespace, account)),
        sidecar: fields.map("sidecar", sidecar::read)?,
    })
}

/// The Workload's name, alone or with `-` and a number without zeros before it.
fn is_of(name: &str, workload: &str) -> bool {
    let is_ordinal = |rest: &str| {
        let digits = rest.bytes().all(|byte| byte.is_ascii_digit());
        digits && !rest.is_empty() && (rest == "0" || !rest.starts_with('0'))
    };
    match name.strip_prefix(workload) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_ordinal),
        None => false,
    }
}

fn addresses(
    list: &Node,
    others: &WorkloadStatus,
    check: fn(&Node, IpAddr) -> Result<(), Fault>,
) -> Result<Vec<IpAddr>, Fault> {
    let mut addresses = Vec::new();
    for node in list.list()? {
        let address = node.ip()?;
        check(node, address)?;
        if addresses.contains(&address) || others.addresses().any(|other| other == address) {
            return Err(node.fault(format!("{address} is listed twice"), "remove one of them"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}
