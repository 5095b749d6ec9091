//! What a run shall do, as plain data. Made by the command and by the benchmark; read once when
//! a run starts, so that nothing in here can change while requests flow.

use crate::Error;
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Over all connections: more than one machine can keep busy, few enough to hold a place for each.
const STREAMS_MAX: u64 = 1 << 20;

/// Everything a run needs to know. Start from [`Plan::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `http://` or `https://` URL with path and query; for TCP `host:port`, with or without
    /// `tcp://` before it.
    pub url: String,
    /// What is spoken.
    pub protocol: Protocol,
    /// Connections kept open during the whole run.
    pub connections: u32,
    /// Streams used on each connection, each with at most one request in flight; 1 unless the
    /// protocol has streams.
    pub streams: u32,
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
    /// HTTP method; gRPC's is always POST.
    pub method: String,
    /// Headers besides `Host`, `User-Agent` and `Content-Length`; a `Host` here replaces ours.
    pub headers: Vec<(String, String)>,
    /// Request body; with gRPC and TCP the message, which must come back as it was sent.
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
            protocol: Protocol::Http1,
            connections: 4,
            streams: 1,
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
            _ if self.streams == 0 => "streams must be at least 1",
            _ if u64::from(self.connections) * u64::from(self.streams) > STREAMS_MAX => {
                "connections times streams must be at most 1048576"
            }
            _ if self.streams > 1 && !self.protocol.has_streams() => {
                "more than one stream needs the protocol http2 or grpc"
            }
            _ if self.protocol == Protocol::Tcp && self.body.is_empty() => {
                "tcp needs something to send; give a body"
            }
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

/// What a run speaks with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    Http1,
    /// HTTP/2 in plaintext with prior knowledge (RFC 9113, section 3.3).
    Http2,
    /// gRPC over HTTP/2 of the same kind: the service `leno.load.Echo`, unless the URL has a path.
    Grpc(GrpcMode),
    /// Bytes that must come back as they were sent: that is one request.
    Tcp,
}

/// What a gRPC request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcMode {
    /// One call with one message each way.
    Unary,
    /// A message each way on a call that stays open for the whole run.
    Stream,
}

impl Protocol {
    /// As in the results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Grpc(_) => "grpc",
            Self::Tcp => "tcp",
        }
    }

    /// Whether a connection carries several requests at a time.
    pub fn has_streams(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc(_))
    }
}

impl GrpcMode {
    /// As in the results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Stream => "stream",
        }
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
