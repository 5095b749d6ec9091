//! `envoy.extensions.transport_sockets`: TLS, secrets, the PROXY header, plaintext.

use std::fmt;

use super::core::{ConfigSource, DataSource, ProxyProtocolConfig, StringMatcher, TransportSocket};
use super::google::BoolValue;

/// `envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DownstreamTlsContext {
    #[prost(message, optional, tag = "1")]
    pub common_tls_context: Option<CommonTlsContext>,
    #[prost(message, optional, tag = "2")]
    pub require_client_certificate: Option<BoolValue>,
}

/// `envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpstreamTlsContext {
    #[prost(message, optional, tag = "1")]
    pub common_tls_context: Option<CommonTlsContext>,
}

/// `envoy.extensions.transport_sockets.tls.v3.CommonTlsContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CommonTlsContext {
    #[prost(message, optional, tag = "1")]
    pub tls_params: Option<TlsParameters>,
    #[prost(string, repeated, tag = "4")]
    pub alpn_protocols: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub tls_certificate_sds_secret_configs: Vec<SdsSecretConfig>,
    #[prost(message, optional, tag = "7")]
    pub validation_context_sds_secret_config: Option<SdsSecretConfig>,
    #[prost(message, optional, tag = "8")]
    pub combined_validation_context: Option<CombinedValidationContext>,
}

/// `envoy.extensions.transport_sockets.tls.v3`
/// `.CommonTlsContext.CombinedCertificateValidationContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CombinedValidationContext {
    #[prost(message, optional, tag = "1")]
    pub default_validation_context: Option<CertificateValidationContext>,
    #[prost(message, optional, tag = "2")]
    pub validation_context_sds_secret_config: Option<SdsSecretConfig>,
}

/// `envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CertificateValidationContext {
    #[prost(message, optional, tag = "1")]
    pub trusted_ca: Option<DataSource>,
    #[prost(message, optional, tag = "7")]
    pub crl: Option<DataSource>,
    #[prost(bool, tag = "14")]
    pub only_verify_leaf_cert_crl: bool,
    #[prost(message, repeated, tag = "15")]
    pub match_typed_subject_alt_names: Vec<SubjectAltNameMatcher>,
}

/// `envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubjectAltNameMatcher {
    #[prost(int32, tag = "1")]
    pub san_type: i32,
    #[prost(message, optional, tag = "2")]
    pub matcher: Option<StringMatcher>,
}

/// `envoy.extensions.transport_sockets.tls.v3.TlsParameters`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TlsParameters {
    #[prost(int32, tag = "1")]
    pub tls_minimum_protocol_version: i32,
    #[prost(int32, tag = "2")]
    pub tls_maximum_protocol_version: i32,
}

/// `envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SdsSecretConfig {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub sds_config: Option<ConfigSource>,
}

/// `envoy.extensions.transport_sockets.tls.v3.TlsCertificate`.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct TlsCertificate {
    #[prost(message, optional, tag = "1")]
    pub certificate_chain: Option<DataSource>,
    #[prost(message, optional, tag = "2")]
    pub private_key: Option<DataSource>,
}

/// Without the key.
impl fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsCertificate(..)")
    }
}

/// `envoy.extensions.transport_sockets.tls.v3.Secret`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Secret {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub tls_certificate: Option<TlsCertificate>,
    #[prost(message, optional, tag = "4")]
    pub validation_context: Option<CertificateValidationContext>,
}

/// `envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RawBuffer {}

/// `envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProxyProtocolUpstreamTransport {
    #[prost(message, optional, tag = "1")]
    pub config: Option<ProxyProtocolConfig>,
    #[prost(message, optional, tag = "2")]
    pub transport_socket: Option<TransportSocket>,
}
