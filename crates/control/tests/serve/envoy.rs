//! A real Envoy takes all that the control plane has to say. Without one on the machine these
//! tests say so, and do nothing.

mod process;

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::gateway::{GATEWAY, pair, secret};
use crate::sidecar::{connect, enrol, member, node};
use crate::world::World;
use process::{Envoy, program};

/// What is the same in all meshes here: who is on Envoy.
const MESH: &str = "
apiVersion: leno.dev/v1alpha1
kind: MeshConfig
metadata: {name: mesh}
spec: {dataPlane: envoy}
";

const SHOP: &str = include_str!("envoy/shop.yaml");

/// For Envoy to take what it is told.
const SETTLE_MS: u64 = 30_000;

/// A world of these Workloads and Services.
async fn world_of(text: &str) -> World {
    let world = World::new();
    world.write("hello.yaml", MESH);
    world.write("status.yaml", text);
    world.settle(0).await;
    world
}

/// Envoy's stream.
fn stream(page: &Value) -> Option<&Value> {
    let mut proxies = page["proxies"].as_array()?.iter();
    proxies.find(|proxy| proxy["agent"] == "envoy")
}

/// Between two looks at a page: an Envoy has its own work to do meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until Envoy uses all that there is; what it refused is an error.
async fn settled(world: &World) {
    while stream(&world.json("/proxies").await).is_none() {
        sleep(PAUSE).await;
    }
    let answer = world.settle(SETTLE_MS).await;
    let page = world.json("/proxies").await;
    let stream = stream(&page).unwrap();
    assert_eq!(answer["settled"], true, "{stream:#}");
    for (kind, progress) in stream["kinds"].as_object().unwrap() {
        assert_eq!(progress["refused"], 0, "{kind}: {stream:#}");
    }
}

/// Waits until Envoy serves, and has no listener or cluster that waits for something.
async fn active(envoy: &Envoy) {
    for stat in [
        "listener_manager.total_listeners_warming",
        "cluster_manager.warming_clusters",
    ] {
        while envoy.stat(stat).await != Some(0) {
            sleep(PAUSE).await;
        }
    }
    while envoy.page("/ready").await.unwrap().trim() != "LIVE" {
        sleep(PAUSE).await;
    }
}

async fn count(envoy: &Envoy) -> u64 {
    let stat = "listener_manager.total_listeners_active";
    envoy.stat(stat).await.unwrap()
}

#[tokio::test]
async fn envoy_takes_all_that_it_is_told() {
    Box::pin(takes_all("DELTA_GRPC", "delta")).await;
}

#[tokio::test]
async fn envoy_takes_the_state_of_the_world() {
    Box::pin(takes_all("GRPC", "stateOfTheWorld")).await;
}

async fn takes_all(api_type: &str, variant: &str) {
    let Some(program) = program() else { return };
    let world = world_of(SHOP).await;
    let envoy = Envoy::start_as(&world, &program, "web", api_type).await;
    settled(&world).await;
    let page = world.json("/proxies").await;
    assert_eq!(stream(&page).unwrap()["variant"], variant);
    active(&envoy).await;
    // A cluster that is made anew waits for endpoints that it has been told before.
    let other = SHOP.replace(
        "port: 80, appProtocol: http}",
        "port: 80, appProtocol: grpc}",
    );
    world.write("status.yaml", &other);
    settled(&world).await;
    active(&envoy).await;
    let waited = envoy.page("/stats?filter=init_fetch_timeout").await;
    for line in waited.unwrap().lines() {
        assert!(line.ends_with(": 0"), "{line}");
    }
    let before = count(&envoy).await;
    // What is strict is told to its callers, who are none.
    let closed = MESH.replace("dataPlane", "egress: false, mode: strict, dataPlane");
    world.write("hello.yaml", &closed);
    settled(&world).await;
    active(&envoy).await;
    assert!(count(&envoy).await < before);
    for stat in ["listener_manager.lds", "cluster_manager.cds"] {
        let stat = format!("{stat}.update_rejected");
        assert_eq!(envoy.stat(&stat).await, Some(0), "{stat}");
    }
}

#[tokio::test]
async fn envoy_is_a_gateway() {
    let Some(program) = program() else { return };
    let listeners = "  listeners:\n  - {name: http, port: 8080, protocol: HTTP}";
    let gateway = GATEWAY.replace("  listeners:", listeners);
    let (chain, key) = pair();
    let secret = secret(&chain, &key);
    let world = world_of(&format!("{SHOP}---{gateway}---\n{secret}")).await;
    let envoy = Box::pin(Envoy::start(&world, &program, "edge")).await;
    settled(&world).await;
    active(&envoy).await;
    let page = envoy.page("/listeners").await.unwrap();
    for name in ["gateway|8080", "gateway|8443", "outbound"] {
        assert!(page.contains(name), "{name} is not among\n{page}");
    }
}

#[tokio::test]
async fn an_envoy_is_told_nothing_where_leno_is_expected() {
    let world = World::new();
    let credentials = enrol(&world, "curl").await;
    let channel = connect(&world, member(&credentials)).await;
    let mut envoy = crate::sidecar::Sidecar::of(xds::proto::discovery::Node {
        user_agent_name: "envoy".to_owned(),
        ..node("curl")
    });
    let refusal = envoy.connect(&channel).await.unwrap_err().to_string();
    assert!(refusal.contains("dataPlane: envoy"), "{refusal}");
}
