//! From a query's bytes to its answer's, over a table of names. Called for every query. Does no
//! I/O: names that are not of the mesh are given back to the caller, who may know whom to ask.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::dns::{Code, Kind, Name, Query, Reply, TCP_BYTES_MAX, Target};

use super::names::{self, Found, Names, Records, Service, ZONE};
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

impl Transport {
    /// How many bytes the answer to `query` may have.
    pub(super) fn bytes_max(self, query: &Query<'_>) -> usize {
        match self {
            Self::Udp => query.udp_bytes_max(),
            Self::Tcp => TCP_BYTES_MAX,
        }
    }
}

/// How far a query got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress<'m> {
    /// Its answer is written, or it is to have none.
    Done(Answered),
    /// The mesh has no such name, and does not decide whether there is one.
    Elsewhere(Query<'m>),
}

/// What becomes of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict<'n> {
    Addresses(&'n [Ipv4Addr], &'n [Ipv6Addr]),
    Services(&'n [Service]),
    /// Names of an address, as they are written.
    Pointers(Vec<Vec<u8>>),
    /// The name exists, and has nothing of the kind.
    NoData,
    NoName,
    Elsewhere,
    Refused,
    BadVersion,
}

/// Adds the answer to `message` to `out`; nothing if it is to have none, or none from here.
pub(super) fn answer<'m>(
    names: &Names,
    message: &'m [u8],
    transport: Transport,
    out: &mut Vec<u8>,
) -> Progress<'m> {
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(reject) => {
            reject.write(out);
            return Progress::Done(Answered::Malformed);
        }
    };
    let verdict = decide(names, &query);
    let (code, answered) = match &verdict {
        Verdict::Elsewhere => return Progress::Elsewhere(query),
        Verdict::Refused => (Code::Refused, Answered::Refused),
        Verdict::BadVersion => (Code::BadVersion, Answered::Malformed),
        Verdict::NoName => (Code::NoName, Answered::NoName),
        Verdict::NoData => (Code::NoError, Answered::NoData),
        Verdict::Addresses(..) | Verdict::Services(_) | Verdict::Pointers(_) => {
            (Code::NoError, Answered::Found)
        }
    };
    let reply = Reply::new(&query, code, transport.bytes_max(&query), out);
    write(reply, names, &verdict, query.id().into());
    Progress::Done(answered)
}

/// Adds an answer without records.
pub(super) fn say(query: &Query<'_>, code: Code, out: &mut Vec<u8>) {
    Reply::new(query, code, query.udp_bytes_max(), out).finish();
}

fn decide<'n>(names: &'n Names, query: &Query<'_>) -> Verdict<'n> {
    if query.is_of_unknown_version() {
        return Verdict::BadVersion;
    }
    if !query.is_internet() || query.kind.is_meta() {
        return Verdict::Refused;
    }
    match names.find(query.name) {
        Found::Name(records) => of_kind(query.kind, records),
        Found::Absent => Verdict::NoName,
        Found::Elsewhere if query.kind == Kind::PTR => pointers(names, query.name),
        Found::Elsewhere => Verdict::Elsewhere,
    }
}

fn of_kind(kind: Kind, records: Records<'_>) -> Verdict<'_> {
    let Records { v4, v6, services } = records;
    match kind {
        Kind::A if !v4.is_empty() => Verdict::Addresses(v4, &[]),
        Kind::AAAA if !v6.is_empty() => Verdict::Addresses(&[], v6),
        Kind::ANY if !(v4.is_empty() && v6.is_empty()) => Verdict::Addresses(v4, v6),
        Kind::SRV | Kind::ANY if !services.is_empty() => Verdict::Services(services),
        _ => Verdict::NoData,
    }
}

fn pointers<'n>(names: &Names, name: Name<'_>) -> Verdict<'n> {
    let found = names::address_of(name).map(|ip| names.names_of(ip));
    match found.filter(|found| !found.is_empty()) {
        Some(found) => Verdict::Pointers(found),
        None => Verdict::Elsewhere,
    }
}

/// Records up to the first that has no room. Those of which there are several begin at another one
/// in each `turn`: many clients take the first.
fn write(mut reply: Reply<'_>, names: &Names, verdict: &Verdict<'_>, turn: usize) {
    match verdict {
        Verdict::Addresses(v4, v6) => {
            reply.set_authoritative();
            let _all = in_turn(v4, v6, turn).all(|ip| reply.address(ip, TTL_SECONDS));
        }
        Verdict::Services(services) => {
            reply.set_authoritative();
            write_services(&mut reply, names, turned(services, turn));
        }
        Verdict::Pointers(all) => {
            reply.set_authoritative();
            let mut all = all.iter().filter_map(|name| Name::from_wire(name));
            let _all = all.all(|name| reply.pointer(name, TTL_SECONDS));
        }
        Verdict::NoData | Verdict::NoName => {
            let zone = Name::from_wire(ZONE).expect("it is a name");
            reply.set_authoritative();
            reply.nothing_within(zone, TTL_SECONDS);
        }
        Verdict::Elsewhere | Verdict::Refused | Verdict::BadVersion => {}
    }
    reply.finish();
}

/// The hosts, then their addresses, which are asked for next.
fn write_services<'n>(
    reply: &mut Reply<'_>,
    names: &Names,
    services: impl Iterator<Item = &'n Service>,
) {
    let mut targets: Vec<(Target, Records<'_>)> = Vec::new();
    for service in services {
        let (name, records) = names.host(*service);
        let host = Name::from_wire(&name).expect("keys are made of names");
        match reply.service(host, service.port, TTL_SECONDS) {
            Some(target) => targets.push((target, records)),
            None => return,
        }
    }
    for (target, Records { v4, v6, .. }) in targets {
        let mut all = in_turn(v4, v6, 0);
        let _all = all.all(|ip| reply.address_of(target, ip, TTL_SECONDS));
    }
}

fn in_turn(v4: &[Ipv4Addr], v6: &[Ipv6Addr], turn: usize) -> impl Iterator<Item = IpAddr> {
    let v4 = turned(v4, turn).map(|ip| IpAddr::from(*ip));
    v4.chain(turned(v6, turn).map(|ip| IpAddr::from(*ip)))
}

/// From another one on at each `turn`.
fn turned<T>(all: &[T], turn: usize) -> impl Iterator<Item = &T> {
    let (before, from) = all.split_at(turn % all.len().max(1));
    from.iter().chain(before)
}
