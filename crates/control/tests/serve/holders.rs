//! A stream is for the instance that its certificate was issued to, whoever else runs under the
//! same account.

use http::HeaderMap;
use identity::credentials::Credentials;
use xds::grpc::{Code, Error};
use xds::kind::Kind;

use crate::gateway::{self, GATEWAY};
use crate::sidecar::{Sidecar, connect, enrol, enrol_as, member, sign};
use crate::world::{HELLO, World};

/// What becomes of a stream that says it is `name`.
async fn open(world: &World, name: &str, credentials: &Credentials) -> Result<Sidecar, Code> {
    let channel = connect(world, member(credentials)).await;
    let mut sidecar = Sidecar::new(name);
    match sidecar.connect(&channel).await {
        Ok(()) => Ok(sidecar),
        Err(Error::Status(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

/// Whether a stream of that name is refused, and nothing else.
async fn is_refused(world: &World, name: &str, credentials: &Credentials) -> bool {
    open(world, name, credentials).await.err() == Some(Code::PermissionDenied)
}

#[tokio::test]
async fn workload_of_a_gateways_account_gets_neither_its_keys_nor_its_configuration() {
    let world = World::new();
    let other = HELLO.replace("serviceAccount: curl", "serviceAccount: edge");
    world.write("hello.yaml", &other);
    world.write("gateway.yaml", GATEWAY);
    let (chain, key) = gateway::pair();
    world.write("secret.yaml", &gateway::secret(&chain, &key));
    world.settle(0).await;
    let (edge, curl) = (
        enrol(&world, "edge").await,
        enrol_as(&world, "curl", "edge").await,
    );
    assert_eq!(edge.own_id(), curl.own_id());
    assert!(is_refused(&world, "edge", &curl).await);
    assert!(is_refused(&world, "curl", &edge).await);
    let edge = open(&world, "edge", &edge).await.unwrap();
    assert_eq!(edge.names(Kind::Secret), ["ROOTCA", "tls|default/shop"]);
    let curl = open(&world, "curl", &curl).await.unwrap();
    assert_eq!(curl.names(Kind::Secret), ["ROOTCA"]);
}

#[tokio::test]
async fn renewed_certificates_are_served_beside_their_predecessors_also_by_another_process() {
    let mut world = World::new();
    let first = enrol(&world, "curl").await;
    let channel = connect(&world, member(&first)).await;
    let second = sign(&channel, HeaderMap::new(), "curl").await.unwrap();
    for _ in 0..2 {
        for credentials in [&first, &second] {
            assert!(open(&world, "curl", credentials).await.is_ok());
            assert!(is_refused(&world, "hello", credentials).await);
        }
        world.stop();
        world.start();
    }
    let channel = connect(&world, member(&first)).await;
    let third = sign(&channel, HeaderMap::new(), "curl").await.unwrap();
    assert!(open(&world, "curl", &third).await.is_ok());
}

#[tokio::test]
async fn certificate_that_is_in_no_record_is_told_nothing() {
    let mut world = World::new();
    let curl = enrol(&world, "curl").await;
    world.stop();
    std::fs::remove_file(world.state().join("issued.log")).unwrap();
    world.start();
    assert!(is_refused(&world, "curl", &curl).await);
    let curl = enrol(&world, "curl").await;
    assert!(open(&world, "curl", &curl).await.is_ok());
}
