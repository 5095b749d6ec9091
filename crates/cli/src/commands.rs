//! The subcommands, one file each; every file has `Args` and `run`.

pub(crate) mod bench;
pub(crate) mod cert;
pub(crate) mod demo;
pub(crate) mod down;
pub(crate) mod exec;
pub(crate) mod load;
pub(crate) mod ps;
pub(crate) mod up;
pub(crate) mod workload;
