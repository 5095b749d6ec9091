//! Each instance of a Workload has a sidecar, a certificate and an end of its own.

use identity::credentials::Credentials;
use serde_json::json;
use xds::grpc::Code;
use xds::kind::Kind;
use xds::resource::{Resource, decode};

use crate::sidecar::{Sidecar, bearer, connect, enrol, enrol_as, member, sign, stranger};
use crate::world::{HELLO, World};

const HELLO_CLUSTER: &str = "outbound|80|hello.default.svc.cluster.local";

/// A status with these instances of `hello`: their ordinals, and whether they are ready. Each lives
/// at its ordinal beyond 10.77.0.2.
fn status(instances: &[(u8, bool)]) -> String {
    let one = |(ordinal, ready): &(u8, bool)| {
        let (name, address) = (
            format!("hello-{ordinal}"),
            format!("10.77.0.{}", ordinal + 2),
        );
        json!({"name": name, "addresses": [address], "ready": ready})
    };
    let instances: Vec<_> = instances.iter().map(one).collect();
    json!({
        "apiVersion": "leno.dev/v1alpha1",
        "kind": "WorkloadStatus",
        "metadata": {"name": "hello"},
        "status": {"instances": instances},
    })
    .to_string()
}

/// A control plane that knows the instances 0 and 1 of `hello`, the second not ready.
async fn world() -> World {
    let world = World::new();
    write(&world, &[(0, true), (1, false)]).await;
    world
}

/// Until the control plane knows it.
async fn write(world: &World, instances: &[(u8, bool)]) {
    world.write("status.yaml", &status(instances));
    world.settle(0).await;
}

async fn stream(world: &World, name: &str, credentials: &Credentials) -> Sidecar {
    let channel = connect(world, member(credentials)).await;
    let mut sidecar = Sidecar::new(name);
    sidecar.connect(&channel).await.unwrap();
    sidecar
}

/// Whether the credentials are let in by that name.
async fn is_let_in(world: &World, name: &str, credentials: &Credentials) -> bool {
    let channel = connect(world, member(credentials)).await;
    Sidecar::new(name).connect(&channel).await.is_ok()
}

fn endpoints(sidecar: &Sidecar) -> Vec<String> {
    let bytes = &sidecar.has[&(Kind::Endpoints, HELLO_CLUSTER.to_owned())];
    let Resource::Endpoints { endpoints, .. } = decode(Kind::Endpoints, bytes).unwrap().value
    else {
        panic!("not endpoints");
    };
    endpoints
        .iter()
        .map(|one| one.address.to_string())
        .collect()
}

#[tokio::test]
async fn each_is_told_of_its_own_ports_and_called_when_it_is_ready() {
    let world = world().await;
    for (name, own) in [
        ("hello-0", "inbound|10.77.0.2:8080"),
        ("hello-1", "inbound|10.77.0.3:8080"),
    ] {
        let credentials = enrol_as(&world, name, "hello").await;
        let sidecar = stream(&world, name, &credentials).await;
        assert_eq!(
            sidecar.names(Kind::Cluster),
            [own, HELLO_CLUSTER, "passthrough"]
        );
    }
    let curl = enrol(&world, "curl").await;
    let mut curl = stream(&world, "curl", &curl).await;
    assert_eq!(endpoints(&curl), ["10.77.0.2:8080"]);
    write(&world, &[(0, false), (1, true)]).await;
    curl.step().await.unwrap();
    assert_eq!(endpoints(&curl), ["10.77.0.3:8080"]);
}

#[tokio::test]
async fn tokens_are_for_instances_that_there_are() {
    let world = world().await;
    for (name, wanted) in [
        ("hello-1", 200),
        ("hello", 404),
        ("hello-2", 404),
        ("curl", 200),
    ] {
        let body = json!({"namespace": "default", "workload": name});
        let (status, answer) = world.operate("POST /v1/tokens", &body).await;
        assert_eq!(status, wanted, "{name}: {answer}");
    }
    // Of the same account, and yet another's.
    let channel = connect(&world, stranger(&world)).await;
    let token = bearer(&world.token("hello-1").await);
    let other = sign(&channel, token, "hello").await.unwrap();
    let channel = connect(&world, member(&other)).await;
    Sidecar::new("hello-1").connect(&channel).await.unwrap();
}

#[tokio::test]
async fn one_is_not_let_in_as_another_of_its_workload() {
    let world = world().await;
    let first = enrol_as(&world, "hello-0", "hello").await;
    let second = enrol_as(&world, "hello-1", "hello").await;
    assert!(!is_let_in(&world, "hello-1", &first).await);
    assert!(!is_let_in(&world, "hello-0", &second).await);
    assert!(is_let_in(&world, "hello-0", &first).await);
}

#[tokio::test]
async fn one_that_ends_is_void_and_its_name_works_again() {
    let world = world().await;
    let first = enrol_as(&world, "hello-0", "hello").await;
    let stays = enrol_as(&world, "hello-1", "hello").await;
    let mut ends = stream(&world, "hello-0", &first).await;
    let mut other = stream(&world, "hello-1", &stays).await;
    write(&world, &[(1, true)]).await;
    // By its stream's status, or with its connection, whichever comes first.
    while ends.step().await.is_ok() {}
    while !other.told.contains(&"ROOTCA".to_owned()) {
        other.step().await.unwrap();
    }
    write(&world, &[(0, true), (1, true)]).await;
    let second = enrol_as(&world, "hello-0", "hello").await;
    let (old, new) = (
        is_let_in(&world, "hello-0", &first).await,
        is_let_in(&world, "hello-0", &second).await,
    );
    assert_eq!((old, new), (false, true));
}

#[tokio::test]
async fn one_whose_workload_goes_and_comes_back_is_let_in_again() {
    let world = world().await;
    let credentials = enrol_as(&world, "hello-0", "hello").await;
    let mut sidecar = stream(&world, "hello-0", &credentials).await;
    let without = HELLO.replacen("name: hello, labels", "name: hi, labels", 1);
    assert_ne!(without, HELLO);
    world.write("hello.yaml", &without);
    assert_eq!(sidecar.end().await.code, Code::PermissionDenied);
    // It is told nothing and given nothing, but what it has is not taken from it.
    assert!(!is_let_in(&world, "hello-0", &credentials).await);
    let channel = connect(&world, member(&credentials)).await;
    sign(&channel, http::HeaderMap::new(), "hello")
        .await
        .unwrap_err();
    world.write("hello.yaml", HELLO);
    world.settle(0).await;
    assert!(is_let_in(&world, "hello-0", &credentials).await);
    // Only when nobody says any more that it runs.
    world.write("hello.yaml", &without);
    write(&world, &[]).await;
    world.write("hello.yaml", HELLO);
    write(&world, &[(0, true)]).await;
    assert!(!is_let_in(&world, "hello-0", &credentials).await);
}

#[tokio::test]
async fn an_old_sidecar_and_its_successor_are_both_served() {
    let world = world().await;
    let credentials = enrol_as(&world, "hello-0", "hello").await;
    let mut old = stream(&world, "hello-0", &credentials).await;
    // The successor has a certificate of its own.
    let token = bearer(&world.token("hello-0").await);
    let channel = connect(&world, stranger(&world)).await;
    let renewed = sign(&channel, token, "hello").await.unwrap();
    let mut new = stream(&world, "hello-0", &renewed).await;
    write(&world, &[(0, true), (1, true)]).await;
    for sidecar in [&mut old, &mut new] {
        sidecar.step().await.unwrap();
        assert_eq!(endpoints(sidecar), ["10.77.0.2:8080", "10.77.0.3:8080"]);
    }
    old.hang_up();
    write(&world, &[(0, true)]).await;
    new.step().await.unwrap();
    assert_eq!(endpoints(&new), ["10.77.0.2:8080"]);
}

#[tokio::test]
async fn who_may_call_whom_is_said() {
    let world = world().await;
    let ask = async |source: &str, destination: &str| {
        let path = format!("GET /v1/policy?source={source}&destination={destination}");
        world.operate(&path, &json!({})).await
    };
    let (status, answer) = ask("default/curl", "default/hello-1").await;
    assert_eq!(
        (status, &answer["allowed"]),
        (200, &json!(true)),
        "{answer}"
    );
    assert_eq!(answer["rule"], json!({"kind": "permissive"}));
    let strict = HELLO.replace(
        "serviceAccount: hello,",
        "serviceAccount: hello, mode: strict,",
    );
    world.write("hello.yaml", &strict);
    world.settle(0).await;
    let (status, answer) = ask("default/curl", "default/hello").await;
    assert_eq!(
        (status, &answer["allowed"]),
        (200, &json!(false)),
        "{answer}"
    );
    assert_eq!(ask("default/x", "default/hello").await.0, 404);
    assert_eq!(ask("curl", "default/hello").await.0, 400);
}

#[tokio::test]
async fn where_nothing_is_intercepted_a_sidecar_has_listeners_of_its_own_only() {
    let world = World::new();
    let mut told: serde_json::Value = serde_json::from_str(&status(&[(0, true)])).unwrap();
    told["status"]["instances"][0]["addresses"] = json!(["127.77.0.2"]);
    told["status"]["instances"][0]["explicit"] = json!({
        "inbound": [{"port": 8080, "address": "127.77.0.2:41001"}],
        "outbound": [{"service": "hello.default", "port": 80, "address": "127.77.0.2:41002"}],
    });
    world.write("status.yaml", &told.to_string());
    world.settle(0).await;
    let credentials = enrol_as(&world, "hello-0", "hello").await;
    let mut sidecar = stream(&world, "hello-0", &credentials).await;
    let own = ["inbound|127.77.0.2:8080", HELLO_CLUSTER];
    assert_eq!(sidecar.names(Kind::Listener), own);
    assert_eq!(
        listener(&sidecar, own[0]),
        ("127.77.0.2:41001".parse().unwrap(), true)
    );
    assert_eq!(
        listener(&sidecar, own[1]),
        ("127.77.0.2:41002".parse().unwrap(), true)
    );
    assert_eq!(endpoints(&sidecar), ["127.77.0.2:41001"]);
    // What changes of the Service reaches it where it listens for that.
    sidecar.told.clear();
    world.write("hello.yaml", &HELLO.replace("port: 80,", "port: 81,"));
    while !sidecar.told.iter().any(|name| name == HELLO_CLUSTER) {
        sidecar.step().await.unwrap();
    }
    // Interception anew is another sidecar's: this one's stream ends.
    world.write("status.yaml", &status(&[(0, true)]));
    assert_eq!(sidecar.end().await.code, Code::Unavailable);
    let sidecar = stream(&world, "hello-0", &credentials).await;
    assert!(sidecar.names(Kind::Listener).contains(&"outbound"));
}

/// Its address, and whether it has a socket.
fn listener(sidecar: &Sidecar, name: &str) -> (std::net::SocketAddr, bool) {
    let bytes = &sidecar.has[&(Kind::Listener, name.to_owned())];
    let Resource::Listener(listener) = decode(Kind::Listener, bytes).unwrap().value else {
        panic!("no listener");
    };
    (listener.address, listener.bind)
}
