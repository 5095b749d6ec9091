//! What an application does last is done through the mesh too; and with it goes its sidecar.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use local::state::Step;
use serde_json::Value;

use crate::apps::{app, came, find, workload, world};
use crate::resources::{self, SERVE};
use crate::world::{World, until};

const URL: &str = "http://echo.default.svc.cluster.local/";
/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);

fn echo() -> String {
    let ports = "ports: [{port: 8080}, {port: 9090}]";
    resources::service("echo") + &workload("echo", SERVE, ports)
}

/// What `leno ps` says of an instance.
#[track_caller]
fn shown(world: &World, instance: &str) -> Value {
    let meshes = world.shown();
    let instances = meshes[0]["instances"].as_array().unwrap();
    instances
        .iter()
        .find(|one| one["name"] == instance)
        .unwrap()
        .clone()
}

#[test]
fn f3_a_job_that_completes_takes_its_sidecar_along() {
    let Some(world) = world() else {
        return;
    };
    let spec = "dependsOn: [echo], restartPolicy";
    let resources = [
        echo(),
        app("job", &["once", URL, "0"], &format!("{spec}: OnFailure")),
        app("other", &["once", URL, "0"], &format!("{spec}: Never")),
    ];
    world.up(&resources.concat());
    for (job, instance) in [("job", "job-0"), ("other", "other-0")] {
        until(
            || find(&world, job).sidecar.process.is_none().then_some(()),
            || format!("{:#?}", find(&world, job)),
        );
        assert_completed(&world, job, instance);
    }
    // It is not done again: neither with the file, nor by who keeps the mesh next.
    world.up(&resources.concat());
    world.change_supervisor();
    world.up(&resources.concat());
    for (job, instance) in [("job", "job-0"), ("other", "other-0")] {
        assert_completed(&world, job, instance);
    }
}

#[track_caller]
fn assert_completed(world: &World, job: &str, instance: &str) {
    let one = find(world, job);
    assert_eq!(one.step, Step::Completed);
    let application = one.application.unwrap();
    assert_eq!((application.process, application.restarts), (None, 0));
    assert_eq!((one.sidecar.process, one.sidecar.restarts), (None, 0));
    let said = shown(world, instance);
    assert!(
        said["status"].as_str().unwrap().starts_with("completed"),
        "{said}"
    );
    assert_eq!(
        (&said["sidecar"]["pid"], &said["application"]["pid"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(came(world, instance), ["200"]);
}

#[test]
fn f3_a_job_that_fails_is_told_of_at_once() {
    let Some(world) = world() else {
        return;
    };
    let resources = [
        echo(),
        app(
            "job",
            &["once", URL, "7"],
            "dependsOn: [echo], restartPolicy: Never",
        ),
        app(
            "eager",
            &["first", URL],
            "ports: [{port: 8080}], dependsOn: [job]",
        ),
    ];
    world.write(&resources.concat());
    // Nobody waits for what cannot come.
    let error = world.take(FOREVER).unwrap_err().to_string();
    assert!(error.contains("job-0") && error.contains('7'), "{error}");
    assert!(
        error.contains("eager-0") && error.contains("waits for job"),
        "{error}"
    );
    assert_eq!(find(&world, "job").step, Step::Failed);
    assert!(
        shown(&world, "job-0")["status"]
            .as_str()
            .unwrap()
            .contains("failed")
    );
    assert_eq!(came(&world, "eager-0"), Vec::<String>::new());
    // What is mended is done, and what waited for it goes on.
    world.up(&resources.concat().replace("\"7\"", "\"0\""));
    assert_eq!(came(&world, "eager-0"), ["200"]);
}

#[test]
fn f4_an_application_that_ends_calls_others_until_it_has_ended() {
    let Some(world) = world() else {
        return;
    };
    let spec = "ports: [{port: 8080}], dependsOn: [echo]";
    let late = app("late", &["last", URL, "3"], spec);
    world.up(&(echo() + &late));
    world.restart("late");
    assert_last(&world, "late-0");
    // Gone with the file.
    world.up(&echo());
    assert_last(&world, "late-1");
}

#[test]
fn f4_an_application_calls_the_world_while_the_mesh_goes_down_for_as_long_as_it_may() {
    let Some(world) = world() else {
        return;
    };
    let port = answer_ok();
    world.up(&echo());
    // This machine, as the workloads see it.
    let gateway = match find(&world, "echo").addresses[0] {
        IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits() & !0xff | 1),
        IpAddr::V6(addr) => panic!("{addr}"),
    };
    let url = format!("http://{gateway}:{port}/");
    let spec = "ports: [{port: 8080}], terminationGracePeriodSeconds: 30";
    // For longer than who says nothing may.
    let late = app("late", &["last", &url, "12"], spec);
    world.up(&(echo() + &late));
    world.down().unwrap();
    assert_last(&world, "late-0");
}

/// Somebody on this machine who answers everything.
fn answer_ok() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    port
}

/// All that it asked when it was asked to end was answered, and then it ended by itself.
#[track_caller]
fn assert_last(world: &World, instance: &str) {
    let came = came(world, instance);
    let (last, before) = came.split_last().expect("it was not asked to end");
    assert_eq!(last, "end", "{came:?}");
    assert!(
        before.len() > 10 && before.iter().all(|came| came == "200"),
        "{came:?}"
    );
}
