//! Leno's sidecar, in a configuration that says as little as possible: defaults are what is
//! measured. Metrics, timeouts and permissive inbound routing are on.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::certificates::{TRUST_DOMAIN, account, spiffe_id};
use super::{DataPlane, Hop, InMesh, Launch, Readiness, Side, find};
use crate::results::{DataPlaneVersion, EnvironmentKind, Telemetry};

/// Ports are the kernel's choice; the proxy announces them.
const ANY_PORT: &str = "127.0.0.1:0";

/// Leno.
#[derive(Debug)]
pub struct Leno {
    program: PathBuf,
}

impl Leno {
    /// Finds `leno-proxy`: `given`, or beside our executable, or in `$PATH`.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(given: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self {
            program: find::beside(given, "leno-proxy")?,
        })
    }
}

impl DataPlane for Leno {
    fn name(&self) -> &'static str {
        "leno"
    }

    fn version(&self) -> anyhow::Result<DataPlaneVersion> {
        let said = find::version_of(&self.program)?;
        let version = said.rsplit(' ').next().unwrap_or_default().to_owned();
        let binary = Some(super::binary_of(&self.program));
        Ok(DataPlaneVersion {
            name: self.name().to_owned(),
            version,
            binary,
        })
    }

    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch> {
        // YAML contains JSON: no second serializer, no quoting of ours.
        let config = hop.dir.join("leno.yaml");
        fs::write(&config, format!("{:#}\n", configuration(hop)))
            .with_context(|| format!("writing {}", config.display()))?;
        Ok(Launch {
            program: self.program.clone(),
            args: vec!["--config".into(), config.clone().into()],
            config,
            readiness: Readiness::Announced {
                listener: direction(hop.side),
            },
            counters: "/stats".into(),
        })
    }

    fn notes(&self, _: EnvironmentKind) -> Vec<String> {
        let note = "leno: one worker, the multiplexed hop between the sidecars, default metrics, \
                    limits and timeouts, permissive inbound listener, access log off";
        vec![note.to_owned()]
    }

    fn telemetry(&self) -> Option<&'static str> {
        Some(
            "leno: telemetry none closes the port for Prometheus, but requests are counted all the \
             same: that cannot be turned off; metrics+accesslog writes a line of text for each \
             request to a file",
        )
    }

    fn in_mesh(&self) -> Option<InMesh> {
        Some(InMesh::Leno(self.program.clone()))
    }
}

fn direction(side: Side) -> &'static str {
    match side {
        Side::Client | Side::Gateway => "outbound",
        Side::Server => "inbound",
    }
}

fn configuration(hop: &Hop<'_>) -> Value {
    let mut configuration = without_log(hop);
    if hop.telemetry == Telemetry::MetricsAndAccessLog {
        configuration["accessLog"] = json!({"path": hop.access_log()});
    }
    configuration
}

fn without_log(hop: &Hop<'_>) -> Value {
    let name = account(hop.side);
    let mut endpoint = json!({"address": hop.upstream});
    if hop.mutual_tls && hop.side == Side::Client {
        endpoint["transport"] = "leno".into();
        endpoint["identities"] = json!([spiffe_id(Side::Server)]);
    }
    let mut route = json!({"cluster": "echo"});
    if hop.mutual_tls && hop.side == Side::Server {
        route["allow"] = json!([spiffe_id(Side::Client)]);
    }
    let mut listener = json!({
        "name": direction(hop.side),
        "direction": direction(hop.side),
        "address": ANY_PORT,
        "routes": [route],
    });
    if hop.side == Side::Server {
        listener["tls"] = "permissive".into();
    }
    json!({
        "workload": {"name": name, "namespace": "default", "serviceAccount": name},
        "workers": 1,
        "identity": {
            "certificate": hop.certificates.chain(hop.side),
            "key": hop.certificates.key(hop.side),
            "trustBundle": hop.certificates.trust_bundle(),
            "trustDomain": TRUST_DOMAIN,
        },
        "admin": ANY_PORT,
        "metrics": match hop.telemetry {
            Telemetry::None => "off",
            Telemetry::Metrics | Telemetry::MetricsAndAccessLog => ANY_PORT,
        },
        "listeners": [listener],
        "clusters": [{"name": "echo", "endpoints": [endpoint]}],
    })
}
