//! The hop between two sidecars, seen from outside: that it changes nothing of what passes, what
//! becomes of its connections, and what a bad peer achieves. One program, so that it links once.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod bodies;
mod certificates;
mod connect;
mod connections;
mod failures;
mod frames;
mod heads;
mod http2;
mod misuse;
mod peers;
mod pinned;
mod roots;
mod smuggling;
mod storms;
mod transparency;
mod trust;
mod upgrades;
mod world;
