//! The sidecar of a gateway: TLS of clients outside of the mesh, what they may not say, and where
//! their requests go by path and host.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod certificates;
mod protocols;
mod targets;
mod tls;
mod world;
