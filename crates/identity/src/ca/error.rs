//! Why an authority did not make, read or write a certificate, and what to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::spiffe::{ParseError, SpiffeId};

/// Why a certificate was not made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trust domain or id is not valid.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// The id is not in the authority's trust domain.
    #[error(
        "`{id}` is not in this authority's trust domain `{trust_domain}`; \
         use another authority or id"
    )]
    OtherTrustDomain {
        /// The id that was asked for.
        id: SpiffeId,
        /// What the authority signs for.
        trust_domain: String,
    },
    /// The id names the trust domain, not a workload.
    #[error("`{0}` names a trust domain, not a workload; add /ns/NAMESPACE/sa/SERVICE-ACCOUNT")]
    NoWorkload(SpiffeId),
    /// A leaf that would live no time at all, or for longer than dates can say.
    #[error(
        "a validity of {0:?} is not possible; ask for at least one second and at most ten years"
    )]
    Validity(Duration),
    /// The authority's own certificate is not valid at this time.
    #[error(
        "the authority is valid from {not_before} to {not_after} only; \
         make a new one with `leno cert ca`"
    )]
    Expired {
        /// RFC 3339.
        not_before: String,
        /// RFC 3339.
        not_after: String,
    },
    /// An intermediate signs no other authority.
    #[error("an intermediate authority signs leaves only; use its root")]
    NotRoot,
    /// The request does not parse or its signature does not prove possession of the key.
    #[error("the signing request is not acceptable: {0}")]
    Request(String),
    /// A file of the authority cannot be read.
    #[error("cannot read {path}: {reason}; `leno cert ca` makes an authority")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {path}: {reason}; choose a directory that you may write to")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file is there but is not what it should be.
    #[error("{path} is not usable: {reason}; make a new authority with `leno cert ca`")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The cryptography refused; not expected in operation.
    #[error("the certificate could not be made: {0}")]
    Crypto(#[from] rcgen::Error),
}
