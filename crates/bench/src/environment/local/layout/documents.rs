//! The documents of a mesh's file that layouts are made of. JSON is YAML: no second serializer, no
//! quoting of ours. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

/// What a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::environment::local) struct Allowance {
    pub(in crate::environment::local) cpu_millis: u32,
    pub(in crate::environment::local) memory_bytes: u64,
}

impl Allowance {
    /// The value of a key `resources`.
    pub(super) fn resources(self) -> Value {
        let (cpu, memory) = (self.cpu_millis, self.memory_bytes >> 20);
        json!({"limits": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}})
    }
}

/// Sixteen addresses of those that benchmarks take theirs from: one of 4096 such parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::environment::local) struct Subnet(pub(super) u16);

/// Second number of the addresses of workloads.
const WORKLOADS: u8 = 79;

/// Likewise, of Services.
const SERVICES: u8 = 80;

impl Subnet {
    /// Most likely no other benchmark's of this machine.
    pub(in crate::environment::local) fn of_process() -> Self {
        let [low, high, ..] = std::process::id().to_le_bytes();
        Self(u16::from_le_bytes([low, high & 0x0f]))
    }

    /// Of the Service with that place, from 1 to 14.
    pub(super) fn service(self, place: u8) -> IpAddr {
        self.address(SERVICES, place).into()
    }

    /// Of the first workload of a file, which is given the lowest address after the bridge's.
    pub(super) fn first_workload(self) -> IpAddr {
        self.address(WORKLOADS, 2).into()
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

/// The file.
pub(super) fn text(documents: &[Value]) -> String {
    let documents = documents.iter();
    let texts: Vec<String> = documents.map(|one| format!("{one:#}\n")).collect();
    texts.join("---\n")
}

/// The mesh's own.
pub(super) fn mesh_config(subnet: Subnet) -> Value {
    json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "MeshConfig",
        "metadata": {"name": "mesh"},
        "spec": {
            "workloadCIDRs": subnet.ranges(WORKLOADS),
            "serviceCIDRs": subnet.ranges(SERVICES),
        },
    })
}

/// A Service of the workload of the same name, whose port is called `http`.
pub(super) fn service(name: &str, at: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": at.ip(),
            "selector": {"app": name},
            "ports": [{"name": "http", "port": at.port(), "targetPort": "http"}],
        },
    })
}

/// A workload under an account of the same name.
pub(super) fn workload(name: &str, mut spec: Value) -> Value {
    spec["serviceAccount"] = name.into();
    json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    })
}

/// What the way in is called.
pub(in crate::environment::local) const GATEWAY: &str = "ingress";

/// The way in at `at`, an address of this machine: always our own gateway, whatever the sidecars
/// are. Each path prefix goes to a Service and its port.
pub(super) fn gateway(
    at: SocketAddr,
    allowance: Allowance,
    routes: &[(&str, &str, u16)],
) -> [Value; 3] {
    let rule = |&(prefix, service, port): &(&str, &str, u16)| {
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
            "backendRefs": [{"name": service, "port": port}],
        })
    };
    let rules: Vec<Value> = routes.iter().map(rule).collect();
    let sidecar = json!({"dataPlane": "leno", "resources": allowance.resources()});
    [
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": GATEWAY},
            "spec": {
                "gatewayClassName": "leno",
                "addresses": [{"type": "IPAddress", "value": at.ip()}],
                "listeners": [{"name": "http", "port": at.port(), "protocol": "HTTP"}],
            },
        }),
        workload(GATEWAY, json!({"gateway": GATEWAY, "sidecar": sidecar})),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": GATEWAY},
            "spec": {"parentRefs": [{"name": GATEWAY}], "rules": rules},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_addresses_is_one_process_s() {
        let (one, next) = (Subnet(0xabc), Subnet(0xabd));
        assert_eq!(one.ranges(79), ["10.79.171.192/28", "fd79:abc::/112"]);
        assert_eq!(next.ranges(79)[0], "10.79.171.208/28");
        assert_eq!(one.service(10).to_string(), "10.80.171.202");
        assert_eq!(one.first_workload().to_string(), "10.79.171.194");
    }
}
