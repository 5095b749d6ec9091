//! Whoever asks learns when the sidecars use what was written, and which do not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::sidecar::connected;
use crate::world::{STATUS, World};

/// Longer than a test waits.
const FOR_EVER: u64 = 60_000;
/// Shorter than that, and long for a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// Another address each time, which `curl` is to be told.
fn move_hello(world: &World, last: u8) {
    world.write(
        "status.yaml",
        &STATUS.replace("10.77.0.2", &format!("10.77.0.{last}")),
    );
}

fn settled() -> Value {
    json!({"settled": true, "behind": []})
}

fn behind(names: &[&str]) -> Value {
    json!({"settled": false, "behind": names})
}

/// Waits for something that needs no timeout to end.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, Box::pin(what))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_sidecar_that_does_not_answer_is_named_until_it_does() {
    let world = World::new();
    assert_eq!(
        soon(world.settle(FOR_EVER)).await,
        settled(),
        "nobody is there"
    );
    let mut curl = connected(&world, "curl").await;
    assert_eq!(soon(world.settle(FOR_EVER)).await, settled());
    move_hello(&world, 3);
    assert_eq!(world.settle(1).await, behind(&["curl.default"]));
    // Both at once: one waits, the other one answers.
    let (answer, step) = soon(async { tokio::join!(world.settle(FOR_EVER), curl.step()) }).await;
    step.unwrap();
    assert_eq!(answer, settled());
}

#[tokio::test]
async fn several_wait_at_once_and_for_everybody() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    let mut hello = connected(&world, "hello").await;
    move_hello(&world, 3);
    assert_eq!(
        world.settle(1).await,
        behind(&["curl.default", "hello.default"])
    );
    curl.step().await.unwrap();
    let hello_alone = behind(&["hello.default"]);
    soon(async { while world.settle(1).await != hello_alone {} }).await;
    let waiting = async { tokio::join!(world.settle(FOR_EVER), world.settle(FOR_EVER)) };
    // It has changes of its own to take: a listener and a cluster come and go.
    let taking = async {
        loop {
            hello.step().await.unwrap();
        }
    };
    let both = async {
        tokio::select! {
            answers = waiting => answers,
            () = taking => unreachable!("it takes what comes for ever"),
        }
    };
    assert_eq!(soon(both).await, (settled(), settled()));
}

#[tokio::test]
async fn who_goes_is_not_waited_for() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    move_hello(&world, 3);
    assert_eq!(world.settle(1).await, behind(&["curl.default"]));
    let leave = async { curl.hang_up() };
    let (answer, ()) = soon(async { tokio::join!(world.settle(FOR_EVER), leave) }).await;
    assert_eq!(answer, settled());
}

#[tokio::test]
async fn who_refuses_is_behind_and_not_waited_for() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    move_hello(&world, 3);
    let refuse = curl.refuse("I do not like it");
    let (answer, refused) = soon(async { tokio::join!(world.settle(FOR_EVER), refuse) }).await;
    refused.unwrap();
    assert_eq!(answer, behind(&["curl.default"]));
    // The next state is another chance.
    move_hello(&world, 4);
    let (answer, step) = soon(async { tokio::join!(world.settle(FOR_EVER), curl.step()) }).await;
    step.unwrap();
    assert_eq!(answer, settled());
}

#[tokio::test]
async fn what_runs_is_told_though_what_is_wanted_is_wrong() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    curl.told.clear();
    world.write("hello.yaml", "kind: nonsense");
    move_hello(&world, 3);
    let (answer, step) = soon(async { tokio::join!(world.settle(FOR_EVER), curl.step()) }).await;
    step.unwrap();
    assert_eq!(answer["settled"], true, "{answer}");
    let faults = answer["faults"].as_str().unwrap();
    assert!(faults.contains("`nonsense` is not known"), "{faults}");
    assert_eq!(curl.told.len(), 1, "{:?}", curl.told);
}
