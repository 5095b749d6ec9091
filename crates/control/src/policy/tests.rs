//! Who may call whom in a mesh that has one of each.

use std::path::Path;
use std::sync::Arc;

use yaml::Node;

use super::*;
use crate::kinds::Resource;

/// `web` calls: a strict Workload that names it, one that does not, one that lets in everybody.
const MESH: &str = "
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: web}
spec: {serviceAccount: web}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: off}
spec: {serviceAccount: web, sidecar: {enabled: false}}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: db, labels: {app: db}}
spec: {serviceAccount: db, mode: strict}
---
apiVersion: leno.dev/v1alpha1
kind: WorkloadStatus
metadata: {name: db}
status: {instances: [{name: db-0, addresses: [10.77.0.2], ready: true}]}
---
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers-of-db}
spec: {serviceAccount: db, callers: [{serviceAccount: web}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: secret, labels: {app: secret}}
spec: {serviceAccount: secret, mode: strict}
---
apiVersion: v1
kind: Service
metadata: {name: secret}
spec: {selector: {app: secret}, ports: [{port: 80}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: alone}
spec: {}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: open, labels: {app: open, tier: mixed}}
spec: {sidecar: {interception: outbound}}
---
apiVersion: v1
kind: Service
metadata: {name: open}
spec: {selector: {app: open}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {ports: [{port: 80}]}
";

fn index(text: &str) -> Index {
    let file = Arc::from(Path::new("mesh.yaml"));
    let nodes = Node::read_all(text).unwrap();
    let read = |node| Arc::new(Resource::read(node, &file).unwrap());
    let mut index = Index::default();
    index.replace(&nodes.iter().map(read).collect::<Vec<_>>());
    index
}

fn key(name: &str) -> WorkloadKey {
    WorkloadKey::new("default", name)
}

fn explain(text: &str, source: &str, destination: &str) -> Decision {
    let index = index(text);
    index.explain(&key(source), &key(destination)).unwrap()
}

#[track_caller]
fn check(text: &str, (source, destination): (&str, &str), wanted: (bool, bool, &str)) {
    let decision = explain(text, source, destination);
    let rule = serde_json::to_value(&decision.rule).unwrap();
    let kind = rule["kind"].as_str().unwrap();
    assert_eq!(
        (decision.allowed, decision.known, kind),
        wanted,
        "{decision:?}"
    );
}

#[test]
fn a_policy_that_names_the_caller_lets_it_in() {
    for destination in ["db", "db-0", "store"] {
        check(MESH, ("web", destination), (true, true, "accessPolicy"));
    }
    let decision = explain(MESH, "web", "db");
    assert_eq!(
        serde_json::to_value(&decision).unwrap(),
        serde_json::json!({
            "allowed": true,
            "known": true,
            "reason": "default/db is strict, and the AccessPolicy default/callers-of-db names \
                       default/web",
            "rule": {
                "kind": "accessPolicy",
                "namespace": "default",
                "name": "callers-of-db",
                "origin": "mesh.yaml:27:1",
            },
        })
    );
}

#[test]
fn strict_workloads_keep_out_whom_no_policy_names() {
    check(MESH, ("web", "secret"), (false, false, "noPolicy"));
    check(MESH, ("alone", "db"), (false, false, "noPolicy"));
    // Itself it knows, and lets in none the less only by name.
    check(MESH, ("secret", "secret"), (false, true, "noPolicy"));
}

#[test]
fn strict_workloads_keep_out_what_proves_nothing() {
    check(MESH, ("off", "db"), (false, false, "noIdentity"));
    let without = MESH.replace("{app: db}, ports", "{app: nothing}, ports");
    assert_ne!(without, MESH);
    check(&without, ("web", "db"), (false, false, "noIdentity"));
}

#[test]
fn permissive_workloads_let_in_everybody() {
    for source in ["web", "alone"] {
        check(MESH, (source, "open"), (true, true, "permissive"));
    }
    check(MESH, ("off", "open"), (true, false, "permissive"));
    let how = |source, destination, text: &str| {
        let reason = explain(text, source, destination).reason;
        reason.rsplit_once("comes ").unwrap().1.to_owned()
    };
    assert_eq!(how("web", "open", MESH), "in plaintext");
    let both = MESH.replace("interception: outbound", "interception: both");
    assert_eq!(how("web", "open", &both), "with mutual TLS");
    assert_eq!(how("off", "open", &both), "in plaintext");
    // By its address, unread.
    check(MESH, ("web", "alone"), (true, false, "permissive"));
}

#[test]
fn without_egress_only_services_are_called() {
    let closed = format!(
        "{MESH}---\napiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {{name: mesh}}\n\
         spec: {{egress: false}}\n"
    );
    check(&closed, ("web", "alone"), (false, false, "noEgress"));
    check(&closed, ("web", "open"), (true, true, "permissive"));
    check(&closed, ("off", "alone"), (true, false, "permissive"));
}

#[test]
fn a_service_refuses_if_one_of_its_workloads_does() {
    let mixed = MESH
        .replace("tier: mixed", "app: secret")
        .replace("app: open, ", "");
    check(&mixed, ("web", "secret"), (false, true, "noPolicy"));
    let service = format!(
        "{mixed}---\napiVersion: v1\nkind: Service\nmetadata: {{name: both}}\nspec: {{selector: \
         {{app: secret}}, ports: [{{port: 80}}]}}\n"
    );
    check(&service, ("web", "both"), (false, true, "noPolicy"));
    let reason = explain(&service, "web", "both").reason;
    assert!(
        reason.ends_with("others of this Service let it in"),
        "{reason}"
    );
    check(MESH, ("web", "outside"), (true, true, "outside"));
}

#[test]
fn names_that_nobody_has_are_told() {
    let index = index(MESH);
    assert_eq!(
        index.explain(&key("x"), &key("db")),
        Err(Unknown::Source(key("x")))
    );
    let unknown = index.explain(&key("web"), &key("x")).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is neither a Workload nor a Service default/x; check the name and the namespace"
    );
    // A Service calls nobody.
    assert!(index.explain(&key("store"), &key("db")).is_err());
}

/// For every pair: a sidecar is told of a Service exactly where this says so.
#[test]
fn what_is_known_is_what_sidecars_are_told() {
    use crate::addresses::Book;
    use crate::index::Changes;
    use crate::translate::{Reach, translate};

    let index = index(MESH);
    let mesh = translate(&index, &Book::default(), None, &Changes::default());
    for instance in index.instances().filter(|one| one.workload.sidecar.enabled) {
        for (service, called) in [("store", "db"), ("secret", "secret"), ("open", "open")] {
            let key = ServiceKey::new("default", service);
            let is_told = match &mesh.workloads[&instance.key].reach {
                Reach::All => true,
                Reach::Only(keys) => keys.contains(&key),
            };
            let called = WorkloadKey::new("default", called);
            let decision = index.explain(&instance.of, &called).unwrap();
            assert_eq!(decision.known, is_told, "{} {service}", instance.key);
        }
    }
}
