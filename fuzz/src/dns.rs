//! What must hold of messages of the DNS: a query is one whole message and no part of one, and what
//! is answered to it is read back as it was meant. Called by the fuzz target and by wire's tests.

use std::net::IpAddr;

use wire::dns::{Answer, Code, Kind, Name, Query, Reject, Reply, Section, TCP_BYTES_MAX};

/// Beyond this, parts of the input are not tried.
const SPLIT_BYTES_MAX: usize = 512;

/// A query, its answers and their limits; and the same bytes as an answer.
pub fn dns(data: &[u8]) {
    if let Some(answer) = Answer::parse(data) {
        check_owners(&answer);
        assert!(Query::parse(data).is_err(), "no message is both");
    }
    let query = match Query::parse(data) {
        Ok(query) => query,
        Err(reject) => return check_reject(data, reject),
    };
    for end in 0..data.len().min(SPLIT_BYTES_MAX) {
        assert!(Query::parse(&data[..end]).is_err(), "{end}");
    }
    for bytes_max in [512, query.udp_bytes_max(), TCP_BYTES_MAX] {
        check_addresses(data, &query, bytes_max);
    }
    check_nothing(&query);
}

/// Names of records end, and are names.
fn check_owners(answer: &Answer<'_>) {
    for (_, record) in answer.records() {
        let mut owner = Vec::new();
        if record.owner(&mut owner).is_some() {
            assert!(Name::from_wire(&owner).is_some());
        }
    }
}

/// Only a message that asks something gets an answer, and that has its id.
fn check_reject(data: &[u8], reject: Reject) {
    let mut out = Vec::new();
    reject.write(&mut out);
    assert_eq!(out.is_empty(), reject == Reject::Silence);
    if let Some(answer) = Answer::parse(&out) {
        assert!(answer.id.to_be_bytes() == data[..2] && answer.question.is_none());
        assert!(answer.code != 0 && answer.records().is_at_end());
    }
}

/// As many addresses as the message has bytes, in answers of at most `bytes_max`.
fn check_addresses(data: &[u8], query: &Query<'_>, bytes_max: usize) {
    let address = |byte: &u8| match byte % 2 {
        0 => IpAddr::from([*byte; 4]),
        _ => IpAddr::from([*byte; 16]),
    };
    let mut out = Vec::new();
    let mut reply = Reply::new(query, Code::NoError, bytes_max, &mut out);
    reply.set_authoritative();
    let written = data.iter().map(address);
    let written: Vec<_> = written.take_while(|ip| reply.address(*ip, 5)).collect();
    reply.finish();
    assert!(out.len() <= bytes_max);
    let answer = Answer::parse(&out).expect("we wrote it");
    assert_eq!(answer.id.to_be_bytes(), data[..2]);
    assert_eq!(answer.question, Some((query.name, query.kind, query.class)));
    let name = |answer: &Answer<'_>| answer.question.map(|(name, ..)| name.wire().to_vec());
    assert_eq!(name(&answer).as_deref(), Some(query.name.wire()));
    assert_eq!((answer.code, answer.authoritative), (0, true));
    assert_eq!(answer.truncated, written.len() < data.len());
    let mut records = answer.records();
    for ip in written {
        let (section, record) = records.next().expect("we wrote it");
        let mut owner = Vec::new();
        record.owner(&mut owner).expect("we wrote it");
        assert!(section == Section::Answer && owner == query.name.wire());
        let (kind, octets) = match ip {
            IpAddr::V4(ip) => (Kind::A, ip.octets().to_vec()),
            IpAddr::V6(ip) => (Kind::AAAA, ip.octets().to_vec()),
        };
        assert!(record.kind == kind && record.data == octets);
    }
    assert_eq!(records.by_ref().count(), usize::from(query.edns.is_some()));
    assert!(records.is_at_end());
}

/// The root and the name itself may both say that there is nothing.
fn check_nothing(query: &Query<'_>) {
    let root = Name::from_wire(b"\0").expect("the shortest name");
    for zone in [root, query.name] {
        assert!(query.name.is_within(zone));
        let mut out = Vec::new();
        let mut reply = Reply::new(query, Code::NoName, 512, &mut out);
        reply.nothing_within(zone, 5);
        reply.finish();
        let answer = Answer::parse(&out).expect("we wrote it");
        assert_eq!(
            (answer.code, answer.truncated),
            (Code::NoName as u16, false)
        );
        let (section, record) = answer.records().next().expect("there is room");
        let mut owner = Vec::new();
        record.owner(&mut owner).expect("we wrote it");
        assert!((section, record.kind) == (Section::Authority, Kind::SOA) && owner == zone.wire());
        let mut records = answer.records();
        assert_eq!(
            records.by_ref().count(),
            1 + usize::from(query.edns.is_some())
        );
        assert!(records.is_at_end());
    }
}
