//! What is taken of a Gateway, what is not, and which sockets it needs.

use std::path::Path;

use super::*;

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: leno
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - name: shop
    port: 443
    protocol: HTTPS
    hostname: shop.example
    tls: {mode: Terminate, certificateRefs: [{kind: Secret, name: shop-cert}]}
    allowedRoutes: {namespaces: {from: All}, kinds: [{kind: HTTPRoute}]}
  - name: rest
    port: 443
    protocol: HTTPS
    hostname: \"*.example\"
    tls: {certificateRefs: [{name: rest-cert}]}
";

fn read(text: &str) -> Result<Resource, Fault> {
    Resource::read(
        &Node::read(text).unwrap(),
        &Arc::from(Path::new("mesh.yaml")),
    )
}

fn gateway(text: &str) -> Gateway {
    match read(text).unwrap().object {
        Object::Gateway(gateway) => gateway,
        other => panic!("{other:?}"),
    }
}

#[test]
fn listeners_of_one_port_are_told_apart_by_host() {
    let gateway = gateway(GATEWAY);
    let [http, shop, rest] = &gateway.listeners[..] else {
        panic!("three listeners")
    };
    assert_eq!((http.scheme(), &http.host), (Scheme::Http, &HostMatch::Any));
    assert_eq!((http.from, shop.from), (RoutesFrom::Same, RoutesFrom::All));
    let secret = &rest.certificate.as_ref().unwrap().secret;
    assert_eq!(secret.to_string(), "Secret shop/rest-cert");
    assert_eq!(rest.host, HostMatch::Suffix(".example".into()));
    let ports = gateway.by_port();
    let counts: Vec<_> = ports.iter().map(|(port, it)| (*port, it.1.len())).collect();
    assert_eq!(counts, [(80, 1), (443, 2)]);
}

#[test]
fn sockets_are_those_of_the_gateway_that_a_workload_is() {
    let workload = "{apiVersion: leno.dev/v1alpha1, kind: Workload, metadata: {name: in, \
                    namespace: shop}, spec: {gateway: edge}}";
    let key = WorkloadKey::new("shop", "in");
    let sockets = |texts: &[&str], key| {
        let resources = texts.iter().map(|text| Arc::new(read(text).unwrap()));
        let resources: Vec<_> = resources.collect();
        let sockets = gateway_addresses(&resources, key).into_iter();
        sockets.map(|it| it.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(sockets(&[GATEWAY, workload], &key), ["[::]:80", "[::]:443"]);
    let given = "addresses: [{type: IPAddress, value: 192.0.2.1}, {value: \"2001:db8::1\"}]\n  \
                 listeners:";
    let given = GATEWAY.replace("listeners:", given);
    let wanted = [
        "192.0.2.1:80",
        "[2001:db8::1]:80",
        "192.0.2.1:443",
        "[2001:db8::1]:443",
    ];
    assert_eq!(sockets(&[workload, &given], &key), wanted);
    let none: [&str; 0] = [];
    assert_eq!(sockets(&[workload], &key), none, "no such Gateway");
    let other = GATEWAY.replace("namespace: shop", "namespace: other");
    assert_eq!(sockets(&[workload, &other], &key), none);
    assert_eq!(sockets(&[GATEWAY], &key), none, "no such Workload");
}

#[track_caller]
fn check(from: &str, to: &str, wanted: &str) {
    assert!(GATEWAY.contains(from), "{from}");
    let fault = read(&GATEWAY.replacen(from, to, 1)).unwrap_err();
    assert_eq!(format!("{}; {}", fault.message, fault.hint), wanted);
}

#[test]
fn gateways_that_could_not_be_carried_out() {
    check(
        "gatewayClassName: leno",
        "gatewayClassName: nginx",
        "`nginx` is not ours to carry out; write `gatewayClassName: leno`",
    );
    check(
        "{name: http, port: 80, protocol: HTTP}",
        "{name: http, port: 443, protocol: HTTP}",
        "the port 443 has two protocols; line 8 has it with another; choose another port",
    );
    check(
        "\"*.example\"",
        "shop.example",
        "the port 443 has this hostname already; line 9 has it; choose another port or hostname",
    );
    check(
        "name: rest",
        "name: shop",
        "the name `shop` is taken; an earlier listener has it; choose another",
    );
    check(
        "port: 80,",
        "port: 15001,",
        "15001 is a port of the sidecar itself; choose another",
    );
    check(
        "from: All",
        "from: Selector",
        "`Selector` is not a choice; known here: Same, All",
    );
    let empty = GATEWAY.split("  listeners:").next().unwrap().to_owned() + "  listeners: []\n";
    let fault = read(&empty).unwrap_err();
    assert_eq!(fault.message, "a Gateway without listeners lets nobody in");
}

#[test]
fn gateways_whose_tls_could_not_be_carried_out() {
    check(
        "protocol: HTTP}",
        "protocol: TLS}",
        "`TLS` is not let in; write HTTP or HTTPS; what is not HTTP does not come in through a \
         gateway",
    );
    check(
        "protocol: HTTP}",
        "protocol: HTTPS}",
        "a listener for HTTPS needs a certificate; add `tls: {certificateRefs: [{name: …}]}`",
    );
    check(
        "protocol: HTTP}",
        "protocol: HTTP, tls: {}}",
        "`tls` on a listener for HTTP; write `protocol: HTTPS`, or remove `tls`",
    );
    check(
        "mode: Terminate",
        "mode: Passthrough",
        "`Passthrough` is not supported; write `mode: Terminate`; requests are routed by what is \
         inside of TLS",
    );
    check(
        "[{name: rest-cert}]",
        "[{name: a}, {name: b}]",
        "a listener shows one certificate; name one Secret; other hosts have listeners of their \
         own",
    );
    check(
        "[{name: rest-cert}]",
        "[{name: a, namespace: other}]",
        "a Secret in another namespace; put the Secret into the Gateway's namespace; \
         ReferenceGrant is not known here",
    );
}

#[test]
fn gateways_at_addresses_that_are_none() {
    check(
        "listeners:",
        "addresses: [{type: IPAddress, value: 0.0.0.0}]\n  listeners:",
        "0.0.0.0 cannot be listened at; write an address of this machine, each once; remove \
         `addresses` for all of them",
    );
    check(
        "listeners:",
        "addresses: [{type: Hostname, value: a}]\n  listeners:",
        "`Hostname` is not a choice; known here: IPAddress",
    );
}
