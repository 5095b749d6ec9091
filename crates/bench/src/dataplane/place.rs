//! What the configuration of a reverse proxy depends on. Filled in from a [`Hop`] where a data
//! plane is measured as sidecars, and by `cost` where it is a bare hop; read by the makers of
//! `haproxy` and `nginx`, which so have one text for both.

use std::net::SocketAddr;
use std::path::Path;

use super::certificates::{dns_name, spiffe_id};
use super::envoy::Between;
use super::{Certificates, Hop, Side};

/// The cipher suite of everybody who can be told.
pub(crate) const SUITE: &str = "TLS_AES_128_GCM_SHA256";

/// One of the two legs that a proxy joins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leg {
    /// Where it listens, or what it dials.
    pub(crate) addr: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) http2: bool,
}

/// What passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    Http,
    Tcp,
}

/// All that a configuration depends on.
pub(crate) struct Place<'a> {
    /// Whose certificate it shows.
    pub(crate) side: Side,
    pub(crate) carries: Carries,
    pub(crate) downstream: Leg,
    pub(crate) upstream: Leg,
    /// Downstream connections to be ready for: some set memory aside for each.
    pub(crate) connections_max: usize,
    pub(crate) certificates: &'a Certificates,
    /// A directory of its own.
    pub(crate) dir: &'a Path,
    /// A part of the program that it has to load for what it carries.
    pub(crate) module: Option<&'a Path>,
    /// Absent for a bare hop, which moves bytes and asks nobody's name.
    pub(crate) duties: Option<Duties>,
}

/// What a sidecar does beside moving bytes. It also looks at who its peer is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Duties {
    /// Where its counters are.
    pub(crate) admin: SocketAddr,
    /// Whether it may change its user, and therefore must be told not to.
    pub(crate) is_root: bool,
}

/// Downstream connections that a sidecar is ready for unless there will be more.
const CONNECTIONS_MIN: usize = 1024;

impl<'a> Place<'a> {
    /// As a sidecar of `hop` that listens on `listener`, with its counters on `admin`.
    pub(crate) fn of(
        hop: &Hop<'a>,
        between: Between,
        listener: SocketAddr,
        admin: SocketAddr,
    ) -> Self {
        let leg = |addr, side| {
            let is_hop = hop.mutual_tls && hop.side == side;
            let http2 = is_hop && between == Between::Http2;
            let tls = is_hop;
            Leg { addr, tls, http2 }
        };
        let connections = usize::try_from(hop.connections).unwrap_or(usize::MAX / 2);
        Self {
            side: hop.side,
            carries: Carries::Http,
            downstream: leg(listener, Side::Server),
            upstream: leg(hop.upstream, Side::Client),
            connections_max: CONNECTIONS_MIN.max(connections * 2),
            certificates: hop.certificates,
            dir: hop.dir,
            module: None,
            duties: Some(Duties {
                admin,
                is_root: rustix::process::geteuid().is_root(),
            }),
        }
    }

    /// The SPIFFE id of who it accepts connections from.
    pub(crate) fn peer_id(&self) -> String {
        spiffe_id(self.peer())
    }

    /// The DNS name of whom it dials.
    pub(crate) fn peer_name(&self) -> String {
        dns_name(self.peer())
    }

    fn peer(&self) -> Side {
        match self.side {
            Side::Server => Side::Client,
            Side::Client | Side::Gateway => Side::Server,
        }
    }

    /// Files of the certificate that it shows: trust bundle, chain, key, chain and key in one.
    pub(crate) fn files(&self) -> [String; 4] {
        let certificates = self.certificates;
        let side = self.side;
        [
            certificates.trust_bundle(),
            certificates.chain(side),
            certificates.key(side),
            certificates.pair(side),
        ]
        .map(|path| path.display().to_string())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What `maker` writes for a sidecar that listens on port 1001, sends to 1002 and counts on
    /// 1003 must have `expected`, and nothing of `absent`.
    #[track_caller]
    pub(crate) fn check(
        maker: fn(&Place<'_>) -> String,
        (side, mutual_tls): (Side, bool),
        expected: &[&str],
        absent: &[&str],
    ) {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let certificates = Certificates::in_folder(Path::new("/certificates"));
        let hop = Hop {
            side,
            mutual_tls,
            telemetry: crate::results::Telemetry::Metrics,
            upstream: at(1002),
            connections: 64,
            certificates: &certificates,
            dir: Path::new("/sidecar"),
        };
        let text = maker(&Place::of(&hop, Between::Http1, at(1001), at(1003)));
        for word in ["127.0.0.1:1001", "127.0.0.1:1002"].iter().chain(expected) {
            assert!(text.contains(word), "no {word} in {text}");
        }
        for word in absent {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}
