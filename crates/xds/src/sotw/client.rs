//! The side that is told, of the state-of-the-world variant. Driven by the sidecar. No I/O, no
//! clock.
