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
    let names: Vec<_> = changes.instances.iter().map(|key| &*key.name).collect();
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

fn status(name: &str, instances: &str) -> Arc<Resource> {
    let text = format!(
        "apiVersion: leno.dev/v1alpha1\nkind: WorkloadStatus\nmetadata: {{name: {name}}}\n\
         status: {{instances: [{instances}]}}"
    );
    Arc::clone(&read(&text)[0])
}

fn workload(name: &str) -> WorkloadKey {
    WorkloadKey::new("default", name)
}

/// The names of the instances of `of`, with `!` after those that are not ready.
fn instances(index: &Index, of: &str) -> Vec<String> {
    let all = index.instances_of(&workload(of)).into_iter();
    let shown = all.map(|one| format!("{}{}", one.key.name, if one.ready { "" } else { "!" }));
    shown.collect()
}

const TWO: &str = "{name: hello-0, addresses: [10.77.0.2], ready: true}, \
                   {name: hello-1, addresses: [10.77.0.3], ready: false}";

#[test]
fn instances_are_those_of_the_status_or_one_of_the_workloads_own_name() {
    let mut index = index();
    assert_eq!(instances(&index, "hello"), ["hello"]);
    assert_eq!(instances(&index, "other"), ["other"], "without a status");
    index.apply(status("hello", TWO));
    assert_eq!(instances(&index, "hello"), ["hello-0", "hello-1!"]);
    let found = index.instance(&workload("hello-1")).unwrap();
    assert_eq!((found.of, found.addresses.len()), (workload("hello"), 1));
    let at = index.at("10.77.0.3".parse().unwrap()).unwrap();
    assert_eq!(at.key, workload("hello-1"));
    for gone in ["hello", "hello-2"] {
        assert!(index.instance(&workload(gone)).is_none(), "{gone}");
    }
    index.apply(status("hello", ""));
    assert_eq!(instances(&index, "hello"), [""; 0]);
    assert_eq!(instances(&index, "nobody"), [""; 0]);
}

#[test]
fn an_instance_that_is_listed_goes_before_one_that_is_not() {
    let mut index = index();
    index.apply(status(
        "other",
        "{name: other-0, addresses: [], ready: true}",
    ));
    let mut named = Resource::clone(&index.resources[&key(Kind::Workload, "hello")]);
    named.key.name = "other-0".into();
    index.apply(Arc::new(named));
    assert_eq!(
        index.instance(&workload("other-0")).unwrap().of,
        workload("other")
    );
    assert_eq!(instances(&index, "other-0"), [""; 0]);
    index.delete(&key(Kind::WorkloadStatus, "other"));
    assert_eq!(
        index.instance(&workload("other-0")).unwrap().of,
        workload("other-0")
    );
}

#[test]
fn an_instance_is_listed_as_long_as_it_has_not_ended() {
    let mut index = index();
    index.apply(status("hello", TWO));
    index.delete(&key(Kind::Workload, "hello"));
    let hello = workload("hello-0");
    assert!(index.instance(&hello).is_none() && index.is_listed(&hello));
    index.delete(&key(Kind::WorkloadStatus, "hello"));
    assert!(!index.is_listed(&hello));
}

#[test]
fn an_instance_touches_its_workloads_others_and_nobody_else() {
    let mut index = index();
    index.apply(status("hello", TWO));
    let all = ["hello", "hello-0", "hello-1"];
    check_changes(&mut index, &["front", "hello"], &all);
    index.apply(status("hello", &TWO.replace("false", "true")));
    check_changes(&mut index, &["front", "hello"], &all);
    index.delete(&key(Kind::Service, "hello"));
    check_changes(&mut index, &["front", "hello"], &all);
}

#[test]
fn who_waits_for_nobody_is_told() {
    let mut index = index();
    let text = "apiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {name: x}\n\
                spec: {dependsOn: [hello, nobody]}";
    let before = index.warnings().len();
    index.apply(Arc::clone(&read(text)[0]));
    let warnings = index.warnings();
    assert_eq!(warnings.len(), before + 1);
    let is_told = |fault: &crate::kinds::Fault| {
        fault.message == "there is no Workload default/nobody to wait for"
    };
    assert!(warnings.iter().any(is_told), "{warnings:?}");
}
