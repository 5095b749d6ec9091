//! Upgrades: a proxy that starts takes over from the one that serves, and nobody who is connected,
//! connects or asks for a name notices, whatever becomes of the new one.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod configuration;
mod corpus;
mod failures;
mod inherited;
mod load;
mod peers;
mod told;
mod world;
