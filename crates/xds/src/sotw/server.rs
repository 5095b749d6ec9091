//! The side that tells, of the state-of-the-world variant. Driven by the control plane, once per
//! stream. No I/O, no clock.
