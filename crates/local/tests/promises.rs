//! What a mesh on one machine promises, with the real programs: one module for each promise. Needs
//! root, python3, and `leno`, `leno-control` and `leno-proxy` as a build of the workspace leaves
//! them; without these the tests say that they were skipped.

#[path = "promises/world.rs"]
mod world;

/// Workloads talk with mutual TLS.
#[path = "promises/talk.rs"]
mod talk;

/// Who is not in the mesh.
#[path = "promises/outside.rs"]
mod outside;

/// Nothing goes past the sidecar.
#[path = "promises/escape.rs"]
mod escape;

/// Certificates of others are of no use.
#[path = "promises/identity.rs"]
mod identity;

/// What an application has no right to.
#[path = "promises/confinement.rs"]
mod confinement;

/// What went down is gone.
#[path = "promises/down.rs"]
mod down;

/// Protocols that are not a request with its answer.
#[path = "promises/protocols.rs"]
mod protocols;
