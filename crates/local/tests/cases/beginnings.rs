//! What an application does first is done through the mesh, whoever it is and however often.

use std::collections::BTreeMap;
use std::process::Command;

use local::state::Step;

use crate::apps::{app, came, said, workload, world};
use crate::resources::{self, SERVE};
use crate::world::{World, is_soak};

const URL: &str = "http://echo.default.svc.cluster.local/";

/// A Service with what answers for it.
fn echo() -> String {
    let ports = "ports: [{port: 8080}, {port: 9090}]";
    resources::service("echo") + &workload("echo", SERVE, ports)
}

#[test]
fn f1_an_application_never_runs_before_its_sidecar_serves() {
    let Some(world) = world() else {
        return;
    };
    let replicas = if is_soak() { 20 } else { 5 };
    let spec = format!("ports: [{{port: 8080}}], dependsOn: [echo], replicas: {replicas}");
    let eager = app("eager", &["first", URL], &spec);
    // All at once, in a mesh that is new.
    world.up(&(echo() + &eager));
    for ordinal in 0..replicas {
        assert_eq!(
            came(&world, &format!("eager-{ordinal}")),
            ["200"],
            "{ordinal}"
        );
    }
    // And all anew, in one that is not.
    world.restart("eager");
    // An ordinal is free again when the instance is gone, and no sooner.
    let all = (0..3 * replicas).map(|ordinal| format!("eager-{ordinal}"));
    let came: Vec<_> = all.flat_map(|instance| came(&world, &instance)).collect();
    assert_eq!(came, vec!["200"; 2 * replicas]);
}

#[test]
fn f1_an_application_that_is_there_before_whom_it_calls_is_answered_all_the_same() {
    let Some(world) = world() else {
        return;
    };
    let eager = app("eager", &["first", URL], "ports: [{port: 8080}]");
    world.up(&(resources::service("echo") + &eager));
    // There is nobody: that is an answer, and comes at once.
    assert_eq!(came(&world, "eager-0"), ["503"]);
    world.up(&(echo() + &eager));
    world.restart("eager");
    assert_eq!(came(&world, "eager-1"), ["200"]);
}

#[test]
fn f2_what_runs_before_others_has_a_network_and_bringing_up_again_changes_nothing() {
    let Some(world) = world() else {
        return;
    };
    let once = "restartPolicy: OnFailure, dependsOn: [echo]";
    let after = "ports: [{port: 8080}], dependsOn: [prepare]";
    let resources = [
        echo(),
        app("eager", &["first", URL], after),
        app("prepare", &["once", URL, "0"], once),
    ];
    world.up(&resources.concat());
    let prepared = said(&world, "prepare-0");
    let began = said(&world, "eager-0");
    assert_eq!([&prepared[0].1, &began[0].1], ["200", "200"]);
    assert!(prepared[0].0 < began[0].0, "{prepared:?} {began:?}");

    let (processes, rules) = (world.state().processes(), rules(&world));
    assert!(
        rules.values().all(|rules| rules.contains("15001")),
        "{rules:?}"
    );
    world.up(&resources.concat());
    assert_eq!(
        (world.state().processes(), self::rules(&world)),
        (processes, rules.clone())
    );
    // Whoever keeps the mesh next finds what is there.
    world.change_supervisor();
    world.up(&resources.concat());
    assert_eq!(self::rules(&world), rules);
    assert_eq!(
        (said(&world, "prepare-0"), said(&world, "eager-0")),
        (prepared, began)
    );
}

/// The rules of all namespaces, but for what they counted.
fn rules(world: &World) -> BTreeMap<String, String> {
    let state = world.state();
    let instances = state.instances.iter();
    let of = |namespace: &std::path::Path| {
        let list = || Command::new("nft").args(["list", "ruleset"]).output();
        let output = intercept::netns::inside(namespace, list).unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let counted = |word: &&str| !word.bytes().all(|byte| byte.is_ascii_digit());
        let is_count = |pair: &[&str]| pair[0] == "packets" || pair[0] == "bytes";
        let words: Vec<_> = text.split_whitespace().collect();
        let kept = |(at, word): (usize, &&str)| {
            let is_one = at > 0 && is_count(&words[at - 1..=at]) && !counted(word);
            (!is_one).then_some((*word).to_owned())
        };
        let kept: Vec<_> = words.iter().enumerate().filter_map(kept).collect();
        kept.join(" ")
    };
    instances
        .map(|one| (one.id.to_string(), of(&one.netns)))
        .collect()
}

#[test]
fn f2_what_fails_at_first_is_done_again_and_those_that_wait_for_it_wait() {
    let Some(world) = world() else {
        return;
    };
    let resources = [
        echo(),
        app(
            "prepare",
            &["at_last", URL, "3"],
            "restartPolicy: OnFailure, dependsOn: [echo]",
        ),
        app(
            "eager",
            &["first", URL],
            "ports: [{port: 8080}], dependsOn: [prepare]",
        ),
    ];
    world.up(&resources.concat());
    assert_eq!(came(&world, "prepare-0"), ["200"; 3]);
    let last = said(&world, "prepare-0").pop().unwrap();
    assert!(last.0 < said(&world, "eager-0")[0].0);
    let state = world.state();
    let prepare = state.workload(&"prepare".parse().unwrap()).unwrap();
    assert_eq!(prepare.step, Step::Completed);
    assert_eq!(prepare.application.as_ref().unwrap().restarts, 2);
}
