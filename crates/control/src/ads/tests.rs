//! Who a node says it is, and who has come how far.

use super::*;
use prost::Message;
use xds::delta::ids::Id;
use xds::delta::server::{Change, Entry, Stream, View};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

fn node(id: &str, agent: &str) -> Node {
    Node {
        id: id.to_owned(),
        user_agent_name: agent.to_owned(),
        user_agent_version: "1".to_owned(),
        ..Node::default()
    }
}

#[test]
fn a_nodes_id_is_a_name_and_a_namespace() {
    for (id, expected) in [
        ("web.default", Some(("default", "web"))),
        ("web.v1.default", Some(("default", "web.v1"))),
        ("web", None),
        (".default", None),
        ("web.", None),
        ("", None),
    ] {
        let expected = expected.map(|(namespace, name)| WorkloadKey::new(namespace, name));
        assert_eq!(workload_of(&node(id, "")), expected, "{id}");
    }
}

#[test]
fn envoy_is_told_apart_by_what_it_calls_itself() {
    for (agent, flavour) in [
        ("envoy", Flavour::Envoy),
        ("leno-proxy", Flavour::Leno),
        ("", Flavour::Leno),
    ] {
        assert_eq!(flavour_of(&node("web.default", agent)), flavour, "{agent}");
    }
}

#[test]
fn what_a_client_calls_itself_is_one_short_line() {
    assert_eq!(agent_of(&node("", "leno\n\u{1b}[1m")), "leno[1m 1");
    assert_eq!(agent_of(&Node::default()), "");
    assert!(agent_of(&node("", &"ä".repeat(1000))).len() <= AGENT_BYTES_MAX);
}

fn proxy(name: &str) -> Proxy {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    Proxy::new(workload(name), address)
}

fn workload(name: &str) -> WorkloadKey {
    WorkloadKey::new("default", name)
}

#[test]
fn a_trust_bundle_is_everybodys_when_the_last_one_has_it() {
    let proxies = Arc::new(Proxies::default());
    let all = [workload("a"), workload("b")];
    assert_eq!(proxies.bundle(&[]), u64::MAX);
    assert_eq!(proxies.bundle(&all), 0, "nobody ever said");
    let (a, b) = (proxies.take_seat(proxy("a")), proxies.take_seat(proxy("b")));
    let (a, b) = (a.unwrap(), b.unwrap());
    a.note_bundle(3);
    assert_eq!((proxies.bundle(&all), proxies.bundle(&all[..1])), (0, 3));
    b.note_bundle(2);
    assert_eq!(proxies.bundle(&all), 2);
    // Who is gone for a while still has what he had.
    drop(b);
    a.note_bundle(4);
    assert_eq!(proxies.bundle(&all), 2);
    // And who has two sidecars, what the worse of them has.
    let second = proxies.take_seat(proxy("a")).unwrap();
    assert_eq!(proxies.bundle(&all), 0);
    second.note_bundle(3);
    assert_eq!(proxies.bundle(&all[..1]), 3);
    drop(second);
    assert_eq!(proxies.bundle(&all[..1]), 4);
    proxies.retain(|workload| workload.name != "b");
    assert_eq!((proxies.bundle(&all), proxies.bundle(&all[..1])), (0, 4));
}

/// What is told in a mesh without anything.
struct Nothing;

impl View for Nothing {
    fn generation(&self) -> u64 {
        1
    }

    fn complete_since(&self) -> u64 {
        1
    }

    fn find(&self, _: Kind, _: &str) -> Option<Id> {
        None
    }

    fn entry(&self, _: Kind, _: Id) -> Option<&Entry> {
        None
    }

    fn former(&self, _: Kind, _: Id) -> Option<&Entry> {
        None
    }

    fn all(&self, _: Kind) -> impl Iterator<Item = Id> + '_ {
        std::iter::empty()
    }

    fn changed(&self, _: Kind, _: u64) -> impl Iterator<Item = Change<'_>> + '_ {
        std::iter::empty()
    }
}

/// A stream that asks for all of a kind, and accepts what it is told; how far it is, noted.
fn asks(stream: &mut Stream, kind: Kind, seat: &proxies::Seat) {
    let request = |nonce: &str| DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        response_nonce: nonce.to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    stream.on_request(&request(""), &Nothing).unwrap();
    seat.note(stream, 5);
    let response = stream.take_response(&Nothing).unwrap();
    let response = DeltaDiscoveryResponse::decode(response.parts.concat().as_slice()).unwrap();
    let accepted = request(&response.nonce);
    stream.on_request(&accepted, &Nothing).unwrap();
    seat.note(stream, 5);
}

#[test]
fn an_envoy_that_trusts_nobody_does_not_hold_a_new_trust_bundle_up() {
    let proxies = Arc::new(Proxies::default());
    let (companion, envoy) = (proxies.take_seat(proxy("a")), proxies.take_seat(proxy("a")));
    let (companion, envoy) = (companion.unwrap(), envoy.unwrap());
    companion.note_bundle(5);
    let all = [workload("a")];
    assert_eq!(proxies.bundle(&all), 0, "it may ask for one yet");
    let mut stream = Stream::new(&Nothing);
    asks(&mut stream, Kind::Cluster, &envoy);
    assert_eq!(proxies.bundle(&all), 5);
    // Now it has asked, and not been told.
    let request = DeltaDiscoveryRequest {
        type_url: Kind::Secret.type_url().to_owned(),
        resource_names_subscribe: vec!["ROOTCA".to_owned()],
        ..DeltaDiscoveryRequest::default()
    };
    stream.on_request(&request, &Nothing).unwrap();
    envoy.note(&stream, 5);
    assert_eq!(proxies.bundle(&all), 0);
}

#[test]
fn the_last_stream_decides_what_all_have_passed() {
    let proxies = Arc::new(Proxies::default());
    assert_eq!(proxies.passed(), None);
    let seat = proxies.take_seat(proxy("a"));
    assert_eq!(proxies.passed(), Some(0));
    drop(seat);
    assert_eq!(proxies.passed(), None);
}

/// A generation that no stream of these tests comes to.
const LATER: u64 = 7;

#[tokio::test]
async fn who_goes_while_it_is_waited_for_is_waited_for_no_longer() {
    let proxies = Arc::new(Proxies::default());
    let mut seats: Vec<_> = ["a", "b", "a"]
        .map(|name| proxies.take_seat(proxy(name)).unwrap())
        .into();
    let behind = proxies.settle(LATER, Duration::ZERO).await;
    assert_eq!(behind, [workload("a"), workload("b")]);
    let waiting = proxies.settle(LATER, Duration::MAX);
    // In this order: the first one waits before the second one is looked at.
    let leaving = async { seats.clear() };
    let both = async { tokio::join!(biased; waiting, leaving) };
    let (behind, ()) = timeout(Duration::from_secs(30), both).await.unwrap();
    assert_eq!(behind, []);
}
