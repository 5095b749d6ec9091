//! HTTP/1 through the proxy, seen from outside: what reaches the other side byte for byte, what is
//! refused, and what a client sees when its upstream fails. One program, so that it links once.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod bodies;
mod connections;
mod faults;
mod http10;
mod messages;
mod pinned;
mod refusals;
mod retries;
mod targets;
mod timeouts;
mod world;
