//! Files that are read as meant, and files that are refused, each with the exact words.

use std::path::Path;
use std::time::Duration;

use model::{
    Backend, Balance, Direction, Filter, HostMatch, Limits, ListenerProtocol, Protocol,
    ProxyProtocol, TlsMode, TokenSource, Transport, XdsVariant,
};

use super::*;

const DOCUMENTATION: &str = include_str!("../../../../docs/configuration.md");

/// The smallest file that is accepted.
const SMALLEST: &str = "\
workload: {name: web}
listeners:
- name: out
  direction: outbound
  address: 127.0.0.1:0
  routes:
  - cluster: echo
clusters:
- name: echo
  endpoints: []
";

fn parse(text: &str) -> Result<Config, Fault> {
    super::parse(text, Path::new("/etc/leno"))
}

fn example() -> &'static str {
    example_at(1)
}

fn example_at(place: usize) -> &'static str {
    DOCUMENTATION
        .split("```yaml\n")
        .nth(place)
        .unwrap()
        .split("```")
        .next()
        .unwrap()
}

/// `SMALLEST` with `old` replaced must be refused with exactly `expected`.
#[track_caller]
fn check(old: &str, new: &str, expected: &str) {
    assert!(SMALLEST.contains(old), "{old}");
    let text = SMALLEST.replacen(old, new, 1);
    let fault = parse(&text).expect_err(&text);
    assert_eq!(fault.to_string(), expected, "{text}");
}

/// An endpoint, a route or a listener with this line in it.
#[track_caller]
fn check_endpoint(endpoint: &str, expected: &str) {
    check(
        "endpoints: []",
        &format!("endpoints:\n  - {endpoint}"),
        expected,
    );
}

#[track_caller]
fn check_route(line: &str, expected: &str) {
    check(
        "- cluster: echo",
        &format!("- cluster: echo\n    {line}"),
        expected,
    );
}

#[track_caller]
fn check_limit(line: &str, expected: &str) {
    check(
        "listeners:",
        &format!("limits: {{{line}}}\nlisteners:"),
        expected,
    );
}

#[test]
fn the_smallest_file_gets_every_default() {
    let config = parse(SMALLEST).unwrap();
    assert_eq!(config.workload.namespace, "default");
    assert_eq!(config.workload.service_account, "default");
    assert_eq!(config.workers, 0);
    assert_eq!(config.identity, None);
    assert_eq!(config.admin, "127.0.0.1:15000".parse().ok());
    assert_eq!(config.metrics, "0.0.0.0:15010".parse().ok());
    assert_eq!(config.access_log, None);
    assert_eq!(config.limits, Limits::default());
    let listener = &config.listeners[0];
    assert_eq!(listener.tls, TlsMode::Disabled);
    assert!(!listener.request_id && !listener.forwarded_for);
    assert_eq!(listener.protocol, ListenerProtocol::Auto);
    assert_eq!(listener.detect_timeout, Duration::from_millis(50));
    assert_eq!(listener.upgrades, ["websocket"]);
    assert!(!listener.connect && !listener.proxy_protocol);
    assert_eq!(config.opaque_ports, Config::OPAQUE_PORTS);
    let route = &listener.routes[0];
    assert_eq!(
        (&*route.hosts, &*route.prefix),
        (&[HostMatch::Any][..], "/")
    );
    assert_eq!((&route.allow, route.filters.len()), (&None, 0));
    assert_eq!(config.clusters[0].balance, Balance::RoundRobin);
    assert_eq!(config.clusters[0].protocol, Protocol::Auto);
    assert_eq!(config.clusters[0].proxy_protocol, None);
}

#[test]
fn the_documented_example_is_read_as_documented() {
    let config = parse(example()).unwrap();
    let identity = config.identity.unwrap();
    assert_eq!(identity.certificate, Path::new("/etc/leno/client.pem"));
    assert_eq!(identity.trust_domain, "cluster.local");
    assert_eq!(config.access_log.unwrap().path, Path::new("/dev/stdout"));
    assert_eq!(
        config.limits,
        Limits::default(),
        "the example spells out the defaults"
    );
    assert_eq!(config.opaque_ports, Config::OPAQUE_PORTS);
    let [outbound, mirror, inbound] = &*config.listeners else {
        panic!("three listeners")
    };
    assert!(outbound.bind && !mirror.bind && !outbound.original_destination);
    assert_eq!(mirror.addresses().count(), 2);
    assert_eq!(mirror.names, ["mirror.default.svc.cluster.local"]);
    assert_eq!(
        mirror.routes[0].backends,
        [("echo", 9), ("application", 1)].map(|(cluster, weight)| Backend {
            cluster: cluster.to_owned(),
            weight,
        })
    );
    assert_eq!(
        (outbound.direction, outbound.tls),
        (Direction::Outbound, TlsMode::Disabled)
    );
    assert_eq!(
        (inbound.direction, inbound.tls),
        (Direction::Inbound, TlsMode::Strict)
    );
    assert_eq!(
        outbound.routes[0].hosts,
        [
            HostMatch::Exact("echo".to_owned()),
            HostMatch::Suffix(".example.org".to_owned())
        ]
    );
    let filters = &outbound.routes[0].filters;
    let hold = Filter::Hold {
        delay: Duration::from_millis(10),
        buffer_bytes: 65536,
    };
    assert_eq!((filters.len(), filters.last()), (5, Some(&hold)));
    let endpoint = &config.clusters[0].endpoints[0];
    assert_eq!(endpoint.transport, Transport::Leno);
    assert_eq!(endpoint.identities.len(), 1);
    assert!(config.clusters[2].passthrough);
    let database = &config.clusters[3];
    assert_eq!(database.protocol, Protocol::Tcp);
    assert_eq!(database.proxy_protocol, Some(ProxyProtocol::V2));
    assert_eq!(database.endpoints[0].transport, Transport::Mtls);
}

#[test]
fn the_documentation_names_every_key() {
    let sections = [
        KEYS,
        sections::WORKLOAD_KEYS,
        sections::IDENTITY_KEYS,
        control::CONTROL_KEYS,
        control::TLS_KEYS,
        envoy::KEYS,
        sections::ACCESS_LOG_KEYS,
        sections::LIMITS_KEYS,
        listeners::LISTENER_KEYS,
        routes::ROUTE_KEYS,
        routes::FILTER_KEYS,
        routes::target::REDIRECT_KEYS,
        routes::target::REWRITE_KEYS,
        routes::HOLD_KEYS,
        routes::SPLIT_KEYS,
        clusters::CLUSTER_KEYS,
        clusters::ENDPOINT_KEYS,
    ];
    for key in sections.concat() {
        assert!(
            DOCUMENTATION.contains(&format!("| `{key}` |")),
            "{key} has no row"
        );
    }
}

/// A sidecar that is told.
const TOLD: &str = "workload: {name: web, serviceAccount: web}\ncontrol:\n  addresses: \
                    [\"10.77.0.1:15128\"]\n  trustBundle: root.pem\n  token: stdin\n";

#[test]
fn a_sidecar_that_is_told_has_no_listeners_of_its_own() {
    let config = parse(TOLD).unwrap();
    assert!(config.listeners.is_empty() && config.clusters.is_empty());
    let Trust::Mesh(membership) = config.control.unwrap().tls else {
        panic!("it is the mesh's own")
    };
    assert_eq!(
        membership.identity,
        "spiffe://cluster.local/ns/leno-system/sa/leno-control"
    );
    assert_eq!(membership.token, Some(TokenSource::StandardInput));
    for (more, expected) in [
        (
            "clusters: []\n",
            "line 6, column 11: `clusters` comes from the control plane; remove `clusters` or \
             `control`",
        ),
        (
            "identity: {certificate: a, key: b, trustBundle: c}\n",
            "line 6, column 11: `identity` comes from the control plane; remove `identity` or \
             `control`",
        ),
    ] {
        let fault = parse(&format!("{TOLD}{more}")).unwrap_err();
        assert_eq!(fault.to_string(), expected);
    }
    let nowhere = TOLD.replace("[\"10.77.0.1:15128\"]", "[]");
    let fault = parse(&nowhere).unwrap_err().to_string();
    assert_eq!(
        fault,
        "line 3, column 14: no address is listed; add one, as ip:port"
    );
    let secret = TOLD.replace("stdin", "environment");
    let fault = parse(&secret).unwrap_err().to_string();
    assert!(fault.contains("`environment` is not a choice"), "{fault}");
}

#[test]
fn a_control_plane_of_others_is_reached_in_its_own_way() {
    let told = |control: &str| parse(&format!("workload: {{name: web}}\ncontrol: {control}\n"));
    let plane = |control: &str| told(control).unwrap().control.unwrap();
    let local = plane(
        "{addresses: ['unix:xds.sock', '127.0.0.1:18000', '[::1]:1'], tls: plaintext, \
         xds: stateOfTheWorld, node: {id: test-id}}",
    );
    assert_eq!(
        (local.xds, &local.tls),
        (XdsVariant::StateOfTheWorld, &Trust::Plaintext)
    );
    let addresses: Vec<_> = local.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(
        addresses,
        ["unix:/etc/leno/xds.sock", "127.0.0.1:18000", "[::1]:1"]
    );
    assert_eq!(local.node.unwrap().id, "test-id");
    assert!(parse(example_at(2)).unwrap().control.is_some());
    let remote = plane("{addresses: ['10.0.0.1:1'], tls: {name: xds.example, trustBundle: ca}}");
    let Trust::Files(tls) = remote.tls else {
        panic!()
    };
    assert_eq!((&*tls.name, tls.own), ("xds.example", None));
    let both = "identity: {certificate: a, key: b, trustBundle: c}\n";
    let control = format!("{{addresses: ['127.0.0.1:1'], tls: plaintext}}\n{both}");
    assert!(
        told(&control).unwrap().identity.is_some(),
        "of the mesh, from files"
    );
    for (control, expected) in [
        (
            "{addresses: ['10.0.0.1:1'], tls: plaintext}",
            "does not leave this machine",
        ),
        (
            "{addresses: ['unix:a'], trustBundle: ca}",
            "on a unix socket",
        ),
        (
            "{addresses: ['1.1.1.1:1'], tls: {name: a, trustBundle: b, key: k}}",
            "go together",
        ),
        (
            "{addresses: ['1.1.1.1:1'], tls: {name: 'spiffe://a', trustBundle: b}}",
            "server's name",
        ),
        (
            "{addresses: ['127.0.0.1:1'], tls: plaintext, token: stdin}",
            "remove `token` or `tls`",
        ),
        (
            "{addresses: ['127.0.0.1:1'], tls: off}",
            "`off` is not a choice",
        ),
        ("{addresses: ['127.0.0.1:1'], tls: mesh}", "`trustBundle`"),
        (
            "{addresses: ['127.0.0.1:1'], tls: plaintext, xds: rest}",
            "`rest` is not a choice",
        ),
        (
            "{addresses: ['127.0.0.1:1'], tls: plaintext}\nlisteners: []",
            "remove `listeners`",
        ),
    ] {
        let fault = told(control).unwrap_err().to_string();
        assert!(fault.contains(expected), "{control}: {fault}");
    }
}

#[test]
fn a_dump_never_holds_more_than_paths_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("client.key");
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n").unwrap();
    let text = format!(
        "identity: {{certificate: c.pem, key: {}, trustBundle: ca.pem}}\n{SMALLEST}",
        key.display()
    );
    let dump = serde_json::to_string(&parse(&text).unwrap()).unwrap();
    assert!(
        dump.contains("client.key") && !dump.contains("c2VjcmV0"),
        "{dump}"
    );
}

#[test]
fn a_file_that_is_not_yaml_is_refused_at_its_place() {
    for (text, expected) in [
        (
            "",
            "line 1, column 1: the file is empty; see docs/configuration.md for one",
        ),
        (
            "# nothing\n",
            "line 1, column 1: the file is empty; see docs/configuration.md for one",
        ),
        (
            "- a\n",
            "line 1, column 1: the configuration must be a mapping, found a list; write \
             `key: value` lines; known keys: workload, workers, identity, control, envoy, \
             dns, handover, admin, metrics, accessLog, opaquePorts, limits, listeners, clusters",
        ),
        (
            "workers: 1\nworkers: 2\n",
            "line 2, column 1: `workers` is given twice; it was given on line 1 already; remove \
             one of them",
        ),
        (
            "workers: &n 1\n",
            "line 1, column 10: anchors (`&`) and aliases (`*`) are not supported; write the \
             value out; put quotes around it if it begins with `*` or `&`",
        ),
        (
            "workers: !!int 1\n",
            "line 1, column 10: tags (`!`) are not supported; remove the tag",
        ),
        (
            "? [a]\n: 1\n",
            "line 1, column 3: a key must be a word, found a list; write `key: value`",
        ),
        (
            "workers: 1\n---\nworkers: 2\n",
            "line 2, column 1: a second document; keep one document per file: remove everything \
             from this `---` on",
        ),
        (
            "workload:\n",
            "line 1, column 1: `workload` has no value; give it one, or remove the key",
        ),
    ] {
        assert_eq!(parse(text).expect_err(text).to_string(), expected, "{text}");
    }
}

#[test]
fn broken_syntax_and_endless_nesting_are_faults_not_panics() {
    let deep = "[".repeat(100_000);
    let blocks = (0..200).fold(String::new(), |text, i| text + &" ".repeat(i) + "a:\n");
    for text in [
        "a: [1,\n",
        "a: 'b\n",
        "\ta: 1\n",
        "a: b: c\n",
        "%",
        "a: \"\\q\"",
        &deep,
        &blocks,
    ] {
        let fault = parse(text).expect_err(text);
        assert!(
            fault.line >= 1 && fault.column >= 1 && !fault.hint.is_empty(),
            "{fault}"
        );
    }
}

#[test]
fn mangled_files_are_faults_within_the_file_and_never_panics() {
    let example = example();
    let lines = example.lines().count();
    let mangled = (0..example.len()).step_by(5).flat_map(|place| {
        let (before, after) = example.split_at(place);
        let rest = &after[1..];
        [
            before.to_owned(),
            format!("{before}{rest}"),
            format!("{before}\n{rest}"),
            format!("{before}[{rest}"),
        ]
    });
    for text in mangled {
        if let Err(fault) = parse(&text) {
            assert!((1..=lines + 2).contains(&fault.line), "{fault} in\n{text}");
            assert!(
                !fault.hint.is_empty() && fault.column >= 1,
                "{fault} in\n{text}"
            );
        }
    }
}

#[test]
fn misspelt_and_missing_keys() {
    check(
        "listeners:",
        "lisners:",
        "line 2, column 1: unknown key `lisners` in the configuration; did you mean `listeners`?",
    );
    check(
        "  address:",
        "  adress:",
        "line 5, column 3: unknown key `adress` in a listener; did you mean `address`?",
    );
    check(
        "name: web",
        "name: web, service_account: x",
        "line 1, column 23: unknown key `service_account` in the workload; did you mean \
         `serviceAccount`?",
    );
    check(
        "name: web",
        "port: 1",
        "line 1, column 12: unknown key `port` in the workload; known here: name, namespace, \
         serviceAccount",
    );
    check(
        "name: web",
        "namespace: x",
        "line 1, column 11: the workload needs `name`; add `name: …` here",
    );
    check(
        "  direction: outbound\n",
        "",
        "line 3, column 3: a listener needs `direction`; add `direction: …` here",
    );
}

#[test]
fn wrong_words() {
    check(
        "name: web",
        "name: \"we\\nb\"",
        "line 1, column 18: `we\\nb` is not a name; at most 253 letters, digits and - _ . / : @",
    );
    check(
        "direction: outbound",
        "direction: outbond",
        "line 4, column 14: `outbond` is not a choice; did you mean `outbound`?",
    );
    check(
        "127.0.0.1:0",
        "localhost:80",
        "line 5, column 12: `localhost:80` is not an address; write ip:port, as in \
         127.0.0.1:8080 or \"[::1]:8080\"; names are not looked up",
    );
    check(
        "- cluster: echo",
        "- cluster: [echo]",
        "line 7, column 14: expected a word, found a list; write one value",
    );
    check(
        "  routes:",
        "  requestId: yes\n  routes:",
        "line 6, column 14: `yes` is not a switch; true or false",
    );
    check(
        "endpoints: []",
        "endpoints: none",
        "line 10, column 14: expected a list, found `none`; write `- ` before each entry, or \
         [a, b]",
    );
    check(
        "listeners:",
        "workers: 1.5\nlisteners:",
        "line 2, column 10: `1.5` is not a whole number; write digits only, from 0 to 256",
    );
    check(
        "listeners:",
        "workers: 999\nlisteners:",
        "line 2, column 10: `999` is out of range; from 0 to 256",
    );
    check(
        "listeners:",
        "accessLog: {path: /dev/stdout, format: jsn}\nlisteners:",
        "line 2, column 40: `jsn` is not a choice; did you mean `json`?",
    );
    check(
        "listeners:",
        "identity: {certificate: c, key: k, trustBundle: b, trustDomain: Cluster}\nlisteners:",
        "line 2, column 65: `Cluster` is not a trust domain; lower-case letters, digits and \
         - _ . only, without spiffe://",
    );
}

#[test]
fn durations_and_sizes() {
    check_limit(
        "idleTimeout: 10",
        "line 2, column 23: `10` is not a duration; a whole number and ms, s, m or h: 250ms, 10s, \
         1m",
    );
    check_limit(
        "idleTimeout: 1.5s",
        "line 2, column 23: `1.5s` is not a duration; a whole number and ms, s, m or h: 250ms, \
         10s, 1m",
    );
    check_limit(
        "headerTimeout: 0s",
        "line 2, column 25: this duration may not be zero; remove the key for its default",
    );
    check_limit(
        "idleTimeout: 99999999999999999999h",
        "line 2, column 23: `99999999999999999999h` is not a duration; a whole number and ms, s, \
         m or h: 250ms, 10s, 1m",
    );
    check_limit(
        "idleTimeout: 25h",
        "line 2, column 23: `25h` is too long; at most 24h",
    );
    check_limit(
        "headBytes: 12",
        "line 2, column 21: `12` is out of range; from 1024 to 1048576",
    );
    let text = "limits: {idleTimeout: 250ms, drainTimeout: 0s, requestTimeout: 2m}\n";
    let limits = parse(&(text.to_owned() + SMALLEST)).unwrap().limits;
    assert_eq!(limits.idle_timeout, Duration::from_millis(250));
    assert_eq!(limits.drain_timeout, Duration::ZERO);
    assert_eq!(limits.request_timeout, Duration::from_secs(120));
}

#[test]
fn endpoints_that_could_not_be_called_safely() {
    check_endpoint(
        "{address: 127.0.0.1:0}",
        "line 11, column 15: 127.0.0.1:0 cannot be connected to; write the address and port that \
         it listens on",
    );
    check_endpoint(
        "{address: 127.0.0.1:80, transport: mtls}",
        "line 11, column 5: the mtls endpoint 127.0.0.1:80 has no identities; add `identities: \
         [spiffe://…]`: the ids that may answer there",
    );
    check_endpoint(
        "{address: 127.0.0.1:80, transport: mtls, identities: [spiffe://a/b]}",
        "line 11, column 40: mtls needs a certificate of our own; add the section `identity` with \
         certificate, key and trustBundle",
    );
    check_endpoint(
        "{address: 127.0.0.1:80, identities: [spiffe://a/b]}",
        "line 11, column 41: identities are checked on mesh endpoints only; add `transport: \
         mtls` or `leno`, or remove `identities`",
    );
    check_endpoint(
        "{address: 127.0.0.1:80, transport: leno}",
        "line 11, column 5: the leno endpoint 127.0.0.1:80 has no identities; add `identities: \
         [spiffe://…]`: the ids that may answer there",
    );
    check_endpoint(
        "{address: 127.0.0.1:80, transport: leno, identities: [spiffe://a/b]}",
        "line 11, column 40: leno needs a certificate of our own; add the section `identity` with \
         certificate, key and trustBundle",
    );
    check_endpoint(
        "{address: 127.0.0.1:80, transport: mtls, identities: [\"spiffe://a//b\"]}",
        "line 11, column 59: `spiffe://a//b` is not a SPIFFE id; write spiffe://<trust domain>/ns\
         /<namespace>/sa/<service account>",
    );
    check_endpoint(
        "address: 127.0.0.1:80\n  - address: 127.0.0.1:80",
        "line 12, column 5: the endpoint 127.0.0.1:80 is listed twice; remove one of them; each \
         endpoint gets an equal share",
    );
}

#[test]
fn routes_that_could_not_match_or_answer() {
    check(
        "- cluster: echo",
        "- cluster: ecko",
        "line 7, column 14: there is no cluster `ecko`; did you mean `echo`?",
    );
    check_route(
        "prefix: api",
        "line 8, column 13: the prefix `api` has no leading /; write `/api`",
    );
    check_route(
        "prefix: /a?b",
        "line 8, column 13: `/a?b` is not a path; a path only, without ? and #; spaces and others \
         as %20",
    );
    for host in ["a:80", "*a", "a..b", "*.", "a/b", "[::g]"] {
        check_route(
            &format!("hosts: [\"{host}\"]"),
            &format!(
                "line 8, column 13: `{host}` is not a host; a name or address without port, \
                 \"*.suffix\" or \"*\"; ports are ignored"
            ),
        );
    }
    check_route(
        "hosts: []",
        "line 8, column 12: no host is listed; remove `hosts` to take every host",
    );
    check(
        "- cluster: echo",
        "- cluster: echo\n  - cluster: echo",
        "line 8, column 5: an earlier route has this host with the prefix `/`; give each pair of \
         host and prefix once",
    );
    check(
        "  - cluster: echo\n",
        "    []\n",
        "line 7, column 5: a listener without routes answers nothing; add one: `- cluster: …` \
         takes every request",
    );
}

#[test]
fn protocols_are_understood_as_kubernetes_spells_them() {
    for (word, expected) in [
        ("auto", Protocol::Auto),
        ("http1", Protocol::Http1),
        ("http", Protocol::Http1),
        ("kubernetes.io/ws", Protocol::Http1),
        ("http2", Protocol::Http2),
        ("kubernetes.io/h2c", Protocol::Http2),
        ("grpc", Protocol::Http2),
        ("tcp", Protocol::Tcp),
        ("https", Protocol::Tcp),
    ] {
        let text = SMALLEST.replacen("endpoints:", &format!("protocol: {word}\n  endpoints:"), 1);
        assert_eq!(
            parse(&text).unwrap().clusters[0].protocol,
            expected,
            "{word}"
        );
    }
    check(
        "endpoints: []",
        "endpoints: []\n  protocol: htpp2",
        "line 11, column 13: `htpp2` is not a choice; did you mean `http2`?",
    );
}

#[test]
fn settings_of_opaque_connections_where_there_are_none() {
    check(
        "endpoints: []",
        "endpoints: []\n  protocol: grpc\n  proxyProtocol: v1",
        "line 12, column 18: a PROXY header is sent on opaque connections only; remove \
         `proxyProtocol`, or set `protocol: tcp`",
    );
    check(
        "  - cluster: echo",
        "  - cluster: echo\n    prefix: /a\n  protocol: tcp",
        "line 7, column 5: a tcp listener sees neither paths nor headers; keep `hosts`, \
         `cluster` or `split`, and `allow`, or set `protocol: http`",
    );
}

#[test]
fn upgrades_are_names_and_never_h2c() {
    for (word, count) in [("[WebSocket, tls/1.0]", 2), ("[\"*\"]", 1), ("[]", 0)] {
        let text = SMALLEST.replacen("  routes:", &format!("  upgrades: {word}\n  routes:"), 1);
        assert_eq!(
            parse(&text).unwrap().listeners[0].upgrades.len(),
            count,
            "{word}"
        );
    }
    check(
        "  routes:",
        "  upgrades: [h2c]\n  routes:",
        "line 6, column 14: h2c would carry requests past the routes; remove it; HTTP/2 without \
         TLS is taken by prior knowledge",
    );
    check(
        "  routes:",
        "  upgrades: [websocket, \"*\"]\n  routes:",
        "line 6, column 25: `*` is not an upgrade; write names as in `Upgrade:`, [websocket], or \
         [\"*\"] alone for all",
    );
}

#[test]
fn ports_are_listed_once_and_may_be_none() {
    let text = format!("opaquePorts: []\n{SMALLEST}");
    assert_eq!(parse(&text).unwrap().opaque_ports, [0_u16; 0]);
    check(
        "listeners:",
        "opaquePorts: [25, 70000]\nlisteners:",
        "line 2, column 19: `70000` is out of range; from 1 to 65535",
    );
    check(
        "listeners:",
        "opaquePorts: [25, 25]\nlisteners:",
        "line 2, column 19: 25 is listed twice; remove one of them",
    );
}

/// The first route of `SMALLEST` with these lines.
#[track_caller]
fn route(lines: &str) -> model::Route {
    let text = SMALLEST.replacen("- cluster: echo", lines, 1);
    parse(&text).unwrap().listeners[0].routes[0].clone()
}

#[test]
fn targets_are_rewritten_and_clients_redirected() {
    use model::{PathChange, Redirect, Rewrite, Scheme};
    let strip = route(
        "- prefix: /a\n    cluster: echo\n    rewrite: {host: B, prefix: /}\n    timeout: 2s",
    );
    let rewrite = Rewrite {
        host: Some("b".to_owned()),
        path: Some(PathChange::Prefix("/".to_owned())),
    };
    assert_eq!((strip.rewrite, strip.exact), (rewrite, false));
    assert_eq!(strip.timeout, Some(Duration::from_secs(2)));
    let away = route("- path: /a\n    redirect: {scheme: https, path: /new, status: 308}");
    let redirect = Redirect {
        scheme: Scheme::Https,
        host: None,
        port: 443,
        path: Some(PathChange::Full("/new".to_owned())),
        status: 308,
    };
    assert_eq!((away.redirect, away.exact), (Some(redirect), true));
    assert_eq!((&*away.prefix, away.backends.len()), ("/a", 0));
    let plain = route("- redirect: {scheme: http}");
    let redirect = plain.redirect.unwrap();
    assert_eq!((redirect.port, redirect.status), (80, 302));
}

#[test]
fn routes_whose_targets_contradict_each_other() {
    for (lines, expected) in [
        (
            "path: /a\n    prefix: /b",
            "line 8, column 11: a route has `prefix` or `path`, not both; remove one of them",
        ),
        (
            "redirect: {scheme: https}",
            "line 7, column 14: a redirect asks nobody, so `cluster` has no meaning; remove it, or \
             `redirect`",
        ),
        (
            "rewrite: {}",
            "line 8, column 14: nothing is rewritten; add `host`, `path` or `prefix`, or remove \
             the key",
        ),
        (
            "path: /a\n    rewrite: {prefix: /b}",
            "line 9, column 23: a prefix is replaced in paths that have more than it; keep `path`, \
             or give the route a `prefix` and keep that",
        ),
        (
            "rewrite: {path: a}",
            "line 8, column 21: `a` is not a path; a path only, without ? and #; spaces and others \
             as %20",
        ),
        (
            "rewrite: {host: \"a:80\"}",
            "line 8, column 21: `a:80` is not a host; a name or address without port",
        ),
        (
            "timeout: 0s",
            "line 8, column 14: this duration may not be zero; remove the key for its default",
        ),
    ] {
        check_route(lines, expected);
    }
    check(
        "- cluster: echo",
        "- redirect: {scheme: https, status: 304}",
        "line 7, column 39: `304` is no redirect; write 301, 302, 303, 307 or 308",
    );
}

#[test]
fn filters_that_would_break_messages() {
    check_route(
        "filters: [{setRequestHeader: {name: \"a b\", value: c}}]",
        "line 8, column 41: `a b` is not a header name; letters, digits and - only, without the \
         colon",
    );
    check_route(
        "filters: [{setRequestHeader: {name: a, value: \"b\\r\\nc: d\"}}]",
        "line 8, column 51: `b\\r\\nc: d` is not a header value; remove line breaks, control \
         characters and spaces at the ends",
    );
    check_route(
        "filters: [{setResponseHeader: {name: a, value: \"\\0\"}}]",
        "line 8, column 52: `\\u{0}` is not a header value; remove line breaks, control \
         characters and spaces at the ends",
    );
    check_route(
        "filters: [{removeRequestHeader: {name: Content-Length}}]",
        "line 8, column 44: `Content-Length` may not be changed by a filter; the proxy sets it \
         itself; choose another header",
    );
    check_route(
        "filters: [{addHeader: {name: a}}]",
        "line 8, column 16: unknown key `addHeader` in a filter; known here: setRequestHeader, \
         addRequestHeader, removeRequestHeader, setResponseHeader, addResponseHeader, \
         removeResponseHeader, hold",
    );
    check_route(
        "filters: [{removeRequestHeader: {name: a}, removeResponseHeader: {name: b}}]",
        "line 8, column 48: a filter has one key, found 2; write one of setRequestHeader, \
         addRequestHeader, removeRequestHeader, setResponseHeader, addResponseHeader, \
         removeResponseHeader, hold, each as its own entry",
    );
}

#[test]
fn names_and_addresses_are_taken_once() {
    let second = |name, address| {
        format!(
            "- name: {name}\n  direction: inbound\n  address: {address}\n  routes:\n  - cluster: \
             echo\nclusters:\n"
        )
    };
    check(
        "clusters:\n",
        &second("out", "127.0.0.1:0"),
        "line 8, column 9: the name `out` is taken; line 3 has it already; choose another",
    );
    check(
        "127.0.0.1:0\n  routes:\n  - cluster: echo\nclusters:\n",
        &format!(
            "127.0.0.1:80\n  routes:\n  - cluster: echo\n{}",
            second("b", "0.0.0.0:80")
        ),
        "line 10, column 12: 0.0.0.0:80 is taken by 127.0.0.1:80; line 5 has it already; choose \
         another port, or 0",
    );
    check(
        "127.0.0.1:0",
        "127.0.0.1:15000",
        "line 5, column 12: 127.0.0.1:15000 is taken by the default of `admin`, 127.0.0.1:15000; \
         choose another port here, or set `admin` to another address or off",
    );
    check(
        "endpoints: []",
        "endpoints: []\n- name: echo\n  endpoints: []",
        "line 11, column 9: the name `echo` is taken; line 9 has it already; choose another",
    );
}

#[test]
fn ports_of_zero_and_surfaces_that_are_off_never_collide() {
    let text = SMALLEST.replacen(
        "listeners:",
        "admin: off\nmetrics: \"127.0.0.1:0\"\nlisteners:",
        1,
    );
    let config = parse(&text).unwrap();
    assert_eq!(
        (config.admin, config.metrics),
        (None, "127.0.0.1:0".parse().ok())
    );
}

#[test]
fn mesh_tls_is_for_inbound_listeners_with_a_certificate() {
    check(
        "  routes:",
        "  tls: strict\n  routes:",
        "line 6, column 8: an outbound listener takes plaintext from its own workload; remove \
         `tls`; to call others with mTLS, set `transport: mtls` on endpoints",
    );
    check(
        "outbound\n",
        "inbound\n  tls: permissive\n",
        "line 5, column 8: mesh TLS needs a certificate of our own; add the section `identity` \
         with certificate, key and trustBundle",
    );
    let inbound = SMALLEST.replace("outbound", "inbound");
    let identity = "identity: {certificate: c.pem, key: c.key, trustBundle: ca.pem}\n";
    let tls = |text: &str| parse(text).unwrap().listeners[0].tls;
    assert_eq!(tls(&inbound), TlsMode::Disabled);
    assert_eq!(tls(&(identity.to_owned() + &inbound)), TlsMode::Permissive);
}

#[test]
fn a_file_is_named_with_line_and_column() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mesh.yaml");
    let missing = load(&path).unwrap_err().to_string();
    assert!(
        missing.starts_with(&format!("cannot read {}: ", path.display())),
        "{missing}"
    );
    std::fs::write(&path, "workers: many\n").unwrap();
    let shown = path.display();
    assert_eq!(
        load(&path).unwrap_err().to_string(),
        format!("{shown}:1:1: the configuration needs `clusters`; add `clusters: …` here")
    );
    let identity = "identity: {certificate: c.pem, key: /k, trustBundle: ca.pem}\n";
    std::fs::write(&path, identity.to_owned() + SMALLEST).unwrap();
    let files = load(&path).unwrap().identity.unwrap();
    assert_eq!(
        (files.certificate, files.key),
        (dir.path().join("c.pem"), "/k".into())
    );
}
