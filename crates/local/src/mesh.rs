//! What is to run, as the user's file says: the part of a mesh that this machine has to know.
//! Made by [`read`] from the resources that the control plane reads too.

use std::path::Path;
use std::sync::Arc;

use control::kinds::{MeshConfig, Object, Resource};
use control::source::Source;
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
}

/// One application that has a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub id: WorkloadId,
    /// Whose identity its sidecar has.
    pub service_account: String,
    /// What is run; empty: the sidecar and the namespace alone.
    pub command: Vec<String>,
    /// The user that it runs as; none: one of its own.
    pub user: Option<String>,
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
    let mut workloads = Vec::new();
    for resource in resources {
        let key = &resource.key;
        match &resource.object {
            Object::MeshConfig(found) => config = found.clone(),
            Object::Workload(found) => workloads.push(Workload {
                id: WorkloadId::new(&key.namespace, &key.name)?,
                service_account: found.account.name.clone(),
                command: found.command.clone(),
                user: found.user.clone(),
            }),
            _ => {}
        }
    }
    let ranges = config
        .workload_cidrs
        .iter()
        .map(|range| range.to_string().parse());
    Ok(Mesh {
        trust_domain: config.trust_domain,
        workload_cidrs: ranges.collect::<Result<_, _>>()?,
        workloads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> anyhow::Result<Mesh> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.yaml");
        std::fs::write(&path, text).unwrap();
        read(&path)
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
        );
        let expected = Mesh {
            trust_domain: "example.org".into(),
            workload_cidrs: vec!["10.1.0.0/24".parse().unwrap()],
            workloads: vec![Workload {
                id: "hello.shop".parse().unwrap(),
                service_account: "greeter".into(),
                command: vec!["./hello".into(), "-v".into()],
                user: Some("1234".into()),
            }],
        };
        assert_eq!(mesh.unwrap(), expected);
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
}
