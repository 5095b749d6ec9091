//! What the readers take, and what they say about what they do not.

use std::path::Path;
use std::sync::Arc;

use model::{Filter, HostMatch, Protocol};
use yaml::Node;

use super::*;

fn read(text: &str) -> Result<Resource, yaml::Fault> {
    Resource::read(
        &Node::read(text).unwrap(),
        &Arc::from(Path::new("mesh.yaml")),
    )
}

/// The fault of a resource of `kind` with `spec`, without its place.
#[track_caller]
fn refused(kind: Kind, spec: &str, wanted: &str) {
    let version = kind.row().2;
    let name = kind.label();
    let text = format!("{{apiVersion: {version}, kind: {name}, metadata: {{name: mesh}}, {spec}}}");
    let fault = read(&text).unwrap_err();
    assert_eq!(format!("{}; {}", fault.message, fault.hint), wanted);
}

fn service(spec: &str) -> Service {
    let text =
        format!("{{apiVersion: v1, kind: Service, metadata: {{name: a}}, spec: {{{spec}}}}}");
    match read(&text).unwrap().object {
        Object::Service(service) => service,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_pasted_from_a_cluster_is_taken() {
    let text = "
apiVersion: v1
kind: Service
metadata:
  name: hello
  namespace: shop
  uid: 5f7c
  creationTimestamp: null
  resourceVersion: \"7\"
  annotations: {a: \"b\"}
  labels: {app: hello, app.kubernetes.io/part-of: shop, empty: \"\"}
spec:
  type: NodePort
  clusterIP: 10.96.1.2
  clusterIPs: [10.96.1.2, \"fd96::2\"]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: PreferDualStack
  sessionAffinity: None
  internalTrafficPolicy: Cluster
  selector: {app: hello}
  ports:
  - {name: http, port: 80, targetPort: web, nodePort: 30080, protocol: TCP, appProtocol: http}
  - {name: db, port: 5432}
status: {loadBalancer: {}}
";
    let resource = read(text).unwrap();
    assert_eq!(resource.key.to_string(), "Service shop/hello");
    assert_eq!(resource.origin.to_string(), "mesh.yaml:2:1");
    let Object::Service(service) = resource.object else {
        panic!("a Service")
    };
    let addresses = ["10.96.1.2".parse().unwrap(), "fd96::2".parse().unwrap()];
    assert_eq!(service.cluster_ip, ClusterIp::Given(addresses.into()));
    let [http, db] = &service.ports[..] else {
        panic!("two ports")
    };
    assert_eq!(http.target, TargetPort::Name("web".into()));
    assert_eq!(http.protocol, Some(Protocol::Http1));
    assert_eq!((&db.target, db.protocol), (&TargetPort::Number(5432), None));
}

#[test]
fn services_are_headless_or_have_an_address() {
    let cluster_ip = |spec: &str| service(&format!("ports: [{{port: 80}}]{spec}")).cluster_ip;
    assert_eq!(cluster_ip(""), ClusterIp::Allocated);
    assert_eq!(cluster_ip(", clusterIP: \"\""), ClusterIp::Allocated);
    assert_eq!(cluster_ip(", clusterIP: None"), ClusterIp::Headless);
    assert_eq!(
        cluster_ip(", clusterIP: None, clusterIPs: [None]"),
        ClusterIp::Headless
    );
}

#[test]
fn services_that_would_not_do_what_they_say() {
    let check = |spec: &str, wanted| {
        refused(
            Kind::Service,
            &format!("spec: {{ports: [{{port: 80}}], {spec}}}"),
            wanted,
        );
    };
    check(
        "externalName: db.example.org",
        "names of things outside the mesh are not looked up; give the addresses in an \
         EndpointSlice instead",
    );
    check(
        "type: ExternalName",
        "`ExternalName` is not a choice; known here: ClusterIP, NodePort, \
           LoadBalancer",
    );
    check(
        "sessionAffinity: ClientIP",
        "`sessionAffinity: ClientIP` is not supported; remove it; requests are spread over all \
         endpoints",
    );
    check(
        "selektor: {a: b}",
        "unknown key `selektor` in a Service's spec; did you mean `selector`?",
    );
    check(
        "clusterIP: 127.0.0.1",
        "127.0.0.1 cannot be a Service's address; choose one from `serviceCIDRs`, or remove the \
         key to be given one",
    );
    check(
        "clusterIPs: [10.78.0.1, 10.78.0.2]",
        "a second address of one family; keep one IPv4 and one IPv6 address",
    );
}

#[test]
fn ports_of_services_are_told_apart() {
    let check =
        |ports, wanted| refused(Kind::Service, &format!("spec: {{ports: {ports}}}"), wanted);
    check(
        "[{port: 80}, {port: 81}]",
        "a Service's port needs `name`; add `name: …` here",
    );
    check(
        "[{name: a, port: 80}, {name: b, port: 80}]",
        "the port 80 or its name is taken; line 1 has it already; choose another",
    );
    check(
        "[{port: 53, protocol: UDP}]",
        "`UDP` is not carried by the mesh, only TCP is; remove this port; its clients may use the \
         workloads' own addresses",
    );
    check(
        "[{port: 80, appProtocol: htp}]",
        "`htp` is not a choice; did you mean `http`?",
    );
    check(
        "[{port: 80, targetPort: 0}]",
        "`0` is out of range; from 1 to 65535",
    );
    check(
        "[]",
        "a Service without ports answers nothing; add one: `- {name: http, port: 80, \
                 targetPort: 8080}`",
    );
}

#[test]
fn kinds_are_known_by_name_and_version() {
    let check = |text: &str, wanted: &str| {
        assert_eq!(read(text).unwrap_err().to_string(), wanted);
    };
    check(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {}}",
        "line 1, column 24: the kind `ConfigMap` is not known; known here: Namespace, \
         ServiceAccount, Service, EndpointSlice, Workload, WorkloadStatus, MeshConfig, \
         AccessPolicy, HTTPRoute, Gateway, Secret",
    );
    check(
        "{apiVersion: v1, kind: Workloads}",
        "line 1, column 24: the kind `Workloads` is not known; did you mean `Workload`?",
    );
    check(
        "{apiVersion: v1, kind: Workload}",
        "line 1, column 14: `v1` has no kind Workload; write `apiVersion: leno.dev/v1alpha1`",
    );
    check(
        "{apiVersion: v1}",
        "line 1, column 1: a resource needs `kind`; add `kind: …` here",
    );
    check(
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}",
        "line 1, column 66: a Namespace lives in no namespace; remove `namespace`",
    );
    check(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: A}}",
        "line 1, column 57: `A` is not a name; lower-case letters, digits, - and . only, with \
         neither - nor . at the ends",
    );
}

#[test]
fn workloads_have_their_account_and_ports() {
    let text = "
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: hello, labels: {app: hello}}
spec:
  serviceAccount: greeter
  ports: [{name: http, port: 8080, protocol: grpc}, {port: 9090}]
  mode: strict
  command: [./server, --port, 8080, \"\"]
  user: \"1234\"
";
    let Object::Workload(workload) = read(text).unwrap().object else {
        panic!("a Workload")
    };
    assert_eq!(workload.account.to_string(), "default/greeter");
    assert_eq!(workload.command, ["./server", "--port", "8080", ""]);
    let protocols: Vec<_> = workload.ports.iter().map(|port| port.protocol).collect();
    assert_eq!(protocols, [Protocol::Http2, Protocol::Auto]);
    assert_eq!(
        (workload.mode, workload.user.as_deref()),
        (Some(Mode::Strict), Some("1234"))
    );
}

#[test]
fn workloads_that_would_go_past_their_sidecars() {
    let check = |spec, wanted| refused(Kind::Workload, &format!("spec: {{{spec}}}"), wanted);
    check(
        "user: \"1500\"",
        "the user `1500` could go past the sidecar; choose one of its own, or remove the key",
    );
    check(
        "ports: [{port: 15001}]",
        "15001 is a port of the sidecar itself; let the workload listen on another",
    );
    check(
        "command: [\"\"]",
        "a command without a program; write [PROGRAM, ARGUMENT, …]",
    );
    check(
        "mode: lax",
        "`lax` is not a choice; known here: permissive, strict",
    );
}

#[test]
fn statuses_hold_addresses_that_others_reach() {
    let check =
        |status, wanted| refused(Kind::WorkloadStatus, &format!("status: {status}"), wanted);
    check(
        "{addresses: [127.0.0.1]}",
        "127.0.0.1 cannot be connected to by others; write the address that others reach it at",
    );
    check(
        "{addresses: [10.77.0.2, 10.77.0.2]}",
        "10.77.0.2 is listed twice; remove one of them",
    );
}

#[test]
fn the_mesh_has_one_configuration() {
    let check = |spec, wanted| refused(Kind::MeshConfig, &format!("spec: {{{spec}}}"), wanted);
    check(
        "serviceCIDRs: [10.77.128.0/17]",
        "10.77.128.0/17 of `serviceCIDRs` overlaps 10.77.0.0/16 of `workloadCIDRs`; choose ranges \
         that are apart",
    );
    check(
        "serviceCIDRs: [10.78.0.1/16]",
        "`10.78.0.1/16` is not a range of addresses; write address/bits with nothing set beyond \
         the bits, as in 10.78.0.0/16",
    );
    check(
        "trustDomain: Mesh",
        "`Mesh` is not a trust domain; lower-case letters, digits and - _ . only, without \
         spiffe://",
    );
    check(
        "dataPlane: istio",
        "`istio` is not a choice; known here: leno, envoy",
    );
    let text =
        "{apiVersion: leno.dev/v1alpha1, kind: MeshConfig, metadata: {name: other}, spec: {}}";
    assert_eq!(
        read(text).unwrap_err().message,
        "a MeshConfig named `other`"
    );
    let Object::MeshConfig(config) = read(&text.replace("other", "mesh")).unwrap().object else {
        panic!("a MeshConfig")
    };
    assert_eq!(config, MeshConfig::default());
    assert_eq!(config.data_plane, DataPlane::Leno);
}

#[test]
fn slices_hold_endpoints_that_are_ready() {
    let text = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: \"\", port: 5432, protocol: TCP}]
endpoints:
- {addresses: [192.0.2.1], nodeName: a}
- {addresses: [192.0.2.2], conditions: {ready: false, serving: true}}
- {addresses: [192.0.2.3], conditions: {ready: true}}
";
    let Object::EndpointSlice(slice) = read(text).unwrap().object else {
        panic!("an EndpointSlice")
    };
    let shown: Vec<_> = slice.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["192.0.2.1", "192.0.2.3"]);
    assert_eq!(
        (slice.service.to_string().as_str(), &slice.ports[0].name),
        ("default/db", &None)
    );
    let fault = read(&text.replace("service-name", "service")).unwrap_err();
    assert_eq!(
        fault.message,
        "an EndpointSlice must say which Service it is of"
    );
    let fault = read(&text.replace("IPv4", "IPv6")).unwrap_err();
    assert_eq!(
        fault.message,
        "192.0.2.1 is not of this slice's `addressType`"
    );
}

#[test]
fn callers_are_of_the_policys_own_namespace_unless_they_say_so() {
    let text = "
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers-of-hello, namespace: shop}
spec: {serviceAccount: hello, callers: [{serviceAccount: a}, {serviceAccount: b, namespace: c}]}
";
    let Object::AccessPolicy(policy) = read(text).unwrap().object else {
        panic!("an AccessPolicy")
    };
    let callers: Vec<_> = policy
        .callers
        .iter()
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(
        (policy.account.to_string().as_str(), callers),
        ("shop/hello", vec!["shop/a".into(), "c/b".into()])
    );
}

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: split}
spec:
  parentRefs: [{group: \"\", kind: Service, name: hello, port: 80}]
  hostnames: [hello, \"*.example.org\"]
  rules:
  - matches: [{path: {type: PathPrefix, value: /api/}}, {path: {value: /v2}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-a, value: b}], remove: [x-c]}
    backendRefs: [{name: hello, port: 80, weight: 9}, {name: hello-v2, port: 80}]
";

#[test]
fn routes_split_requests() {
    let Object::HttpRoute(route) = read(ROUTE).unwrap().object else {
        panic!("an HTTPRoute")
    };
    let hosts = [
        HostMatch::Exact("hello".into()),
        HostMatch::Suffix(".example.org".into()),
    ];
    assert_eq!(route.hosts, hosts);
    let [rule] = &route.rules[..] else {
        panic!("one rule")
    };
    let paths: Vec<_> = rule.paths.iter().map(|it| (&*it.path, it.exact)).collect();
    assert_eq!(paths, [("/api", false), ("/v2", false)]);
    assert_eq!(rule.filters.len(), 2);
    assert_eq!(
        rule.filters[1],
        Filter::RemoveRequestHeader { name: "x-c".into() }
    );
    let weights: Vec<_> = rule.backends.iter().map(|backend| backend.weight).collect();
    assert_eq!(weights, [9, 1]);
}

#[test]
fn routes_that_could_not_be_followed() {
    let check = |from: &str, to: &str, wanted: &str| {
        assert!(ROUTE.contains(from), "{from}");
        let fault = read(&ROUTE.replacen(from, to, 1)).unwrap_err();
        assert_eq!(format!("{}; {}", fault.message, fault.hint), wanted);
    };
    check(
        "type: PathPrefix",
        "type: RegularExpression",
        "paths cannot be matched by `RegularExpression`; write `type: PathPrefix`, which fits \
         whole segments, `/a` not `/ab`, or `type: Exact`",
    );
    check(
        "{path: {value: /v2}}",
        "{method: GET}",
        "unknown key `method` in a match (headers, methods and queries are not compared); known \
         here: path",
    );
    check(
        "type: RequestHeaderModifier",
        "type: RequestMirror",
        "`RequestMirror` is not a choice; known here: RequestHeaderModifier, \
         ResponseHeaderModifier, URLRewrite, RequestRedirect",
    );
    check(
        "kind: Service",
        "kind: Ingress",
        "`Ingress` is not a choice; known here: Gateway, Service",
    );
    check(
        "remove: [x-c]",
        "remove: [Host]",
        "`Host` may not be changed by a filter; the sidecars write it themselves; choose another \
         header",
    );
    check(
        "weight: 9}, {name: hello-v2, port: 80}",
        "weight: 0}",
        "nobody is left to answer; give one of them a weight above 0",
    );
    check(
        "{name: hello-v2, port: 80}",
        "{name: hello-v2, namespace: other, port: 80}",
        "a Service in another namespace; put the route and the Services that it names into one \
         namespace",
    );
    check(
        "hostnames: [hello,",
        "hostnames: [\"hello:80\",",
        "`hello:80` is not a host; a lower-case name without port, or \"*.suffix\"; remove the \
         key to take all",
    );
}
