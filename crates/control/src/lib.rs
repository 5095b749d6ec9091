//! The control plane: watch → index → translate → push → serve. Modules in the order in which a
//! change meets them, then who is whom, then what is around. Run by `leno-control`; `leno up` runs
//! it as a process. Never on the path of a request.

/// What a mesh is described by.
pub mod kinds;

/// Files and folders, and when they change.
pub mod source;

/// Every resource, and what it touches.
pub mod index;

/// The virtual addresses of Services.
pub mod addresses;

/// The index → what sidecars are told.
pub mod translate;

/// Who may call whom, and why.
pub mod policy;

/// What sidecars are told, encoded, and what has changed of it.
pub mod push;

/// One sidecar's stream of resources.
pub mod ads;

/// The port that sidecars connect to.
pub mod serve;

/// Who is whom: certificates for sidecars, and what to trust.
pub mod authority;

/// The certificate service.
pub mod sign;

/// The operator's socket.
pub mod operator;

/// Pages for people and for Prometheus.
pub mod admin;

/// What is counted.
pub mod metrics;

/// What is said on standard error.
pub mod log;

/// The command line.
pub mod options;

/// All of it together.
pub mod app;
