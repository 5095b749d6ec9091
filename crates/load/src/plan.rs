//! What a run shall do, as plain data. Made by the command and by the benchmark; read once when
//! a run starts, so that nothing in here can change while requests flow.

use crate::Error;
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Everything a run needs to know. Start from [`Plan::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `http://` or `https://` URL with path and query.
    pub url: String,
    /// Connections kept open during the whole run; each has at most one request in flight.
    pub connections: u32,
    /// Requests per second over all connections, or as many as the target takes.
    pub rate: Rate,
    /// How the requests of an open loop are spread over time.
    pub arrivals: Arrivals,
    /// Length of the measured window.
    pub duration: Duration,
    /// Load of the same kind before the window; its requests are not recorded.
    pub warm_up: Duration,
    /// Threads that generate; connections are shared out evenly.
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn; empty = no pinning.
    pub cpus: Vec<usize>,
    /// From the send to the last byte of the answer; then the connection is replaced.
    pub timeout: Duration,
    /// HTTP method.
    pub method: String,
    /// Headers besides `Host`, `User-Agent` and `Content-Length`; a `Host` here replaces ours.
    pub headers: Vec<(String, String)>,
    /// Request body.
    pub body: Vec<u8>,
    /// TLS settings; `https` without them trusts the system's roots.
    pub tls: Option<ClientTls>,
    /// Seed of the Poisson schedule.
    pub seed: u64,
    /// Connect here whatever the URL's host says.
    pub connect_to: Option<SocketAddr>,
    /// TCP congestion control of the connections; absent = the system's.
    pub congestion: Option<String>,
    /// Free text that the results carry.
    pub labels: String,
    /// Set to end the run early: the window then ends at that moment, and the outcome is of
    /// what it held until then.
    pub stop: Option<Arc<AtomicBool>>,
    /// Test hook: each generating thread sleeps this long before every send of an open loop, as
    /// if it were starved.
    pub stall_before_send: Duration,
}

impl Plan {
    /// Four connections, eight requests a second for five seconds, as fortio does by default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 4,
            rate: Rate::PerSecond(8.0),
            arrivals: Arrivals::Staggered,
            duration: Duration::from_secs(5),
            warm_up: Duration::ZERO,
            threads: 1,
            cpus: Vec::new(),
            timeout: Duration::from_secs(3),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            tls: None,
            seed: 1,
            connect_to: None,
            congestion: None,
            labels: String::new(),
            stop: None,
            stall_before_send: Duration::ZERO,
        }
    }

    /// Refuses numbers that would make a run meaningless.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let complaint = match self {
            _ if self.connections == 0 => "connections must be at least 1",
            _ if self.threads == 0 => "threads must be at least 1",
            _ if self.duration.is_zero() => "the duration must be longer than 0",
            _ if self.timeout.is_zero() => "the timeout must be longer than 0",
            _ => match self.rate {
                Rate::PerSecond(rate) if !(rate.is_finite() && rate > 0.0) => {
                    "the rate must be above 0 requests per second, or max"
                }
                Rate::PerSecond(_) | Rate::Max => return Ok(()),
            },
        };
        Err(Error::Plan(complaint.to_owned()))
    }
}

/// How fast requests are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Open loop: this many per second over all connections, on a schedule fixed in advance.
    PerSecond(f64),
    /// Closed loop: each connection sends as soon as its last answer is complete.
    Max,
}

/// How an open loop's requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly spaced on each connection, the connections' phases evenly staggered.
    Staggered,
    /// Independent exponential gaps on each connection.
    Poisson,
}

/// TLS of the generator's side.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    /// PEM file of the CAs to trust; absent = the system's roots.
    pub roots_pem: Option<PathBuf>,
    /// PEM file of the client certificate, leaf first.
    pub certificate_pem: Option<PathBuf>,
    /// PEM file of its key.
    pub key_pem: Option<PathBuf>,
    /// Name to ask for and to verify, or the SPIFFE id that the server's certificate must hold;
    /// absent = the URL's host.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// ALPN protocols to offer, in order; empty = none.
    pub alpn: Vec<String>,
}
