//! What must hold of messages of the DNS: a query is one whole message and no part of one, what is
//! answered to it is read back as it was meant, and what another server answered is passed on as it
//! was. Called by the fuzz target and by wire's tests.

use std::net::IpAddr;

use wire::dns::{Answer, Code, Kept, Kind, Left, Name, Query, Question, Record, Reject, Reply};
use wire::dns::{Section, TCP_BYTES_MAX};

/// Beyond this, parts of the input are not tried.
const SPLIT_BYTES_MAX: usize = 512;

/// A query, its answers and their limits; and the same bytes as an answer.
pub fn dns(data: &[u8]) {
    if let Some(answer) = Answer::parse(data) {
        check_owners(&answer);
        check_kept(data, &answer);
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

/// What another server answered is given to a client as it was, as far as it fits, without what is
/// said of the connection.
fn check_kept(data: &[u8], answer: &Answer<'_>) {
    let (Some(kept), Some((name, ..))) = (Kept::read(answer), answer.question) else {
        return;
    };
    let question = &data[12..12 + name.wire().len() + 4];
    let mut message = [b"id\x01\0\0\x01\0\0\0\0\0\0", question].concat();
    for additional in [b"".as_slice(), b"\0\0\x29\x10\0\0\0\0\0\0\0"] {
        message.truncate(12 + question.len());
        message[11] = u8::from(!additional.is_empty());
        message.extend_from_slice(additional);
        let query = Query::parse(&message).expect("it has one question");
        assert!(Question::of(&query).is_answered_by(answer));
        for bytes_max in [512, query.udp_bytes_max(), TCP_BYTES_MAX] {
            check_written(&kept, &query, bytes_max, answer);
        }
    }
}

fn check_written(kept: &Kept, query: &Query<'_>, bytes_max: usize, from: &Answer<'_>) {
    let mut out = Vec::new();
    kept.write(query, Left::Stale(7), bytes_max, &mut out);
    assert!(out.len() <= bytes_max);
    let answer = Answer::parse(&out).expect("we wrote it");
    assert_eq!(answer.question, from.question);
    assert_eq!((answer.code, answer.authoritative), (from.code, false));
    let is_ours = |(_, record): &(Section, Record<'_>)| record.kind != Kind::OPT;
    let mut records = answer.records();
    let (mut answers, mut opts) = (0, 0);
    for (before, after) in from.records().take_while(is_ours).zip(records.by_ref()) {
        if !is_ours(&after) {
            opts += 1;
            break;
        }
        assert_eq!((before.0, before.1.kind), (after.0, after.1.kind));
        assert_eq!((before.1.data, after.1.ttl), (after.1.data, 7));
        let (mut owner, mut other) = (Vec::new(), Vec::new());
        assert_eq!(before.1.owner(&mut owner), after.1.owner(&mut other));
        assert_eq!(owner, other);
        answers += usize::from(after.0 == Section::Answer);
    }
    opts += records.by_ref().count();
    assert_eq!(opts, usize::from(query.edns.is_some()));
    assert!(records.is_at_end());
    let all = from.records().take_while(is_ours);
    let all = all
        .filter(|(section, _)| *section == Section::Answer)
        .count();
    assert!(answers == all || answer.truncated);
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
