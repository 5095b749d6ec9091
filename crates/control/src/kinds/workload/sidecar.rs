//! What a Workload's sidecar is to do, if there is to be one. Called by the Workload's reader.

use yaml::{Fault, Fields, Node};

use super::quantity::{self, Limits};

/// What a Workload's sidecar is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Whether there is one.
    pub enabled: bool,
    /// Which connections go through it. Invariant: `None` unless `enabled`.
    pub interception: Interception,
    /// What it is; `None` leaves it to the mesh.
    pub data_plane: Option<DataPlane>,
    /// What it may use.
    pub limits: Limits,
}

/// The program that carries a Workload's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataPlane {
    /// `leno-proxy`.
    #[default]
    Leno,
    /// A stock Envoy, with `leno-proxy` as its companion.
    Envoy,
}

/// Which connections of a Workload go through its sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interception {
    /// All.
    #[default]
    Both,
    /// Those that are made to it.
    Inbound,
    /// Those that it makes.
    Outbound,
    /// None of them.
    None,
}

impl Default for Sidecar {
    fn default() -> Self {
        Self {
            enabled: true,
            interception: Interception::Both,
            data_plane: None,
            limits: Limits::default(),
        }
    }
}

impl Sidecar {
    /// Whether connections to the Workload reach the sidecar first, so that they may come with mesh
    /// TLS.
    #[must_use]
    pub const fn is_inbound(&self) -> bool {
        let inbound = matches!(
            self.interception,
            Interception::Both | Interception::Inbound
        );
        self.enabled && inbound
    }
}

pub(super) fn read(node: &Node) -> Result<Sidecar, Fault> {
    const KEYS: &[&str] = &["enabled", "interception", "dataPlane", "resources"];
    let fields = Fields::open(node, "a Workload's sidecar", KEYS)?;
    let enabled = fields.map("enabled", Node::switch)?.unwrap_or(true);
    let words = [
        ("both", Interception::Both),
        ("inbound", Interception::Inbound),
        ("outbound", Interception::Outbound),
        ("none", Interception::None),
    ];
    let interception = fields.map("interception", |node| match node.choice(&words)? {
        Interception::None => Ok(Interception::None),
        _ if !enabled => Err(node.fault(
            "a sidecar that is not there intercepts nothing",
            "remove the key, or write `enabled: true`",
        )),
        choice => Ok(choice),
    })?;
    check_data_plane(&fields, enabled)?;
    Ok(Sidecar {
        enabled,
        interception: match enabled {
            true => interception.unwrap_or_default(),
            false => Interception::None,
        },
        data_plane: fields.map("dataPlane", data_plane)?,
        limits: fields.map("resources", quantity::read)?.unwrap_or_default(),
    })
}

/// A word about what is not there would be lost.
fn check_data_plane(fields: &Fields<'_>, enabled: bool) -> Result<(), Fault> {
    match fields.optional("dataPlane") {
        Some(node) if !enabled => Err(node.fault(
            "a sidecar that is not there has no data plane",
            "remove the key, or write `enabled: true`",
        )),
        _ => Ok(()),
    }
}

pub(in crate::kinds) fn data_plane(node: &Node) -> Result<DataPlane, Fault> {
    node.choice(&[("leno", DataPlane::Leno), ("envoy", DataPlane::Envoy)])
}
