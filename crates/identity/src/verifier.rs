//! Decides whether a peer's chain is acceptable: signed by the trust bundle for this side,
//! valid now, one SPIFFE id of the trust domain, and one that was expected.
//! Called by rustls in full handshakes and by `tls::recheck` after resumed ones.
//! Never looks at DNS names or addresses, and never accepts on an error.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerMisbehaved,
    RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::certificate::{Rejection, workload_id};
use crate::credentials::Credentials;
use crate::spiffe::SpiffeId;
use crate::tls::provider;

/// Checks those who connect to us: any workload of the trust domain.
#[derive(Debug)]
pub(crate) struct Downstream {
    chain: Arc<dyn ClientCertVerifier>,
    trust_domain: Arc<str>,
}

/// Checks those whom we connect to: only the expected ones.
#[derive(Debug)]
pub(crate) struct Upstream {
    roots: Arc<RootCertStore>,
    trust_domain: Arc<str>,
    expected: Arc<[SpiffeId]>,
}

impl Downstream {
    pub(crate) fn new(credentials: &Credentials) -> Result<Self, Error> {
        let roots = Arc::clone(credentials.roots());
        let chain = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider()))
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
        Ok(Self {
            chain,
            trust_domain: credentials.trust_domain().into(),
        })
    }

    pub(crate) fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<SpiffeId, Error> {
        self.chain.verify_client_cert(leaf, intermediates, now)?;
        member(leaf, &self.trust_domain).map_err(refuse)
    }
}

impl Upstream {
    pub(crate) fn new(credentials: &Credentials, expected: &[SpiffeId]) -> Self {
        Self {
            roots: Arc::clone(credentials.roots()),
            trust_domain: credentials.trust_domain().into(),
            expected: expected.into(),
        }
    }

    pub(crate) fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<SpiffeId, Error> {
        check_server_chain(leaf, intermediates, &self.roots, now)?;
        let id = member(leaf, &self.trust_domain).map_err(refuse)?;
        if self.expected.contains(&id) {
            return Ok(id);
        }
        let expected: Vec<_> = self.expected.iter().map(SpiffeId::as_str).collect();
        Err(refuse(Rejection::UnexpectedIdentity {
            id,
            expected: expected.join(", "),
        }))
    }
}

/// Whether the bundle vouches for a chain, leaf first.
pub(crate) fn check_chain(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
) -> Result<(), Error> {
    let (leaf, intermediates) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
    check_server_chain(leaf, intermediates, roots, now)
}

fn check_server_chain(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
) -> Result<(), Error> {
    let algorithms = provider().signature_verification_algorithms.all;
    let leaf = ParsedCertificate::try_from(leaf)?;
    verify_server_cert_signed_by_trust_anchor(&leaf, roots, intermediates, now, algorithms)
}

fn member(leaf: &CertificateDer<'_>, trust_domain: &str) -> Result<SpiffeId, Rejection> {
    let id = workload_id(leaf)?;
    if id.trust_domain() != trust_domain {
        let trust_domain = trust_domain.to_owned();
        return Err(Rejection::WrongTrustDomain { id, trust_domain });
    }
    Ok(id)
}

fn refuse(rejection: Rejection) -> Error {
    CertificateError::Other(OtherError(Arc::new(rejection))).into()
}

/// The mesh signs handshakes with P-256 only.
fn schemes() -> Vec<SignatureScheme> {
    vec![SignatureScheme::ECDSA_NISTP256_SHA256]
}

fn check_signature(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    if !schemes().contains(&signed.scheme) {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    let algorithms = &provider().signature_verification_algorithms;
    rustls::crypto::verify_tls13_signature(message, leaf, signed, algorithms)
}

fn no_tls12() -> Error {
    PeerMisbehaved::SignedKxWithWrongAlgorithm.into()
}

impl ClientCertVerifier for Downstream {
    /// None: the names of our authorities are nobody's business and cost bytes.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(leaf, intermediates, now)
            .map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        check_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

impl ServerCertVerifier for Upstream {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(leaf, intermediates, now)
            .map(|_| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        check_signature(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}
