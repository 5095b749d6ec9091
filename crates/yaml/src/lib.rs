//! Strict YAML: text → a tree in which every value knows its place, and readers that say what is
//! wrong where, and what to do. Used for configuration files and for the resources of a mesh.
//! Must never guess types, follow anchors, nor let an unknown key pass.

/// What is wrong, where, and what to do.
mod fault;

/// The tree.
mod node;

/// Words of the file → values.
mod scalar;

/// One mapping, read by key.
mod fields;

pub use fault::Fault;
pub use fields::{Fields, suggest};
pub use node::{Key, Kind, Node, Place, quote};
pub use scalar::Zero;
