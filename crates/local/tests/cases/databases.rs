//! Programs that know nothing of a mesh call each other through it: databases by their own clients,
//! by the name of a Service, and each instance by its own.

use std::path::Path;
use std::process::Stdio;

use crate::apps::{workload, world};
use crate::world::{World, until};

const REDIS: &str =
    "[redis-server, --port, \"6379\", --protected-mode, \"no\", --save, \"\", --dir, /tmp]";
/// It reads who it is from the machine's users, and takes a folder of its own for its data.
const POSTGRES: &str = "[/bin/sh, -c, 'cd && initdb -D data -A trust -U leno -N > /dev/null && \
                        echo \"host all all all trust\" >> data/pg_hba.conf && exec postgres \
                        -D data -c listen_addresses=\"*\" -c unix_socket_directories=\"\"']";

/// Whether the programs are there; said aloud where they are not, and a failure where they were
/// promised.
fn has(programs: &[&str], promise: &str) -> bool {
    let is_there = |program: &&&str| {
        let mut folders = local::job::PATH.split(':');
        folders.any(|folder| Path::new(folder).join(program).exists())
    };
    let missing = programs.iter().find(|program| !is_there(program));
    if let Some(missing) = missing {
        assert!(std::env::var_os(promise).is_none(), "there is no {missing}");
        println!("SKIPPED: there is no {missing}");
    }
    missing.is_none()
}

/// A Service for the workloads that are labelled with its name.
fn service(name: &str, port: u16, protocol: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{selector: {{app: {name}}}, ports: [{{port: {port}{protocol}}}]{more}}}\n"
    )
}

fn client() -> String {
    crate::resources::workload("client", "client", "[sleep, infinity]")
}

/// What a command says inside of a workload, and whether it went well.
fn run(world: &World, workload: &str, words: &[&str]) -> (bool, String) {
    let mut command = world.exec(workload, words);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    (output.status.success(), said)
}

#[track_caller]
fn check(world: &World, workload: &str, words: &[&str], expected: &str) {
    assert_eq!(
        run(world, workload, words),
        (true, expected.to_owned()),
        "{words:?}"
    );
}

#[track_caller]
fn assert_mutual(world: &World, instance: &str) {
    let handshakes = world.count(instance, "leno_tls_handshakes_total", "side=\"downstream\"");
    assert!(handshakes > 0, "{instance}");
}

#[test]
fn f14_redis_is_called_by_name_whether_its_protocol_was_said_or_not() {
    let Some(world) = world() else {
        return;
    };
    if !has(&["redis-server", "redis-cli"], "LENO_REQUIRE_REDIS") {
        return;
    }
    let port = |protocol| format!("ports: [{{port: 6379{protocol}}}]");
    let resources = [
        service("said", 6379, ", appProtocol: redis", ""),
        workload("said", REDIS, &port(", protocol: tcp")),
        service("unsaid", 6379, "", ""),
        workload("unsaid", REDIS, &port("")),
        client(),
    ];
    world.up(&resources.concat());
    for name in ["said", "unsaid"] {
        let cli = |words: &[&str]| {
            run(
                &world,
                "client",
                &[&["redis-cli", "-h", name], words].concat(),
            )
        };
        assert_eq!(cli(&["set", "whose", name]), (true, "OK".into()));
        assert_eq!(cli(&["get", "whose"]), (true, name.into()));
        // More than any buffer holds.
        assert_eq!(
            cli(&["setrange", "large", "3000000", "x"]),
            (true, "3000001".into())
        );
        let (is_there, large) = cli(&["getrange", "large", "0", "-1"]);
        assert!(
            is_there && large.ends_with('x') && large.len() >= 3_000_001,
            "{}",
            large.len()
        );
        assert_mutual(&world, name);
    }
    // Neither is the other.
    check(&world, "said", &["redis-cli", "get", "whose"], "said");
}

#[test]
fn f14_postgres_is_called_by_name_and_comes_back_when_it_is_started_anew() {
    let Some(world) = world() else {
        return;
    };
    if !has(&["initdb", "postgres", "psql"], "LENO_REQUIRE_POSTGRES") {
        return;
    }
    let ask = "[psql, -h, 127.0.0.1, -U, leno, postgres, -c, select 1]";
    let spec = format!(
        "ports: [{{port: 5432}}], user: postgres, strategy: {{type: Recreate}}, \
         readinessProbe: {{exec: {{command: {ask}}}, timeoutSeconds: 10}}"
    );
    let resources = [
        service("db", 5432, "", ""),
        workload("db", POSTGRES, &spec),
        client(),
    ];
    world.up(&resources.concat());
    let sql = |text| ["psql", "-h", "db", "-U", "leno", "postgres", "-Atc", text];
    check(&world, "client", &sql("select 6 * 7"), "42");
    check(
        &world,
        "client",
        &sql("select length(repeat('x', 3000000))"),
        "3000000",
    );
    let (_, large) = run(&world, "client", &sql("select repeat('x', 3000000)"));
    assert_eq!(large.len(), 3_000_000);
    assert_mutual(&world, "db-0");
    // Not whoever has the same number.
    check(&world, "db", &["id", "-gn"], "postgres");
    world.restart("db");
    check(&world, "client", &sql("select 1"), "1");
}

#[test]
fn f16_each_instance_of_a_headless_service_is_reached_by_its_own_name() {
    let Some(world) = world() else {
        return;
    };
    if !has(&["redis-server", "redis-cli"], "LENO_REQUIRE_REDIS") {
        return;
    }
    let spec = "replicas: 2, ports: [{port: 6379}], strategy: {type: Recreate}";
    let headless = service("db", 6379, ", appProtocol: redis", ", clusterIP: None");
    world.up(&[headless, workload("db", REDIS, spec), client()].concat());
    for round in ["first", "second"] {
        for instance in ["db-0", "db-1"] {
            check_own(&world, instance, &format!("{round} {instance}"));
        }
        // Each keeps its name.
        world.restart("db");
    }
}

/// What is told to an instance by its name is there, and nowhere else.
#[track_caller]
fn check_own(world: &World, instance: &str, text: &str) {
    for host in [
        format!("{instance}.db"),
        format!("{instance}.db.default.svc.cluster.local"),
    ] {
        let cli = |words: &[&str]| {
            run(
                world,
                "client",
                &[&["redis-cli", "-h", &*host], words].concat(),
            )
        };
        until(
            || (cli(&["set", "whose", text]).1 == "OK").then_some(()),
            || format!("{host}: {:?}", cli(&["ping"])),
        );
        assert_eq!(cli(&["get", "whose"]), (true, text.into()), "{host}");
        check(world, instance, &["redis-cli", "get", "whose"], text);
        let found = run(world, "client", &["getent", "ahosts", &host]).1;
        let addresses = world
            .state()
            .instance(&instance.parse().unwrap())
            .unwrap()
            .addresses
            .clone();
        assert!(
            addresses
                .iter()
                .all(|addr| found.contains(&addr.to_string())),
            "{found}"
        );
    }
    assert_mutual(world, instance);
}
