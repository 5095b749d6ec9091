//! The mesh of one repeat of the echo link as a file: a server behind a Service, a client or a way
//! in, and what their sidecars intercept. Pure.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::results::Mode;

mod documents;
pub(super) mod sample;

pub(super) use documents::{Allowance, GATEWAY, Subnet};

/// Where the server listens.
pub(super) const PORT: u16 = 8080;

/// Where its Service does.
const SERVICE_PORT: u16 = 80;

/// Of each sidecar, gateway and application; the published reports gave sidecars as much.
pub(super) const MEMORY_BYTES: u64 = 512 << 20;

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
    /// What each sidecar may use.
    pub(super) sidecar: Allowance,
    /// Where the gateway of mode ingress listens, and what it may use.
    pub(super) gateway: (SocketAddr, Allowance),
}

impl Layout<'_> {
    /// Where the server's Service is.
    pub(super) fn service(&self) -> SocketAddr {
        SocketAddr::new(self.subnet.service(10), SERVICE_PORT)
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        let server = self.workload("server", self.server());
        let mut documents = vec![
            documents::mesh_config(self.subnet),
            documents::service("server", self.service()),
            server,
        ];
        match self.mode {
            Mode::Ingress => {
                let (at, allowance) = self.gateway;
                let routes = [("/", "server", SERVICE_PORT)];
                documents.extend(documents::gateway(at, allowance, &routes));
            }
            _ => documents.push(self.workload("client", json!({}))),
        }
        documents::text(&documents)
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
        spec["sidecar"] = self.sidecar(name);
        documents::workload(name, spec)
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
        json!({
            "dataPlane": data_plane,
            "interception": interception,
            "resources": self.sidecar.resources(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWANCE: Allowance = Allowance {
        cpu_millis: 1000,
        memory_bytes: MEMORY_BYTES,
    };

    fn layout(mode: Mode, data_plane: Option<&str>) -> Layout<'_> {
        Layout {
            launcher: Path::new("/leno"),
            subnet: Subnet(0xabc),
            mode,
            data_plane,
            server_cpus: &[1, 3],
            sidecar: ALLOWANCE,
            gateway: ("127.0.0.1:7000".parse().unwrap(), ALLOWANCE),
        }
    }

    pub(super) fn read(text: &str) -> ::local::mesh::Mesh {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mesh.yaml");
        std::fs::write(&file, text).unwrap();
        ::local::mesh::read(&file).unwrap()
    }

    fn check(mode: Mode, data_plane: Option<&str>, expected: [&str; 2]) {
        let layout = layout(mode, data_plane);
        let sidecar = |name| {
            let sidecar = layout.sidecar(name);
            sidecar["interception"].as_str().map(str::to_owned)
        };
        let found = ["client", "server"].map(|name| sidecar(name).unwrap_or_default());
        assert_eq!(found, expected, "{mode:?}");
        let mesh = read(&layout.text());
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
    fn modes_are_what_sidecars_intercept() {
        check(Mode::Baseline, None, ["", ""]);
        for plane in [Some("leno"), Some("envoy")] {
            check(Mode::Baseline, plane, ["none", "none"]);
            check(Mode::ServerOnly, plane, ["none", "inbound"]);
            check(Mode::ClientOnly, plane, ["outbound", "none"]);
            check(Mode::Both, plane, ["outbound", "inbound"]);
            check(Mode::Ingress, plane, ["none", "inbound"]);
        }
    }

    #[test]
    fn the_way_in_is_ours_and_takes_the_place_of_the_client() {
        let mesh = read(&layout(Mode::Ingress, Some("envoy")).text());
        let names: Vec<String> = mesh
            .workloads
            .iter()
            .map(|one| one.id.to_string())
            .collect();
        assert_eq!(names, ["server", GATEWAY]);
        let gateway = &mesh.workloads[1];
        assert!(!gateway.is_on_envoy);
        assert_eq!(gateway.sockets, ["127.0.0.1:7000".parse().unwrap()]);
    }
}
