//! Decides whether a peer's chain is acceptable: signed by the trust bundle for this side,
//! valid now, one SPIFFE id of the trust domain, and one that was expected.
//! Called by rustls in full handshakes and by `tls::recheck` after resumed ones.
//! Never looks at DNS names or addresses, and never accepts on an error.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertRevocationListError, CertificateError, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, PeerMisbehaved, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, RevocationOptionsBuilder, UnknownStatusPolicy};

use crate::bundle::TrustBundle;
use crate::certificate::{Rejection, workload_id};
use crate::spiffe::SpiffeId;
use crate::tls::provider;

/// Checks those who connect to us: any workload of the trust domain.
#[derive(Debug)]
pub(crate) struct Downstream {
    bundle: Arc<TrustBundle>,
    /// Whether a certificate must be presented; one that is presented is checked in any case.
    required: bool,
}

/// Checks those whom we connect to: only the expected ones.
#[derive(Debug)]
pub(crate) struct Upstream {
    bundle: Arc<TrustBundle>,
    expected: Arc<[SpiffeId]>,
}

/// What a leaf is used for (RFC 5280, section 4.2.1.12).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Usage {
    Client,
    Server,
}

impl Downstream {
    pub(crate) fn new(bundle: &Arc<TrustBundle>) -> Self {
        Self {
            bundle: Arc::clone(bundle),
            required: true,
        }
    }

    /// Lets those in, too, who present no certificate at all.
    pub(crate) fn optional(bundle: &Arc<TrustBundle>) -> Self {
        Self {
            required: false,
            ..Self::new(bundle)
        }
    }

    pub(crate) fn check(&self, chain: Presented<'_>, now: UnixTime) -> Result<SpiffeId, Error> {
        chain.check(&self.bundle, Usage::Client, now)?;
        member(chain.leaf, self.bundle.trust_domain()).map_err(refuse)
    }
}

impl Upstream {
    pub(crate) fn new(bundle: &Arc<TrustBundle>, expected: &[SpiffeId]) -> Self {
        Self {
            bundle: Arc::clone(bundle),
            expected: expected.into(),
        }
    }

    pub(crate) fn check(&self, chain: Presented<'_>, now: UnixTime) -> Result<SpiffeId, Error> {
        chain.check(&self.bundle, Usage::Server, now)?;
        let id = member(chain.leaf, self.bundle.trust_domain()).map_err(refuse)?;
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

/// A chain as it was presented.
#[derive(Clone, Copy)]
pub(crate) struct Presented<'a> {
    pub(crate) leaf: &'a CertificateDer<'a>,
    pub(crate) intermediates: &'a [CertificateDer<'a>],
}

impl<'a> Presented<'a> {
    /// Leaf first.
    pub(crate) fn new(chain: &'a [CertificateDer<'a>]) -> Result<Self, Error> {
        let (leaf, intermediates) = chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        Ok(Self {
            leaf,
            intermediates,
        })
    }

    fn check(self, bundle: &TrustBundle, usage: Usage, now: UnixTime) -> Result<(), Error> {
        let lists: Vec<_> = bundle.revocations().iter().collect();
        // An issuer without a list has revoked nobody; an old list is better than none.
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            let options = options.with_status_policy(UnknownStatusPolicy::Allow);
            options.build()
        });
        self.verify(bundle.anchors(), usage, now, revocation)
            .map_err(chain_error)
    }

    fn verify(
        self,
        anchors: &[TrustAnchor<'_>],
        usage: Usage,
        now: UnixTime,
        revocation: Option<webpki::RevocationOptions<'_>>,
    ) -> Result<(), webpki::Error> {
        let algorithms = provider().signature_verification_algorithms.all;
        let usage = match usage {
            Usage::Client => KeyUsage::client_auth(),
            Usage::Server => KeyUsage::server_auth(),
        };
        EndEntityCert::try_from(self.leaf)?
            .verify_for_usage(
                algorithms,
                anchors,
                self.intermediates,
                now,
                usage,
                revocation,
                None,
            )
            .map(|_| ())
    }
}

/// Whether the bundle vouches for a chain, leaf first.
pub(crate) fn check_chain(
    chain: &[CertificateDer<'_>],
    bundle: &TrustBundle,
    usage: Usage,
    now: UnixTime,
) -> Result<(), Error> {
    Presented::new(chain)?.check(bundle, usage, now)
}

/// Whether a chain, leaf first, leads to the first authority of the bundle.
pub(crate) fn is_from_newest(
    chain: &[CertificateDer<'_>],
    bundle: &TrustBundle,
    now: UnixTime,
) -> bool {
    let newest = bundle.authorities().first();
    let anchor = newest.and_then(|der| webpki::anchor_from_trusted_cert(der).ok());
    let (Some(anchor), Ok(chain)) = (anchor, Presented::new(chain)) else {
        return false;
    };
    chain.verify(&[anchor], Usage::Server, now, None).is_ok()
}

/// Whether a caller's chain, leaf first, leads to the first anchor of the bundle: those that lead
/// to others are accepted for as long as there are others.
pub(crate) fn rests_on_first(
    chain: &[CertificateDer<'_>],
    bundle: &TrustBundle,
    now: UnixTime,
) -> bool {
    let first = bundle.anchors().get(..1).unwrap_or_default();
    let chain = Presented::new(chain);
    chain.is_ok_and(|chain| chain.verify(first, Usage::Client, now, None).is_ok())
}

/// The one table from what is wrong with a chain to what rustls knows, and tells the peer.
fn chain_error(error: webpki::Error) -> Error {
    use webpki::Error as E;
    match error {
        E::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }.into()
        }
        E::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }.into()
        }
        E::CertRevoked => CertificateError::Revoked.into(),
        E::UnknownIssuer => CertificateError::UnknownIssuer.into(),
        E::InvalidSignatureForPublicKey
        | E::SignatureAlgorithmMismatch
        | E::UnsupportedSignatureAlgorithmContext(_)
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            CertificateError::BadSignature.into()
        }
        E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension => {
            CertificateError::InvalidPurpose.into()
        }
        E::InvalidCrlSignatureForPublicKey => {
            Error::InvalidCertRevocationList(CertRevocationListError::BadSignature)
        }
        other => CertificateError::Other(OtherError(Arc::new(other))).into(),
    }
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

    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain = Presented {
            leaf,
            intermediates,
        };
        self.check(chain, now)
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
        let chain = Presented {
            leaf,
            intermediates,
        };
        self.check(chain, now)
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
