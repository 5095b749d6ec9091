//! What the mesh is: a client, two that answer for the same Service, and one for another.

pub(crate) const SERVE: &str =
    "[\"${LENO}\", load, serve, --address, \"::\", --port, \"8080\", --tcp, \"[::]:9090\"]";

pub(crate) fn mesh() -> String {
    let workloads = [
        workload("client", "client", "[sleep, infinity]"),
        workload("one", "echo", SERVE),
        workload("two", "echo", SERVE),
        workload("other", "other", SERVE),
    ];
    service("echo") + &service("other") + &workloads.concat()
}

/// A Service on ports 80 and 90.
pub(crate) fn service(name: &str) -> String {
    let http = "{name: http, port: 80, targetPort: 8080, appProtocol: http}";
    let tcp = "{name: tcp, port: 90, targetPort: 9090, appProtocol: tcp}";
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{selector: {{app: {name}}}, ports: [{http}, {tcp}]}}\n"
    )
}

/// A Service whose endpoints are those of `echo`.
pub(crate) fn alias(name: &str) -> String {
    service(name).replace(&format!("app: {name}"), "app: echo")
}

/// A workload whose account has the name of the Service that it is selected by.
pub(crate) fn workload(name: &str, account: &str, command: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\n\
         metadata: {{name: {name}, labels: {{app: {account}}}}}\n\
         spec: {{serviceAccount: {account}, command: {command}}}\n"
    )
}

/// Of a hundred requests to `echo`, `other` gets `weight`.
pub(crate) fn split(weight: u64) -> String {
    let backend = |name, weight| format!("{{name: {name}, port: 80, weight: {weight}}}");
    let backends = [backend("echo", 100 - weight), backend("other", weight)].join(", ");
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: split}}\n\
         spec:\n  parentRefs: [{{kind: Service, name: echo, group: \"\"}}]\n  \
         rules: [{{backendRefs: [{backends}]}}]\n"
    )
}
