//! The subcommands, one file each; every file has `Args` and `run`.

pub(crate) mod bench;
pub(crate) mod cert;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod demo;
pub(crate) mod down;
pub(crate) mod exec;
pub(crate) mod load;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod proxy;
pub(crate) mod ps;
pub(crate) mod restart;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod upgrade;
pub(crate) mod workload;
