//! The mesh of one repeat of a link of the sample as a file: a way in, ratings, and on the longer
//! link api-gateway between the two. Without sidecars it is the same way in, and plaintext behind
//! it. Pure.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::documents::{self, Allowance, Subnet};
use crate::results::Link;

/// What the application's own gateway is called.
pub(in crate::environment::local) const API_GATEWAY: &str = "api-gateway";

/// What it calls.
pub(in crate::environment::local) const RATINGS: &str = "ratings";

/// Where the two listen, and their Services: the ports of the published sample.
const API_GATEWAY_PORT: u16 = 10000;
const RATINGS_PORT: u16 = 8101;

/// How an application is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::environment::local) struct Started {
    pub(in crate::environment::local) command: Vec<String>,
    pub(in crate::environment::local) env: Vec<(String, String)>,
    /// The path that answers once it is ready.
    pub(in crate::environment::local) ready: &'static str,
}

/// What there is to be.
#[derive(Debug)]
pub(in crate::environment::local) struct Sample<'a> {
    pub(in crate::environment::local) subnet: Subnet,
    /// One of the sample's.
    pub(in crate::environment::local) link: Link,
    /// What sidecars are; none: there are none.
    pub(in crate::environment::local) data_plane: Option<&'a str>,
    pub(in crate::environment::local) api_gateway: Started,
    pub(in crate::environment::local) ratings: Started,
    /// What each sidecar may use.
    pub(in crate::environment::local) sidecar: Allowance,
    /// Likewise, each application.
    pub(in crate::environment::local) application: Allowance,
    /// Where the way in listens, and what it may use.
    pub(in crate::environment::local) gateway: (SocketAddr, Allowance),
}

/// Where api-gateway is to listen.
pub(in crate::environment::local) const API_GATEWAY_LISTENS: SocketAddr =
    everywhere(API_GATEWAY_PORT);

/// Where ratings is to listen.
pub(in crate::environment::local) const RATINGS_LISTENS: SocketAddr = everywhere(RATINGS_PORT);

const fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), port)
}

/// Where api-gateway finds ratings: at its Service's address, which sidecars know, else where it
/// lives. Never by name, which only a sidecar answers for.
pub(in crate::environment::local) fn ratings_at(subnet: Subnet, has_sidecars: bool) -> SocketAddr {
    let address = match has_sidecars {
        true => subnet.service(11),
        false => subnet.first_workload(),
    };
    SocketAddr::new(address, RATINGS_PORT)
}

impl Sample<'_> {
    /// The file. Ratings come first: they get the first address.
    pub(in crate::environment::local) fn text(&self) -> String {
        let ratings = ratings_at(self.subnet, true);
        let mut documents = vec![
            documents::mesh_config(self.subnet),
            documents::service(RATINGS, ratings),
            self.workload(RATINGS, RATINGS_PORT, &self.ratings),
        ];
        let mut routes = vec![("/ratings", RATINGS, RATINGS_PORT)];
        if self.link == Link::GatewayRatings {
            let at = SocketAddr::new(self.subnet.service(10), API_GATEWAY_PORT);
            documents.push(documents::service(API_GATEWAY, at));
            let workload = self.workload(API_GATEWAY, API_GATEWAY_PORT, &self.api_gateway);
            documents.push(workload);
            routes.push(("/bookinfo-ratings", API_GATEWAY, API_GATEWAY_PORT));
        }
        let (at, allowance) = self.gateway;
        documents.extend(documents::gateway(at, allowance, &routes));
        documents::text(&documents)
    }

    fn workload(&self, name: &str, port: u16, started: &Started) -> Value {
        let env = started.env.iter();
        let env: Vec<Value> = env
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        documents::workload(
            name,
            json!({
                "ports": [{"name": "http", "port": port, "protocol": "http"}],
                "command": started.command,
                "env": env,
                "readinessProbe": {"httpGet": {"path": started.ready, "port": "http"}},
                "resources": self.application.resources(),
                "sidecar": self.sidecar(),
            }),
        )
    }

    fn sidecar(&self) -> Value {
        match self.data_plane {
            None => json!({"enabled": false}),
            Some(name) => json!({"dataPlane": name, "resources": self.sidecar.resources()}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;

    fn allowance(cpu_millis: u32) -> Allowance {
        Allowance {
            cpu_millis,
            memory_bytes: 64 << 20,
        }
    }

    fn started(name: &str) -> Started {
        Started {
            command: vec![format!("/{name}")],
            env: vec![("NAME".to_owned(), name.to_owned())],
            ready: "/health",
        }
    }

    fn mesh(link: Link, data_plane: Option<&str>) -> ::local::mesh::Mesh {
        let sample = Sample {
            subnet: Subnet(0xabc),
            link,
            data_plane,
            api_gateway: started("a"),
            ratings: started("r"),
            sidecar: allowance(200),
            application: allowance(400),
            gateway: ("127.0.0.1:7000".parse().unwrap(), allowance(800)),
        };
        read(&sample.text())
    }

    fn names(mesh: &::local::mesh::Mesh) -> Vec<String> {
        mesh.workloads
            .iter()
            .map(|one| one.id.to_string())
            .collect()
    }

    #[test]
    fn each_link_has_the_services_that_it_crosses() {
        let short = mesh(Link::Ratings, Some("leno"));
        assert_eq!(names(&short), ["ratings", "ingress"]);
        let long = mesh(Link::GatewayRatings, Some("leno"));
        assert_eq!(names(&long), ["ratings", "api-gateway", "ingress"]);
    }

    #[test]
    fn every_part_has_limits_of_its_own() {
        for plane in ["leno", "envoy"] {
            let mesh = mesh(Link::GatewayRatings, Some(plane));
            for workload in &mesh.workloads[..2] {
                assert_eq!(workload.is_on_envoy, plane == "envoy");
                let (own, sidecar) = (workload.spec.limits, &workload.spec.sidecar.limits);
                assert_eq!(own.cpu_millis.zip(sidecar.cpu_millis), Some((400, 200)));
            }
            let gateway = &mesh.workloads[2];
            assert!(
                !gateway.is_on_envoy,
                "the way in is the same in every round"
            );
            assert_eq!(gateway.spec.sidecar.limits.cpu_millis, Some(800));
        }
    }

    #[test]
    fn without_sidecars_the_way_in_stays() {
        let mesh = mesh(Link::GatewayRatings, None);
        assert!(
            mesh.workloads[..2]
                .iter()
                .all(|one| !one.spec.sidecar.enabled)
        );
        assert!(mesh.workloads[2].spec.sidecar.enabled);
        let at = |has_sidecars| ratings_at(Subnet(0xabc), has_sidecars).to_string();
        assert_eq!(
            [at(true), at(false)],
            ["10.80.171.203:8101", "10.79.171.194:8101"]
        );
    }
}
