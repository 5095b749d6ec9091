//! The thread-per-core, edge-triggered executor of the data plane.
