//! What Envoy connects to, and what with: type, balancing, sockets, names.

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster, cluster::ClusterDiscoveryType, cluster::DiscoveryType, cluster::LbPolicy,
};
use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket::ConfigType};
use envoy_types::pb::envoy::extensions::transport_sockets::proxy_protocol::v3 as wrapped;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    Secret, UpstreamTlsContext, common_tls_context::ValidationContextType, secret,
};
use envoy_types::pb::envoy::extensions::upstreams::http::v3::{
    HttpProtocolOptions, http_protocol_options::UpstreamProtocolOptions,
};
use envoy_types::pb::google::protobuf::Any;
use model::{Balance, Discovery, Protocol, ProxyProtocol, TrustBundle};
use prost::Message as _;
use xds::resource::{Resource, encode};

use super::unpack;
use crate::examples;

fn envoys(cluster: model::Cluster) -> Cluster {
    Cluster::decode(encode(&Resource::Cluster(cluster)).unwrap()).unwrap()
}

fn config(socket: &TransportSocket) -> &Any {
    match &socket.config_type {
        Some(ConfigType::TypedConfig(any)) => any,
        None => panic!("{socket:?}"),
    }
}

/// ALPN names and SPIFFE ids of a socket for mesh TLS.
fn mesh_tls(socket: &TransportSocket) -> (Vec<String>, Vec<String>) {
    let name = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let context: UpstreamTlsContext = unpack(config(socket), name).unwrap();
    let common = context.common_tls_context.unwrap();
    let Some(ValidationContextType::CombinedValidationContext(combined)) =
        common.validation_context_type
    else {
        panic!("names and the bundle")
    };
    let bundle = combined.validation_context_sds_secret_config.unwrap();
    assert_eq!(bundle.name, "ROOTCA");
    let names = combined
        .default_validation_context
        .unwrap()
        .match_typed_subject_alt_names;
    let ids = names.into_iter().map(|name| {
        assert_eq!(name.san_type, 3, "URI");
        format!("{:?}", name.matcher.unwrap().match_pattern.unwrap())
    });
    (common.alpn_protocols, ids.collect())
}

#[test]
fn endpoints_are_discovered_and_matched_with_sockets_by_their_transport() {
    let cluster = envoys(examples::cluster());
    let kind = ClusterDiscoveryType::Type(DiscoveryType::Eds.into());
    assert_eq!(cluster.cluster_discovery_type, Some(kind));
    assert_eq!(cluster.lb_policy(), LbPolicy::LeastRequest);
    assert!(cluster.transport_socket.is_none() && cluster.load_assignment.is_none());
    let words: Vec<_> = cluster
        .transport_socket_matches
        .iter()
        .map(|entry| {
            (
                entry.name.as_str(),
                entry.transport_socket.as_ref().unwrap(),
            )
        })
        .collect();
    let [("leno", leno), ("mtls", mtls)] = words[..] else {
        panic!("{words:?}")
    };
    let ids = vec![r#"Exact("spiffe://cluster.local/ns/default/sa/hello")"#.to_owned()];
    let alpn = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        mesh_tls(leno),
        (alpn(&["leno/1", "leno-http/1.1"]), ids.clone())
    );
    assert_eq!(mesh_tls(mtls), (alpn(&["leno-http/1.1"]), ids));
}

#[test]
fn a_protocol_is_explicit_or_the_downstreams() {
    let protocol = |protocol| {
        let cluster = envoys(model::Cluster {
            protocol,
            ..examples::cluster()
        });
        let name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
        let any = cluster.typed_extension_protocol_options.get(name)?;
        unpack::<HttpProtocolOptions>(any, name)
            .unwrap()
            .upstream_protocol_options
    };
    use UpstreamProtocolOptions::{ExplicitHttpConfig, UseDownstreamProtocolConfig};
    assert!(matches!(
        protocol(Protocol::Http1),
        Some(ExplicitHttpConfig(_))
    ));
    assert!(matches!(
        protocol(Protocol::Http2),
        Some(ExplicitHttpConfig(_))
    ));
    assert!(matches!(
        protocol(Protocol::Auto),
        Some(UseDownstreamProtocolConfig(_))
    ));
    assert_eq!(protocol(Protocol::Tcp), None);
}

#[test]
fn original_destinations_have_no_endpoints_in_envoy() {
    let headless = model::Cluster {
        balance: Balance::OriginalDestination,
        ..examples::cluster()
    };
    let passthrough = examples::passthrough();
    for (cluster, has_tls) in [(headless, true), (passthrough, false)] {
        let cluster = envoys(cluster);
        let kind = ClusterDiscoveryType::Type(DiscoveryType::OriginalDst.into());
        assert_eq!(cluster.cluster_discovery_type, Some(kind));
        assert_eq!(cluster.lb_policy(), LbPolicy::ClusterProvided);
        assert!(cluster.eds_cluster_config.is_none() && cluster.load_assignment.is_none());
        assert_eq!(cluster.transport_socket.is_some(), has_tls);
    }
}

#[test]
fn a_proxy_header_wraps_every_socket() {
    let cluster = envoys(model::Cluster {
        protocol: Protocol::Tcp,
        proxy_protocol: Some(ProxyProtocol::V2),
        discovery: Discovery::Static,
        ..examples::cluster()
    });
    let assignment = cluster.load_assignment.unwrap();
    assert_eq!(assignment.endpoints[0].lb_endpoints.len(), 1);
    let matches = cluster.transport_socket_matches.iter();
    let sockets = matches.filter_map(|entry| entry.transport_socket.as_ref());
    let sockets: Vec<_> = sockets.chain(cluster.transport_socket.as_ref()).collect();
    assert_eq!(sockets.len(), 3);
    for socket in sockets {
        let name = "envoy.extensions.transport_sockets.proxy_protocol.v3.\
                    ProxyProtocolUpstreamTransport";
        let wrapped: wrapped::ProxyProtocolUpstreamTransport =
            unpack(config(socket), name).unwrap();
        assert_eq!(wrapped.config.unwrap().version, 1);
    }
}

#[test]
fn a_bundle_is_a_validation_context_that_looks_up_leaves() {
    let bundle = TrustBundle {
        name: "ROOTCA".to_owned(),
        authorities: "authorities".to_owned(),
        revocations: "revocations".to_owned(),
    };
    let secret = Secret::decode(encode(&Resource::Bundle(bundle)).unwrap()).unwrap();
    let Some(secret::Type::ValidationContext(context)) = secret.r#type else {
        panic!("{secret:?}")
    };
    assert!(context.trusted_ca.is_some() && context.crl.is_some());
    assert!(context.only_verify_leaf_cert_crl);
}
