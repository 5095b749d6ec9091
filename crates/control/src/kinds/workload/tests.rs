//! What a Workload may say, and what is said about what it may not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::kinds::{Object, Resource, ServiceKey};

fn try_read(kind: &str, body: &str) -> Result<Object, Fault> {
    let text = format!(
        "{{apiVersion: leno.dev/v1alpha1, kind: {kind}, metadata: {{name: hello}}, {body}}}"
    );
    let node = Node::read(&text).unwrap();
    Resource::read(&node, &Arc::from(Path::new("mesh.yaml"))).map(|resource| resource.object)
}

#[track_caller]
fn workload(spec: &str) -> Workload {
    match try_read("Workload", &format!("spec: {{{spec}}}")) {
        Ok(Object::Workload(workload)) => *workload,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(spec: &str, wanted: &str) {
    let fault = try_read("Workload", &format!("spec: {{{spec}}}")).unwrap_err();
    assert_eq!(format!("{}; {}", fault.message, fault.hint), wanted);
}

#[track_caller]
fn status(body: &str) -> Result<WorkloadStatus, String> {
    match try_read("WorkloadStatus", &format!("status: {body}")) {
        Ok(Object::WorkloadStatus(status)) => Ok(status),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault.message),
    }
}

fn instance(name: &str, addresses: &[&str], ready: bool) -> Instance {
    Instance {
        name: name.to_owned(),
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        ready,
        account: None,
        sidecar: None,
        explicit: None,
    }
}

#[test]
fn what_says_nothing_has_the_defaults() {
    assert_eq!(workload(""), Workload::default());
    let Workload {
        replicas, grace, ..
    } = Workload::default();
    assert_eq!((replicas, grace), (1, Duration::from_secs(10)));
}

#[test]
fn everything_that_can_be_said_is_read() {
    let read = workload(
        "replicas: 3, strategy: {type: Recreate}, env: [{name: A_B, value: \"\"}, {name: C, \
         value: 1}], workingDir: data, restartPolicy: OnFailure, dependsOn: [ratings, db.other], \
         terminationGracePeriodSeconds: 0, resources: {limits: {cpu: 500m, memory: 128Mi}}, \
         sidecar: {interception: inbound, resources: {limits: {cpu: 0.2}}}",
    );
    let wanted = Workload {
        replicas: 3,
        strategy: Strategy::Recreate,
        env: vec![("A_B".into(), String::new()), ("C".into(), "1".into())],
        working_dir: Some("data".into()),
        restart: RestartPolicy::OnFailure,
        depends_on: vec![
            WorkloadKey::new("default", "ratings"),
            WorkloadKey::new("other", "db"),
        ],
        grace: Duration::ZERO,
        limits: Limits {
            cpu_millis: Some(500),
            memory_bytes: Some(128 << 20),
        },
        sidecar: Sidecar {
            interception: Interception::Inbound,
            limits: Limits {
                cpu_millis: Some(200),
                memory_bytes: None,
            },
            ..Sidecar::default()
        },
        ..Workload::default()
    };
    assert_eq!(read, wanted);
}

#[test]
fn a_sidecar_that_is_off_intercepts_nothing() {
    let sidecar = |spec: &str| workload(&format!("sidecar: {spec}")).sidecar;
    let off = sidecar("{enabled: false}");
    assert_eq!(
        (off.enabled, off.interception, off.is_inbound()),
        (false, Interception::None, false)
    );
    assert_eq!(sidecar("{enabled: false, interception: none}"), off);
    for (word, is_inbound) in [
        ("both", true),
        ("inbound", true),
        ("outbound", false),
        ("none", false),
    ] {
        let sidecar = sidecar(&format!("{{interception: {word}}}"));
        assert_eq!((sidecar.is_inbound(), sidecar.enabled), (is_inbound, true));
    }
    refused(
        "sidecar: {enabled: false, interception: both}",
        "a sidecar that is not there intercepts nothing; remove the key, or write `enabled: true`",
    );
    refused(
        "sidecar: {enabled: false, dataPlane: envoy}",
        "a sidecar that is not there has no data plane; remove the key, or write `enabled: true`",
    );
}

#[test]
fn a_sidecar_may_say_what_it_is() {
    let sidecar = |spec: &str| workload(&format!("sidecar: {{{spec}}}")).sidecar.data_plane;
    assert_eq!(sidecar(""), None);
    assert_eq!(sidecar("dataPlane: leno"), Some(DataPlane::Leno));
    assert_eq!(sidecar("dataPlane: envoy"), Some(DataPlane::Envoy));
    refused(
        "sidecar: {dataPlane: Envoy}",
        "`Envoy` is not a choice; did you mean `envoy`?",
    );
}

#[test]
fn strict_mode_needs_a_sidecar_that_sees_who_calls() {
    let wanted = "strict, but nothing intercepts what is sent to it; let the sidecar intercept \
                  `inbound` or `both`, or write `mode: permissive`";
    for sidecar in [
        "{enabled: false}",
        "{interception: none}",
        "{interception: outbound}",
    ] {
        refused(&format!("mode: strict, sidecar: {sidecar}"), wanted);
        workload(&format!("mode: permissive, sidecar: {sidecar}"));
    }
    workload("mode: strict, sidecar: {interception: inbound}");
}

#[test]
fn a_probe_has_one_check_and_its_times() {
    let probe = |text: &str| {
        let spec = format!("ports: [{{name: http, port: 8080}}], readinessProbe: {{{text}}}");
        workload(&spec).readiness.unwrap()
    };
    let seconds = Duration::from_secs;
    let read = probe("httpGet: {path: /ready, port: http, scheme: HTTP}");
    let port = PortRef::Name("http".into());
    let path = "/ready".into();
    assert_eq!(
        read,
        Probe {
            check: Check::Http { path, port },
            initial_delay: Duration::ZERO,
            period: seconds(1),
            timeout: seconds(1),
            failures: 3,
            successes: 1,
        }
    );
    let read = probe(
        "tcpSocket: {port: 9090}, initialDelaySeconds: 5, periodSeconds: 2, timeoutSeconds: 4, \
         failureThreshold: 7, successThreshold: 6",
    );
    let port = PortRef::Number(9090);
    assert_eq!(
        read,
        Probe {
            check: Check::Tcp { port },
            initial_delay: seconds(5),
            period: seconds(2),
            timeout: seconds(4),
            failures: 7,
            successes: 6,
        }
    );
    let read = probe("exec: {command: [./check, -v]}");
    assert_eq!(read.check, Check::Exec(vec!["./check".into(), "-v".into()]));
    assert_eq!(
        probe("httpGet: {port: 80}").check,
        Check::Http {
            path: "/".into(),
            port: PortRef::Number(80)
        }
    );
}

#[test]
fn probes_that_say_too_much_or_too_little() {
    let check = |probe: &str, wanted: &str| refused(&format!("readinessProbe: {probe}"), wanted);
    check(
        "{periodSeconds: 1}",
        "a probe that checks nothing; write one of httpGet, tcpSocket and exec",
    );
    check(
        "{tcpSocket: {port: 1}, exec: {command: [a]}}",
        "a probe with two checks; keep one of httpGet, tcpSocket and exec",
    );
    check(
        "{tcpSocket: {port: http}}",
        "the Workload has no port `http`; write the number, or give one of its `ports` this name",
    );
    check(
        "{httpGet: {path: ready, port: 1}}",
        "`ready` is not a path; it begins with / and has no spaces; write other letters as %XX",
    );
    check(
        "{httpGet: {port: 1, scheme: HTTPS}}",
        "`HTTPS` is not a choice; did you mean `HTTP`?",
    );
    check(
        "{tcpSocket: {port: 1}, periodSeconds: 0}",
        "`0` is out of range; from 1 to 3600",
    );
    check(
        "{exec: {command: []}}",
        "a command without a program; write [PROGRAM, ARGUMENT, …]",
    );
    refused(
        "livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}",
        "`successThreshold` of a livenessProbe is 1; remove it; a readinessProbe may have another",
    );
}

#[test]
fn what_could_not_be_run_is_told() {
    refused("replicas: 101", "`101` is out of range; from 0 to 100");
    refused(
        "strategy: {type: Rolling}",
        "`Rolling` is not a choice; known here: RollingUpdate, Recreate",
    );
    refused(
        "restartPolicy: always",
        "`always` is not a choice; did you mean `Always`?",
    );
    refused(
        "env: [{name: 1A, value: x}]",
        "`1A` is not a variable's name; letters, digits, - _ and . only, with no digit at the \
         start",
    );
    refused(
        "env: [{name: A, value: x}, {name: A, value: y}]",
        "the variable `A` is there twice; remove one of them",
    );
    refused(
        "env: [{name: A, value: [x]}]",
        "a variable's value is a word; write it in quotes",
    );
    refused(
        "dependsOn: [hello.default]",
        "a Workload that waits for itself; remove it: it would never start",
    );
    refused(
        "dependsOn: [a, a.default]",
        "`a.default` is listed twice; remove one of them",
    );
    refused(
        "dependsOn: [a.b.c]",
        "`a.b.c` is not a Workload's name; write NAME, or NAME.NAMESPACE for one of another \
         namespace",
    );
    refused(
        "user: \"60600\"",
        "the user `60600` could go past the sidecar; choose one of its own, or remove the key",
    );
    refused(
        "resources: {limits: {memory: 64m}}",
        "`64m` is not an amount of memory; write a number and Ki, Mi, Gi, Ti, k, M, G or T: \
         64Mi, 1.5Gi",
    );
}

#[test]
fn a_gateway_is_nothing_else() {
    let hint = "remove what does not go with `gateway`, or that key";
    let check = |spec: &str, wanted: &str| {
        refused(
            &format!("gateway: edge, {spec}"),
            &format!("{wanted}; {hint}"),
        );
    };
    assert_eq!(workload("gateway: edge").gateway.as_deref(), Some("edge"));
    let wanted = "a gateway has neither a command nor ports of its own";
    check("command: [a]", wanted);
    check("ports: [{port: 80}]", wanted);
    check(
        "sidecar: {enabled: false}",
        "a gateway is a sidecar, and this one has none",
    );
    check(
        "replicas: 2",
        "a gateway has one instance: its ports are the machine's",
    );
}

#[test]
fn names_leave_room_for_an_ordinal() {
    let read = |length: usize| {
        let name = "a".repeat(length);
        let head = "apiVersion: leno.dev/v1alpha1, kind: Workload";
        let node = Node::read(&format!(
            "{{{head}, metadata: {{name: {name}}}, spec: {{}}}}"
        ));
        Resource::read(&node.unwrap(), &Arc::from(Path::new("mesh.yaml")))
    };
    assert!(read(59).is_ok());
    let fault = read(60).unwrap_err();
    assert!(fault.message.contains("too long"), "{}", fault.message);
}

#[test]
fn ports_are_found_by_name_and_number() {
    let workload = workload("ports: [{name: http, port: 8080}]");
    let number = |port| workload.number(&port);
    assert_eq!(number(PortRef::Name("http".into())), Some(8080));
    assert_eq!(number(PortRef::Name("grpc".into())), None);
    assert_eq!(number(PortRef::Number(1)), Some(1));
}

#[test]
fn statuses_list_instances_or_one_in_short() {
    let both = "{instances: [{name: hello-0, addresses: [10.77.0.2, \"fd77::2\"], ready: true}, \
                {name: hello-12, addresses: [], ready: false}]}";
    assert_eq!(
        status(both).unwrap().instances,
        [
            instance("hello-0", &["10.77.0.2", "fd77::2"], true),
            instance("hello-12", &[], false)
        ]
    );
    let short = status("{addresses: [10.77.0.2]}").unwrap();
    assert_eq!(short.instances, [instance("hello", &["10.77.0.2"], true)]);
    assert_eq!(status("{instances: []}").unwrap().instances, []);
    let old = "{instances: [{name: hello-0, addresses: [], ready: true, serviceAccount: old, \
               sidecar: {interception: outbound, dataPlane: envoy}}]}";
    let wanted = Instance {
        account: Some(AccountKey::new("default", "old")),
        sidecar: Some(Sidecar {
            interception: Interception::Outbound,
            data_plane: Some(DataPlane::Envoy),
            ..Sidecar::default()
        }),
        ..instance("hello-0", &[], true)
    };
    assert_eq!(status(old).unwrap().instances, [wanted]);
}

#[test]
fn statuses_that_cannot_be_true() {
    let of = |instances: &str| status(&format!("{{instances: [{instances}]}}")).unwrap_err();
    for name in ["other", "hello-", "hello-01", "hello-a", "hello0", "hell"] {
        let fault = of(&format!("{{name: {name}, addresses: [], ready: true}}"));
        let known = ["is not the name of an instance", "is not a name"];
        assert!(known.iter().any(|known| fault.contains(known)), "{fault}");
    }
    let one = "{name: hello-0, addresses: [10.77.0.2], ready: true}";
    assert_eq!(of(&format!("{one}, {one}")), "hello-0 is listed twice");
    let other = one.replace("hello-0", "hello-1");
    assert_eq!(of(&format!("{one}, {other}")), "10.77.0.2 is listed twice");
    assert_eq!(
        of("{name: hello-0, addresses: []}"),
        "an instance needs `ready`"
    );
    assert_eq!(
        status("{instances: [], addresses: []}").unwrap_err(),
        "both `instances` and `addresses`"
    );
    assert_eq!(
        status("{}").unwrap_err(),
        "a WorkloadStatus's status needs `instances`"
    );
}

/// What an instance at 127.77.0.2 in the namespace `default` says of its explicit addresses.
fn explicit(text: &str) -> Result<Explicit, String> {
    let one = format!("{{name: hello-0, addresses: [127.77.0.2], ready: true, explicit: {text}}}");
    let status = status(&format!("{{instances: [{one}]}}"))?;
    Ok(status.instances[0].explicit.clone().unwrap())
}

#[test]
fn instances_say_where_their_sidecars_listen() {
    let read = explicit(
        "{inbound: [{port: 8080, address: \"127.77.0.2:41001\"}], \
         outbound: [{service: ratings, port: 9080, address: \"127.77.0.2:41002\"}, \
                    {service: db.other, port: 5432, address: \"127.77.0.2:41003\"}]}",
    );
    let address = |text: &str| text.parse().unwrap();
    let outbound = |service, port, at| Outbound {
        service,
        port,
        address: address(at),
    };
    let wanted = Explicit {
        inbound: vec![Inbound {
            port: 8080,
            address: address("127.77.0.2:41001"),
        }],
        outbound: vec![
            outbound(
                ServiceKey::new("default", "ratings"),
                9080,
                "127.77.0.2:41002",
            ),
            outbound(ServiceKey::new("other", "db"), 5432, "127.77.0.2:41003"),
        ],
    };
    assert_eq!(read, Ok(wanted));
    assert_eq!(explicit("{}"), Ok(Explicit::default()));
    let implicit = "{instances: [{name: hello-0, addresses: [127.77.0.2], ready: true}]}";
    let refused = status(implicit).unwrap_err();
    assert_eq!(refused, "127.77.0.2 cannot be connected to by others");
}

#[test]
fn explicit_addresses_that_cannot_be_true() {
    let inbound = |text: &str| explicit(&format!("{{inbound: [{text}]}}")).unwrap_err();
    let one = "{port: 80, address: \"127.77.0.2:41001\"}";
    assert_eq!(inbound(&format!("{one}, {one}")), "port 80 is listed twice");
    assert_eq!(
        inbound(&format!("{one}, {}", one.replace("80", "81"))),
        "127.77.0.2:41001 is listed twice"
    );
    assert_eq!(
        inbound(&one.replace("0.2", "0.3")),
        "127.77.0.3 is not an address of this instance"
    );
    assert_eq!(
        inbound(&one.replace("41001", "0")),
        "nobody listens at 127.77.0.2:0"
    );
    let outbound = |text: &str| explicit(&format!("{{outbound: [{text}]}}")).unwrap_err();
    let one = "{service: a, port: 80, address: \"127.77.0.2:41001\"}";
    assert_eq!(
        outbound(&format!("{one}, {}", one.replace("41001", "41002"))),
        "port 80 of default/a is listed twice"
    );
    assert_eq!(
        outbound(&one.replace("a,", "a.b.c,")),
        "`a.b.c` is not a Service's name"
    );
}
