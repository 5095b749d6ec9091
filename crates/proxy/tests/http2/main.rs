//! HTTP/2 through the proxy, seen from outside: every pair of protocols, flow control, gRPC, how
//! connections end, and peers that misbehave. One program, so that it links once.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod abuse;
mod bodies;
mod dials;
mod draining;
mod ends;
mod flow;
mod grpc;
mod memory;
mod mesh;
mod messages;
mod pinned;
mod refusals;
mod smuggling;
mod upstreams;
mod world;
