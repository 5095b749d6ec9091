//! Why credentials cannot be used: which part, and what to do. Made by `credentials` and `bundle`.

use std::path::PathBuf;

use crate::certificate::Rejection;
use crate::spiffe::ParseError;

/// Where a part of the credentials came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// Memory; the name of the part, as `the certificate chain`.
    Part(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Part(name) => f.write_str(name),
        }
    }
}

/// Why credentials cannot be used; says which part, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trust domain's name is not valid.
    #[error(transparent)]
    TrustDomain(#[from] ParseError),
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}; check the path under `identity` and who may read it")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A part is not PEM, or has nothing of the wanted kind in it.
    #[error("{origin} holds no {wanted}: {reason}; it must be PEM, as `leno cert` writes it")]
    Pem {
        /// Which part.
        origin: Origin,
        /// `certificate` or `private key`.
        wanted: &'static str,
        /// What the reader said.
        reason: String,
    },
    /// The leaf is not one of a workload of this trust domain.
    #[error("{origin} is not usable: {rejection}")]
    Leaf {
        /// The chain.
        origin: Origin,
        /// What is wrong.
        rejection: Rejection,
    },
    /// The leaf is not valid at this time.
    #[error(
        "{origin} is valid from {not_before} to {not_after} only; \
         issue a new certificate (or set the clock)"
    )]
    Expired {
        /// The chain.
        origin: Origin,
        /// RFC 3339.
        not_before: String,
        /// RFC 3339.
        not_after: String,
    },
    /// The key is not P-256, or does not load.
    #[error("{origin} is not usable: {reason}")]
    Key {
        /// The key.
        origin: Origin,
        /// What is wrong, and what is needed.
        reason: String,
    },
    /// The key is not the certificate's.
    #[error("{key} is not the key of {certificate}; write both anew, the key first")]
    KeyMismatch {
        /// The key.
        key: Origin,
        /// The chain.
        certificate: Origin,
    },
    /// No certificate of the bundle can be trusted now.
    #[error(
        "{origin} holds no certificate authority that is valid now ({reason}); \
         renew the trust bundle"
    )]
    TrustBundle {
        /// The bundle.
        origin: Origin,
        /// What is wrong.
        reason: String,
    },
    /// A list of revoked certificates that cannot be read, or that its authority did not sign.
    #[error("{origin} is not usable: {reason}; have the authority sign a new one")]
    Revocations {
        /// The lists.
        origin: Origin,
        /// What is wrong.
        reason: String,
    },
}
