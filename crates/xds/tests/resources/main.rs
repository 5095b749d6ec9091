//! Resources on their journey: whatever the model says arrives, and says the same; Envoy's own
//! messages read it as it is meant; and nothing that comes makes a panic.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

mod corpus;
mod examples;
mod foreign;
mod journey;
mod oracle;
mod refusals;
mod values;
