//! The parts of `leno up` with what the kernel has for them: probes into a network namespace with
//! the mesh's rules, and programs that are given listening sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

/// A network namespace with rules, and applications in it.
#[path = "parts/world.rs"]
mod world;

/// Whether an application answers.
#[path = "parts/probes.rs"]
mod probes;

/// Sockets that a program is given.
#[path = "parts/sockets.rs"]
mod sockets;
