//! Who a workload is and how it proves it: SPIFFE ids, a certificate authority on files,
//! credentials read from disk, and the rustls configurations of the mesh.
//! Called by the proxy (key, credentials, tls), the control plane (ca, tls), the command and the
//! benchmarks (ca). Knows nothing of Kubernetes, never opens a socket, and never logs key material.

/// The names: `spiffe://<trust domain>/ns/<namespace>/sa/<service account>`.
pub mod spiffe;

/// Makes certificates: an authority kept in two files.
pub mod ca;

/// Reads certificates: subject, validity and the one SPIFFE id.
pub mod certificate;

/// A workload's private key, and its request for a certificate.
pub mod key;

/// Whom a workload trusts: authorities, and what they have revoked.
pub mod bundle;

/// A workload's own chain, key and trust bundle, checked as a whole.
pub mod credentials;

/// When a certificate is renewed.
pub mod renewal;

/// Why a handshake failed, as a small set of metric labels.
pub mod failure;

/// Decides whether a peer's chain is acceptable; the heart of mutual TLS.
mod verifier;

/// Session ticket keys, shared by the workers and dropped with the trust bundle.
pub mod tickets;

/// The rustls configurations of both sides.
pub mod tls;

/// Certificates for clients outside of the mesh.
pub mod serving;

/// TLS with a control plane that is not of the mesh.
pub mod foreign;

pub use bundle::TrustBundle;
pub use failure::HandshakeFailure;
pub use key::PrivateKey;
pub use spiffe::SpiffeId;
