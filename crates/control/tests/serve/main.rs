//! The control plane as a process: sidecars that enrol and are told, peers that are not let in,
//! and what it costs when somebody means ill.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod envoy;
mod gateway;
mod holders;
mod hostile;
mod instances;
mod lifecycle;
mod pages;
mod refusals;
mod settle;
mod sidecar;
mod sotw;
mod streams;
mod world;
