//! Fields of transport sockets and secrets: all of them are about security.

use super::Message;
use super::Rule::{Ignored, Message as Of, Read, Refused};
use super::core::{
    CONFIG_SOURCE, DATA_SOURCE, PROXY_PROTOCOL_CONFIG, STRING_MATCHER, TRANSPORT_SOCKET,
};
use super::google::BOOL_VALUE;
use super::{many, one};

pub(super) static DOWNSTREAM_TLS_CONTEXT: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    fields: &[
        one(1, "common_tls_context", Of(&COMMON_TLS_CONTEXT)),
        one(2, "require_client_certificate", Of(&BOOL_VALUE)),
        one(3, "require_sni", Refused),
        one(4, "session_ticket_keys", Refused),
        one(5, "session_ticket_keys_sds_secret_config", Refused),
        one(6, "session_timeout", Ignored),
        one(7, "disable_stateless_session_resumption", Refused),
        one(8, "ocsp_staple_policy", Refused),
        one(9, "full_scan_certs_on_sni_mismatch", Ignored),
        one(10, "disable_stateful_session_resumption", Refused),
        one(11, "prefer_client_ciphers", Ignored),
    ],
    oneofs: &[],
};

pub(super) static UPSTREAM_TLS_CONTEXT: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    fields: &[
        one(1, "common_tls_context", Of(&COMMON_TLS_CONTEXT)),
        one(2, "sni", Refused),
        one(3, "allow_renegotiation", Refused),
        one(4, "max_session_keys", Ignored),
        one(5, "enforce_rsa_key_usage", Refused),
        one(6, "auto_host_sni", Refused),
        one(7, "auto_sni_san_validation", Refused),
    ],
    oneofs: &[],
};

pub(super) static COMMON_TLS_CONTEXT: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext",
    fields: &[
        one(1, "tls_params", Of(&TLS_PARAMETERS)),
        many(2, "tls_certificates", Refused),
        one(3, "validation_context", Refused),
        many(4, "alpn_protocols", Read),
        many(
            6,
            "tls_certificate_sds_secret_configs",
            Of(&SDS_SECRET_CONFIG),
        ),
        one(
            7,
            "validation_context_sds_secret_config",
            Of(&SDS_SECRET_CONFIG),
        ),
        one(
            8,
            "combined_validation_context",
            Of(&COMBINED_VALIDATION_CONTEXT),
        ),
        one(9, "tls_certificate_certificate_provider", Refused),
        one(10, "validation_context_certificate_provider", Refused),
        one(11, "tls_certificate_certificate_provider_instance", Refused),
        one(
            12,
            "validation_context_certificate_provider_instance",
            Refused,
        ),
        one(13, "custom_handshaker", Refused),
        one(14, "tls_certificate_provider_instance", Refused),
        one(15, "key_log", Refused),
        one(16, "custom_tls_certificate_selector", Refused),
    ],
    oneofs: &[&[7, 8]],
};

pub(super) static COMBINED_VALIDATION_CONTEXT: Message = Message {
    name: concat!(
        "envoy.extensions.transport_sockets.tls.v3",
        ".CommonTlsContext.CombinedCertificateValidationContext"
    ),
    fields: &[
        one(
            1,
            "default_validation_context",
            Of(&CERTIFICATE_VALIDATION_CONTEXT),
        ),
        one(
            2,
            "validation_context_sds_secret_config",
            Of(&SDS_SECRET_CONFIG),
        ),
        one(3, "validation_context_certificate_provider", Refused),
        one(
            4,
            "validation_context_certificate_provider_instance",
            Refused,
        ),
    ],
    oneofs: &[],
};

pub(super) static CERTIFICATE_VALIDATION_CONTEXT: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext",
    fields: &[
        one(1, "trusted_ca", Of(&DATA_SOURCE)),
        many(2, "verify_certificate_hash", Refused),
        many(3, "verify_certificate_spki", Refused),
        one(6, "require_signed_certificate_timestamp", Refused),
        one(7, "crl", Of(&DATA_SOURCE)),
        one(8, "allow_expired_certificate", Refused),
        many(9, "match_subject_alt_names", Refused),
        one(10, "trust_chain_verification", Refused),
        one(11, "watched_directory", Refused),
        one(12, "custom_validator_config", Refused),
        one(13, "ca_certificate_provider_instance", Refused),
        one(14, "only_verify_leaf_cert_crl", Read),
        many(
            15,
            "match_typed_subject_alt_names",
            Of(&SUBJECT_ALT_NAME_MATCHER),
        ),
        one(16, "max_verify_depth", Refused),
        one(17, "system_root_certs", Refused),
        one(18, "suppress_client_ca_list", Ignored),
    ],
    oneofs: &[],
};

pub(super) static SUBJECT_ALT_NAME_MATCHER: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher",
    fields: &[
        one(1, "san_type", Read),
        one(2, "matcher", Of(&STRING_MATCHER)),
        one(3, "oid", Refused),
    ],
    oneofs: &[],
};

pub(super) static TLS_PARAMETERS: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.TlsParameters",
    fields: &[
        one(1, "tls_minimum_protocol_version", Read),
        one(2, "tls_maximum_protocol_version", Read),
        many(3, "cipher_suites", Refused),
        many(4, "ecdh_curves", Refused),
        many(5, "signature_algorithms", Refused),
        many(6, "compliance_policies", Refused),
    ],
    oneofs: &[],
};

pub(super) static SDS_SECRET_CONFIG: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig",
    fields: &[
        one(1, "name", Read),
        one(2, "sds_config", Of(&CONFIG_SOURCE)),
    ],
    oneofs: &[],
};

pub(super) static SECRET: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.Secret",
    fields: &[
        one(1, "name", Read),
        one(2, "tls_certificate", Of(&TLS_CERTIFICATE)),
        one(3, "session_ticket_keys", Refused),
        one(4, "validation_context", Of(&CERTIFICATE_VALIDATION_CONTEXT)),
        one(5, "generic_secret", Refused),
    ],
    oneofs: &[&[2, 4]],
};

pub(super) static TLS_CERTIFICATE: Message = Message {
    name: "envoy.extensions.transport_sockets.tls.v3.TlsCertificate",
    fields: &[
        one(1, "certificate_chain", Of(&DATA_SOURCE)),
        one(2, "private_key", Of(&DATA_SOURCE)),
        one(3, "password", Refused),
        one(4, "ocsp_staple", Refused),
        many(5, "signed_certificate_timestamp", Refused),
        one(6, "private_key_provider", Refused),
        one(7, "watched_directory", Refused),
        one(8, "pkcs12", Refused),
        one(9, "tls_params", Refused),
    ],
    oneofs: &[],
};

pub(super) static RAW_BUFFER: Message = Message {
    name: "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    fields: &[],
    oneofs: &[],
};

pub(super) static PROXY_PROTOCOL_UPSTREAM_TRANSPORT: Message = Message {
    name: "envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
    fields: &[
        one(1, "config", Of(&PROXY_PROTOCOL_CONFIG)),
        one(2, "transport_socket", Of(&TRANSPORT_SOCKET)),
        one(3, "allow_unspecified_address", Refused),
        one(4, "tlv_as_pool_key", Refused),
    ],
    oneofs: &[],
};
