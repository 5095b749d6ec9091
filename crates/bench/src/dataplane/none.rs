//! No data plane: the generator speaks to the server. It has no sidecars to start.

use super::{DataPlane, Hop, InMesh, Launch};
use crate::results::{DataPlaneVersion, EnvironmentKind};

/// The yardstick.
#[derive(Debug)]
pub struct None;

impl DataPlane for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        let version = "no sidecar".to_owned();
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version,
            binary: Option::None,
        })
    }

    fn launch(&self, _hop: &Hop<'_>) -> anyhow::Result<Launch> {
        anyhow::bail!("`none` has no sidecars: use mode baseline")
    }

    fn notes(&self, _: EnvironmentKind) -> Vec<String> {
        Vec::new()
    }

    fn telemetry(&self) -> Option<&'static str> {
        Some("none: nobody tells anything")
    }

    fn in_mesh(&self) -> Option<InMesh> {
        Some(InMesh::Without)
    }
}
