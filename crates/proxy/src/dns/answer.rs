//! From a query's bytes to its answer's, over a table of names. Called for every query. Does no
//! I/O: who is to be asked about names that are not of the mesh belongs to the caller.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::dns::{Code, Kind, Name, Query, Reply, TCP_BYTES_MAX};

use super::names::{Found, Names, ZONE};
use crate::telemetry::metrics::Answered;

/// For how long clients may remember an answer, that there is none included: short, as services
/// come and go, and a query is answered from memory.
const TTL_SECONDS: u32 = 5;

/// What a query came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// What becomes of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict<'n> {
    Addresses(&'n [Ipv4Addr], &'n [Ipv6Addr]),
    /// The name exists, and has nothing of the kind.
    NoData,
    NoName,
    /// Of no concern to the mesh. Nobody else is asked yet, so that it is refused, and a client
    /// that knows another server asks that.
    Elsewhere,
    Refused,
    BadVersion,
}

/// Adds the answer to `message` to `out`; nothing if it is to have none.
pub(super) fn answer(
    names: &Names,
    message: &[u8],
    transport: Transport,
    out: &mut Vec<u8>,
) -> Answered {
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(reject) => {
            reject.write(out);
            return Answered::Malformed;
        }
    };
    let bytes_max = match transport {
        Transport::Udp => query.udp_bytes_max(),
        Transport::Tcp => TCP_BYTES_MAX,
    };
    write(&query, decide(names, &query), bytes_max, out)
}

fn decide<'n>(names: &'n Names, query: &Query<'_>) -> Verdict<'n> {
    if query.is_of_unknown_version() {
        return Verdict::BadVersion;
    }
    // Which names an address has is nobody's business here.
    if !query.is_internet() || query.kind.is_meta() || query.kind == Kind::PTR {
        return Verdict::Refused;
    }
    match names.find(query.name) {
        Found::Addresses(v4, v6) => of_kind(query.kind, v4, v6),
        Found::Absent => Verdict::NoName,
        Found::Elsewhere => Verdict::Elsewhere,
    }
}

fn of_kind<'n>(kind: Kind, v4: &'n [Ipv4Addr], v6: &'n [Ipv6Addr]) -> Verdict<'n> {
    match kind {
        Kind::A if !v4.is_empty() => Verdict::Addresses(v4, &[]),
        Kind::AAAA if !v6.is_empty() => Verdict::Addresses(&[], v6),
        Kind::ANY if !(v4.is_empty() && v6.is_empty()) => Verdict::Addresses(v4, v6),
        _ => Verdict::NoData,
    }
}

fn write(query: &Query<'_>, verdict: Verdict<'_>, bytes_max: usize, out: &mut Vec<u8>) -> Answered {
    let (code, answered) = match verdict {
        Verdict::Addresses(..) => (Code::NoError, Answered::Found),
        Verdict::NoData => (Code::NoError, Answered::NoData),
        Verdict::NoName => (Code::NoName, Answered::NoName),
        Verdict::Elsewhere | Verdict::Refused => (Code::Refused, Answered::Refused),
        Verdict::BadVersion => (Code::BadVersion, Answered::Malformed),
    };
    let mut reply = Reply::new(query, code, bytes_max, out);
    match verdict {
        Verdict::Addresses(v4, v6) => {
            reply.set_authoritative();
            let turn = usize::from(query.id());
            let v4 = turned(v4, turn).map(|ip| IpAddr::from(*ip));
            let v6 = turned(v6, turn).map(|ip| IpAddr::from(*ip));
            // Up to the first that has no room.
            let _all = v4.chain(v6).all(|ip| reply.address(ip, TTL_SECONDS));
        }
        Verdict::NoData | Verdict::NoName => {
            let zone = Name::from_wire(ZONE).expect("it is a name");
            reply.set_authoritative();
            reply.nothing_within(zone, TTL_SECONDS);
        }
        Verdict::Elsewhere | Verdict::Refused | Verdict::BadVersion => {}
    }
    reply.finish();
    answered
}

/// From another one on at each `turn`: many clients take the first, and the last may have no room.
fn turned<T>(all: &[T], turn: usize) -> impl Iterator<Item = &T> {
    let (before, from) = all.split_at(turn % all.len().max(1));
    from.iter().chain(before)
}
