//! Probes reach the application itself, whatever the rules redirect, and say what is wrong.

use std::thread;
use std::time::{Duration, Instant};

use local::probe::Target;

use super::world::{USER, World};

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// For what is not answered at all.
const SHORT: Duration = Duration::from_millis(250);

#[track_caller]
fn check_within(world: &World, target: &Target, within: Duration, expected: Result<(), &str>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let checked = runtime.block_on(world.prober().check(target, within));
    assert_eq!(checked, expected.map_err(str::to_owned), "{target:?}");
}

#[track_caller]
fn check(world: &World, target: &Target, expected: Result<(), &str>) {
    check_within(world, target, PATIENCE, expected);
}

fn get(port: u16) -> Target {
    Target::Http {
        port,
        path: "/ready".into(),
    }
}

#[test]
fn probes_go_to_the_application_past_the_rules() {
    let Some(world) = World::make("http") else {
        return;
    };
    for address in ["::", "10.9.0.2", "fd09::2"] {
        let port = world.serve(address, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        check(&world, &get(port), Ok(()));
        check(&world, &Target::Tcp { port }, Ok(()));
        check(&world, &Target::Listening(vec![port]), Ok(()));
    }
    let port = world.serve("::", "HTTP/1.1 503 Service Unavailable\r\n\r\n");
    check(&world, &get(port), Err("status 503"));
    let port = world.serve("::", "welcome\n");
    check(&world, &get(port), Err("an answer that is not HTTP"));
}

#[test]
fn what_does_not_answer_is_said() {
    let Some(world) = World::make("silent") else {
        return;
    };
    let (_listener, port) = world.listen("::");
    let silent = Err("no answer within 250 ms");
    check_within(&world, &get(port), SHORT, silent);
    // Nobody has port 1, and the sidecar, to which rules could lead, does not run.
    let refused = Err("connection refused on port 1");
    check(&world, &get(1), refused);
    check(&world, &Target::Tcp { port: 1 }, refused);
    let nobody = Err("nothing listens on port 1");
    check(&world, &Target::Listening(vec![port, 1]), nobody);
    let (_loopback, port) = world.listen("127.0.0.1");
    let refused = format!("connection refused on port {port}");
    check(&world, &Target::Tcp { port }, Err(&refused));
    let hint = "listened on at loopback only: let the program listen on [::] or 0.0.0.0";
    let only = format!("port {port} is {hint}");
    check(&world, &Target::Listening(vec![port]), Err(&only));
}

#[test]
fn a_command_runs_where_the_application_does_and_leaves_nothing() {
    let Some(world) = World::make("exec") else {
        return;
    };
    let exec = |script: &str| Target::Exec(Box::new(world.job(script)));
    let port = world.serve("10.9.0.2", "hello\n");
    let listens = format!("grep -q :{port:04X} /proc/net/tcp && test $(id -u) = {USER}");
    check(&world, &exec(&listens), Ok(()));
    check(&world, &exec("exit 3"), Err("sh ended with exit status: 3"));
    let slow = exec("sleep 600 & sleep 600");
    let late = Err("sh did not end within 250 ms");
    check_within(&world, &slow, SHORT, late);
    check(&world, &exec("sleep 600 &"), Ok(()));
    // In a session of its own, in which nobody else looks for it.
    let aside = "(setsid sh -c 'echo; exec sleep 600 >/dev/null' &) | head -1";
    check(&world, &exec(aside), Ok(()));
    let deadline = Instant::now() + PATIENCE;
    while !world.is_empty() {
        assert!(Instant::now() < deadline, "something of a probe is left");
        thread::sleep(Duration::from_millis(5));
    }
    let mut missing = world.job("");
    missing.program = "/none".into();
    let said = "there is no /none: give a path from /, or a name in ";
    let said = format!("{said}{}", local::job::PATH);
    check(&world, &Target::Exec(Box::new(missing)), Err(&said));
}
