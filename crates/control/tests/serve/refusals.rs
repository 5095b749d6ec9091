//! Who is not let in, and what they learn.

use http::HeaderMap;
use xds::delta;
use xds::grpc::client::Channel;
use xds::grpc::{Code, Error, Receiver, Sender, Status};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};

use crate::sidecar::{bearer, connect, enrol, member, node, sign, stranger};
use crate::world::World;

fn request(node: Option<Node>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node,
        type_url: Kind::Secret.type_url().to_owned(),
        resource_names_subscribe: vec!["ROOTCA".to_owned()],
        ..DeltaDiscoveryRequest::default()
    }
}

async fn open(channel: &Channel, node: Option<Node>) -> (Sender, Receiver) {
    let (mut sender, receiver) = channel.bidi(delta::PATH, HeaderMap::new()).await.unwrap();
    sender.send(&request(node)).await.unwrap();
    (sender, receiver)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    match result.unwrap_err() {
        Error::Status(status) => status,
        error => panic!("{error}"),
    }
}

/// How a stream ends that says it is `node`.
async fn ask(channel: &Channel, node: Option<Node>) -> Code {
    let (_sender, mut receiver) = open(channel, node).await;
    refusal(receiver.recv::<DeltaDiscoveryResponse>().await).code
}

/// How a call of a method that there is not ends.
async fn call_nothing(channel: &Channel) -> Code {
    let request = request(None);
    let answer = channel.unary::<DeltaDiscoveryResponse>("/x/y", HeaderMap::new(), &request);
    refusal(answer.await).code
}

#[tokio::test]
async fn without_a_certificate_nothing_is_told() {
    let world = World::new();
    let channel = connect(&world, stranger(&world)).await;
    assert_eq!(
        ask(&channel, Some(node("hello"))).await,
        Code::Unauthenticated
    );
    let refused = refusal(sign(&channel, HeaderMap::new(), "hello").await);
    assert_eq!(refused.code, Code::Unauthenticated);
    let refused = refusal(sign(&channel, bearer("guessed"), "hello").await);
    assert_eq!(refused.code, Code::Unauthenticated);
}

#[tokio::test]
async fn another_workloads_name_is_refused_whether_there_is_one_or_not() {
    let world = World::new();
    let curl = enrol(&world, "curl").await;
    let channel = connect(&world, member(&curl)).await;
    let mut messages = Vec::new();
    for name in ["hello", "nobody"] {
        let (_sender, mut receiver) = open(&channel, Some(node(name))).await;
        messages.push(refusal(receiver.recv::<DeltaDiscoveryResponse>().await));
    }
    assert_eq!(messages[0].code, Code::PermissionDenied);
    assert_eq!(messages[0], messages[1]);
    for id in ["curl", "", ".", "curl.", ".default"] {
        let node = Node {
            id: id.to_owned(),
            ..Node::default()
        };
        assert_eq!(
            ask(&channel, Some(node)).await,
            Code::InvalidArgument,
            "{id}"
        );
    }
    assert_eq!(ask(&channel, None).await, Code::InvalidArgument);
    assert_eq!(call_nothing(&channel).await, Code::Unimplemented);
}

#[tokio::test]
async fn a_token_works_once_and_a_leaf_renews_only_itself() {
    let world = World::new();
    let token = world.token("curl").await;
    let channel = connect(&world, stranger(&world)).await;
    let curl = sign(&channel, bearer(&token), "curl").await.unwrap();
    let again = sign(&channel, bearer(&token), "curl").await;
    assert_eq!(refusal(again).code, Code::Unauthenticated);
    let channel = connect(&world, member(&curl)).await;
    sign(&channel, HeaderMap::new(), "curl").await.unwrap();
    let other = sign(&channel, HeaderMap::new(), "hello").await;
    assert!(matches!(
        refusal(other).code,
        Code::InvalidArgument | Code::PermissionDenied
    ));
}

#[tokio::test]
async fn a_workload_has_a_few_streams_and_not_many() {
    let world = World::new();
    let curl = enrol(&world, "curl").await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        let channel = connect(&world, member(&curl)).await;
        let (sender, mut receiver) = open(&channel, Some(node("curl"))).await;
        assert!(
            receiver
                .recv::<DeltaDiscoveryResponse>()
                .await
                .unwrap()
                .is_some()
        );
        streams.push((channel, sender, receiver));
    }
    let channel = connect(&world, member(&curl)).await;
    assert_eq!(
        ask(&channel, Some(node("curl"))).await,
        Code::ResourceExhausted
    );
    streams.pop();
    world
        .wait("/proxies", |page| {
            page["proxies"].as_array().unwrap().len() == 7
        })
        .await;
    let (_sender, mut receiver) = open(&channel, Some(node("curl"))).await;
    assert!(
        receiver
            .recv::<DeltaDiscoveryResponse>()
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn calls_without_end_are_slowed_down() {
    let world = World::new();
    let curl = enrol(&world, "curl").await;
    let channel = connect(&world, member(&curl)).await;
    let mut codes = Vec::new();
    for _ in 0..40 {
        codes.push(call_nothing(&channel).await);
    }
    assert!(codes.contains(&Code::ResourceExhausted), "{codes:?}");
}
