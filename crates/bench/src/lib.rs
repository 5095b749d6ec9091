//! The benchmark suite: scenarios × data planes × modes → cells → results → tables and figures.
//! Called by `leno bench` and `leno demo`. Nothing above the two seams, [`environment`] and
//! [`dataplane`], knows a process id.

pub mod capacity;
pub mod cpu;
pub mod latency;
pub mod options;
pub mod throughput;

mod run;

pub mod dataplane;
pub mod environment;
pub mod loader;

pub mod cgroup;
pub mod interrupt;
pub mod machine;
pub mod meter;
mod perf;
pub mod process;

pub mod results;

pub mod compare;
pub mod csv;

pub mod cost;
pub mod figures;
pub mod report;
pub mod scale;
pub mod table;

mod clock;
mod http;
mod units;
