//! Our bytes as Envoy's own messages read them, and as Envoy would act on them: which route a
//! request takes, which filter chain a connection, which names an endpoint must prove.

mod chains;
mod clusters;
mod envoy;
mod routes;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use envoy_types::pb::google::protobuf::Any;
use proptest::prelude::*;
use prost::Message;
use xds::kind::Kind;
use xds::resource::{canonical, decode, encode};

use super::values;

/// Decodes and encodes as Envoy's message.
fn pass<M: Message + Default>(bytes: &[u8]) -> Vec<u8> {
    M::decode(bytes).unwrap().encode_to_vec()
}

/// What an `Any` holds, if it is of the type with this name.
fn unpack<M: Message + Default>(any: &Any, name: &str) -> Option<M> {
    let is_it = any.type_url == format!("type.googleapis.com/{name}");
    is_it.then(|| M::decode(any.value.as_slice()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn envoys_messages_have_all_that_ours_have(sent in values::resource()) {
        let bytes = encode(&sent).unwrap();
        let passed = match sent.kind() {
            Kind::Secret => pass::<Secret>(&bytes),
            Kind::Cluster => pass::<Cluster>(&bytes),
            Kind::Endpoints => pass::<ClusterLoadAssignment>(&bytes),
            Kind::Listener => pass::<Listener>(&bytes),
            Kind::Routes => pass::<RouteConfiguration>(&bytes),
        };
        prop_assert_eq!(passed.len(), bytes.len());
        let arrived = decode(sent.kind(), &passed).unwrap();
        prop_assert_eq!(arrived.value, canonical(&sent));
    }
}
