//! The mesh of one repeat as a file: a server behind a Service, a client, and what their sidecars
//! intercept. Pure.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};

use crate::cgroup::Limit;
use crate::results::Mode;

/// Where the server listens.
pub(super) const PORT: u16 = 8080;

/// Where its Service does.
const SERVICE_PORT: u16 = 80;

/// Of each sidecar, as in the published reports.
pub(super) const LIMIT: Limit = Limit {
    cpus: 1.0,
    memory_bytes: 512 << 20,
};

/// Sixteen addresses of those that benchmarks take theirs from: one of 4096 such parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet(u16);

impl Subnet {
    /// Most likely no other benchmark's of this machine.
    pub(super) fn of_process() -> Self {
        let [low, high, ..] = std::process::id().to_le_bytes();
        Self(u16::from_le_bytes([low, high & 0x0f]))
    }

    /// The address with that place in the part that begins with 10 and `second`.
    fn address(self, second: u8, place: u8) -> Ipv4Addr {
        let [third, fourth] = (self.0 << 4).to_be_bytes();
        Ipv4Addr::new(10, second, third, fourth | place)
    }

    /// Both families' ranges.
    fn ranges(self, second: u8) -> [String; 2] {
        let first = self.address(second, 0);
        [
            format!("{first}/28"),
            format!("fd{second}:{:x}::/112", self.0),
        ]
    }
}

/// Second number of the addresses of workloads.
const WORKLOADS: u8 = 79;

/// Likewise, of Services.
const SERVICES: u8 = 80;

/// What there is to be.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    /// The `leno` command, which serves.
    pub(super) launcher: &'a Path,
    pub(super) subnet: Subnet,
    pub(super) mode: Mode,
    /// What sidecars are; without them nothing is intercepted either.
    pub(super) data_plane: Option<&'a str>,
    /// Empty: the server is not pinned.
    pub(super) server_cpus: &'a [usize],
}

impl Layout<'_> {
    /// Where the server's Service is.
    pub(super) fn service(&self) -> SocketAddr {
        SocketAddr::new(self.subnet.address(SERVICES, 10).into(), SERVICE_PORT)
    }

    /// The file. JSON is YAML: no second serializer, no quoting of ours.
    pub(super) fn text(&self) -> String {
        let documents = [
            self.config(),
            self.server_service(),
            self.workload("server", self.server()),
            self.workload("client", json!({})),
        ];
        let texts: Vec<String> = documents
            .iter()
            .map(|document| format!("{document:#}\n"))
            .collect();
        texts.join("---\n")
    }

    fn config(&self) -> Value {
        json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "MeshConfig",
            "metadata": {"name": "mesh"},
            "spec": {
                "workloadCIDRs": self.subnet.ranges(WORKLOADS),
                "serviceCIDRs": self.subnet.ranges(SERVICES),
            },
        })
    }

    fn server_service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "server"},
            "spec": {
                "clusterIP": self.service().ip(),
                "selector": {"app": "server"},
                "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": "http"}],
            },
        })
    }

    /// A server on one thread, as in every environment.
    fn server(&self) -> Value {
        let port = PORT.to_string();
        let mut command = vec![
            self.launcher.display().to_string(),
            "load".to_owned(),
            "serve".to_owned(),
            "--address".to_owned(),
            "0.0.0.0".to_owned(),
            "--port".to_owned(),
            port,
        ];
        if !self.server_cpus.is_empty() {
            let cpus: Vec<String> = self.server_cpus.iter().map(usize::to_string).collect();
            command.extend(["--cpus".to_owned(), cpus.join(",")]);
        }
        json!({
            "ports": [{"name": "http", "port": PORT, "protocol": "http"}],
            "command": command,
        })
    }

    fn workload(&self, name: &str, mut spec: Value) -> Value {
        spec["serviceAccount"] = name.into();
        spec["sidecar"] = self.sidecar(name);
        json!({
            "apiVersion": "leno.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": spec,
        })
    }

    fn sidecar(&self, name: &str) -> Value {
        let Some(data_plane) = self.data_plane else {
            return json!({"enabled": false});
        };
        let interception = match name {
            "client" if self.mode.crosses_client() => "outbound",
            "server" if self.mode.crosses_server() => "inbound",
            _ => "none",
        };
        let memory = format!("{}Mi", LIMIT.memory_bytes >> 20);
        json!({
            "dataPlane": data_plane,
            "interception": interception,
            "resources": {"limits": {"cpu": LIMIT.cpus.to_string(), "memory": memory}},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: Mode, data_plane: Option<&str>, expected: [&str; 2]) {
        let layout = Layout {
            launcher: Path::new("/leno"),
            subnet: Subnet(0xabc),
            mode,
            data_plane,
            server_cpus: &[1, 3],
        };
        let sidecar = |name| {
            let sidecar = layout.sidecar(name);
            sidecar["interception"].as_str().map(str::to_owned)
        };
        let found = ["client", "server"].map(|name| sidecar(name).unwrap_or_default());
        assert_eq!(found, expected, "{mode:?}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.yaml");
        std::fs::write(&file, layout.text()).unwrap();
        let mesh = ::local::mesh::read(&file).unwrap();
        let server = mesh.workload(&"server".parse().unwrap()).unwrap();
        assert_eq!(server.is_on_envoy, data_plane == Some("envoy"));
        let (server, has_sidecars) = (&server.spec, data_plane.is_some());
        assert_eq!(server.sidecar.enabled, has_sidecars);
        assert_eq!(server.command.last().map(String::as_str), Some("1,3"));
        let limited = has_sidecars.then_some((1000, 512 << 20));
        let limits = &server.sidecar.limits;
        assert_eq!(limits.cpu_millis.zip(limits.memory_bytes), limited);
    }

    #[test]
    fn a_part_of_the_addresses_is_one_process_s() {
        let (one, next) = (Subnet(0xabc), Subnet(0xabd));
        assert_eq!(one.ranges(79), ["10.79.171.192/28", "fd79:abc::/112"]);
        assert_eq!(next.ranges(79)[0], "10.79.171.208/28");
        assert_eq!(one.address(80, 10).to_string(), "10.80.171.202");
    }

    #[test]
    fn modes_are_what_sidecars_intercept() {
        check(Mode::Baseline, None, ["", ""]);
        for plane in [Some("leno"), Some("envoy")] {
            check(Mode::Baseline, plane, ["none", "none"]);
            check(Mode::ServerOnly, plane, ["none", "inbound"]);
            check(Mode::ClientOnly, plane, ["outbound", "none"]);
            check(Mode::Both, plane, ["outbound", "inbound"]);
        }
    }
}
