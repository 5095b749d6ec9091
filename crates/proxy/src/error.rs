//! What can go wrong with a request, and the one table of what follows from it: status, flag,
//! whether another attempt is allowed. Nothing else maps errors. Used by the whole path.

use rustix::io::Errno;
use std::fmt;
use std::io;

/// Response flags: why a request ended other than by its upstream's answer. Shown in metrics and
/// in the access log; the short names are the ones Envoy's users know where one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flag {
    /// The upstream answered.
    None,
    /// The downstream broke the protocol or a limit.
    DownstreamProtocol,
    /// The downstream went away before its answer was complete.
    DownstreamClosed,
    /// The downstream was too slow with its head.
    DownstreamTimeout,
    /// No route fits.
    NoRoute,
    /// The peer's identity may not do this.
    Denied,
    /// The cluster has no endpoint.
    NoEndpoint,
    /// No endpoint could be connected to.
    ConnectFailed,
    /// The mutual TLS handshake with the endpoint failed.
    HandshakeFailed,
    /// The upstream closed before its answer was complete.
    UpstreamClosed,
    /// The upstream gave the request back unprocessed.
    UpstreamRefused,
    /// The upstream broke the protocol.
    UpstreamProtocol,
    /// The upstream did not answer in time.
    UpstreamTimeout,
    /// A body did not move for too long.
    StreamIdle,
    /// Slow receivers hold all the memory that bodies may have.
    Overloaded,
    /// A filter answered.
    Filter,
    /// The body is larger than a filter may hold.
    TooLarge,
    /// A defect of the proxy's own.
    Internal,
}

impl Flag {
    /// Every flag, in the order of [`Flag::index`].
    pub const ALL: &'static [Self] = &[
        Self::None,
        Self::DownstreamProtocol,
        Self::DownstreamClosed,
        Self::DownstreamTimeout,
        Self::NoRoute,
        Self::Denied,
        Self::NoEndpoint,
        Self::ConnectFailed,
        Self::HandshakeFailed,
        Self::UpstreamClosed,
        Self::UpstreamRefused,
        Self::UpstreamProtocol,
        Self::UpstreamTimeout,
        Self::StreamIdle,
        Self::Overloaded,
        Self::Filter,
        Self::TooLarge,
        Self::Internal,
    ];

    /// The flag's place in [`Flag::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The short name, `-` for none.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.row().label
    }

    fn row(self) -> &'static Row {
        &TABLE[self.index()]
    }
}

/// One row of the table.
struct Row {
    label: &'static str,
    /// What the downstream is told, where it can still be told something.
    status: u16,
    /// What a gRPC client is told: a code of gRPC's.
    grpc: u8,
    /// Whether nothing of the request can have had an effect, so that another endpoint may be
    /// asked whatever the method.
    unsent: bool,
    reason: &'static str,
}

/// Codes of gRPC (its `statuscodes.md`).
mod grpc {
    pub(super) const OK: u8 = 0;
    pub(super) const CANCELLED: u8 = 1;
    pub(super) const DEADLINE_EXCEEDED: u8 = 4;
    pub(super) const PERMISSION_DENIED: u8 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(super) const UNIMPLEMENTED: u8 = 12;
    pub(super) const INTERNAL: u8 = 13;
    pub(super) const UNAVAILABLE: u8 = 14;
}

const fn row(
    label: &'static str,
    (status, grpc): (u16, u8),
    unsent: bool,
    reason: &'static str,
) -> Row {
    Row {
        label,
        status,
        grpc,
        unsent,
        reason,
    }
}

/// THE table, in the order of [`Flag`].
#[rustfmt::skip]
static TABLE: [Row; 18] = [
    row("-", (200, grpc::OK), false, ""),
    row("DPE", (400, grpc::INTERNAL), false, "the request breaks the protocol"),
    row("DC", (499, grpc::CANCELLED), false, "the downstream closed"),
    row("DT", (408, grpc::DEADLINE_EXCEEDED), false, "the request head did not arrive in time"),
    row("NR", (404, grpc::UNIMPLEMENTED), false, "no route"),
    row("RBAC", (403, grpc::PERMISSION_DENIED), false, "access denied"),
    row("NE", (503, grpc::UNAVAILABLE), false, "no endpoint"),
    row("UF", (503, grpc::UNAVAILABLE), true, "no endpoint could be connected to"),
    row("UTLS", (503, grpc::UNAVAILABLE), true, "the mutual TLS handshake failed"),
    row("UC", (502, grpc::UNAVAILABLE), false, "the upstream closed before its answer ended"),
    row("UR", (503, grpc::UNAVAILABLE), false, "the upstream gave the request back"),
    row("UPE", (502, grpc::INTERNAL), false, "the upstream breaks the protocol"),
    row("UT", (504, grpc::DEADLINE_EXCEEDED), false, "the upstream did not answer in time"),
    row("SI", (504, grpc::DEADLINE_EXCEEDED), false, "the stream was idle for too long"),
    row("OV", (503, grpc::RESOURCE_EXHAUSTED), false, "too much is held for slow receivers"),
    row("FI", (503, grpc::UNAVAILABLE), false, "answered by a filter"),
    row("TL", (413, grpc::RESOURCE_EXHAUSTED), false, "the request is too large"),
    row("IE", (500, grpc::INTERNAL), false, "internal error"),
];

/// Why a request failed. Small: it crosses every level of the path.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) flag: Flag,
    /// Overrides the table's status where the protocol has a finer one (431, 501, 505).
    status: u16,
    /// An attempt before this one may have been seen.
    after_sent: bool,
    source: Option<io::Error>,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(flag: Flag) -> Self {
        Self {
            flag,
            status: flag.row().status,
            after_sent: false,
            source: None,
        }
    }

    pub(crate) fn with_status(flag: Flag, status: u16) -> Self {
        Self {
            flag,
            status,
            after_sent: false,
            source: None,
        }
    }

    /// Not a failure, but an answer of our own: that the downstream is to ask elsewhere.
    pub(crate) fn redirect(status: u16) -> Self {
        Self::with_status(Flag::None, status)
    }

    /// Whether the answer has the lines that were put together for it.
    pub(crate) fn is_redirect(&self) -> bool {
        self.flag == Flag::None
    }

    /// An I/O error of the upstream's side: a deadline is `UpstreamTimeout`, the rest `flag`.
    pub(crate) fn upstream(flag: Flag, source: io::Error) -> Self {
        let flag = match source.kind() {
            io::ErrorKind::TimedOut if flag == Flag::UpstreamClosed => Flag::UpstreamTimeout,
            io::ErrorKind::InvalidData => Flag::UpstreamProtocol,
            io::ErrorKind::OutOfMemory => Flag::Overloaded,
            // A stream is refused once its connection stands.
            io::ErrorKind::ConnectionRefused if flag == Flag::UpstreamClosed => {
                Flag::UpstreamRefused
            }
            // A sidecar that is there says so of the application behind it.
            io::ErrorKind::NotConnected if flag == Flag::UpstreamClosed => Flag::ConnectFailed,
            _ => flag,
        };
        Self {
            flag,
            status: flag.row().status,
            after_sent: false,
            source: Some(source),
        }
    }

    /// An I/O error of the downstream's side.
    pub(crate) fn downstream(source: io::Error) -> Self {
        let (flag, status) = match source.kind() {
            // Of the two sides that a stream has, this one stands still.
            io::ErrorKind::TimedOut => (Flag::StreamIdle, 408),
            io::ErrorKind::InvalidData => (Flag::DownstreamProtocol, 400),
            io::ErrorKind::OutOfMemory => (Flag::Overloaded, 503),
            _ => (Flag::DownstreamClosed, Flag::DownstreamClosed.row().status),
        };
        Self {
            flag,
            status,
            after_sent: false,
            source: Some(source),
        }
    }

    /// What the downstream is told.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// What a gRPC client is told.
    pub(crate) fn grpc_status(&self) -> u8 {
        self.flag.row().grpc
    }

    pub(crate) fn reason(&self) -> &'static str {
        self.flag.row().reason
    }

    /// Whether the cause is on this machine (descriptors, ports, memory), not at the endpoint.
    pub(crate) fn is_local(&self) -> bool {
        let errno = self.source.as_ref().and_then(Errno::from_io_error);
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        errno.is_some_and(|errno| exhausted.contains(&errno) || errno == Errno::ADDRNOTAVAIL)
    }

    /// Whether nothing was sent, so that any request may be tried elsewhere.
    pub(crate) fn is_unsent(&self) -> bool {
        self.flag.row().unsent && !self.after_sent
    }

    /// Says that an attempt before this one may have been seen.
    pub(crate) fn after_sent(self, after_sent: bool) -> Self {
        Self { after_sent, ..self }
    }

    /// Whether the request may have been seen, and its end was that nobody answered.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.flag == Flag::UpstreamClosed || self.after_sent
    }

    /// Whether it was not the peer who closed, but the application behind it: the peer says so.
    pub(crate) fn is_behind(&self) -> bool {
        let kind = self.source.as_ref().map(io::Error::kind);
        self.flag == Flag::UpstreamClosed && kind == Some(io::ErrorKind::ConnectionAborted)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.reason()),
            None => f.write_str(self.reason()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_flags() {
        for (place, flag) in Flag::ALL.iter().enumerate() {
            assert_eq!(flag.index(), place);
        }
        assert_eq!(Flag::ALL.len(), TABLE.len());
        assert_eq!(Flag::NoRoute.row().status, 404);
        assert_eq!(Flag::ConnectFailed.label(), "UF");
        assert_eq!(Flag::Internal.label(), "IE");
    }

    #[test]
    fn labels_are_unique() {
        let mut labels: Vec<_> = Flag::ALL.iter().map(|flag| flag.label()).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), Flag::ALL.len());
    }

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<Error>() <= 16, "{}", size_of::<Error>());
    }
}
