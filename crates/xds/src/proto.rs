//! Messages of xDS v3 by hand: Envoy's tags, and only the fields that we read or write. Fields
//! that are not here are found by `fields`, which reads the bytes before prost drops them.
//! Grouped as Envoy's `.proto` files are. Must never have a field that is neither read nor marked
//! as only written.

#![expect(
    missing_docs,
    reason = "the words are Envoy's, and so is their reference: each message says its full name"
)]

pub mod cluster;
pub mod core;
pub mod discovery;
pub mod endpoint;
pub mod envoy;
pub mod google;
pub mod identity;
pub mod listener;
pub mod network;
pub mod rbac;
pub mod route;
pub mod tls;
