//! The subcommands, one file each; every file has `Args` and `run`.

pub(crate) mod bench;
pub(crate) mod cert;
pub(crate) mod demo;
pub(crate) mod load;
