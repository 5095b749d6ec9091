//! leno-proxy, the sidecar data plane: one process beside every workload. The modules stand in the
//! order in which a request meets them; `request` is the page that tells the whole story.
//!
//! It never depends on Kubernetes, and hyper stays off the path of a request.

// assembly
pub mod app;
pub mod config;
mod control;
pub mod envoy;
pub mod handover;
mod hearing;
pub mod options;
mod quiet;
mod reload;
mod socket;
mod surfaces;

// the path
mod authorize;
mod balance;
mod body;
mod capture;
mod connect;
mod connection;
mod edge;
mod filter;
mod forward;
mod headers;
mod http1;
mod http2;
mod listener;
mod pool;
mod request;
mod retry;
mod route;
mod target;
mod tcp;
mod worker;

// what the path stands on
mod buffer;
mod exchange;
mod random;
mod rate;
mod stream;
mod tls;
mod trust;

// what the path reads
pub mod snapshot;

// what the path writes
pub mod error;
pub mod log;
mod record;
pub mod telemetry;

// around
pub mod admin;
pub mod dns;
mod heap;
