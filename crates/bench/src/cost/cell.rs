//! What a figure of a cost run was measured under: protocol, topology, placement, shape and size.
//! Made by `plan` from the options and carried by every figure. Plain data.

use std::fmt;

use serde::Serialize;

/// From this size on a body is bulk: bytes per CPU second count, not CPU per request.
pub(crate) const BULK_BYTES: usize = 1 << 20;

/// What the application speaks, on both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 with keep-alive.
    Http1,
    /// HTTP/2 by prior knowledge, without TLS.
    Http2,
    /// Unary gRPC calls over the same.
    Grpc,
    /// Requests and answers of equal length over opaque TCP connections.
    Tcp,
}

/// What the requests cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One hop without TLS.
    Plain,
    /// Two sidecars with mutual TLS between them; for the floor two relays without TLS.
    Mtls,
}

/// Where the two proxies of a pair run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Both on one core; generator and server on another.
    Shared,
    /// Each on a core of its own.
    Apart,
}

/// What does not depend on how much load there is: contestants are set up alike within a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Scene {
    /// What the application speaks.
    pub protocol: Protocol,
    /// What is crossed.
    pub topology: Topology,
    /// On which cores.
    pub placement: Placement,
}

/// How much is asked for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Shape {
    /// Connections of the generator.
    pub connections: usize,
    /// Requests in flight on each.
    pub streams: usize,
}

/// One cell of the comparison: within it everything is equal but the contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Cell {
    /// The set-up.
    #[serde(flatten)]
    pub scene: Scene,
    /// The load.
    #[serde(flatten)]
    pub shape: Shape,
    /// Bytes of an answer's body.
    pub size_bytes: usize,
}

impl Protocol {
    /// The word used in tables, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
            Self::Tcp => "tcp",
        }
    }

    /// Whether requests travel as HTTP/2 streams.
    pub(crate) fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc)
    }
}

impl Topology {
    /// Both, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Mtls];

    /// The word used in tables, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Mtls => "mtls",
        }
    }
}

impl Placement {
    /// The word used in tables, options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Apart => "apart",
        }
    }
}

impl Scene {
    pub(crate) fn cell(self, shape: Shape, size_bytes: usize) -> Cell {
        Cell {
            scene: self,
            shape,
            size_bytes,
        }
    }
}

impl Cell {
    /// Whether bytes per CPU second are the figure of interest.
    pub(crate) fn is_bulk(&self) -> bool {
        self.size_bytes >= BULK_BYTES
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, topology) = (self.protocol.name(), self.topology.name());
        write!(f, "{protocol} {topology}")?;
        match self.placement {
            Placement::Shared => Ok(()),
            Placement::Apart => write!(f, " {}", self.placement.name()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.streams {
            1 => write!(f, "{}", self.connections),
            streams => write!(f, "{}×{streams}", self.connections),
        }
    }
}
