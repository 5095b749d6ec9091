//! HPACK (RFC 7541): the header compression of HTTP/2. Called by the connection for each header
//! block, in either direction. Never judges what a field says, and allocates nothing once its
//! tables and scratch have grown.

mod decoder;
mod dynamic_table;
mod encoder;
mod huffman;
mod integer;
mod static_table;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod simulation;

pub use decoder::{Decoder, Field, Mark};
pub use encoder::Encoder;

/// The size of a dynamic table before anyone has said otherwise (RFC 9113, section 6.5.2). Also
/// what our own encoder never goes beyond: it holds some fifty lines, more than the repeated
/// lines of what a sidecar sends, and costs 8 KiB for each connection.
pub const TABLE_BYTES_DEFAULT: usize = 4096;

/// What an entry counts beyond its name and value (section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// Each way in which a header block can be broken. All are connection errors of the kind
/// `COMPRESSION_ERROR` (RFC 9113, section 4.3): the tables of both sides no longer agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block ends inside a field.
    #[error("header block ends inside a field")]
    Truncated,
    /// An integer of more than five bytes, or above 2^28.
    #[error("integer in a header block is too large")]
    Integer,
    /// An index of 0, or beyond the end of the dynamic table.
    #[error("index in a header block points to no entry")]
    Index,
    /// A Huffman-coded string that holds the end-of-string symbol (section 5.2).
    #[error("huffman code holds the end-of-string symbol")]
    EndOfString,
    /// A Huffman-coded string whose end is more than 7 bits, or not all ones (section 5.2).
    #[error("huffman code is padded wrongly")]
    Padding,
    /// A table size above the one that we announced (section 6.3).
    #[error("header table is made larger than announced")]
    TableSize,
    /// A table size behind the first field of a block (section 4.2).
    #[error("header table is resized behind a field")]
    SizeUpdateLate,
    /// A third table size in one block: the smallest and the last tell everything (section 4.2).
    #[error("header table is resized more than twice in a block")]
    SizeUpdates,
}
