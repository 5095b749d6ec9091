//! MeshConfig: what holds for the mesh as a whole. Called by `kinds`.
//! Must never accept ranges of which one address could be two things.

use identity::SpiffeId;
use yaml::{Fault, Fields, Node, quote};

use super::metadata::Metadata;
use super::workload::sidecar;
use super::{Cidr, DataPlane, Mode, cidr, workload};

/// What holds for the mesh as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// The part of a SPIFFE id between `spiffe://` and the first slash.
    pub trust_domain: String,
    /// Who may call workloads that do not say it themselves.
    pub mode: Mode,
    /// What sidecars are whose Workloads do not say it themselves.
    pub data_plane: DataPlane,
    /// Whether workloads may call what is not in the mesh.
    pub egress: bool,
    /// Services are given addresses from these, one of each family.
    pub service_cidrs: Vec<Cidr>,
    /// Workloads are given addresses from these.
    pub workload_cidrs: Vec<Cidr>,
}

/// There is one mesh, and so one name for what holds for it.
const NAME: &str = "mesh";

const KEYS: &[&str] = &[
    "trustDomain",
    "mode",
    "dataPlane",
    "egress",
    "serviceCIDRs",
    "workloadCIDRs",
];

impl Default for MeshConfig {
    fn default() -> Self {
        let ranges = |texts: [&str; 2]| {
            let range = |text: &str| text.parse().expect("the default is a range");
            texts.map(range).to_vec()
        };
        Self {
            trust_domain: "cluster.local".to_owned(),
            mode: Mode::Permissive,
            data_plane: DataPlane::Leno,
            egress: true,
            service_cidrs: ranges(["10.78.0.0/16", "fd78::/112"]),
            workload_cidrs: ranges(["10.77.0.0/16", "fd77::/112"]),
        }
    }
}

pub(super) fn read(fields: &Fields<'_>, metadata: &Metadata) -> Result<MeshConfig, Fault> {
    if metadata.name != NAME {
        let message = format!("a MeshConfig named {}", quote(&metadata.name));
        let hint = format!("there is one for the whole mesh: write `name: {NAME}`");
        return Err(Fault::new(metadata.place, message, hint));
    }
    let default = MeshConfig::default();
    let node = fields.required("spec")?;
    let spec = Fields::open(node, "a MeshConfig's spec", KEYS)?;
    let config = MeshConfig {
        trust_domain: spec
            .map("trustDomain", trust_domain)?
            .unwrap_or(default.trust_domain),
        mode: spec.map("mode", workload::mode)?.unwrap_or_default(),
        data_plane: spec
            .map("dataPlane", sidecar::data_plane)?
            .unwrap_or_default(),
        egress: spec.map("egress", Node::switch)?.unwrap_or(default.egress),
        service_cidrs: spec
            .map("serviceCIDRs", cidrs)?
            .unwrap_or(default.service_cidrs),
        workload_cidrs: spec
            .map("workloadCIDRs", cidrs)?
            .unwrap_or(default.workload_cidrs),
    };
    check_apart(node, &config)?;
    Ok(config)
}

fn check_apart(node: &Node, config: &MeshConfig) -> Result<(), Fault> {
    for service in &config.service_cidrs {
        if let Some(workload) = config
            .workload_cidrs
            .iter()
            .find(|cidr| cidr.overlaps(service))
        {
            let message =
                format!("{service} of `serviceCIDRs` overlaps {workload} of `workloadCIDRs`");
            return Err(node.fault(message, "choose ranges that are apart"));
        }
    }
    Ok(())
}

fn trust_domain(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    match SpiffeId::parse(&format!("spiffe://{word}")) {
        Ok(id) if id.path().is_empty() => Ok(word.to_owned()),
        _ => {
            let hint = "lower-case letters, digits and - _ . only, without spiffe://";
            Err(node.fault(format!("{} is not a trust domain", quote(word)), hint))
        }
    }
}

/// One range of each family, at least one in all.
fn cidrs(node: &Node) -> Result<Vec<Cidr>, Fault> {
    let mut cidrs: Vec<Cidr> = Vec::new();
    for node in node.list()? {
        let cidr = cidr::read(node)?;
        if cidrs.iter().any(|other| other.is_ipv6() == cidr.is_ipv6()) {
            let hint = "keep one range of IPv4 and one of IPv6";
            return Err(node.fault("a second range of one family", hint));
        }
        cidrs.push(cidr);
    }
    if cidrs.is_empty() {
        return Err(node.fault("no range is listed", "remove the key for its default"));
    }
    Ok(cidrs)
}
