//! One machine as a mesh: each workload in a network namespace with its sidecar, watched by a
//! supervisor. Called by the commands up, down, ps and exec. Must never touch a namespace, link,
//! process, cgroup or folder that it did not make, nor know anything of Kubernetes.

/// What things are called: meshes, workloads, and what the kernel knows them by.
pub mod name;

/// What is to run, as the user's file says.
pub mod mesh;

/// Who gets which addresses and users.
pub mod plan;

/// Which users this machine has.
mod users;

/// Where everything lies in the runtime folder.
pub mod folder;

/// What runs, as a file that outlives the supervisor.
pub mod state;

/// Bridge, namespaces, wires and addresses, as scripts for `ip`.
mod network;

/// What a workload may use and what it used.
mod cgroup;

/// A program and the place it runs in; turning this process into it.
pub mod job;

/// Starting jobs, knowing them again, ending them.
pub mod process;

/// A process that is started again when it ends.
mod kept;

/// Files that somebody else may write to, read by root.
mod foreign;

/// Files that programs write what they have to say to.
mod logs;

/// What the control plane and the sidecars print when they are ready.
mod ready;

/// Asking the control plane for tokens.
mod operator;

/// The files that are written for the control plane, sidecars and applications.
mod written;

/// Signals as something to wait for.
mod signals;

/// Brings a mesh up and keeps it.
pub mod supervisor;

/// Takes a mesh down, whatever is left of it.
pub mod teardown;

/// What the commands do.
pub mod command;

/// Meshes as people see them.
pub mod table;

pub use command::{Programs, down, exec, list, only, up};
pub use supervisor::Start;
