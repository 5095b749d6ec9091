//! The certificate service: a sidecar's request, and what shows who it is, for a certificate and
//! the trust bundle. Called by the server for each call of the method; does no I/O but the
//! authority's.

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;
use xds::grpc::{Code, Status};
use xds::proto::identity::{SignRequest, SignResponse};

use crate::authority::{Authority, Directory, Proof, Refused, Signed};

/// Signs for sidecars.
#[derive(Clone)]
pub struct Signer {
    authority: Arc<Authority>,
    directory: Directory,
}

/// What a call came with.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The call's headers.
    pub metadata: &'a HeaderMap,
    /// The client certificate that the connection's handshake has verified, leaf first.
    pub chain: Option<&'a [CertificateDer<'a>]>,
}

impl Signer {
    /// Signs with `authority` for workloads that `directory` knows.
    #[must_use]
    pub fn new(authority: Arc<Authority>, directory: Directory) -> Self {
        Self {
            authority,
            directory,
        }
    }

    /// One call. A token goes before a client certificate: who sends one enrols anew.
    ///
    /// # Errors
    /// How the call ends: `UNAUTHENTICATED`, `PERMISSION_DENIED`, `INVALID_ARGUMENT`,
    /// `RESOURCE_EXHAUSTED`, or `INTERNAL` without a word about the inside.
    pub fn sign(
        &self,
        request: &SignRequest,
        caller: Caller<'_>,
        now: SystemTime,
    ) -> Result<SignResponse, Status> {
        let signed = self
            .try_sign(request, caller, now)
            .map_err(|refused| status(&refused))?;
        let bundle = self.authority.bundle();
        let not_after = signed.not_after.duration_since(SystemTime::UNIX_EPOCH);
        let not_after = not_after.unwrap_or_default().as_secs();
        Ok(SignResponse {
            chain: signed.chain_pem,
            trust_bundle: bundle.authorities,
            revocations: bundle.revocations,
            not_after: i64::try_from(not_after).unwrap_or(i64::MAX),
        })
    }

    /// [`Signer::sign`] for a caller who wants to log the reason.
    ///
    /// # Errors
    /// Every [`Refused`].
    pub fn try_sign(
        &self,
        request: &SignRequest,
        caller: Caller<'_>,
        now: SystemTime,
    ) -> Result<Signed, Refused> {
        let token = bearer(caller.metadata)?;
        let chain = caller.chain.filter(|chain| !chain.is_empty());
        let proof = match token {
            Some(token) => Some(Proof::Token(token)),
            None => chain.map(Proof::Leaf),
        };
        self.authority
            .sign(&request.csr, proof, &self.directory, now)
    }
}

/// The token of the one `authorization` header (RFC 6750, section 2.1).
fn bearer(metadata: &HeaderMap) -> Result<Option<&str>, Refused> {
    let mut values = metadata.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let words = value.to_str().ok().and_then(|text| text.split_once(' '));
    match (words, values.next()) {
        (Some((scheme, token)), None) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token)),
        _ => Err(Refused::Token),
    }
}

/// The one table from refusals to what the sidecar is told.
fn status(refused: &Refused) -> Status {
    let code = match refused {
        Refused::NoProof | Refused::Token | Refused::Leaf(_) => Code::Unauthenticated,
        Refused::NotInTheMesh(_) | Refused::Reserved(_) => Code::PermissionDenied,
        Refused::Request(_) => Code::InvalidArgument,
        Refused::TooOften { .. } => Code::ResourceExhausted,
        Refused::Fault(_) => {
            return Status::new(Code::Internal, "the authority cannot sign now; see its log");
        }
    };
    Status::new(code, refused.to_string())
}
