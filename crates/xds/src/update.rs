//! What a response of the control plane changes, in either variant of the protocol. Made by the
//! client machines of `delta` and `sotw`, applied by the sidecar, and given back to be answered.

use crate::kind::Kind;
use crate::proto::google::Status;
use bytes::Bytes;
use std::collections::BTreeSet;

/// `INVALID_ARGUMENT` of gRPC, which a refusal carries.
const REFUSED: i32 = 3;
/// Most bytes of a refusal's reason: enough for a path and a sentence.
pub(crate) const DETAIL_BYTES_MAX: usize = 2048;

/// What a response changes. It waits for `accept` or `refuse` of the machine that made it.
#[derive(Debug)]
pub struct Update {
    /// Of all resources in it.
    pub kind: Kind,
    /// New or changed, each name once.
    pub added: Vec<Added>,
    /// Names that are gone, or that were asked for and do not exist.
    pub removed: Vec<String>,
    pub(crate) nonce: String,
    /// What the server calls the state after it. Empty in `delta`, where each resource has its own.
    pub(crate) version: String,
    pub(crate) stream: u64,
}

/// A resource as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Unique among its kind.
    pub name: String,
    /// What this state of it is called.
    pub version: String,
    /// The encoded message.
    pub value: Bytes,
}

/// Why a response is no update. But for [`Error::NoNonce`] the server is told so.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Resources that nobody here understands.
    #[error(
        "`{0}` is not a type of resource that was asked for; compare the versions of both ends"
    )]
    UnknownType(String),
    /// Resources of a kind that this stream has not asked for.
    #[error("the server sent {} without being asked", .0.label())]
    NotAsked(Kind),
    /// A response that cannot be answered.
    #[error("the server sent {} without a nonce", .0.label())]
    NoNonce(Kind),
    /// A resource without a name or a body, or of another type than its response.
    #[error("the server sent {} `{name}` without a body of that type", .kind.label())]
    NoBody {
        /// Of the response.
        kind: Kind,
        /// As far as it has one.
        name: String,
    },
    /// Two states of one resource in one response.
    #[error("the server named {} `{name}` twice in one response", .kind.label())]
    Twice {
        /// Of the response.
        kind: Kind,
        /// Of the resource.
        name: String,
    },
}

/// What a server is told of a response that is refused.
pub(crate) fn refusal(detail: &str) -> Status {
    Status {
        code: REFUSED,
        message: detail[..detail.floor_char_boundary(DETAIL_BYTES_MAX)].to_owned(),
        details: Vec::new(),
    }
}

/// An error if a name comes twice.
pub(crate) fn check_names<'a>(
    kind: Kind,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(name.as_str())) {
        Some(name) => Err(Error::Twice {
            kind,
            name: name.clone(),
        }),
        None => Ok(()),
    }
}
