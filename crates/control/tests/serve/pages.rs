//! The pages for operators.

use crate::sidecar::{Sidecar, connect, enrol, member};
use crate::world::World;

#[tokio::test]
async fn pages_show_who_is_told_what() {
    let world = World::with(&["--metrics", "127.0.0.1:0"]);
    let curl = enrol(&world, "curl").await;
    let channel = connect(&world, member(&curl)).await;
    let mut sidecar = Sidecar::new("curl");
    sidecar.connect(&channel).await.unwrap();
    let page = world
        .wait("/proxies", |page| page["proxies"][0]["settled"] == true)
        .await;
    let proxy = &page["proxies"][0];
    assert_eq!(proxy["workload"], "default/curl");
    assert_eq!(
        proxy["identity"],
        "spiffe://cluster.local/ns/default/sa/curl"
    );
    assert_eq!(proxy["generation"], page["generation"]);
    assert_eq!(
        (&proxy["trustBundle"], &proxy["agent"]),
        (&1.into(), &"test".into())
    );
    assert_eq!(proxy["kinds"]["cluster"]["wanted"], "*");
    let mesh = world.json("/mesh").await;
    assert_eq!(mesh["workloads"]["default/curl"]["reach"], "*");
    assert!(mesh["services"]["default/hello"]["clusters"].is_array());
    let dump = world.json("/config_dump?workload=default/curl").await;
    assert_eq!(dump["resources"]["cluster"].as_object().unwrap().len(), 2);
    let certificates = world.json("/certs").await;
    assert_eq!(certificates["authority"]["enrolled"], 1);
    let (_, metrics) = world.page("/metrics").await;
    for line in [
        "leno_control_streams_active 1",
        "leno_control_signatures_total{status=\"OK\"} 1",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} in\n{metrics}"
        );
    }
}

#[tokio::test]
async fn pages_say_what_is_wrong_with_a_question() {
    let world = World::new();
    for (path, status, word) in [
        ("/", 200, "/config_dump"),
        ("/nothing", 404, "/config_dump"),
        ("/config_dump", 400, "NAMESPACE/NAME"),
        ("/config_dump?workload=curl", 400, "NAMESPACE/NAME"),
        (
            "/config_dump?workload=default/none",
            404,
            "no such workload",
        ),
        ("/ready", 200, "ready"),
    ] {
        let (found, body) = world.page(path).await;
        assert_eq!(found, status, "{path}");
        assert!(body.contains(word), "{path}: {body}");
    }
}

#[tokio::test]
async fn no_page_and_no_log_has_a_secret() {
    let mut world = World::with(&["--log-level", "debug"]);
    let token = world.token("curl").await;
    let mut text = String::new();
    for path in [
        "/proxies",
        "/mesh",
        "/certs",
        "/metrics",
        "/config_dump?workload=default/curl",
    ] {
        text += &world.page(path).await.1;
    }
    text += &world.stop();
    assert!(!text.contains(&token));
    assert!(!text.contains("PRIVATE KEY"));
}
