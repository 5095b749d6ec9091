//! Why a handshake failed, as few labels as an operator can act on, and the one table from
//! rustls errors to them. Called by the proxy for its counters and log. Never decides anything.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::certificate::Rejection;

/// Why a handshake failed. The first group is about the peer's certificate, the second about
/// the peer's opinion of ours, the third about the protocol and the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HandshakeFailure {
    /// The peer presented no certificate.
    NoCertificate,
    /// The peer's certificate is no longer valid (or the local clock is ahead).
    Expired,
    /// The peer's certificate is not valid yet (or the local clock is behind).
    NotYetValid,
    /// The authority that signed the peer's chain has revoked it.
    Revoked,
    /// No authority of the trust bundle signed the peer's chain.
    UnknownIssuer,
    /// A signature, of the chain or of the handshake, does not verify.
    BadSignature,
    /// The certificate is not for this side (extended key usage).
    WrongPurpose,
    /// The certificate does not parse, or an authority poses as a workload.
    BadCertificate,
    /// The certificate does not name exactly one workload.
    NoSpiffeId,
    /// The peer is of another trust domain.
    WrongTrustDomain,
    /// The peer is of the mesh, but may not answer for this service.
    UnexpectedIdentity,

    /// The peer says that our certificate has expired.
    PeerSaysExpired,
    /// The peer does not know the authority that signed our certificate.
    PeerSaysUnknownIssuer,
    /// The peer does not accept our certificate, for a reason of its own.
    PeerRefused,
    /// The peer sent another fatal alert.
    PeerAlert,

    /// The two sides have no application protocol in common.
    AlpnMismatch,
    /// The two sides have no version, cipher suite or group in common.
    Incompatible,
    /// What arrived is not TLS.
    NotTls,
    /// The peer broke the protocol.
    Protocol,
    /// The connection ended before the handshake did.
    Closed,
    /// The handshake took too long.
    TimedOut,
    /// Anything else; the fault is local.
    Other,
}

impl HandshakeFailure {
    /// Every failure, in the order of declaration; the index of each is `self as usize`.
    pub const ALL: [Self; 22] = [
        Self::NoCertificate,
        Self::Expired,
        Self::NotYetValid,
        Self::Revoked,
        Self::UnknownIssuer,
        Self::BadSignature,
        Self::WrongPurpose,
        Self::BadCertificate,
        Self::NoSpiffeId,
        Self::WrongTrustDomain,
        Self::UnexpectedIdentity,
        Self::PeerSaysExpired,
        Self::PeerSaysUnknownIssuer,
        Self::PeerRefused,
        Self::PeerAlert,
        Self::AlpnMismatch,
        Self::Incompatible,
        Self::NotTls,
        Self::Protocol,
        Self::Closed,
        Self::TimedOut,
        Self::Other,
    ];

    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Revoked => "revoked",
            Self::UnknownIssuer => "unknown_issuer",
            Self::BadSignature => "bad_signature",
            Self::WrongPurpose => "wrong_purpose",
            Self::BadCertificate => "bad_certificate",
            Self::NoSpiffeId => "no_spiffe_id",
            Self::WrongTrustDomain => "wrong_trust_domain",
            Self::UnexpectedIdentity => "unexpected_identity",
            Self::PeerSaysExpired => "peer_says_expired",
            Self::PeerSaysUnknownIssuer => "peer_says_unknown_issuer",
            Self::PeerRefused => "peer_refused",
            Self::PeerAlert => "peer_alert",
            Self::AlpnMismatch => "alpn_mismatch",
            Self::Incompatible => "incompatible",
            Self::NotTls => "not_tls",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::Other => "other",
        }
    }
}

impl std::fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.label())
    }
}

impl From<&Rejection> for HandshakeFailure {
    fn from(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::NoCertificate => Self::NoCertificate,
            Rejection::Malformed(_) | Rejection::Authority => Self::BadCertificate,
            Rejection::NoSpiffeId(_) | Rejection::SeveralUris(_) => Self::NoSpiffeId,
            Rejection::WrongTrustDomain { .. } => Self::WrongTrustDomain,
            Rejection::UnexpectedIdentity { .. } => Self::UnexpectedIdentity,
        }
    }
}

/// The label of a rustls error that ended a handshake.
#[must_use]
pub fn classify(error: &Error) -> HandshakeFailure {
    match error {
        Error::NoCertificatesPresented => HandshakeFailure::NoCertificate,
        Error::InvalidCertificate(error) => classify_certificate(error),
        Error::AlertReceived(alert) => classify_alert(*alert),
        Error::NoApplicationProtocol => HandshakeFailure::AlpnMismatch,
        Error::PeerIncompatible(_) => HandshakeFailure::Incompatible,
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => HandshakeFailure::NotTls,
        Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::InvalidMessage(_)
        | Error::PeerMisbehaved(_)
        | Error::DecryptError
        | Error::PeerSentOversizedRecord => HandshakeFailure::Protocol,
        _ => HandshakeFailure::Other,
    }
}

fn classify_certificate(error: &CertificateError) -> HandshakeFailure {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            HandshakeFailure::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            HandshakeFailure::NotYetValid
        }
        CertificateError::Revoked => HandshakeFailure::Revoked,
        CertificateError::UnknownIssuer => HandshakeFailure::UnknownIssuer,
        CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            HandshakeFailure::BadSignature
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            HandshakeFailure::WrongPurpose
        }
        CertificateError::Other(other) => other
            .0
            .downcast_ref::<Rejection>()
            .map_or(HandshakeFailure::BadCertificate, HandshakeFailure::from),
        _ => HandshakeFailure::BadCertificate,
    }
}

fn classify_alert(alert: AlertDescription) -> HandshakeFailure {
    match alert {
        AlertDescription::CertificateExpired => HandshakeFailure::PeerSaysExpired,
        AlertDescription::UnknownCA => HandshakeFailure::PeerSaysUnknownIssuer,
        AlertDescription::NoApplicationProtocol => HandshakeFailure::AlpnMismatch,
        AlertDescription::HandshakeFailure
        | AlertDescription::ProtocolVersion
        | AlertDescription::InsufficientSecurity => HandshakeFailure::Incompatible,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRequired
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => HandshakeFailure::PeerRefused,
        AlertDescription::CloseNotify | AlertDescription::UserCanceled => HandshakeFailure::Closed,
        _ => HandshakeFailure::PeerAlert,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_stands_at_its_index_with_a_label_of_its_own() {
        let mut labels = std::collections::HashSet::new();
        for (index, failure) in HandshakeFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, index);
            assert!(labels.insert(failure.label()), "{failure} twice");
        }
    }

    #[test]
    fn alerts_of_the_peer_are_told_apart() {
        let check = |alert, failure| assert_eq!(classify(&Error::AlertReceived(alert)), failure);
        check(
            AlertDescription::CertificateExpired,
            HandshakeFailure::PeerSaysExpired,
        );
        check(
            AlertDescription::UnknownCA,
            HandshakeFailure::PeerSaysUnknownIssuer,
        );
        check(
            AlertDescription::CertificateRequired,
            HandshakeFailure::PeerRefused,
        );
        check(
            AlertDescription::NoApplicationProtocol,
            HandshakeFailure::AlpnMismatch,
        );
        check(
            AlertDescription::ProtocolVersion,
            HandshakeFailure::Incompatible,
        );
        check(AlertDescription::InternalError, HandshakeFailure::PeerAlert);
        check(AlertDescription::CloseNotify, HandshakeFailure::Closed);
    }
}
