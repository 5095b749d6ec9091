//! The model as xDS v3 and back, and the machines of its subscriptions.
//!
//! A resource of the control plane becomes bytes in [`resource`], and bytes become resources there
//! again, but not before the tables of `fields` have found every field that would be dropped. Must
//! never do I/O outside of [`grpc`], and never take keys of the mesh from anyone.

// resources: the one door, what comes through it, and what is checked there
pub mod flavour;
pub mod kind;
pub mod resource;

pub mod cluster;
pub mod endpoint;
pub mod listener;
pub mod route;
pub mod secret;

mod address;
mod any;
mod check;
mod envoy;
pub mod error;
pub mod fields;
mod metadata;
mod place;
pub mod proto;
mod tls;

// how they travel
pub mod delta;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod server;
pub mod sotw;
pub mod update;

pub use tls::{CERTIFICATE, TRUST_BUNDLE};
