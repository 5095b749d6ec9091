//! Reads one certificate: what an operator wants to see of it, and the SPIFFE id that it names.
//! Used by credentials, the verifier, the admin page and `leno cert show`. Reading is not
//! trusting: nothing here verifies a signature.

use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::spiffe::SpiffeId;

/// Why a certificate cannot stand for a workload of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The peer sent no certificate.
    #[error("no certificate was presented; the peer needs credentials of the mesh")]
    NoCertificate,
    /// The DER does not parse, or says something twice.
    #[error("the certificate does not parse ({0}); issue a new one")]
    Malformed(String),
    /// No URI name, or one that is not a SPIFFE id of a workload.
    #[error("the certificate names no workload ({0}); it needs one URI name, a SPIFFE id")]
    NoSpiffeId(String),
    /// More than one URI name: which one speaks would be the reader's choice.
    #[error("the certificate has {0} URI names; a SPIFFE certificate has exactly one")]
    SeveralUris(usize),
    /// The leaf may sign certificates: an authority is not a workload.
    #[error("the certificate may itself sign certificates; issue a leaf for the workload")]
    Authority,
    /// The id lives in another trust domain.
    #[error("`{id}` is not in the trust domain `{trust_domain}`")]
    WrongTrustDomain {
        /// Who presented itself.
        id: SpiffeId,
        /// Whom the local credentials trust.
        trust_domain: String,
    },
    /// A member of the mesh, but not one that may answer for this service.
    #[error("`{id}` may not answer here, expected {expected}")]
    UnexpectedIdentity {
        /// Who presented itself.
        id: SpiffeId,
        /// Who may answer, separated by commas.
        expected: String,
    },
}

/// Why a file of certificates cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot read {path}: {reason}; check the path and who may read it")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Not PEM, or no certificate in it.
    #[error("{path} holds no certificate: {reason}; it must be PEM, as `leno cert` writes it")]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
}

/// What an operator wants to see of a certificate. Times are UTC.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The SPIFFE id, or the distinguished name where there is none.
    pub subject: String,
    /// The issuer's distinguished name.
    pub issuer: String,
    /// Lower-case hexadecimal, without separators.
    pub serial: String,
    /// First second of validity, RFC 3339.
    pub not_before: String,
    /// Last second of validity, RFC 3339.
    pub not_after: String,
    /// SHA-256 of the DER, lower-case hexadecimal.
    pub sha256: String,
    /// Whether it may sign certificates (basic constraints `CA:TRUE`).
    pub is_authority: bool,
}

/// Reads the certificates of a PEM file in their order, at least one.
///
/// # Errors
/// [`FileError`].
pub fn read_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let bad = |reason: String| FileError::Pem {
        path: path.to_owned(),
        reason,
    };
    let bytes = std::fs::read(path).map_err(|reason| FileError::Read {
        path: path.to_owned(),
        reason,
    })?;
    let list: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|e| bad(e.to_string()))?;
    if list.is_empty() {
        return Err(bad("no certificate section".to_owned()));
    }
    Ok(list)
}

/// Reads what an operator wants to see.
///
/// # Errors
/// [`Rejection::Malformed`].
pub fn summary(der: &CertificateDer<'_>) -> Result<Summary, Rejection> {
    let certificate = parse(der)?;
    let id = workload_uri(&certificate).ok().map(ToOwned::to_owned);
    let validity = certificate.validity();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    Ok(Summary {
        subject: id.unwrap_or_else(|| certificate.subject().to_string()),
        issuer: certificate.issuer().to_string(),
        serial: hex(certificate.raw_serial()),
        not_before: rfc3339(validity.not_before.to_datetime()),
        not_after: rfc3339(validity.not_after.to_datetime()),
        sha256: hex(digest.as_ref()),
        is_authority: certificate.is_ca(),
    })
}

/// The one SPIFFE id that a leaf names (X509-SVID section 2 and 5.2).
///
/// # Errors
/// Every [`Rejection`] except those about trust domain and expectation.
pub fn workload_id(leaf: &CertificateDer<'_>) -> Result<SpiffeId, Rejection> {
    let certificate = parse(leaf)?;
    let usage = certificate.key_usage().map_err(malformed)?;
    let signs = usage.is_some_and(|usage| usage.value.key_cert_sign() || usage.value.crl_sign());
    if certificate.is_ca() || signs {
        return Err(Rejection::Authority);
    }
    let uri = workload_uri(&certificate)?;
    let id = SpiffeId::parse(uri).map_err(|e| Rejection::NoSpiffeId(e.to_string()))?;
    if id.path().is_empty() {
        return Err(Rejection::NoSpiffeId(format!("`{id}` is a trust domain")));
    }
    Ok(id)
}

/// First and last moment of validity.
///
/// # Errors
/// [`Rejection::Malformed`].
pub fn validity(
    der: &CertificateDer<'_>,
) -> Result<std::ops::RangeInclusive<OffsetDateTime>, Rejection> {
    let certificate = parse(der)?;
    let validity = certificate.validity();
    Ok(validity.not_before.to_datetime()..=validity.not_after.to_datetime())
}

/// Exactly one certificate and nothing after it.
pub(crate) fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Rejection> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err(Rejection::Malformed("bytes after its end".to_owned())),
        Err(error) => Err(malformed(error)),
    }
}

fn workload_uri<'a>(certificate: &'a X509Certificate<'_>) -> Result<&'a str, Rejection> {
    let names = certificate.subject_alternative_name().map_err(malformed)?;
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    let mut uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.count()) {
        (Some(uri), 0) => Ok(uri),
        (Some(_), more) => Err(Rejection::SeveralUris(more + 1)),
        (None, _) => Err(Rejection::NoSpiffeId("no URI name".to_owned())),
    }
}

fn malformed(error: impl std::fmt::Display) -> Rejection {
    Rejection::Malformed(error.to_string())
}

/// RFC 3339 in UTC with whole seconds.
pub(crate) fn rfc3339(moment: OffsetDateTime) -> String {
    moment
        .format(&Rfc3339)
        .unwrap_or_else(|_| moment.to_string())
}

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
