//! The mesh's file: every kind of caller and callee, once on each data plane.

use crate::resources::{SERVE, workload};
use crate::world::World;

pub(crate) const PLANES: [&str; 2] = ["leno", "envoy"];

/// Service accounts of callers: one is let in by those who are strict, one is not.
pub(crate) const CALLERS: [&str; 2] = ["friend", "foe"];

/// What is called, each once on every data plane.
const CALLEES: [&str; 4] = ["open", "strict", "routed", "heads"];

/// The place of a callee among the Services' addresses.
pub(crate) fn place(callee: &str, plane: &str) -> u8 {
    let number = |names: &[&str], name| names.iter().position(|one| *one == name).unwrap();
    let place = 10 + 2 * number(&CALLEES, callee) + number(&PLANES, plane);
    u8::try_from(place).unwrap()
}

/// The resources of a workload, with its sidecar on that data plane.
pub(crate) fn on(plane: &str, resources: &str) -> String {
    let with = format!("spec: {{sidecar: {{dataPlane: {plane}}}, serviceAccount:");
    resources.replace("spec: {serviceAccount:", &with)
}

/// `friend-leno`, `foe-envoy`, …, who call; `open-leno`, …, whom everybody may call;
/// `strict-leno`, …, whom friends may call; `routed-leno`, …, Services that send `/strict` to the
/// strict ones.
pub(crate) fn every(world: &World) -> String {
    PLANES.map(|plane| of_plane(world, plane)).concat()
}

fn of_plane(world: &World, plane: &str) -> String {
    let callers = CALLERS.map(|account| {
        let name = format!("{account}-{plane}");
        on(plane, &workload(&name, account, "[sleep, infinity]"))
    });
    let [open, strict] = ["open", "strict"].map(|kind| {
        let name = format!("{kind}-{plane}");
        on(plane, &workload(&name, &name, SERVE))
    });
    let strict = strict.replace("command:", "mode: strict, command:");
    let services = CALLEES.map(|kind| service(world, kind, plane));
    let others = [policy(plane), route(plane), open, strict];
    callers.concat() + &services.concat() + &others.concat()
}

/// Of `open`, unless there are workloads of its own name; of `heads` there is no address.
fn service(world: &World, kind: &str, plane: &str) -> String {
    let [v4, v6] = world.virtual_addresses(place(kind, plane));
    let addresses = match kind {
        "heads" => "clusterIP: None".to_owned(),
        _ => format!("clusterIPs: [\"{v4}\", \"{v6}\"]"),
    };
    let app = if kind == "strict" { "strict" } else { "open" };
    let http = "{name: http, port: 80, targetPort: 8080, appProtocol: http}";
    let tcp = "{name: tcp, port: 90, targetPort: 9090, appProtocol: tcp}";
    let (http, tcp) = match kind {
        "heads" => (
            http.replace("port: 80,", "port: 8080,"),
            tcp.replace("port: 90,", "port: 9090,"),
        ),
        _ => (http.to_owned(), tcp.to_owned()),
    };
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {kind}-{plane}}}\n\
         spec: {{selector: {{app: {app}-{plane}}}, {addresses}, ports: [{http}, {tcp}]}}\n"
    )
}

fn policy(plane: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: AccessPolicy\n\
         metadata: {{name: strict-{plane}}}\n\
         spec: {{serviceAccount: strict-{plane}, callers: [{{serviceAccount: friend}}]}}\n"
    )
}

fn route(plane: &str) -> String {
    let rule = |path: &str, kind: &str| {
        format!(
            "{{matches: [{{path: {{type: PathPrefix, value: {path}}}}}], \
             backendRefs: [{{name: {kind}-{plane}, port: 80}}]}}"
        )
    };
    let rules = [rule("/", "open"), rule("/strict", "strict")].join(", ");
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: routed-{plane}}}\n\
         spec: {{parentRefs: [{{kind: Service, group: \"\", name: routed-{plane}}}], \
         rules: [{rules}]}}\n"
    )
}
