//! How streams and processes end.

use xds::grpc::Code;

use crate::sidecar::{Sidecar, bearer, connect, enrol, member, sign, stranger};
use crate::world::{HELLO, World};

#[tokio::test]
async fn a_workload_that_leaves_is_cut_off_and_its_certificate_is_void() {
    let world = World::new();
    let (curl, hello) = (enrol(&world, "curl").await, enrol(&world, "hello").await);
    let channel = connect(&world, member(&curl)).await;
    let mut sidecar = Sidecar::new("curl");
    sidecar.connect(&channel).await.unwrap();
    let other = connect(&world, member(&hello)).await;
    let mut stays = Sidecar::new("hello");
    stays.connect(&other).await.unwrap();
    let (rest, _) = HELLO.rsplit_once("---").unwrap();
    world.write("hello.yaml", rest);
    // By its stream's status, or with its connection, whichever comes first.
    while sidecar.step().await.is_ok() {}
    // The list of revoked certificates goes out to the others.
    stays.told.clear();
    stays.step().await.unwrap();
    assert_eq!(stays.told, ["ROOTCA"]);
    world
        .wait("/proxies", |page| {
            page["proxies"].as_array().unwrap().len() == 1
        })
        .await;
    let channel = connect(&world, member(&curl)).await;
    assert!(sidecar.connect(&channel).await.is_err());
}

#[tokio::test]
async fn another_account_is_another_identity() {
    let world = World::new();
    let curl = enrol(&world, "curl").await;
    let channel = connect(&world, member(&curl)).await;
    let mut sidecar = Sidecar::new("curl");
    sidecar.connect(&channel).await.unwrap();
    world.write(
        "hello.yaml",
        &HELLO.replace("serviceAccount: curl", "serviceAccount: wget"),
    );
    // By its stream's status, or with its connection, whichever comes first.
    while sidecar.step().await.is_ok() {}
    let channel = connect(&world, member(&curl)).await;
    assert!(sidecar.connect(&channel).await.is_err());
    let channel = connect(&world, stranger(&world)).await;
    let token = bearer(&world.token("curl").await);
    let wget = sign(&channel, token, "wget").await.unwrap();
    let channel = connect(&world, member(&wget)).await;
    sidecar.connect(&channel).await.unwrap();
}

#[tokio::test]
async fn a_process_that_is_told_to_end_says_goodbye() {
    let mut world = World::new();
    let curl = enrol(&world, "curl").await;
    let channel = connect(&world, member(&curl)).await;
    let mut sidecar = Sidecar::new("curl");
    sidecar.connect(&channel).await.unwrap();
    let ending = std::thread::spawn(move || world.terminate());
    assert_eq!(sidecar.end().await.code, Code::Unavailable);
    let (ended_well, log) = tokio::task::spawn_blocking(|| ending.join().unwrap())
        .await
        .unwrap();
    assert!(ended_well, "{log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["event"].is_string());
    }
}

#[test]
fn what_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = dir.path().join("mesh.yaml");
    std::fs::write(&mesh, "kind: Nonsense\n").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_leno-control"))
        .arg("--source")
        .arg(&mesh)
        .arg("--state")
        .arg(dir.path().join("state"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("mesh.yaml:1:"), "{text}");
    assert!(!dir.path().join("state").exists(), "nothing was made");
}
