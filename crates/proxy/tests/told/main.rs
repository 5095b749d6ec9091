//! The sidecar that is told: from a token to the first request, through every change of what it is
//! told, without its control plane, and beside one that means it ill.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod away;
mod certificates;
mod changes;
mod demand;
mod hostile;
mod proof;
mod refusals;
mod scale;
mod world;
