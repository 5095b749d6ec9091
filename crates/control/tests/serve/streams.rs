//! What a sidecar is told, and when.

use xds::kind::Kind;
use xds::resource::{Resource, decode};

use crate::sidecar::{Sidecar, connect, connected, enrol, member};
use crate::world::{HELLO, STATUS, World};

const HELLO_CLUSTER: &str = "outbound|80|hello.default.svc.cluster.local";

#[tokio::test]
async fn a_sidecar_enrols_and_is_told_the_mesh() {
    let world = World::new();
    let sidecar = connected(&world, "hello").await;
    assert_eq!(sidecar.names(Kind::Secret), ["ROOTCA"]);
    let clusters = ["inbound|10.77.0.2:8080", HELLO_CLUSTER, "passthrough"];
    assert_eq!(sidecar.names(Kind::Cluster), clusters);
    assert_eq!(sidecar.names(Kind::Endpoints), [HELLO_CLUSTER]);
    for ((kind, name), bytes) in &sidecar.has {
        let decoded = decode(*kind, bytes);
        assert!(decoded.is_ok(), "{kind:?} {name}: {decoded:?}");
    }
    let curl = connected(&world, "curl").await;
    assert_eq!(curl.names(Kind::Cluster), [HELLO_CLUSTER, "passthrough"]);
}

#[tokio::test]
async fn a_change_of_an_address_is_one_resource() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    curl.told.clear();
    world.write("status.yaml", &STATUS.replace("10.77.0.2", "10.77.0.3"));
    curl.step().await.unwrap();
    assert_eq!(curl.told, [HELLO_CLUSTER]);
    let bytes = &curl.has[&(Kind::Endpoints, HELLO_CLUSTER.to_owned())];
    let Resource::Endpoints { endpoints, .. } = decode(Kind::Endpoints, bytes).unwrap().value
    else {
        panic!("not endpoints");
    };
    assert_eq!(endpoints[0].address, "10.77.0.3:8080".parse().unwrap());
}

#[tokio::test]
async fn what_goes_is_told_last_and_what_is_wrong_changes_nothing() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    curl.told.clear();
    world.write("hello.yaml", "kind: nonsense");
    world.wait("/mesh", |_| true).await;
    while !world.page("/ready").await.1.contains("sources are wrong") {}
    let mesh = HELLO.replace(
        "name: hello}\nspec:\n  selector",
        "name: hi}\nspec:\n  selector",
    );
    assert_ne!(mesh, HELLO);
    world.write("hello.yaml", &mesh);
    while curl.told.len() < 8 {
        curl.step().await.unwrap();
    }
    let new = HELLO_CLUSTER.replace("hello", "hi");
    let gone = format!("-{HELLO_CLUSTER}");
    let expected = [[new.as_str(); 4], [gone.as_str(); 4]].concat();
    assert_eq!(curl.told, expected);
    assert_eq!(world.page("/ready").await, (200, "ready\n".to_owned()));
}

#[tokio::test]
async fn a_strict_workload_is_shown_only_to_its_callers() {
    let world = World::new();
    let strict = HELLO.replace(
        "serviceAccount: hello,",
        "serviceAccount: hello, mode: strict,",
    );
    world.write("hello.yaml", &strict);
    world
        .wait("/config_dump?workload=default/curl", |dump| {
            dump["clusters"].as_array().unwrap().len() == 1
        })
        .await;
    let mut curl = connected(&world, "curl").await;
    assert_eq!(curl.names(Kind::Cluster), ["passthrough"]);
    let policy = "
apiVersion: leno.dev/v1alpha1
kind: AccessPolicy
metadata: {name: callers-of-hello}
spec: {serviceAccount: hello, callers: [{serviceAccount: curl}]}
";
    world.write("policy.yaml", policy);
    while !curl.names(Kind::Routes).contains(&HELLO_CLUSTER) {
        curl.step().await.unwrap();
    }
    assert_eq!(curl.names(Kind::Cluster), [HELLO_CLUSTER, "passthrough"]);
}

#[tokio::test]
async fn a_refusal_is_shown_with_its_reason_and_ends_nothing() {
    let world = World::new();
    let mut curl = connected(&world, "curl").await;
    world.write("status.yaml", &STATUS.replace("10.77.0.2", "10.77.0.3"));
    curl.refuse("I do not like it").await.unwrap();
    let is_refused = |page: &serde_json::Value| {
        page["proxies"][0]["kinds"]["endpoints"]["refusal"] == "I do not like it"
    };
    world.wait("/proxies", is_refused).await;
    world.write("status.yaml", STATUS);
    curl.step().await.unwrap();
    world.wait("/proxies", |page| !is_refused(page)).await;
}

#[tokio::test]
async fn who_comes_back_to_another_process_is_told_nothing_again() {
    let mut world = World::new();
    let credentials = enrol(&world, "curl").await;
    let channel = connect(&world, member(&credentials)).await;
    let mut curl = Sidecar::new("curl");
    curl.connect(&channel).await.unwrap();
    world.stop();
    world.start();
    let channel = connect(&world, member(&credentials)).await;
    curl.connect(&channel).await.unwrap();
    assert_eq!(curl.told, [""; 0]);
    // But what has changed meanwhile.
    world.stop();
    world.write("status.yaml", &STATUS.replace("10.77.0.2", "10.77.0.3"));
    world.start();
    let channel = connect(&world, member(&credentials)).await;
    curl.connect(&channel).await.unwrap();
    assert_eq!(curl.told, [HELLO_CLUSTER]);
}
