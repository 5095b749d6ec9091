//! confinement
