//! What can go wrong with a call.

use super::Status;

/// Why a call gave no answer, or a stream no further message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// HTTP/2 failed: the connection, or this stream of it.
    #[error("the connection failed: {0}")]
    Http2(#[from] h2::Error),
    /// The peer says no.
    #[error("the peer refused: {0}")]
    Status(#[from] Status),
    /// The peer answered, but not with gRPC.
    #[error("the peer answered with HTTP status {0} and not with gRPC; is the address right?")]
    NotGrpc(u16),
    /// The stream ended without a status, or in the middle of a message.
    #[error("the stream ended early")]
    Ended,
    /// A message longer than is taken.
    #[error("a message of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// What its prefix says.
        bytes: usize,
        /// What is taken.
        limit: usize,
    },
    /// A compressed message, though nothing but plain was offered.
    #[error("a message is compressed, which was not offered")]
    Compressed,
    /// A message that is not of the expected type.
    #[error("a message cannot be read: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// No answer to a PING.
    #[error("the peer is silent")]
    Silent,
    /// Metadata or a path that HTTP cannot carry.
    #[error("the call cannot be written: {0}")]
    Unwritable(#[from] http::Error),
}
