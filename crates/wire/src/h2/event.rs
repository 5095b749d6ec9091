//! What `Connection::receive` found. Read by the proxy; never holds a copy of a byte.

use super::code::Code;

/// The place of a stream in its connection's table, from when it is opened until it is released;
/// then it is given to another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub(super) u32);

impl Key {
    /// The place as a number that is small enough to index a vector of the caller's.
    pub fn index(&self) -> usize {
        self.0 as usize
    }
}

/// What the bytes said that were consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// Nothing that the caller must know of.
    Nothing,
    /// A request's head came: `take_request` has it.
    Request {
        /// The new stream; to be released by the caller when it is done with it.
        stream: Key,
        /// Neither body nor trailers follow.
        end: bool,
    },
    /// The head of a request came and is larger than the limits, so there is nothing to take.
    /// The stream can be answered (431), and is to be released.
    TooLarge {
        /// The new stream.
        stream: Key,
    },
    /// The head of an interim response (1xx; 101 of the hop is a final one) came:
    /// `take_response` has it.
    Interim {
        /// The request's stream.
        stream: Key,
    },
    /// The head of the final response came: `take_response` has it.
    Response {
        /// The request's stream.
        stream: Key,
        /// Neither body nor trailers follow.
        end: bool,
    },
    /// Payload of DATA in the order it came: what is there, be it a part of a frame. Windows are
    /// given back by `consumed` and `consumed_connection`.
    Data {
        /// Whose.
        stream: Key,
        /// The payload; may be empty if it is the end.
        bytes: &'b [u8],
        /// Nothing follows on this stream.
        end: bool,
    },
    /// Trailers came, which are the end of the stream: `take_trailers` has them.
    Trailers {
        /// Whose.
        stream: Key,
    },
    /// The stream is over before its end: the peer reset it, or we did because the peer broke the
    /// protocol on it. It is to be released.
    Reset {
        /// Whose.
        stream: Key,
        /// The reason.
        code: Code,
        /// Nothing was done for it, so that a request may be sent again, whatever its method.
        unprocessed: bool,
    },
    /// A send window opened that was shut: who waits for it may go on.
    Window {
        /// Whose; `None`: the connection's, on which all may wait.
        stream: Option<Key>,
    },
    /// The peer's settings came, perhaps not for the first time. Windows may have opened, and
    /// more streams may be allowed.
    Settings,
    /// The peer takes no new streams on this connection. Those of ours that it will not process
    /// follow from `next_reset`.
    GoAway {
        /// The reason.
        code: Code,
    },
    /// The answer to a `ping`.
    Pong {
        /// What the ping said.
        payload: [u8; 8],
    },
}

/// What `Connection::receive` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'b> {
    /// How many bytes at the beginning of the input are done with. None: more are needed.
    pub consumed: usize,
    /// What they said.
    pub event: Event<'b>,
}
