//! Who a workload is and how it proves it: SPIFFE ids, a certificate authority on files,
//! credentials read from disk, and the rustls configurations of the mesh.
//! Called by the proxy (credentials, tls), the command and the benchmarks (ca). Knows nothing of
//! Kubernetes, never opens a socket, and never logs key material.

/// The names: `spiffe://<trust domain>/ns/<namespace>/sa/<service account>`.
pub mod spiffe;

/// Makes certificates: an authority kept in two files.
pub mod ca;

/// Reads certificates: subject, validity and the one SPIFFE id.
pub mod certificate;

/// A workload's own chain, key and trust bundle, read from files and checked.
pub mod credentials;

/// Why a handshake failed, as a small set of metric labels.
pub mod failure;

/// Decides whether a peer's chain is acceptable; the heart of mutual TLS.
mod verifier;

/// Session ticket keys, shared by the workers and dropped with the trust bundle.
pub mod tickets;

/// The rustls configurations of both sides.
pub mod tls;

pub use failure::HandshakeFailure;
pub use spiffe::SpiffeId;
