//! What a connection is told at its birth: its side, its dialect, its bounds. Made by the proxy
//! from its own settings, read by every other part; never changes afterwards.

/// Streams that the peer may have open at once. A browser opens a hundred; a sidecar that finds
/// no room opens another connection, so more would only let one connection starve others.
pub const STREAMS_MAX: u32 = 250;

/// Bytes of a decoded head as text: as much as the largest head
/// that common servers accept, so that a proxy between two of them is never the narrow place.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Lines of a head; real ones have fewer than a hundred.
pub const HEADERS_MAX: usize = 200;

/// Receive window of a stream in bytes: the protocol's own initial value, which needs no setting
/// and lets one stream pin no more than that.
pub const STREAM_WINDOW: u32 = 65_535;

/// Receive window of a connection in bytes: sixteen full streams, enough for 10 Gbit/s at the
/// round trip of a cluster (below 1 ms).
pub const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Which side of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opened the connection; sends requests.
    Client,
    /// Accepted it; answers them.
    Server,
}

/// How heads are written in header blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// RFC 9113 to the letter, for anybody.
    Public,
    /// Between two sidecars, which agree on it by ALPN: names as they were written, no scheme and
    /// no authority (Host is a line in its place), and what RFC 9113 has no room for in
    /// `:version`, `:reason` and `:upgrade`.
    Hop,
}

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams the peer may have open at once (SETTINGS_MAX_CONCURRENT_STREAMS of a server).
    pub streams: u32,
    /// Bytes of a decoded head as text, which is what HTTP/1 counts. Announced as
    /// SETTINGS_MAX_HEADER_LIST_SIZE, for which a peer counts more (RFC 9113, section 6.5.2).
    pub head_bytes: usize,
    /// Lines of a head.
    pub headers: usize,
    /// Receive window of a stream in bytes (SETTINGS_INITIAL_WINDOW_SIZE), at most 2^31 - 1.
    pub stream_window: u32,
    /// Receive window of the connection in bytes, from 65,535 (which no peer can be talked out
    /// of) to 2^31 - 1.
    pub connection_window: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: STREAMS_MAX,
            head_bytes: HEAD_BYTES_MAX,
            headers: HEADERS_MAX,
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
        }
    }
}

/// All that a connection is told.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which side this is.
    pub role: Role,
    /// How heads are written.
    pub dialect: Dialect,
    /// The bounds.
    pub limits: Limits,
    /// Of a server on the hop: which worker serves this connection, and of how many; announced in
    /// the settings, so that the peer can spread its connections over all of them.
    pub worker: Option<(u16, u16)>,
}

impl Config {
    /// The default bounds for this side and dialect.
    pub fn new(role: Role, dialect: Dialect) -> Self {
        Self {
            role,
            dialect,
            limits: Limits::default(),
            worker: None,
        }
    }
}
