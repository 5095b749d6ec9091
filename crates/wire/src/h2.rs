//! HTTP/2 (RFC 9113) as a state machine per connection: bytes in, events out; calls in, frames
//! out. Called by the proxy for both sides and for the hop between two sidecars. Heads appear as
//! HTTP/1.1 text, so that everything behind treats both versions alike. Never reads a socket or a
//! clock, never buffers a body.

mod abuse;
mod code;
mod config;
mod connection;
mod encode;
mod event;
mod frame;
mod head;
pub mod hpack;
mod stream;
mod streams;
mod window;

#[cfg(test)]
mod charts;
#[cfg(test)]
mod simulation;

pub use code::{Code, Violation};
pub use config::{
    CONNECTION_WINDOW, Config, Dialect, HEAD_BYTES_MAX, HEADERS_MAX, Limits, Role, STREAM_WINDOW,
    STREAMS_MAX,
};
pub use connection::{Connection, PREFACE};
pub use event::{Event, Key, Received};
