//! Messages written by hand, and what is written read back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A name as it is written.
fn wire(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

/// A query with the counts of one question and `additional` records, which are written after it.
fn query(name: &[u8], kind: Kind, additional: &[&[u8]]) -> Vec<u8> {
    let count = additional.len() as u8;
    let mut out = vec![0xbe, 0xef, 1, 0, 0, 1, 0, 0, 0, 0, 0, count];
    out.extend_from_slice(name);
    out.extend_from_slice(&kind.0.to_be_bytes());
    out.extend_from_slice(&INTERNET.to_be_bytes());
    additional
        .iter()
        .for_each(|record| out.extend_from_slice(record));
    out
}

/// An OPT record: takes 4,096 bytes, and wants signatures.
const OPT: &[u8] = &[0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0];

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 78, 0, last).into()
}

/// What `dig +noedns hello.default.svc.cluster.local` sends.
const HELLO: &[u8] = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\0\
    \x05hello\x07default\x03svc\x07cluster\x05local\0\0\x01\0\x01";

#[test]
fn a_query_says_what_is_asked() {
    let query = Query::parse(HELLO).unwrap();
    assert_eq!(query.name.to_string(), "hello.default.svc.cluster.local");
    assert_eq!((query.kind, query.is_internet()), (Kind::A, true));
    assert_eq!((query.edns, query.udp_bytes_max()), (None, 512));
    assert_eq!(query.name.labels().count(), 5);
}

#[test]
fn an_answer_is_written_byte_for_byte() {
    let query = Query::parse(HELLO).unwrap();
    let mut out = b"before".to_vec();
    let mut reply = Reply::new(&query, Code::NoError, 512, &mut out);
    reply.set_authoritative();
    assert!(reply.address(v4(9), 5));
    reply.finish();
    let question = &HELLO[12..];
    let expected = [
        b"before\x12\x34\x85\x80\0\x01\0\x01\0\0\0\0".as_slice(),
        question,
        b"\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\x0a\x4e\0\x09",
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn nothing_within_a_zone_is_written_byte_for_byte() {
    let message = query(&wire("No.CLUSTER.local"), Kind::AAAA, &[OPT]);
    let query = Query::parse(&message).unwrap();
    let zone = wire("cluster.local");
    let mut out = Vec::new();
    let mut reply = Reply::new(&query, Code::NoName, 1232, &mut out);
    reply.nothing_within(Name::from_wire(&zone).unwrap(), 5);
    reply.finish();
    let expected = [
        b"\xbe\xef\x81\x83\0\x01\0\0\0\x01\0\x01\x02No\x07CLUSTER\x05local\0\0\x1c\0\x01"
            .as_slice(),
        b"\xc0\x0f\0\x06\0\x01\0\0\0\x05\0\x27\x03dns\xc0\x0f\x0ahostmaster\xc0\x0f\0\0\0\x01",
        b"\0\0\x1c\x20\0\0\x07\x08\0\x01\x51\x80\0\0\0\x05",
        b"\0\0\x29\x04\xd0\0\0\x80\0\0\0",
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn what_the_client_takes_over_udp_has_bounds() {
    for (payload, expected) in [
        (0, 512),
        (512, 512),
        (1000, 1000),
        (1232, 1232),
        (65535, 1232),
    ] {
        let mut opt = OPT.to_vec();
        opt[3..5].copy_from_slice(&u16::to_be_bytes(payload));
        let message = query(&wire("a"), Kind::A, &[&opt]);
        assert_eq!(Query::parse(&message).unwrap().udp_bytes_max(), expected);
    }
}

#[test]
fn what_does_not_fit_is_left_out_and_said() {
    for (additional, bytes_max, room) in [
        (vec![], 512, 30),
        (vec![OPT], 512, 30),
        (vec![OPT], 1232, 75),
        (vec![], TCP_BYTES_MAX, 100),
    ] {
        let message = query(&wire("a"), Kind::A, &additional);
        let query = Query::parse(&message).unwrap();
        let mut out = Vec::new();
        let mut reply = Reply::new(&query, Code::NoError, bytes_max, &mut out);
        let fitting = (0..100).filter(|last| reply.address(v4(*last), 5)).count();
        reply.finish();
        let answer = Answer::parse(&out).unwrap();
        assert!(out.len() <= bytes_max, "{} of {bytes_max}", out.len());
        assert_eq!((fitting, answer.truncated), (room, room < 100));
        let sections = answer.records().map(|(section, _)| section);
        assert_eq!(sections.filter(|s| *s == Section::Answer).count(), room);
    }
}

#[test]
fn an_unknown_version_is_told_in_the_upper_bits() {
    let mut opt = OPT.to_vec();
    opt[6] = 1;
    let message = query(&wire("a"), Kind::A, &[&opt]);
    let query = Query::parse(&message).unwrap();
    assert!(query.is_of_unknown_version());
    let mut out = Vec::new();
    Reply::new(&query, Code::BadVersion, 512, &mut out).finish();
    let answer = Answer::parse(&out).unwrap();
    let (section, opt) = answer.records().next().unwrap();
    assert_eq!((section, opt.kind), (Section::Additional, Kind::OPT));
    assert_eq!(
        (answer.code, opt.ttl >> 24, opt.ttl >> 16 & 0xff),
        (0, 1, 0)
    );
}

/// An answer to `message` with these records, each of the name that is asked for, as sections,
/// kinds, times to live and data.
fn answer_to(message: &[u8], code: u8, records: &[(Section, Kind, u32, &[u8])]) -> Vec<u8> {
    let question = Query::parse(message).unwrap().question.len();
    let mut out = message[..HEADER_BYTES + question].to_vec();
    (out[2], out[3]) = (0x81, 0x80 | code);
    out[11] = 0;
    for (section, kind, ttl, data) in records {
        out[7 + 2 * *section as usize] += 1;
        let owner: &[u8] = if *kind == Kind::OPT {
            &[0]
        } else {
            &[0xc0, 12]
        };
        out.extend_from_slice(owner);
        let class = INTERNET.to_be_bytes();
        out.extend_from_slice(&[kind.0.to_be_bytes(), class].concat());
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    }
    out
}

const ADDRESS: (Section, Kind, u32, &[u8]) = (Section::Answer, Kind::A, 60, &[10, 78, 0, 9]);
/// For 600 seconds, of which 20 are the zone's for what is not there.
const NOTHING: (Section, Kind, u32, &[u8]) = (
    Section::Authority,
    Kind::SOA,
    600,
    &[
        0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 20,
    ],
);

#[track_caller]
fn check_lifetime(code: u8, records: &[(Section, Kind, u32, &[u8])], expected: Option<Lifetime>) {
    let message = answer_to(HELLO, code, records);
    let kept = Kept::read(&Answer::parse(&message).unwrap());
    assert_eq!(kept.map(|kept| kept.lifetime()), expected);
}

#[test]
fn an_answer_holds_as_long_as_its_shortest_record() {
    let with = |ttl| (ADDRESS.0, ADDRESS.1, ttl, ADDRESS.3);
    let name = |ttl| (Section::Answer, Kind::CNAME, ttl, [0].as_slice());
    check_lifetime(0, &[ADDRESS], Some(Lifetime::Found(60)));
    check_lifetime(
        0,
        &[with(90), name(70), with(80)],
        Some(Lifetime::Found(70)),
    );
    check_lifetime(0, &[with(1 << 31)], Some(Lifetime::Found(0)));
    check_lifetime(0, &[NOTHING], Some(Lifetime::Nothing(20)));
    check_lifetime(3, &[NOTHING], Some(Lifetime::Nothing(20)));
    check_lifetime(0, &[name(5), NOTHING], Some(Lifetime::Nothing(5)));
    check_lifetime(0, &[], Some(Lifetime::Unknown));
    check_lifetime(3, &[name(5)], Some(Lifetime::Unknown));
    for code in [1, 2, 4, 5, 6] {
        check_lifetime(code, &[NOTHING], None);
    }
}

#[test]
fn only_whole_answers_are_kept() {
    let good = answer_to(HELLO, 0, &[ADDRESS, NOTHING]);
    let kept = |message: &[u8]| Answer::parse(message).and_then(|answer| Kept::read(&answer));
    assert!(kept(&good).is_some());
    for end in 0..good.len() {
        assert_eq!(kept(&good[..end]), None, "{end}");
    }
    let changed = |place: usize, value: u8| {
        let mut message = good.clone();
        message[place] = value;
        message
    };
    // Cut, no question, a name that points nowhere, an upper half of a code.
    assert_eq!(kept(&changed(2, 0x83)), None);
    assert_eq!(kept(&changed(5, 0)), None);
    assert_eq!(kept(&changed(HELLO.len() + 1, 0xff)), None);
    let versions = (Section::Additional, Kind::OPT, 1 << 24, [].as_slice());
    assert_eq!(kept(&answer_to(HELLO, 0, &[ADDRESS, versions])), None);
}

#[test]
fn no_kept_name_leads_through_what_changes() {
    let mut message = answer_to(HELLO, 0, &[ADDRESS, ADDRESS]);
    let kept = |message: &[u8]| Kept::read(&Answer::parse(message).unwrap()).is_some();
    assert!(kept(&message));
    // The second owner is in the first one's time to live.
    let ttl = HELLO.len() + 6;
    message[ttl..ttl + 3].copy_from_slice(b"\x01x\0");
    message[HELLO.len() + 16 + 1] = ttl as u8;
    let answer = Answer::parse(&message).unwrap();
    let owner = |(_, record): (Section, Record<'_>)| record.owner(&mut Vec::new());
    assert!(answer.records().all(|record| owner(record).is_some()));
    assert!(!kept(&message));
}

#[test]
fn a_kept_answer_is_written_byte_for_byte() {
    let opt = (
        Section::Additional,
        Kind::OPT,
        0,
        b"\0\x0a\0\x01x".as_slice(),
    );
    let more = (Section::Additional, Kind::A, 60, [10, 78, 0, 8].as_slice());
    let message = answer_to(HELLO, 0, &[ADDRESS, more, opt, more]);
    let kept = Kept::read(&Answer::parse(&message).unwrap()).unwrap();
    let shouted = HELLO.to_ascii_uppercase();
    let query = Query::parse(&shouted).unwrap();
    for (left, ttl) in [
        (Left::Fresh { most: 3600, age: 0 }, 60),
        (Left::Fresh { most: 3600, age: 7 }, 53),
        (Left::Fresh { most: 10, age: 7 }, 3),
        (
            Left::Fresh {
                most: 3600,
                age: 99,
            },
            0,
        ),
        (Left::Stale(30), 30),
    ] {
        let mut out = b"before".to_vec();
        kept.write(&query, left, 512, &mut out);
        let expected = [
            b"before\x12\x34\x81\x80\0\x01\0\x01\0\0\0\x01".as_slice(),
            &shouted[12..],
            b"\xc0\x0c\0\x01\0\x01\0\0\0",
            &[ttl, 0, 4, 10, 78, 0, 9],
            b"\xc0\x0c\0\x01\0\x01\0\0\0",
            &[ttl, 0, 4, 10, 78, 0, 8],
        ];
        assert_eq!(out, expected.concat(), "{left:?}");
    }
}

/// How many records of an answer with these fit into 512 bytes, and whether it says that some are
/// missing.
#[track_caller]
fn check_cut(records: &[(Section, Kind, u32, &[u8])], count: usize, truncated: bool) {
    let message = answer_to(HELLO, 0, records);
    let kept = Kept::read(&Answer::parse(&message).unwrap()).unwrap();
    let query = Query::parse(HELLO).unwrap();
    let mut out = Vec::new();
    kept.write(&query, Left::Stale(30), 512, &mut out);
    assert!(out.len() <= 512);
    let answer = Answer::parse(&out).unwrap();
    assert_eq!(
        (answer.records().count(), answer.truncated),
        (count, truncated)
    );
    assert!(answer.records().all(|(_, record)| record.ttl == 30));
}

#[test]
fn what_does_not_fit_of_a_kept_answer_is_said_if_it_matters() {
    let long = [0; 470];
    let long = |section| (section, Kind(16), 60, long.as_slice());
    check_cut(&[ADDRESS; 40], 28, true);
    check_cut(&[ADDRESS, long(Section::Answer)], 1, true);
    check_cut(&[ADDRESS, long(Section::Authority)], 1, false);
    check_cut(&[long(Section::Authority)], 0, true);
    check_cut(&[ADDRESS, long(Section::Additional)], 1, false);
    check_cut(&[long(Section::Additional)], 0, false);
}

#[test]
fn another_server_is_asked_the_same_without_what_is_ours() {
    let mut opt = OPT.to_vec();
    for (signatures, flags) in [(0x80, 0), (0, 0x10), (0, 0)] {
        opt[7] = signatures;
        let mut message = query(&wire("A.example"), Kind::AAAA, &[&opt]);
        message[3] = flags;
        let question = Question::of(&Query::parse(&message).unwrap());
        let mut out = Vec::new();
        question.write(0x0102, true, &mut out);
        let expected = [
            &[1, 2, 1, flags, 0, 1, 0, 0, 0, 0, 0, 1],
            b"\x01a\x07example\0\0\x1c\0\x01".as_slice(),
            &[0, 0, 41, 4, 0xd0, 0, 0, signatures, 0, 0, 0],
        ];
        assert_eq!(out, expected.concat());
        out.clear();
        question.write(0x0102, false, &mut out);
        assert_eq!(out, [&expected[0][..11], &[0], expected[1]].concat());
    }
}

#[test]
fn equal_questions_are_equal_and_others_are_not() {
    let of = |name: &str, kind, opt: &[&[u8]]| {
        Question::of(&Query::parse(&query(&wire(name), kind, opt)).unwrap())
    };
    let one = of("a.example", Kind::A, &[]);
    assert_eq!(one, of("A.Example", Kind::A, &[]));
    assert_ne!(one, of("a.example", Kind::AAAA, &[]));
    assert_ne!(one, of("b.example", Kind::A, &[]));
    assert_ne!(one, of("a.example", Kind::A, &[OPT]));
    let is_answered = |name: &str, kind| {
        let message = answer_to(&query(&wire(name), kind, &[]), 0, &[]);
        one.is_answered_by(&Answer::parse(&message).unwrap())
    };
    assert!(is_answered("A.EXAMPLE", Kind::A));
    assert!(!is_answered("b.example", Kind::A) && !is_answered("a.example", Kind::AAAA));
}

#[test]
fn a_kind_that_looks_like_a_letter_is_asked_as_it_is() {
    // HTTPS is 65, an `A`.
    let message = query(&wire("A.example"), Kind(65), &[]);
    let question = Question::of(&Query::parse(&message).unwrap());
    let mut out = Vec::new();
    question.write(0, false, &mut out);
    assert_eq!(
        out[HEADER_BYTES..],
        query(&wire("a.example"), Kind(65), &[])[HEADER_BYTES..]
    );
    let answer = answer_to(&message, 0, &[]);
    assert!(question.is_answered_by(&Answer::parse(&answer).unwrap()));
}

#[test]
fn a_service_is_written_byte_for_byte() {
    let query = Query::parse(HELLO).unwrap();
    let mut out = b"before".to_vec();
    let mut reply = Reply::new(&query, Code::NoError, 512, &mut out);
    let host = wire("a.b");
    let target = reply
        .service(Name::from_wire(&host).unwrap(), 8080, 5)
        .unwrap();
    assert!(reply.pointer(Name::from_wire(&host).unwrap(), 5));
    assert!(reply.address_of(target, v4(9), 5));
    reply.finish();
    // Where the host is in the message: after the question, an owner, ten bytes and three numbers.
    let at = HELLO.len() as u8 + 2 + 10 + 6;
    let expected = [
        b"before\x12\x34\x81\x80\0\x01\0\x02\0\0\0\x01".as_slice(),
        &HELLO[12..],
        b"\xc0\x0c\0\x21\0\x01\0\0\0\x05\0\x0b\0\0\0\x01\x1f\x90\x01a\x01b\0",
        b"\xc0\x0c\0\x0c\0\x01\0\0\0\x05\0\x05\x01a\x01b\0",
        &[0xc0, at],
        b"\0\x01\0\x01\0\0\0\x05\0\x04\x0a\x4e\0\x09",
    ];
    assert_eq!(out, expected.concat());
}

/// What is said to `message`, which is no query: nothing, or a header with a code.
#[track_caller]
fn check_reject(message: &[u8], expected: Option<Code>) {
    let mut out = Vec::new();
    Query::parse(message).unwrap_err().write(&mut out);
    let said = Answer::parse(&out).map(|answer| (answer.id, answer.code, answer.question));
    let id = || u16::from_be_bytes([message[0], message[1]]);
    assert_eq!(said, expected.map(|code| (id(), code as u16, None)));
    assert_eq!(out.len(), expected.map_or(0, |_| HEADER_BYTES));
}

#[test]
fn no_answer_goes_to_what_asks_nothing() {
    check_reject(b"", None);
    check_reject(&HELLO[..11], None);
    let mut response = HELLO.to_vec();
    response[2] |= 0x80;
    check_reject(&response, None);
}

#[test]
fn what_is_not_one_question_is_malformed() {
    let good = query(&wire("a.b"), Kind::A, &[OPT]);
    let changed = |place: usize, value: u8| {
        let mut message = good.clone();
        message[place] = value;
        message
    };
    // No question, two, an answer, an authority, a record too many and one too few.
    for (place, value) in [(5, 0), (5, 2), (7, 1), (9, 1), (11, 2), (11, 0)] {
        check_reject(&changed(place, value), Some(Code::FormatError));
    }
    // A label that ends nowhere, one of an unknown type, a pointer to itself, and to the header.
    for (place, value) in [(12, 63), (12, 0x40), (12, 0xc0)] {
        check_reject(&changed(place, value), Some(Code::FormatError));
    }
    check_reject(&query(b"\xc0\x0c", Kind::A, &[]), Some(Code::FormatError));
    check_reject(&query(b"\xc0\x02", Kind::A, &[]), Some(Code::FormatError));
    let named = [&wire("a"), &OPT[1..]].concat();
    check_reject(
        &query(&wire("a"), Kind::A, &[&named]),
        Some(Code::FormatError),
    );
    check_reject(
        &query(&wire("a"), Kind::A, &[OPT, OPT]),
        Some(Code::FormatError),
    );
    for end in 12..good.len() {
        check_reject(&good[..end], Some(Code::FormatError));
    }
    check_reject(&[&good, b"\0".as_slice()].concat(), Some(Code::FormatError));
}

#[test]
fn other_requests_than_queries_are_not_implemented() {
    for opcode in 1..16 {
        let mut message = HELLO.to_vec();
        message[2] = opcode << 3;
        check_reject(&message, Some(Code::NotImplemented));
    }
}

#[test]
fn other_records_than_edns_are_passed_over() {
    let signature = b"\xc0\x0c\0\xfa\0\xff\0\0\0\0\0\x02xx";
    let message = query(&wire("a"), Kind::A, &[signature, OPT]);
    let edns = Query::parse(&message).unwrap().edns.unwrap();
    assert_eq!(
        (edns.payload, edns.version, edns.signatures),
        (4096, 0, true)
    );
}

#[test]
fn names_have_bounds() {
    let label = "x".repeat(63);
    let longest = [label.as_str(), &label, &label, &"y".repeat(61)].join(".");
    assert_eq!(wire(&longest).len(), NAME_BYTES_MAX);
    assert_eq!(
        Name::from_wire(&wire(&longest)).unwrap().to_string(),
        longest
    );
    assert!(Name::from_wire(&wire(&(longest + "y"))).is_none());
    assert!(Name::from_wire(&wire(&"x".repeat(64))).is_none());
    assert!(Name::from_wire(b"\x01a\0\0").is_none());
    assert_eq!(Name::from_wire(b"\0").unwrap().to_string(), ".");
    let odd = Name::from_wire(b"\x04a.\\\n\x01b\0").unwrap();
    assert_eq!(odd.to_string(), "a\\.\\\\\\010.b");
}

#[test]
fn names_are_within_zones_whatever_their_case() {
    let zone = wire("svc.Cluster.local");
    let zone = Name::from_wire(&zone).unwrap();
    for (text, expected) in [
        ("a.b.SVC.cluster.LOCAL", true),
        ("svc.cluster.local", true),
        ("cluster.local", false),
        ("asvc.cluster.local", false),
        ("svc.cluster.local.b", false),
        ("", false),
    ] {
        let name = wire(text);
        assert_eq!(
            Name::from_wire(&name).unwrap().is_within(zone),
            expected,
            "{text}"
        );
    }
}

/// The owner of the record that is `name` in a message, after a header and a question.
fn owner(name: &[u8]) -> Option<Vec<u8>> {
    let mut message = query(&wire("a.b"), Kind::A, &[]);
    message[2] = 0x80;
    message[7] = 1;
    message.extend_from_slice(name);
    message.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    let answer = Answer::parse(&message).unwrap();
    let (_, record) = answer.records().next()?;
    let mut out = Vec::new();
    record.owner(&mut out).map(|()| out)
}

#[test]
fn pointers_lead_to_the_front_and_end() {
    assert_eq!(owner(b"\xc0\x0c"), Some(wire("a.b")));
    assert_eq!(owner(b"\xc0\x0e"), Some(wire("b")));
    assert_eq!(owner(b"\x01x\xc0\x0e"), Some(wire("x.b")));
    // To itself, to its own label, further on, into the header.
    for name in [
        b"\xc0\x15".as_slice(),
        b"\x01x\xc0\x15",
        b"\xc0\x20",
        b"\xc0\x01",
    ] {
        assert_eq!(owner(name), None, "{}", name.escape_ascii());
    }
}

proptest! {
    #[test]
    fn no_bytes_break_the_readers(bytes in vec(any::<u8>(), 0..80)) {
        let _ = Query::parse(&bytes).map_err(|reject| reject.write(&mut Vec::new()));
        if let Some(answer) = Answer::parse(&bytes) {
            answer.records().for_each(|(_, record)| {
                record.owner(&mut Vec::new());
            });
        }
    }

    #[test]
    fn what_is_written_is_read(
        labels in vec(vec(any::<u8>(), 1..12), 0..6),
        addresses in vec(any::<Option<[u8; 4]>>(), 0..200),
        ttl in any::<u32>(),
        edns in any::<bool>(),
        wide in any::<bool>(),
    ) {
        let prefixed = |label: &Vec<u8>| [&[label.len() as u8], &label[..]].concat();
        let mut name: Vec<u8> = labels.iter().flat_map(prefixed).collect();
        name.push(0);
        let additional: &[&[u8]] = if edns { &[OPT] } else { &[] };
        let message = query(&name, Kind::ANY, additional);
        let query = Query::parse(&message).unwrap();
        let addresses: Vec<IpAddr> = addresses.into_iter().map(|octets| match octets {
            Some(octets) => octets.into(),
            None => Ipv6Addr::LOCALHOST.into(),
        }).collect();
        let bytes_max = if wide { TCP_BYTES_MAX } else { query.udp_bytes_max() };
        let mut out = Vec::new();
        let mut reply = Reply::new(&query, Code::NoError, bytes_max, &mut out);
        let fitting = addresses.iter().take_while(|ip| reply.address(**ip, ttl)).count();
        reply.finish();
        prop_assert!(out.len() <= bytes_max);
        let answer = Answer::parse(&out).unwrap();
        prop_assert_eq!(answer.id, 0xbeef);
        prop_assert_eq!(answer.question, Some((query.name, Kind::ANY, INTERNET)));
        prop_assert_eq!(answer.truncated, fitting < addresses.len());
        let mut records = answer.records();
        for ip in &addresses[..fitting] {
            let (section, record) = records.next().unwrap();
            let mut owner = Vec::new();
            prop_assert_eq!(record.owner(&mut owner), Some(()));
            prop_assert_eq!(Name::from_wire(&owner), Some(query.name));
            let data = match ip {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            };
            prop_assert_eq!((section, record.ttl, record.data), (Section::Answer, ttl, &data[..]));
        }
        prop_assert_eq!(records.by_ref().count(), usize::from(edns));
        prop_assert!(records.is_at_end());
    }
}
