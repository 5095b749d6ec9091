//! HTTP/1: heads as ranges of the buffer they were read into, body framing, and writing both.
//! Called by the proxy for each message, in the order of these modules. Never copies a head,
//! never accepts framing that two readers could take differently.

mod body;
mod fields;
mod host;
mod line;
mod reject;
mod request;
mod response;
mod target;
mod trailer;
mod write;

pub use body::{Body, BodyError, Decoded};
pub use line::{Limits, Line, Parsed, Span, Version};
pub use reject::Reject;
pub use request::{Method, Origin, RequestHead};
pub use response::ResponseHead;
pub use write::{Runs, chunk_header, runs};

pub(crate) use fields::{Field, Fields};
pub(crate) use host::{is_host_and_port, is_same};
pub(crate) use line::{EMPTY_LINES_MAX, token};
pub(crate) use target::split;
pub(crate) use trailer::is_forbidden;

/// How the body of a message ends (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// Exactly this many bytes; never more than `i64::MAX`.
    Length(u64),
    /// Chunks, then trailers.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

impl Framing {
    /// How many bytes the body has, if that was said before it.
    #[inline]
    pub fn length(self) -> Option<u64> {
        match self {
            Self::Length(length) => Some(length),
            Self::None | Self::Chunked | Self::UntilClose => None,
        }
    }
}
