//! The page about symptoms is true: each example of it is made to happen, with the real programs,
//! and they say what it says. Needs root, curl, and the control plane and sidecars that are built
//! beside `leno`.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "troubleshooting/machine.rs"]
mod machine;
#[path = "troubleshooting/page.rs"]
mod page;
#[path = "shared/programs.rs"]
mod programs;
#[expect(dead_code, reason = "shared with tests of what goes right")]
#[path = "shared/world.rs"]
mod world;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use page::{Example, examples};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::until;
use world::World;

const CHECK: &str = "`leno up` does not start anything";
const UNREADY: &str = "`leno up` says that not everything is ready";
const NOBODY: &str = "A call is answered 503 `no endpoint`";
const UNKNOWN: &str = "A name is not found";
const REFUSED: &str = "A call is refused: 403, or the connection is closed without a word";
const PLAINTEXT: &str = "Is it really mutual TLS?";
const ALONE: &str = "Changes of the file have no effect";
const SLOW: &str = "It is slow, or some of it fails";
const ENDED: &str = "A certificate has ended, or is from the wrong time";
const SILENT: &str = "No answer from the sidecar";

#[test]
fn every_example_is_made_to_happen() {
    let made = [
        CHECK, UNREADY, NOBODY, UNKNOWN, REFUSED, PLAINTEXT, ALONE, SLOW, ENDED, SILENT,
    ];
    assert_eq!(page::titles(), made);
}

#[test]
fn flags_are_those_of_the_page_of_metrics() {
    let metrics = include_str!("../../../docs/metrics.md");
    let flags: Vec<_> = page::rows(SLOW).into_iter().skip(1).collect();
    assert!(flags.len() >= 6, "{flags:?}");
    for flag in flags {
        assert!(metrics.contains(&format!("\n| `{flag}` |")), "{flag}");
    }
}

#[test]
fn what_a_machine_lacks_is_said() {
    let Some(world) = World::make("lacks") else {
        return;
    };
    let leno = world.path("leno");
    let [check] = &examples(CHECK)[..] else {
        panic!("another number of examples")
    };
    let said = machine::check(&leno, machine::without_rules(&world));
    let names = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once("  "));
        lines.map(|(name, _)| name.to_owned()).collect()
    };
    let shown = names(&check.said.join("\n"));
    assert_eq!(names(&said)[..shown.len()], shown, "{said}");
    let (last, others) = check.said.split_last().unwrap();
    let ends = Example {
        command: check.command.clone(),
        said: vec![others[0].clone(), last.clone()],
    };
    ends.check(&said);
    for row in page::rows(CHECK) {
        let (name, status) = machine::parts(row);
        let said = machine::check(&leno, machine::that_lacks(name, &world));
        let line = said
            .lines()
            .find(|line| line.starts_with(&format!("{name}  ")));
        let line = line.unwrap_or_else(|| panic!("{row}: {said}"));
        let words: Vec<_> = line[name.len()..].split_whitespace().collect();
        let status = status.replace(':', "");
        assert!(words.join(" ").starts_with(&status), "{row}: {line}");
    }
}

/// An application that listens elsewhere than its ports say.
const SHOP: &str = "\
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: shop, labels: {app: shop}}
spec:
  serviceAccount: shop
  ports: [{name: http, port: 8080}]
  command: [\"${LENO}\", load, serve, --address, \"::\", --port, \"8081\"]
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: curl}
spec: {serviceAccount: curl}
";

#[test]
fn who_never_gets_ready_is_said() {
    let Some(world) = World::make("unready") else {
        return;
    };
    let [up, logs] = &examples(UNREADY)[..] else {
        panic!("another number of examples")
    };
    let file = world.write(SHOP);
    let (seen, error) = up.split("Error: ");
    begin(&world, &file, &seen);
    let again = format!("leno up {file} --name {} --timeout 1", world.name());
    until("it is said who is not ready", || {
        error.missing(&said(&world, &again)).is_none()
    });
    logs.check(&said(&world, &logs.command));
    for example in examples(NOBODY) {
        example.check(&said(&world, &example.command));
    }
}

/// Brings a mesh up until all is told that is to be `seen`.
fn begin(world: &World, file: &str, seen: &Example) {
    let up = ["up", file, "--name", world.name(), "--timeout", "600"];
    let mut up = world.leno(&up).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(up.stderr.take().unwrap()).lines();
    let mut told = String::new();
    for line in lines.map_while(Result::ok) {
        told += &(line + "\n");
        if seen.missing(&told).is_none() {
            break;
        }
    }
    up.kill().unwrap();
    up.wait().unwrap();
    seen.check(&told);
}

/// One strict, one that takes everything, one who may, one who may not.
const HELLO: &str = "\
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: hello, labels: {app: hello}}
spec:
  serviceAccount: hello
  mode: strict
  ports: [{name: http, port: 8080}]
  command: [\"${LENO}\", load, serve, --address, \"::\", --port, \"8080\"]
---
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: hello-only-curl}
spec: {serviceAccount: hello, callers: [{serviceAccount: curl}]}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {selector: {app: db}, ports: [{name: sql, port: 5432, appProtocol: tcp}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: db, labels: {app: db}}
spec:
  serviceAccount: db
  ports: [{name: sql, port: 5432, protocol: tcp}]
  command: [\"${LENO}\", load, serve, --address, \"::\", --port, \"0\", --tcp, \"[::]:5432\"]
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: curl}
spec: {serviceAccount: curl}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: other, namespace: shop}
spec: {serviceAccount: other}
";

#[test]
fn a_mesh_that_is_looked_into_says_it() {
    let Some(world) = World::make("look") else {
        return;
    };
    let file = world.write(HELLO);
    world.succeed(&["up", &file, "--name", world.name()]);
    for title in [UNKNOWN, SLOW, ENDED, SILENT] {
        for example in examples(title) {
            example.check(&said(&world, &example.command));
        }
    }
    refused(&world);
    plaintext(&world);
    alone(&world);
}

fn refused(world: &World) {
    let hello = address(world, "hello-0");
    for example in examples(REFUSED) {
        let command = example.command.replace("10.91.7.2", &hello.to_string());
        // It is counted after it was closed.
        until(&example.command, || {
            example.missing(&said(world, &command)).is_none()
        });
    }
}

/// Who talks to whom, in the page's columns.
fn plaintext(world: &World) {
    let db = SocketAddr::from((address(world, "db-0"), 5432));
    let mut outside = TcpStream::connect(db).unwrap();
    outside.write_all(b"x").unwrap();
    outside.read_exact(&mut [0]).unwrap();
    drop(outside);
    let leno = world.path("leno").display().to_string();
    let gateway = Ipv4Addr::from_bits(address(world, "curl-0").to_bits() & !0xff | 1);
    // Nobody answers at the last one, which is nobody's Service.
    for (workload, called) in [
        (
            "curl",
            "db.default.svc.cluster.local:5432 --protocol tcp --body-size 1",
        ),
        ("curl", "http://hello.default/"),
        ("other.shop", &format!("http://{gateway}:9/")),
    ] {
        let mut load = world.leno(&["exec", workload, "--", &leno, "load"]);
        load.args(called.split(' '))
            .args(["-c", "1", "-t", "200ms"]);
        load.output().unwrap();
    }
    let [top] = &examples(PLAINTEXT)[..] else {
        panic!("another number of examples")
    };
    // What is in between are figures; identities are left out on the page.
    let shown = |text: &str| -> Vec<Vec<String>> {
        let is_told = |(column, word): &(usize, &str)| *column < 3 || ["yes", "no"].contains(word);
        let told = |line: &str| {
            let words = line.split_whitespace().enumerate().filter(is_told);
            words.map(|(_, word)| word.to_owned()).collect()
        };
        text.lines().map(told).collect()
    };
    let wanted = shown(&top.said.join("\n"));
    until("everybody is seen", || {
        let said = said(world, &top.command);
        println!("{said}");
        let found = shown(&said);
        wanted.iter().all(|line| found.contains(line))
    });
}

/// Nobody keeps the control plane, and then there is none.
fn alone(world: &World) {
    let shown: Value = serde_json::from_str(&world.succeed(&["ps", "-o", "json"])).unwrap();
    for pid in [&shown[0]["supervisor"], &shown[0]["control"]["pid"]] {
        let pid = Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap());
        kill_process(pid.unwrap(), Signal::KILL).unwrap();
    }
    let [config] = &examples(ALONE)[..] else {
        panic!("another number of examples")
    };
    until("the sidecar says that it is alone", || {
        let said = said(world, &config.command);
        config.missing(&said).is_none()
    });
}

/// What a command of the page says, in a mesh that is the only one and called `default`.
fn said(world: &World, command: &str) -> String {
    let words: Vec<_> = command.split(' ').collect();
    let output = match words[..] {
        ["leno", ref args @ ..] => world.run(args),
        [program, ref args @ ..] => Command::new(program).args(args).output().unwrap(),
        [] => panic!("no command"),
    };
    let both = [output.stderr, output.stdout].concat();
    String::from_utf8(both)
        .unwrap()
        .replace(world.name(), "default")
}

/// The first address of an instance.
fn address(world: &World, instance: &str) -> Ipv4Addr {
    let shown = world.succeed(&["ps"]);
    let line = shown.lines().find(|line| line.starts_with(instance));
    let mut words = line.unwrap_or_else(|| panic!("{shown}")).split(' ');
    words.find_map(|word| word.parse().ok()).unwrap()
}
