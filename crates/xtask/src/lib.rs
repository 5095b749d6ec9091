//! The chores behind `cargo xtask`, as a library so that `tests/tidy.rs` can run them too.
//! In reading order: what the repository is, what is checked, what is run, what is built.

pub mod repository;

pub mod tidy;

pub mod fields;
pub mod outputs;

pub mod benchmarks;
pub mod doctor;
pub mod fuzz;
pub mod interop;
pub mod soak;
pub mod test;

pub mod dist;
pub mod qemu;

pub mod command;
