//! The mesh's mutual TLS from end to end, through rustls connections in memory.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod authority;
mod credentials;
mod enrolment;
mod handshake;
mod intermediate;
mod resumption;
mod revocation;
mod world;
