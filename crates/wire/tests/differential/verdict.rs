//! What a reader made of a message, and when two readers agree. The two lists here are the
//! differences that are meant; anything else fails.

use wire::http1::{BodyError, Reject};

/// A message as far as both readers show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Method and target, or status and reason.
    pub(crate) start: String,
    /// Names in lower case with values, sorted.
    pub(crate) lines: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

/// What we made of it.
#[derive(Clone, Debug)]
pub(crate) enum Ours {
    Accepted(Message),
    /// The head or the body ends too early.
    Cut,
    BadHead(Reject),
    BadBody(BodyError),
}

/// What hyper made of it: the message, or no message or no whole body.
pub(crate) type Theirs = Option<Message>;

/// Where we are stricter than hyper on purpose.
fn is_stricter_head(reject: Reject) -> bool {
    matches!(
        reject,
        // A reader that takes LF alone for a line end sees other lines than one that does not.
        Reject::BareLf | Reject::EmptyLines
        // Two lengths, two lines or a list of codings: hyper takes equal lengths, a list that
        // ends in chunked, and chunked over a length. Other readers take the first or the last.
        | Reject::DuplicateLength | Reject::BadEncoding | Reject::LengthAndEncoding
        // In responses hyper takes a list of equal lengths, does not look where there is no
        // body or chunked beside it, and reads an unknown coding until close.
        | Reject::BadLength | Reject::UnknownEncoding | Reject::EncodingInHttp10
        // Whom a request is for is left to the user of hyper.
        | Reject::MissingHost | Reject::DuplicateHost | Reject::BadHost | Reject::HostMismatch
        | Reject::BadTarget | Reject::ConnectBody
        // So is what a hop may drop.
        | Reject::BadConnection
    )
}

/// As `is_stricter_head`, for bodies.
fn is_stricter_body(error: BodyError) -> bool {
    matches!(
        error,
        // hyper takes white space after a size.
        BodyError::ChunkSize
        // hyper takes any byte but CR and LF, and more of them.
        | BodyError::ChunkExtension | BodyError::LongExtension
        // hyper takes LF alone in trailers, and any field.
        | BodyError::Trailer | BodyError::ForbiddenTrailer | BodyError::LargeTrailer
    )
}

/// Fails unless the two agree or differ as listed.
pub(crate) fn check(bytes: &[u8], ours: &Ours, theirs: &Theirs) {
    let agree = match (ours, theirs) {
        (Ours::Accepted(ours), Some(theirs)) => ours == theirs,
        (Ours::Accepted(_) | Ours::Cut, None) => matches!(ours, Ours::Cut),
        (Ours::Cut, Some(_)) => false,
        (Ours::BadHead(reject), theirs) => theirs.is_none() || is_stricter_head(*reject),
        (Ours::BadBody(error), theirs) => theirs.is_none() || is_stricter_body(*error),
    };
    assert!(
        agree,
        "{}\n  ours: {ours:?}\ntheirs: {theirs:?}",
        bytes.escape_ascii()
    );
}
