//! An open-loop and closed-loop load generator and echo server for HTTP/1.1, HTTP/2, gRPC and
//! TCP. Called by the `leno load` command and by the benchmark; uses no other crate of ours, so
//! that it cannot share a bug with what it measures.
//!
//! [`run`] takes a [`Plan`] and gives an [`Outcome`]; the modules are in the order in which a
//! run meets them.

mod error;
mod plan;
mod target;
mod tls;

mod run;
mod schedule;
mod setup;
mod worker;

mod http2;
mod spin;

mod clock;
mod connection;
mod echo;
mod grpc;
mod limit;
mod poller;
mod response;
mod socket;

pub mod report;
pub mod serve;

mod ledger;
mod outcome;
mod tally;

pub use error::Error;
pub use outcome::{Generator, Outcome, Verdict};
pub use plan::{Arrivals, ClientTls, GrpcMode, Plan, Protocol, Rate};
pub use run::{Phase, Progress, run};
pub use tally::Failure;
