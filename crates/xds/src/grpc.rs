//! gRPC over HTTP/2, as much as xDS and the signing of certificates need: calls with one message
//! each way, and streams of messages both ways. Runs on whatever carries bytes, in a tokio runtime
//! of one thread; deadlines are the caller's, who drops what takes too long.

pub mod client;
pub mod error;
pub mod frame;
mod keepalive;
pub mod server;
pub mod status;
mod stream;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use keepalive::Keepalive;
pub use status::{Code, Status};
pub use stream::{Receiver, Sender};

/// 4 MiB: what other implementations of gRPC take, and a thousand times the usual message here.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What both sides call their messages.
const CONTENT_TYPE: &str = "application/grpc";
