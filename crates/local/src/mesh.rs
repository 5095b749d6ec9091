//! What is to run, as the user's file says: the part of a mesh that this machine has to know.
//! Made by [`read`] from the resources that the control plane reads too.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use control::index::Index;
use control::kinds::{self, ClusterIp, DataPlane, MeshConfig, Object, Resource, gateway_addresses};
use control::source::Source;
use control::translate::called_ports;
use intercept::Cidr;

use crate::name::WorkloadId;

/// The mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// First part of all identities.
    pub trust_domain: String,
    /// Where workloads get their addresses: at most one range of each family.
    pub workload_cidrs: Vec<Cidr>,
    /// In the order of the file.
    pub workloads: Vec<Workload>,
    /// Those that have an address; others are called at their endpoints.
    pub services: Vec<Service>,
}

/// What applications call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where it is.
    pub namespace: String,
    /// What it is called there.
    pub name: String,
    /// The addresses that the file gives it; others are allocated by the control plane.
    pub given: Vec<IpAddr>,
    /// In the order of the file.
    pub ports: Vec<ServicePort>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name, which the only one need not have.
    pub name: Option<String>,
    /// Its number.
    pub number: u16,
}

/// One application, in as many instances as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub id: WorkloadId,
    /// As the file says.
    pub spec: kinds::Workload,
    /// Those that it is started after.
    pub depends_on: Vec<WorkloadId>,
    /// Addresses of this machine that its sidecar listens at.
    pub sockets: Vec<SocketAddr>,
    /// The ports on which others call it, in order, where that matters: nothing is intercepted.
    pub called: Vec<u16>,
    /// Whether its sidecar is an Envoy, with a companion.
    pub is_on_envoy: bool,
    /// The line of the file in which it begins.
    pub line: Option<usize>,
}

impl Mesh {
    /// The workload of that name.
    #[must_use]
    pub fn workload(&self, id: &WorkloadId) -> Option<&Workload> {
        self.workloads.iter().find(|one| one.id == *id)
    }

    /// It, where connections are intercepted: whatever port they are made to.
    #[must_use]
    pub(crate) fn intercepted(mut self) -> Self {
        let workloads = self.workloads.iter_mut();
        workloads.for_each(|one| one.called.clear());
        self
    }
}

/// Reads the file as the control plane will.
///
/// # Errors
/// What is wrong in it, with place and hint.
pub fn read(path: &Path) -> anyhow::Result<Mesh> {
    of(&Source::open(vec![path.to_path_buf()]).read()?)
}

fn of(resources: &[Arc<Resource>]) -> anyhow::Result<Mesh> {
    let mut config = MeshConfig::default();
    let mut workloads: Vec<Workload> = Vec::new();
    let mut services = Vec::new();
    let mut index = Index::default();
    index.replace(resources);
    for resource in resources {
        match &resource.object {
            Object::MeshConfig(found) => config = found.clone(),
            Object::Workload(found) => {
                let key = resource.key.workload();
                workloads.push(Workload {
                    called: called_ports(&index, &key).into_iter().collect(),
                    sockets: gateway_addresses(resources, &key),
                    ..workload(resource, found)?
                });
            }
            Object::Service(found) => services.extend(service(resource, found)),
            _ => {}
        }
    }
    for workload in &mut workloads {
        let sidecar = &workload.spec.sidecar;
        let data_plane = sidecar.data_plane.unwrap_or(config.data_plane);
        workload.is_on_envoy = sidecar.enabled && data_plane == DataPlane::Envoy;
    }
    let ranges = config
        .workload_cidrs
        .iter()
        .map(|range| range.to_string().parse());
    let mesh = Mesh {
        trust_domain: config.trust_domain,
        workload_cidrs: ranges.collect::<Result<_, _>>()?,
        workloads,
        services,
    };
    check_dependencies(&mesh.workloads)?;
    Ok(mesh)
}

fn workload(resource: &Resource, spec: &kinds::Workload) -> anyhow::Result<Workload> {
    let id = |key: &kinds::WorkloadKey| WorkloadId::new(&key.namespace, &key.name);
    Ok(Workload {
        id: WorkloadId::new(&resource.key.namespace, &resource.key.name)?,
        depends_on: spec.depends_on.iter().map(id).collect::<Result<_, _>>()?,
        spec: spec.clone(),
        sockets: Vec::new(),
        called: Vec::new(),
        is_on_envoy: false,
        line: resource.origin.place.map(|place| place.line),
    })
}

/// None of one that has no address of its own.
fn service(resource: &Resource, found: &kinds::Service) -> Option<Service> {
    let given = match &found.cluster_ip {
        ClusterIp::Headless => return None,
        ClusterIp::Given(addresses) => addresses.clone(),
        ClusterIp::Allocated => Vec::new(),
    };
    let ports = found.ports.iter().map(|port| ServicePort {
        name: port.name.clone(),
        number: port.port,
    });
    Some(Service {
        namespace: resource.key.namespace.clone(),
        name: resource.key.name.clone(),
        given,
        ports: ports.collect(),
    })
}

/// Nobody may wait for somebody who is not there. Circles are refused by the source.
fn check_dependencies(workloads: &[Workload]) -> anyhow::Result<()> {
    for workload in workloads {
        for other in &workload.depends_on {
            ensure!(
                workloads.iter().any(|one| one.id == *other),
                "the workload {} depends on {other}, which is not there: add it, or remove it \
                 from dependsOn",
                workload.id
            );
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn read_text(text: &str) -> anyhow::Result<Mesh> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.yaml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    fn waiting(waits: &[(&str, &str)]) -> anyhow::Result<Mesh> {
        let document = |(name, on): &(&str, &str)| {
            format!(
                "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: {name}}}\n\
                 spec: {{command: [\"true\"], dependsOn: [{on}]}}\n"
            )
        };
        read_text(&waits.iter().map(document).collect::<String>())
    }

    #[test]
    fn knows_what_to_run_and_passes_over_the_rest() {
        let mesh = read_text(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
             apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n\
             spec: {trustDomain: example.org, workloadCIDRs: [10.1.0.0/24]}\n---\n\
             apiVersion: leno.dev/v1alpha1\nkind: Workload\n\
             metadata: {name: hello, namespace: shop}\n\
             spec: {serviceAccount: greeter, command: [./hello, -v], user: \"1234\"}\n",
        )
        .unwrap();
        assert_eq!(mesh.trust_domain, "example.org");
        assert_eq!(mesh.workload_cidrs, ["10.1.0.0/24".parse().unwrap()]);
        let [hello] = &*mesh.workloads else {
            panic!("{mesh:?}")
        };
        assert_eq!(hello.id, "hello.shop".parse().unwrap());
        assert_eq!(hello.spec.account.name, "greeter");
        assert_eq!(hello.spec.command, ["./hello", "-v"]);
        assert_eq!(hello.spec.user.as_deref(), Some("1234"));
        assert_eq!(hello.line, Some(10));
    }

    #[test]
    fn a_data_plane_is_the_workload_s_or_else_the_mesh_s() {
        let workload = |name: &str, sidecar: &str| {
            format!(
                "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: {name}}}\n\
                 spec: {{command: [\"true\"], sidecar: {{{sidecar}}}}}\n"
            )
        };
        let mesh = read_text(&format!(
            "{}{}{}---\napiVersion: leno.dev/v1alpha1\nkind: MeshConfig\n\
             metadata: {{name: mesh}}\nspec: {{dataPlane: envoy}}\n",
            workload("a", ""),
            workload("b", "dataPlane: leno"),
            workload("c", "enabled: false"),
        ));
        let found: Vec<_> = mesh.unwrap().workloads;
        let found: Vec<_> = found.iter().map(|one| one.is_on_envoy).collect();
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn says_where_it_is_wrong() {
        let error = read_text("apiVersion: v1\nkind: Servise\nmetadata: {name: a}\n").unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("mesh.yaml:2:7") && text.contains("`Service`"),
            "{text}"
        );
    }

    #[test]
    fn who_waits_in_a_circle_is_named() {
        assert!(waiting(&[("a", "b, c"), ("b", "c"), ("c", "")]).is_ok());
        let error = waiting(&[("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("default/a → default/b → default/c"),
            "{error}"
        );
        let error = waiting(&[("a", "db")]).unwrap_err();
        assert!(
            error.to_string().contains("db, which is not there"),
            "{error}"
        );
    }
}
