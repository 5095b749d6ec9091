//! One machine as a mesh: each instance of a workload in a network namespace with its sidecar,
//! watched by a supervisor. Called by the commands that bring it up, look at it and take it down.
//! Must never touch a namespace, link, process, cgroup or folder that it did not make, nor know
//! anything of Kubernetes.

/// What things are called: meshes, workloads, and what the kernel knows them by.
pub mod name;

/// What is to run, as the user's file says.
pub mod mesh;

/// Who gets which addresses and users.
mod plan;

/// What an instance is made from.
mod template;

/// What is to be done so that there is what is wanted.
mod reconcile;

/// Which users this machine has.
mod users;

/// Where everything lies in the runtime folder.
pub mod folder;

/// Files that are locked.
mod lock;

/// What runs, as a file that outlives the supervisor.
pub mod state;

/// What takes the place of networks without root.
pub mod explicit;

/// What applications are told of Services.
mod variables;

/// Bridge, namespaces, wires and addresses, as scripts for `ip`.
mod network;

/// What a workload may use and what it used.
pub mod cgroup;

/// A program and the place it runs in; turning this process into it.
pub mod job;

/// Starting jobs, knowing them again, ending them.
pub mod process;

/// A terminal of its own for a command that somebody runs at theirs.
mod terminal;

/// Whether an application answers.
pub mod probe;

/// A process whose end can be waited for.
mod watched;

/// How long to wait before something is started again.
mod backoff;

/// Files that somebody else may write to, read by root.
mod foreign;

/// Files that programs write what they have to say to.
pub mod logs;

/// What the control plane and the sidecars print when they are ready.
mod ready;

/// One request over HTTP and its answer.
mod http;

/// Asking the control plane for tokens.
pub mod operator;

/// The files that are written for the control plane, sidecars and applications.
mod written;

/// Brings a mesh up and keeps it.
pub mod supervisor;

/// Takes a mesh down, whatever is left of it.
pub mod teardown;

/// The other side of the supervisor's desk.
mod client;

/// Where the programs are.
pub mod program;

/// What the commands do.
pub mod command;

/// What this machine allows, found out by trying.
pub mod machine;

/// What sidecars say of themselves.
pub mod inspect;

/// Meshes as people see them.
pub mod table;

pub use command::{Programs, down, exec, list, only, up};
pub use supervisor::desk::Event;
pub use supervisor::{READY_WITHIN, Start};
