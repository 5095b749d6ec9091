//! What a change touches, and what is odd about resources as a whole.

use std::path::Path;

use super::*;
use yaml::Node;

/// A Service that selects a Workload, which lives somewhere and is protected.
const MESH: &str = "
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello, tier: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {ports: [{port: 80}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: hello, labels: {app: hello, tier: web}}
spec: {serviceAccount: hello}
---
apiVersion: leno.dev/v1alpha1
kind: WorkloadStatus
metadata: {name: hello}
status: {addresses: [10.77.0.2]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: other, labels: {app: hello}}
spec: {}
---
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers}
spec: {serviceAccount: hello, callers: [{serviceAccount: curl}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: front-1, labels: {kubernetes.io/service-name: front}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.77.0.2]}, {addresses: [192.0.2.1]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: split}
spec:
  parentRefs: [{kind: Service, name: front}]
  rules: [{backendRefs: [{name: hello, port: 80}]}]
";

fn read(text: &str) -> Vec<Arc<Resource>> {
    let file = Arc::from(Path::new("mesh.yaml"));
    let nodes = Node::read_all(text).unwrap();
    let resources = nodes
        .iter()
        .map(|node| Resource::read(node, &file).unwrap());
    resources.map(Arc::new).collect()
}

/// The index of `MESH`, its changes taken.
fn index() -> Index {
    let mut index = Index::default();
    index.replace(&read(MESH));
    index.take_changes();
    index
}

fn key(kind: Kind, name: &str) -> Key {
    Key {
        kind,
        namespace: "default".into(),
        name: name.into(),
    }
}

/// The names of what a change touches, Services then Workloads.
#[track_caller]
fn check_changes(index: &mut Index, services: &[&str], workloads: &[&str]) {
    let changes = index.take_changes();
    let names: Vec<_> = changes.services.iter().map(|key| &*key.name).collect();
    assert_eq!(names, services);
    let names: Vec<_> = changes.workloads.iter().map(|key| &*key.name).collect();
    assert_eq!(names, workloads);
}

#[test]
fn what_did_not_change_touches_nothing() {
    let mut index = index();
    index.replace(&read(&format!("# moved down by a line\n{MESH}")));
    assert!(index.take_changes().is_empty());
}

#[test]
fn a_workload_touches_all_services_that_it_is_an_endpoint_of() {
    let mut index = index();
    index.delete(&key(Kind::WorkloadStatus, "hello"));
    check_changes(&mut index, &["front", "hello"], &["hello"]);
    index.delete(&key(Kind::Workload, "hello"));
    check_changes(&mut index, &["front", "hello"], &["hello"]);
    index.delete(&key(Kind::Workload, "other"));
    check_changes(&mut index, &[], &["other"]);
}

#[test]
fn a_service_touches_its_workloads_and_who_routes_to_it() {
    let mut index = index();
    index.delete(&key(Kind::Service, "hello"));
    check_changes(&mut index, &["front", "hello"], &["hello"]);
    index.delete(&key(Kind::EndpointSlice, "front-1"));
    check_changes(&mut index, &["front"], &["hello"]);
    index.delete(&key(Kind::HttpRoute, "split"));
    check_changes(&mut index, &["front"], &[]);
    index.apply(Arc::clone(&read(MESH)[0]));
    check_changes(&mut index, &["hello"], &["hello"]);
}

#[test]
fn a_policy_touches_the_workloads_of_its_account() {
    let mut index = index();
    index.delete(&key(Kind::AccessPolicy, "callers"));
    check_changes(&mut index, &["front", "hello"], &["hello"]);
    assert!(
        index
            .callers(&AccountKey::new("default", "hello"))
            .is_empty()
    );
}

#[test]
fn what_is_deleted_leaves_no_trace() {
    let mut index = index();
    index.replace(&[]);
    assert!(
        index.resources.is_empty() && index.linked.is_empty(),
        "{index:?}"
    );
}

#[test]
fn selectors_need_all_of_their_labels() {
    let index = index();
    let service = index.service(&ServiceKey::new("default", "hello")).unwrap();
    assert_eq!(
        index.selected("default", service),
        [WorkloadKey::new("default", "hello")]
    );
    assert_eq!(index.selected("other", service), []);
    let front = index.service(&ServiceKey::new("default", "front")).unwrap();
    assert_eq!(index.selected("default", front), []);
}

#[test]
fn names_that_lead_nowhere_are_told_with_their_place() {
    let index = index();
    let shown: Vec<_> = index.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "mesh.yaml:30:41: there is no service account default/curl; add a ServiceAccount of \
             that name",
            "mesh.yaml:30:24: every Workload of default/hello lets in everybody; set `mode: \
             strict` on them or on the mesh; until then this does nothing",
        ]
    );
}

#[test]
fn routes_and_slices_to_nowhere_are_told() {
    let mut index = index();
    index.delete(&key(Kind::Service, "front"));
    index.delete(&key(Kind::Workload, "hello"));
    index.delete(&key(Kind::AccessPolicy, "callers"));
    let text = MESH.replace("port: 80}]}]", "port: 81}]}]");
    index.apply(read(&text).pop().unwrap());
    let shown: Vec<_> = index
        .warnings()
        .into_iter()
        .map(|fault| fault.message)
        .collect();
    assert_eq!(
        shown,
        [
            "there is no Service default/front for this slice",
            "there is no Workload for the WorkloadStatus default/hello",
            "there is no Service default/front",
            "the Service default/hello has no port 81",
        ]
    );
}
