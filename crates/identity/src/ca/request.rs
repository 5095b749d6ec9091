//! Reads a signing request (PKCS#10, RFC 2986): the key, and the proof that the requester has it.
//! What else a request asks for is nobody's business but the authority's.

use rcgen::CertificateSigningRequestParams;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::Error;

/// Longest request: one with a P-256 key and the longest id has under 3 KiB.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Parses a request and checks its signature, which proves possession of the key.
pub(super) fn read(bytes: &[u8]) -> Result<CertificateSigningRequestParams, Error> {
    let refuse = |e: &dyn std::fmt::Display| Error::Request(e.to_string());
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(refuse(&"it is too long"));
    }
    let der = if bytes.starts_with(b"-----BEGIN") {
        CertificateSigningRequestDer::from_pem_slice(bytes).map_err(|e| refuse(&e))?
    } else {
        CertificateSigningRequestDer::from(bytes.to_vec())
    };
    if !holds_p256_key(&der) {
        return Err(refuse(&"its key is not ECDSA P-256"));
    }
    CertificateSigningRequestParams::from_der(&der).map_err(|e| refuse(&e))
}

fn holds_p256_key(request: &[u8]) -> bool {
    let Ok((_, request)) = X509CertificationRequest::from_der(request) else {
        return false;
    };
    let key = &request.certification_request_info.subject_pki;
    let curve = key
        .algorithm
        .parameters
        .as_ref()
        .and_then(|any| any.as_oid().ok());
    curve.is_some_and(|oid| oid == x509_parser::oid_registry::OID_EC_P256)
}
