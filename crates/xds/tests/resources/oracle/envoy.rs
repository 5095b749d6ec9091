//! What a stock Envoy is told otherwise than our own sidecar, as its own messages read it.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use model::{Direction, ListenerProtocol, TlsMode};
use proptest::prelude::*;
use prost::Message as _;
use xds::flavour::Flavour;
use xds::kind::Kind;
use xds::resource::{decode, encode, encode_for, encode_inbound};

use super::pass;
use crate::{examples, values};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn envoys_messages_have_all_that_envoy_is_told(sent in values::resource()) {
        let bytes = encode_for(Flavour::Envoy, &sent).unwrap();
        let passed = match sent.kind() {
            Kind::Secret => pass::<Secret>(&bytes),
            Kind::Cluster => pass::<Cluster>(&bytes),
            Kind::Endpoints => pass::<ClusterLoadAssignment>(&bytes),
            Kind::Listener => pass::<Listener>(&bytes),
            Kind::Routes => pass::<RouteConfiguration>(&bytes),
        };
        prop_assert_eq!(passed.len(), bytes.len());
        prop_assert!(!contains(&bytes, b"leno/1"), "the hop is not Envoy's");
        // What Leno's sidecar would be told wrongly by it, it refuses.
        if sent.kind() == Kind::Cluster || sent.kind() == Kind::Listener {
            prop_assert!(decode(sent.kind(), &bytes).is_err());
        }
        // A secret has no flavour.
        if sent.kind() == Kind::Secret {
            prop_assert_eq!(bytes, encode(&sent).unwrap());
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn bound(tls: TlsMode) -> model::Listener {
    model::Listener {
        name: "inbound".to_owned(),
        direction: Direction::Inbound,
        address: "0.0.0.0:15003".parse().unwrap(),
        additional_addresses: Vec::new(),
        bind: true,
        original_destination: true,
        tls,
        protocol: ListenerProtocol::Tcp,
        ..examples::listener()
    }
}

fn port(tls: TlsMode) -> model::Listener {
    model::Listener {
        name: "inbound|10.77.0.2:8080".to_owned(),
        direction: Direction::Inbound,
        address: "10.77.0.2:8080".parse().unwrap(),
        additional_addresses: Vec::new(),
        tls,
        ..examples::listener()
    }
}

/// Each chain: its name, the port that it is for, ALPN; of the one listener of a workload.
fn chains(tls: TlsMode, epoch: &str) -> Vec<String> {
    let bytes = encode_inbound(&bound(tls), &[&port(tls)], epoch).unwrap();
    let listener = Listener::decode(bytes).unwrap();
    assert!(listener.use_original_dst.is_none(), "it takes all itself");
    let chains = listener.filter_chains.into_iter().map(|chain| {
        let matches = chain.filter_chain_match.unwrap();
        let port = matches.destination_port.map_or(0, |port| port.value);
        let ranges = matches.prefix_ranges.iter();
        let ranges: Vec<_> = ranges.map(|it| it.address_prefix.as_str()).collect();
        let (ranges, alpn) = (ranges.join(","), matches.application_protocols.join(","));
        format!("{}: {port} {ranges} {alpn}", chain.name)
    });
    chains.collect()
}

#[test]
fn one_listener_takes_all_that_is_made_to_a_workload() {
    assert_eq!(
        chains(TlsMode::Strict, ""),
        [
            "mesh-tcp-0: 0  leno-tcp",
            "itself-0: 15003  ",
            "inbound|10.77.0.2:8080 mesh-http-0: 8080 10.77.0.2 leno-h2",
            "inbound|10.77.0.2:8080 mesh-http-1: 8080 10.77.0.2 leno-http/1.1",
        ]
    );
    let plain = "inbound|10.77.0.2:8080 http-0: 8080 10.77.0.2 ".to_owned();
    assert_eq!(chains(TlsMode::Permissive, "").pop(), Some(plain));
}

#[test]
fn callers_with_requests_prove_themselves_again_in_another_epoch() {
    let (before, after) = (
        chains(TlsMode::Permissive, "a"),
        chains(TlsMode::Permissive, "b"),
    );
    let changed: Vec<_> = before.iter().filter(|it| !after.contains(it)).collect();
    assert_eq!(
        changed,
        [
            "inbound|10.77.0.2:8080 mesh-http-0 a: 8080 10.77.0.2 leno-h2",
            "inbound|10.77.0.2:8080 mesh-http-1 a: 8080 10.77.0.2 leno-http/1.1",
        ]
    );
}
