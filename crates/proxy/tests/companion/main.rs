//! The sidecar beside a stock Envoy: a real one, fed by a control plane of the tests, from its
//! token to its last request. Without an Envoy on the machine, tests say so and pass.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod drain;
mod life;
mod mesh;
mod names;
mod secrecy;
mod world;
