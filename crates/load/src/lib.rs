//! An open-loop and closed-loop load generator and echo server for HTTP/1.1. Called by the
//! `leno load` command and by the benchmark; uses no other crate of ours, so that it cannot
//! share a bug with what it measures.
//!
//! [`run`] takes a [`Plan`] and gives an [`Outcome`]; the modules are in the order in which a
//! run meets them.

mod error;
mod plan;
mod target;
mod tls;

mod run;
mod schedule;
mod worker;

mod clock;
mod connection;
mod limit;
mod poller;
mod response;
mod socket;

pub mod report;
pub mod serve;

mod outcome;
mod tally;

pub use error::Error;
pub use outcome::{Generator, Outcome, Verdict};
pub use plan::{Arrivals, ClientTls, Plan, Rate};
pub use run::{Phase, Progress, run};
pub use tally::Failure;
