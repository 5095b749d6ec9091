//! Ends of applications, and what is waited for before they begin.

use std::fs;
use std::time::Duration;

use local::state::{State, Step};

use crate::world::{World, ready, workload};

fn lines(path: &std::path::Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

fn step(state: &State, workload: &str) -> Option<Step> {
    let one = state.workload(&workload.parse().unwrap())?;
    Some(one.step)
}

#[test]
fn an_application_that_ends_is_started_again_each_time_later() {
    let Some(world) = World::make("crash") else {
        return;
    };
    let file = world.open_file("marks");
    let path = file.to_str().unwrap();
    fs::write(world.folder().join("marks.code"), "3").unwrap();
    let crash = workload("crash", &world.run(&["mark", path], "ports: [{port: 80}]"));
    let within = Duration::from_secs(2);
    let error = world
        .apply_within(within, &crash, &mut Vec::new())
        .unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("crash-0: ") && text.contains("stays up"),
        "{text}"
    );
    let state = world.eventually(|state| {
        let life = state.instances[0].application.as_ref();
        life.is_some_and(|life| life.restarts >= 3)
    });
    let life = state.instances[0].application.clone().unwrap();
    assert_eq!(life.ended.as_deref(), Some("exit status: 3"));
    // 100, 200, 400 ms and so on: far from one start after the other.
    assert!(lines(&file) < 20, "{}", lines(&file));
    let state = world.up(&["crash"]).unwrap();
    assert_eq!(ready(&state, "crash").len(), 1);
}

#[test]
fn what_depends_on_others_is_started_after_them() {
    let Some(world) = World::make("wait") else {
        return;
    };
    let file = world.folder().join("go");
    let late = ["late", file.to_str().unwrap(), "[::]:80"];
    let documents = [
        workload("front", &world.serve("dependsOn: [back]")),
        workload("back", &world.run(&late, "ports: [{port: 80}]")),
    ]
    .concat();
    let refused = || {
        let within = Duration::from_millis(1);
        let error = world.apply_within(within, &documents, &mut Vec::new());
        format!("{:#}", error.unwrap_err())
    };
    let faults = [
        "front-0: waits for back",
        "back-0: nothing listens on port 80",
    ];
    world.until(|| {
        let text = refused();
        let said = faults.iter().all(|fault| text.contains(fault));
        said.then_some(())
    });
    let state = world.state();
    let front = state.workload(&"front".parse().unwrap()).unwrap();
    assert_eq!(front.application, None);
    fs::write(&file, "").unwrap();
    let state = world.up_again().unwrap();
    assert_eq!(ready(&state, "front"), [0]);
}

#[test]
fn a_circle_is_refused_and_named() {
    let Some(world) = World::make("circle") else {
        return;
    };
    let documents = [("a", "b"), ("b", "a")]
        .map(|(name, on)| workload(name, &world.serve(&format!("dependsOn: [{on}]"))))
        .concat();
    let error = world.apply(&documents).unwrap_err();
    assert!(
        error.to_string().contains("default/a → default/b"),
        "{error:#}"
    );
    assert!(!world.runtime("").exists());
}

#[test]
fn a_job_completes_with_its_sidecar_and_what_waited_for_it_begins() {
    let Some(world) = World::make("job") else {
        return;
    };
    let file = world.open_file("marks");
    let job = world.run(
        &["mark", file.to_str().unwrap()],
        "restartPolicy: OnFailure",
    );
    let documents = [
        workload("front", &world.serve("dependsOn: [job]")),
        workload("job", &job),
    ]
    .concat();
    let state = world.apply(&documents).unwrap();
    assert_eq!(step(&state, "job"), Some(Step::Completed));
    assert_eq!(ready(&state, "front"), [0]);
    let state = world.eventually(|state| {
        let job = state.workload(&"job".parse().unwrap()).unwrap();
        job.sidecar.process.is_none()
    });
    assert!(!world.runtime("status/job.yaml").exists());
    assert_eq!(fs::read_to_string(&file).unwrap(), "job-0\n");
    world.down();
    world.assert_gone(&state);
}

#[test]
fn a_job_that_fails_for_good_is_said_at_once() {
    let Some(world) = World::make("failed") else {
        return;
    };
    let file = world.open_file("marks");
    fs::write(world.folder().join("marks.code"), "7").unwrap();
    let job = world.run(&["mark", file.to_str().unwrap()], "restartPolicy: Never");
    let patience = Duration::from_secs(600);
    let error = world
        .apply_within(patience, &workload("job", &job), &mut Vec::new())
        .unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("job-0: failed: ended: exit status: 7"),
        "{text}"
    );
    assert_eq!(step(&world.state(), "job"), Some(Step::Failed));
    assert_eq!(lines(&file), 1);
}

#[test]
fn without_a_sidecar_there_is_a_network_and_an_application() {
    let Some(world) = World::make("bare") else {
        return;
    };
    let documents = [
        workload("bare", &world.serve("sidecar: {enabled: false}")),
        workload("curl", &world.serve("")),
    ]
    .concat();
    let state = world.apply(&documents).unwrap();
    let bare = state.workload(&"bare".parse().unwrap()).unwrap();
    assert_eq!((bare.sidecar.process, bare.sidecar_user), (None, None));
    let said = world.ask("curl", &world.target(&state, "bare"));
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    // From the other's own sidecar, without one before it.
    let curl = state.workload(&"curl".parse().unwrap()).unwrap();
    assert_eq!(answer["peer"], curl.addresses[0].to_string());
    let own = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    assert_eq!(answer["resolver"].as_str(), Some(&*own));
}

#[test]
fn one_that_does_not_answer_any_more_is_started_anew() {
    let Some(world) = World::make("liveness") else {
        return;
    };
    let file = world.open_file("alive");
    let probe = format!(
        "livenessProbe: {{exec: {{command: [test, -e, {}]}}, failureThreshold: 1}}",
        file.display()
    );
    world
        .apply(&workload("hello", &world.serve(&probe)))
        .unwrap();
    fs::remove_file(&file).unwrap();
    let restarts = |state: &State| {
        let life = state.instances[0].application.clone();
        life.map_or(0, |life| life.restarts)
    };
    world.eventually(|state| restarts(state) > 0);
    fs::write(&file, "").unwrap();
    world.eventually(|state| state.instances[0].ready);
}
