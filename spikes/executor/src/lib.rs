//! The spike behind `docs/adr/0001-executor.md`: one HTTP/1 hop written once ([`hop`]) over one
//! small trait, run on tokio and on `crates/rt`, and the means to measure both.

pub mod hop;
pub mod measure;
pub mod net;
pub mod options;
