//! Checks of the server's certificate other than by DNS name: by SPIFFE id, or not at all.
//! Called by rustls during a handshake. Always makes the peer prove that it holds its key.

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::sync::Arc;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

/// What a peer must be.
#[derive(Debug)]
pub(super) struct PeerCheck {
    algorithms: WebPkiSupportedAlgorithms,
    /// None = anyone.
    wanted: Option<(RootCertStore, String)>,
}

impl PeerCheck {
    /// Whoever answers.
    #[expect(clippy::needless_pass_by_value, reason = "the same shape as `id`")]
    pub(super) fn any(provider: Arc<CryptoProvider>) -> Self {
        Self {
            algorithms: provider.signature_verification_algorithms,
            wanted: None,
        }
    }

    /// Who has this id as a URI in its certificate, vouched for by `roots`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the caller has no more use for it"
    )]
    pub(super) fn id(provider: Arc<CryptoProvider>, roots: RootCertStore, id: &str) -> Self {
        let wanted = Some((roots, id.to_owned()));
        Self {
            algorithms: provider.signature_verification_algorithms,
            wanted,
        }
    }
}

impl ServerCertVerifier for PeerCheck {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((roots, id)) = &self.wanted else {
            return Ok(ServerCertVerified::assertion());
        };
        let parsed = ParsedCertificate::try_from(leaf)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, chain, now, algorithms)?;
        if has_uri(leaf, id) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidForName))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn has_uri(leaf: &CertificateDer<'_>, id: &str) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return false;
    };
    let mut names = names.value.general_names.iter();
    names.any(|name| matches!(name, GeneralName::URI(uri) if *uri == id))
}
