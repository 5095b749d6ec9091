//! `leno.identity.v1alpha1`: how a sidecar gets its certificate. No words of Envoy's.

/// The one method of `CertificateService`, unary: a [`SignRequest`] for a [`SignResponse`]. The
/// first time a one-time token proves the workload (metadata `authorization: Bearer TOKEN`),
/// later its client certificate does.
pub const SIGN: &str = "/leno.identity.v1alpha1.CertificateService/Sign";

/// `leno.identity.v1alpha1.SignRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SignRequest {
    /// PKCS#10, DER. Proves possession of a P-256 key; who the workload is, is proved elsewhere.
    #[prost(bytes = "bytes", tag = "1")]
    pub csr: bytes::Bytes,
}

/// `leno.identity.v1alpha1.SignResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SignResponse {
    /// PEM: the leaf, and what is between it and an authority of the bundle.
    #[prost(string, tag = "1")]
    pub chain: String,
    /// PEM of the authorities that are trusted now, newest first.
    #[prost(string, tag = "2")]
    pub trust_bundle: String,
    /// PEM of lists of revoked certificates; may be empty.
    #[prost(string, tag = "3")]
    pub revocations: String,
    /// When the leaf expires, seconds since 1970.
    #[prost(int64, tag = "4")]
    pub not_after: i64,
}
