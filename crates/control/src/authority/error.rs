//! Why the authority did not do what it was asked for: faults of its own, and refusals.

use std::path::PathBuf;
use std::time::Duration;

use crate::kinds::WorkloadKey;

use super::rotation::Phase;

/// What is wrong with the authority or its state directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the state directory cannot be read or written.
    #[error("cannot use {path}: {reason}; check the state directory and who may write to it")]
    Store {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file of the state directory does not say what it should.
    #[error("{path} is not usable: {reason}; restore it, or start with an empty state directory")]
    State {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another control plane uses the state directory.
    #[error("{0} is in use by another leno-control; stop it or choose another directory")]
    InUse(PathBuf),
    /// The root is of another trust domain than the mesh.
    #[error(
        "the authority in {path} is of the trust domain `{found}`, not `{expected}`; \
         choose another directory or correct trustDomain"
    )]
    TrustDomain {
        /// Where the authority lies.
        path: PathBuf,
        /// Its trust domain.
        found: String,
        /// The mesh's.
        expected: String,
    },
    /// The certificate authority refused.
    #[error(transparent)]
    Ca(#[from] identity::ca::Error),
    /// The control plane's own key cannot be made.
    #[error(transparent)]
    Key(#[from] identity::key::Error),
    /// The control plane's own credentials cannot be made.
    #[error(transparent)]
    Credentials(#[from] identity::credentials::Error),
    /// A rotation of the root is under way already.
    #[error("the root is being rotated ({0}); wait until that is over")]
    Rotating(Phase),
    /// The directory of the operator's authority still has the root that is in use.
    #[error("{0} still holds the root that is in use; put the new authority there first")]
    SameRoot(PathBuf),
    /// The key of the root is kept elsewhere and is not there now.
    #[error("the key of the root is not at hand; give its directory with --ca")]
    NoRootKey,
    /// Too many intermediates have leaves that are still valid.
    #[error(
        "{0} intermediate authorities are in use already; \
         wait until certificates of the oldest have expired"
    )]
    TooManyIssuers(usize),
    /// The system has no randomness.
    #[error("the system gives no random bytes; wait and try again")]
    Random,
}

/// Why nobody was given a certificate, or a token.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Neither a token nor a client certificate came with the request.
    #[error("no proof of who asks; send a bootstrap token or a client certificate")]
    NoProof,
    /// Unknown, expired, or used for another key. Which of them is not said: it would tell
    /// somebody who guesses that he came close.
    #[error("the token is not valid; ask the operator for a new one")]
    Token,
    /// The client certificate is not one that this authority vouches for now.
    #[error("the client certificate is not valid ({0}); enrol again with a token")]
    Leaf(String),
    /// The workload is not in the mesh, or under another service account now.
    #[error("{0} is not in the mesh under this identity; check its Workload")]
    NotInTheMesh(WorkloadKey),
    /// The id belongs to the control plane.
    #[error("{0} would have the identity of the control plane; give it another service account")]
    Reserved(WorkloadKey),
    /// The signing request is not acceptable.
    #[error(transparent)]
    Request(identity::ca::Error),
    /// The workload has asked too often.
    #[error("{workload} has asked too often; wait {wait:?}")]
    TooOften {
        /// Who asks.
        workload: WorkloadKey,
        /// When it may ask again.
        wait: Duration,
    },
    /// The fault is the authority's.
    #[error(transparent)]
    Fault(#[from] Error),
}
