//! What the proxy tells about its work: counters and the access log. Written by the workers,
//! read by the quiet thread. Must never make a worker wait.

pub mod access_log;
pub mod metrics;
