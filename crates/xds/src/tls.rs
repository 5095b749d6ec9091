//! Mesh TLS as Envoy's transport sockets: which certificate, which authorities, which names, which
//! protocols. TLS 1.3 only. What is read must be exactly what would be written.

use std::collections::BTreeSet;

use model::{Protocol, ProxyProtocol, Transport};

use crate::any::{self, pack, unpack};
use crate::check;
use crate::envoy;
use crate::error::Error;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::core::{
    AggregatedConfigSource, ConfigSource, ProxyProtocolConfig, StringMatcher, TransportSocket,
};
use crate::proto::google::BoolValue;
use crate::proto::tls::{
    CertificateValidationContext, CombinedValidationContext, CommonTlsContext,
    DownstreamTlsContext, ProxyProtocolUpstreamTransport, RawBuffer, SdsSecretConfig,
    SubjectAltNameMatcher, TlsParameters, UpstreamTlsContext,
};

/// The name of the trust bundle that the mesh trusts.
pub const TRUST_BUNDLE: &str = "ROOTCA";
/// The name of the proxy's own certificate, which it has from elsewhere: Envoy from its bootstrap.
pub const CERTIFICATE: &str = "default";

/// The hop between two sidecars of ours: requests of many connections on one.
pub(crate) const ALPN_HOP: &str = "leno/1";
pub(crate) const ALPN_H2: &str = "leno-h2";
pub(crate) const ALPN_HTTP1: &str = "leno-http/1.1";
/// Connections that are passed on unread.
pub(crate) const ALPN_TCP: &str = "leno-tcp";

/// What requests come in.
pub(crate) const ALPN_HTTP: [&str; 3] = [ALPN_HOP, ALPN_H2, ALPN_HTTP1];

const SOCKET_TLS: &str = "envoy.transport_sockets.tls";
const SOCKET_RAW: &str = "envoy.transport_sockets.raw_buffer";
const SOCKET_PROXY_PROTOCOL: &str = "envoy.transport_sockets.upstream_proxy_protocol";

const TLS_1_2: i32 = 3;
const TLS_1_3: i32 = 4;
/// What clients outside of the mesh are offered.
pub(crate) const ALPN_PUBLIC: [&str; 2] = ["h2", "http/1.1"];
const SAN_URI: i32 = 3;
const API_V3: i32 = 2;

/// What a cluster's endpoints of one transport are spoken to with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) transport: Transport,
    /// Who may answer; empty with `Plaintext`.
    pub(crate) identities: BTreeSet<String>,
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
}

/// What an upstream of this transport and protocol is offered.
fn offer(transport: Transport, protocol: Protocol) -> Vec<String> {
    let hop = (transport == Transport::Leno).then_some(ALPN_HOP);
    let inner: &[&str] = match protocol {
        Protocol::Auto => &[ALPN_H2, ALPN_HTTP1, ALPN_TCP],
        Protocol::Http1 => &[ALPN_HTTP1],
        Protocol::Http2 => &[ALPN_H2],
        Protocol::Tcp => &[ALPN_TCP],
    };
    let all = hop.iter().chain(inner);
    all.map(|name| (*name).to_owned()).collect()
}

/// Resources come over the stream that this one came over.
pub(crate) fn ads() -> ConfigSource {
    ConfigSource {
        ads: Some(AggregatedConfigSource {}),
        resource_api_version: API_V3,
        ..ConfigSource::default()
    }
}

/// An error unless it is [`ads`], or says nothing and means it.
pub(crate) fn check_ads(source: Option<&ConfigSource>, at: &Place<'_>) -> Result<(), Error> {
    let version = source.map_or(API_V3, |source| source.resource_api_version);
    if source.is_none_or(|source| source.ads.is_none()) || ![0, API_V3].contains(&version) {
        return Err(Error::invalid(
            at,
            "resources come over this stream only; send ads, V3",
        ));
    }
    Ok(())
}

fn common(alpn: Vec<String>, flavour: Flavour) -> CommonTlsContext {
    CommonTlsContext {
        tls_params: Some(TlsParameters {
            tls_minimum_protocol_version: TLS_1_3,
            tls_maximum_protocol_version: TLS_1_3,
        }),
        alpn_protocols: alpn,
        tls_certificate_sds_secret_configs: vec![SdsSecretConfig {
            name: CERTIFICATE.to_owned(),
            sds_config: match flavour {
                Flavour::Leno => None,
                Flavour::Envoy => Some(envoy::companion()),
            },
        }],
        ..CommonTlsContext::default()
    }
}

fn trust_bundle() -> Option<SdsSecretConfig> {
    Some(SdsSecretConfig {
        name: TRUST_BUNDLE.to_owned(),
        sds_config: Some(ads()),
    })
}

fn socket(name: &str, config: &impl any::Typed) -> TransportSocket {
    TransportSocket {
        name: name.to_owned(),
        typed_config: Some(pack(config)),
    }
}

/// For connections that come with mesh TLS and one of these protocols.
pub(crate) fn encode_downstream(protocols: &[String], flavour: Flavour) -> TransportSocket {
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            validation_context_sds_secret_config: trust_bundle(),
            ..common(protocols.to_vec(), flavour)
        }),
        require_client_certificate: Some(BoolValue { value: true }),
    };
    socket(SOCKET_TLS, &context)
}

/// For connections that come with TLS and one of these protocols from outside of the mesh, and are
/// shown a certificate.
pub(crate) fn encode_public(certificate: &str, protocols: &[&str]) -> TransportSocket {
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TLS_1_2,
                tls_maximum_protocol_version: TLS_1_3,
            }),
            tls_certificate_sds_secret_configs: vec![SdsSecretConfig {
                name: certificate.to_owned(),
                sds_config: Some(ads()),
            }],
            alpn_protocols: protocols.iter().map(|it| (*it).to_owned()).collect(),
            ..CommonTlsContext::default()
        }),
        require_client_certificate: None,
    };
    socket(SOCKET_TLS, &context)
}

/// Who comes with TLS.
pub(crate) enum Downstream {
    /// Others of the mesh, with one of these protocols.
    Mesh(Vec<String>),
    /// Clients outside of it, who are shown the certificate of this name.
    Public(String),
}

/// What a socket for TLS is.
pub(crate) fn decode_downstream(
    socket: &TransportSocket,
    at: &Place<'_>,
) -> Result<Downstream, Error> {
    let at = at.field("typed_config");
    let any = socket.typed_config.as_ref();
    let any = any.ok_or_else(|| Error::invalid(&at, "missing; send mesh TLS"))?;
    let context: DownstreamTlsContext = unpack(any, &at)?;
    let common = context.common_tls_context.as_ref();
    let certificates = common.map(|it| it.tls_certificate_sds_secret_configs.as_slice());
    // The sidecar's own certificate has no source.
    match certificates {
        Some([only]) if only.sds_config.is_some() => {
            let certificate = only.name.clone();
            decode_public(context, &at).map(|()| Downstream::Public(certificate))
        }
        _ => decode_mesh(context, &at).map(Downstream::Mesh),
    }
}

/// An error unless it is what [`encode_public`] makes for the one certificate in it.
fn decode_public(context: DownstreamTlsContext, at: &Place<'_>) -> Result<(), Error> {
    if context
        .require_client_certificate
        .is_some_and(|it| it.value)
    {
        let at = at.field("require_client_certificate");
        let reason = "clients outside of the mesh prove nothing; remove it";
        return Err(Error::invalid(&at, reason));
    }
    let at = at.field("common_tls_context");
    let context = context.common_tls_context.unwrap_or_default();
    let params = context.tls_params.unwrap_or_default();
    let versions = (
        params.tls_minimum_protocol_version,
        params.tls_maximum_protocol_version,
    );
    if versions != (TLS_1_2, TLS_1_3) || context.alpn_protocols != ALPN_PUBLIC {
        let reason = "outside of the mesh TLS 1.2 and 1.3 are spoken, h2 and http/1.1; send them";
        return Err(Error::invalid(&at.field("tls_params"), reason));
    }
    if context.validation_context_sds_secret_config.is_some()
        || context.combined_validation_context.is_some()
    {
        let reason = "clients outside of the mesh prove nothing; remove it";
        return Err(Error::invalid(&at.field("validation_context"), reason));
    }
    for (index, config) in context
        .tls_certificate_sds_secret_configs
        .iter()
        .enumerate()
    {
        let at = at.item("tls_certificate_sds_secret_configs", index);
        check::name(&config.name, &at.field("name"))?;
        check_ads(config.sds_config.as_ref(), &at.field("sds_config"))?;
    }
    Ok(())
}

fn decode_mesh(context: DownstreamTlsContext, at: &Place<'_>) -> Result<Vec<String>, Error> {
    if context.require_client_certificate != Some(BoolValue { value: true }) {
        let reason = "must be true: both sides of mesh TLS are verified";
        return Err(Error::invalid(
            &at.field("require_client_certificate"),
            reason,
        ));
    }
    let at = at.field("common_tls_context");
    let context = context.common_tls_context.unwrap_or_default();
    check_common(&context, &at)?;
    if context.combined_validation_context.is_some() {
        return Err(Error::unsupported(&at.field("combined_validation_context")));
    }
    let bundle = context.validation_context_sds_secret_config.as_ref();
    check_trust_bundle(bundle, &at.field("validation_context_sds_secret_config"))?;
    Ok(context.alpn_protocols)
}

fn check_common(context: &CommonTlsContext, at: &Place<'_>) -> Result<(), Error> {
    let params = context.tls_params.clone().unwrap_or_default();
    let versions = [
        params.tls_minimum_protocol_version,
        params.tls_maximum_protocol_version,
    ];
    if versions != [TLS_1_3; 2] {
        let reason = "mesh TLS is 1.3; send it as the least and the greatest version";
        return Err(Error::invalid(&at.field("tls_params"), reason));
    }
    let own = &context.tls_certificate_sds_secret_configs;
    let is_own =
        |config: &SdsSecretConfig| config.name == CERTIFICATE && config.sds_config.is_none();
    match own.as_slice() {
        [only] if is_own(only) => Ok(()),
        _ => Err(Error::invalid(
            &at.field("tls_certificate_sds_secret_configs"),
            "keys are not taken from the control plane; name `default`, without a source",
        )),
    }
}

fn check_trust_bundle(config: Option<&SdsSecretConfig>, at: &Place<'_>) -> Result<(), Error> {
    let Some(config) = config.filter(|config| config.name == TRUST_BUNDLE) else {
        return Err(Error::invalid(
            at,
            "peers are verified by the bundle `ROOTCA`; name it",
        ));
    };
    check_ads(config.sds_config.as_ref(), &at.field("sds_config"))
}

/// For connections to endpoints of a cluster that speak `protocol`.
pub(crate) fn encode_upstream(
    of: &Socket,
    protocol: Protocol,
    flavour: Flavour,
) -> TransportSocket {
    let plain = match of.transport {
        Transport::Plaintext => socket(SOCKET_RAW, &RawBuffer {}),
        Transport::Mtls | Transport::Leno => socket(SOCKET_TLS, &upstream(of, protocol, flavour)),
    };
    let Some(version) = of.proxy_protocol else {
        return plain;
    };
    let wrapped = ProxyProtocolUpstreamTransport {
        config: Some(ProxyProtocolConfig {
            version: match version {
                ProxyProtocol::V1 => 0,
                ProxyProtocol::V2 => 1,
            },
        }),
        transport_socket: Some(plain),
    };
    socket(SOCKET_PROXY_PROTOCOL, &wrapped)
}

fn upstream(of: &Socket, protocol: Protocol, flavour: Flavour) -> UpstreamTlsContext {
    let exact = |id: &String| SubjectAltNameMatcher {
        san_type: SAN_URI,
        matcher: Some(StringMatcher {
            exact: Some(id.clone()),
        }),
    };
    let names = CertificateValidationContext {
        match_typed_subject_alt_names: of.identities.iter().map(exact).collect(),
        ..CertificateValidationContext::default()
    };
    UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            combined_validation_context: Some(CombinedValidationContext {
                default_validation_context: Some(names),
                validation_context_sds_secret_config: trust_bundle(),
            }),
            ..common(offer(of.transport, protocol), flavour)
        }),
    }
}

/// What a socket of a cluster that speaks `protocol` does.
pub(crate) fn decode_upstream(
    socket: &TransportSocket,
    protocol: Protocol,
    at: &Place<'_>,
) -> Result<Socket, Error> {
    let at = at.field("typed_config");
    let any = socket.typed_config.as_ref();
    let any = any.ok_or_else(|| Error::invalid(&at, "missing; send a transport socket's"))?;
    if any::is::<ProxyProtocolUpstreamTransport>(any) {
        return decode_wrapped(&unpack(any, &at)?, protocol, &at);
    }
    if any::is::<RawBuffer>(any) {
        return Ok(Socket {
            transport: Transport::Plaintext,
            identities: BTreeSet::new(),
            proxy_protocol: None,
        });
    }
    let context: UpstreamTlsContext = unpack(any, &at)?;
    let at = at.field("common_tls_context");
    let context = context.common_tls_context.unwrap_or_default();
    check_common(&context, &at)?;
    if context.validation_context_sds_secret_config.is_some() {
        let reason = "any certificate of the mesh would do; send combined_validation_context";
        let at = at.field("validation_context_sds_secret_config");
        return Err(Error::invalid(&at, reason));
    }
    let transports = [Transport::Mtls, Transport::Leno];
    let offers = |transport: &Transport| offer(*transport, protocol) == context.alpn_protocols;
    let Some(transport) = transports.into_iter().find(offers) else {
        let reason = "not what this cluster's protocol is offered as in the mesh; see docs/xds.md";
        return Err(Error::invalid(&at.field("alpn_protocols"), reason));
    };
    Ok(Socket {
        transport,
        identities: decode_names(context.combined_validation_context, &at)?,
        proxy_protocol: None,
    })
}

fn decode_wrapped(
    wrapped: &ProxyProtocolUpstreamTransport,
    protocol: Protocol,
    at: &Place<'_>,
) -> Result<Socket, Error> {
    let version = match wrapped.config.as_ref().map_or(0, |config| config.version) {
        0 => ProxyProtocol::V1,
        1 => ProxyProtocol::V2,
        _ => return Err(Error::unsupported(&at.field("config").field("version"))),
    };
    let inner = wrapped.transport_socket.clone().unwrap_or_default();
    let at = at.field("transport_socket");
    if inner
        .typed_config
        .as_ref()
        .is_some_and(any::is::<ProxyProtocolUpstreamTransport>)
    {
        return Err(Error::invalid(&at, "one PROXY header is enough; send one"));
    }
    let socket = decode_upstream(&inner, protocol, &at)?;
    Ok(Socket {
        proxy_protocol: Some(version),
        ..socket
    })
}

fn decode_names(
    context: Option<CombinedValidationContext>,
    at: &Place<'_>,
) -> Result<BTreeSet<String>, Error> {
    let at = at.field("combined_validation_context");
    let context = context.unwrap_or_default();
    let bundle = context.validation_context_sds_secret_config.as_ref();
    check_trust_bundle(bundle, &at.field("validation_context_sds_secret_config"))?;
    let at = at.field("default_validation_context");
    let names = context.default_validation_context.unwrap_or_default();
    if names.trusted_ca.is_some() || names.crl.is_some() || names.only_verify_leaf_cert_crl {
        return Err(Error::invalid(
            &at,
            "authorities come with the bundle; send names only",
        ));
    }
    let mut identities = BTreeSet::new();
    for (index, name) in names.match_typed_subject_alt_names.into_iter().enumerate() {
        let at = at.item("match_typed_subject_alt_names", index);
        let exact = name.matcher.and_then(|matcher| matcher.exact);
        let Some(id) = exact.filter(|_| name.san_type == SAN_URI) else {
            return Err(Error::invalid(
                &at,
                "not a name that a mesh certificate has; send a URI",
            ));
        };
        check::spiffe_id(&id, &at)?;
        identities.insert(id);
    }
    match identities.is_empty() {
        false => Ok(identities),
        true => Err(Error::invalid(
            &at,
            "any certificate of the mesh would do; send names",
        )),
    }
}
