//! What a client is told, over real sockets and from tables built from configurations.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;

use model::{Config, Forward};
use wire::dns::{Answer, Code, Kind, Name, Section};

use super::*;

mod services;

const FILE: &str = "\
workload: {name: web, namespace: default}
listeners:
- {name: out, direction: outbound, address: \"127.0.0.1:0\", routes: [{cluster: app}]}
clusters:
- {name: app, endpoints: [{address: \"127.0.0.1:8080\"}]}
";

/// A configuration in which each name has a listener with these addresses.
fn config_with<'a>(listeners: impl IntoIterator<Item = (String, Vec<&'a str>)>) -> Config {
    let mut config = crate::config::parse(FILE, Path::new("/etc/leno")).unwrap();
    let like = config.listeners.remove(0);
    for (name, addresses) in listeners {
        let mut listener = model::Listener::clone(&like);
        let mut addresses = addresses.iter().map(|addr| addr.parse().unwrap());
        listener.names = vec![name];
        listener.address = addresses.next().unwrap();
        listener.additional_addresses = addresses.collect();
        config.listeners.push(Arc::new(listener));
    }
    config
}

/// A service on two ports, a headless one in another namespace, one with IPv6 only, a name that is
/// not of the mesh, and one without an address that can be called.
fn config() -> Config {
    let listeners = [
        (
            "hello.default.svc.cluster.local",
            vec!["10.78.0.1:80", "[fd78::1]:80"],
        ),
        (
            "hello.default.svc.cluster.local",
            vec!["10.78.0.1:443", "[fd78::1]:443"],
        ),
        (
            "all.data.svc.cluster.local",
            vec!["10.77.0.1:1", "10.77.0.3:1", "10.77.0.2:1"],
        ),
        ("six.default.svc.cluster.local", vec!["[fd78::6]:80"]),
        ("ledger.example.org", vec!["192.0.2.7:443"]),
        ("none.default.svc.cluster.local", vec!["0.0.0.0:80"]),
    ];
    config_with(listeners.map(|(name, addresses)| (name.to_owned(), addresses)))
}

/// A query with recursion desired.
pub(super) fn query(name: &str, kind: Kind, opt: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!opt.is_empty())];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&kind.0.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(opt);
    out
}

/// Says 4,096 bytes over UDP.
const OPT: &[u8] = &[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0];

/// Addresses of an answer, with their time to live.
fn addresses(message: &[u8]) -> Vec<IpAddr> {
    let answer = Answer::parse(message).unwrap();
    let records = answer
        .records()
        .filter(|(section, _)| *section == Section::Answer);
    let read = |(_, record): (_, wire::dns::Record<'_>)| {
        assert_eq!((record.ttl, record.class), (5, 1));
        match *record.data {
            [a, b, c, d] => IpAddr::from([a, b, c, d]),
            ref data => IpAddr::from(<[u8; 16]>::try_from(data).unwrap()),
        }
    };
    records.map(read).collect()
}

/// What `names` say to a query, which does not depend on how it comes.
fn ask(names: &Names, message: &[u8]) -> (Answered, Vec<u8>) {
    let (mut out, mut other) = (Vec::new(), Vec::new());
    let progress = answer::answer(names, message, Transport::Udp, &mut out);
    answer::answer(names, message, Transport::Tcp, &mut other);
    assert_eq!(out, other);
    match progress {
        Progress::Done(answered) => (answered, out),
        // As whoever has nobody else to ask.
        Progress::Elsewhere(query) => {
            assert!(out.is_empty());
            answer::say(&query, Code::Refused, &mut out);
            (Answered::Refused, out)
        }
    }
}

#[track_caller]
fn check(name: &str, kind: Kind, expected: Answered, ips: &[&str]) {
    let names = Names::build(&config());
    let (answered, message) = ask(&names, &query(name, kind, &[]));
    assert_eq!(answered, expected, "{name}");
    let mut found = addresses(&message);
    found.sort();
    let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    assert_eq!(found, ips, "{name}");
    let answer = Answer::parse(&message).unwrap();
    let (code, ours) = match expected {
        Answered::Found | Answered::NoData => (Code::NoError, true),
        Answered::NoName => (Code::NoName, true),
        Answered::Refused => (Code::Refused, false),
        Answered::Malformed => (Code::FormatError, false),
        Answered::Forwarded | Answered::Failed => panic!("nobody else is asked"),
    };
    assert_eq!(
        (answer.code, answer.authoritative),
        (code as u16, ours),
        "{name}"
    );
}

#[test]
fn a_name_has_the_addresses_of_its_listeners_once() {
    let name = "hello.default.svc.cluster.local";
    check(name, Kind::A, Answered::Found, &["10.78.0.1"]);
    check(name, Kind::AAAA, Answered::Found, &["fd78::1"]);
    check(name, Kind::ANY, Answered::Found, &["10.78.0.1", "fd78::1"]);
    check(
        &name.to_uppercase(),
        Kind::A,
        Answered::Found,
        &["10.78.0.1"],
    );
    let all = ["10.77.0.1", "10.77.0.2", "10.77.0.3"];
    check("all.data.svc.cluster.local", Kind::A, Answered::Found, &all);
    check(
        "ledger.example.org",
        Kind::A,
        Answered::Found,
        &["192.0.2.7"],
    );
}

#[test]
fn short_names_are_looked_for_in_the_mesh() {
    for name in [
        "hello",
        "hello.default",
        "hello.default.svc",
        "HELLO.Default.SVC",
    ] {
        check(name, Kind::A, Answered::Found, &["10.78.0.1"]);
    }
    check("six", Kind::A, Answered::NoData, &[]);
    let all = ["10.77.0.1", "10.77.0.2", "10.77.0.3"];
    check("all.data", Kind::A, Answered::Found, &all);
    for name in [
        "all",
        "hello.data",
        "hello.default.pod",
        "default",
        "data.svc",
    ] {
        check(name, Kind::A, Answered::Refused, &[]);
    }
}

#[test]
fn a_missing_family_is_no_missing_name() {
    check(
        "six.default.svc.cluster.local",
        Kind::A,
        Answered::NoData,
        &[],
    );
    check(
        "six.default.svc.cluster.local",
        Kind::AAAA,
        Answered::Found,
        &["fd78::6"],
    );
    check("ledger.example.org", Kind::AAAA, Answered::NoData, &[]);
    check(
        "none.default.svc.cluster.local",
        Kind::A,
        Answered::NoData,
        &[],
    );
    check(
        "hello.default.svc.cluster.local",
        Kind::SOA,
        Answered::NoData,
        &[],
    );
}

#[test]
fn names_above_others_exist_and_unknown_ones_do_not() {
    for name in [
        "cluster.local",
        "svc.cluster.local",
        "data.svc.cluster.local",
    ] {
        check(name, Kind::A, Answered::NoData, &[]);
    }
    for name in [
        "no.default.svc.cluster.local",
        "hello.no.svc.cluster.local",
        "x.hello.default.svc.cluster.local",
        "dat.svc.cluster.local",
        "example.org.default.svc.cluster.local",
        "example.org.cluster.local",
        "zzz.cluster.local",
        "aaa.cluster.local",
    ] {
        check(name, Kind::A, Answered::NoName, &[]);
        check(name, Kind::AAAA, Answered::NoName, &[]);
    }
}

#[test]
fn what_is_not_of_the_mesh_is_refused() {
    for name in [
        "",
        "local",
        "example.org",
        "x.ledger.example.org",
        "xcluster.local",
    ] {
        check(name, Kind::A, Answered::Refused, &[]);
    }
    let hello = "hello.default.svc.cluster.local";
    // A transfer of the zone, a class that nobody uses.
    check("cluster.local", Kind(252), Answered::Refused, &[]);
    let mut chaos = query(hello, Kind::A, &[]);
    *chaos.last_mut().unwrap() = 3;
    let names = Names::build(&config());
    assert_eq!(ask(&names, &chaos).0, Answered::Refused);
}

#[test]
fn that_there_is_nothing_may_be_remembered_for_a_moment() {
    let names = Names::build(&config());
    for name in [
        "no.default.svc.cluster.local",
        "six.default.svc.cluster.local",
    ] {
        let (_, message) = ask(&names, &query(name, Kind::A, OPT));
        let answer = Answer::parse(&message).unwrap();
        let (section, record) = answer.records().next().unwrap();
        assert_eq!(
            (section, record.kind, record.ttl),
            (Section::Authority, Kind::SOA, 5)
        );
        let mut owner = Vec::new();
        record.owner(&mut owner).unwrap();
        assert_eq!(
            Name::from_wire(&owner).unwrap().to_string(),
            "cluster.local"
        );
        assert_eq!(record.data[record.data.len() - 4..], [0, 0, 0, 5]);
    }
}

#[test]
fn clients_are_given_the_addresses_in_turns() {
    let names = Names::build(&config());
    let mut firsts = Vec::new();
    for id in 0..6 {
        let mut message = query("all.data.svc.cluster.local", Kind::A, &[]);
        message[1] = id;
        firsts.push(addresses(&ask(&names, &message).1)[0].to_string());
    }
    let turn = ["10.77.0.1", "10.77.0.2", "10.77.0.3"];
    assert_eq!(firsts, [turn, turn].concat());
}

#[test]
fn messages_that_are_no_queries_are_told_so() {
    let names = Names::build(&config());
    let good = query("hello", Kind::A, OPT);
    let code = |message: &[u8]| {
        let (answered, out) = ask(&names, message);
        assert_eq!(answered, Answered::Malformed);
        Answer::parse(&out).map(|answer| answer.code)
    };
    assert_eq!(
        code(&good[..good.len() - 1]),
        Some(Code::FormatError as u16)
    );
    let changed = |place: usize, value: u8| {
        let mut message = good.clone();
        message[place] = value;
        message
    };
    assert_eq!(code(&changed(2, 0x29)), Some(Code::NotImplemented as u16));
    assert_eq!(code(&changed(2, 0x80)), None);
    assert_eq!(code(&good[..5]), None);
    let version = good.len() - 5;
    let (answered, out) = ask(&names, &changed(version, 1));
    let answer = Answer::parse(&out).unwrap();
    let (_, opt) = answer.records().next().unwrap();
    assert_eq!((answered, opt.ttl >> 24), (Answered::Malformed, 1));
}

/// Addresses of the service of a number.
fn numbered(number: u32) -> [String; 2] {
    let (high, low) = (number / 256, number % 256);
    [
        format!("10.78.{high}.{low}:80"),
        format!("[fd78::{number:x}]:80"),
    ]
}

/// A configuration with `count` services, of the names that `name` gives them.
fn services(count: u32, name: fn(u32) -> String) -> Config {
    let addresses: Vec<_> = (0..count).map(numbered).collect();
    let addresses = addresses
        .iter()
        .map(|two| two.iter().map(String::as_str).collect());
    config_with((0..count).map(name).zip(addresses))
}

fn several(number: u32) -> String {
    format!("service-{number}.default.svc.cluster.local")
}

#[test]
fn a_thousand_services_are_found_and_take_a_hundred_kilobytes() {
    let names = Names::build(&services(1000, several));
    for number in 0..1000 {
        let message = query(&format!("service-{number}"), Kind::A, &[]);
        let addr: SocketAddr = numbered(number)[0].parse().unwrap();
        assert_eq!(addresses(&ask(&names, &message).1), [addr.ip()]);
    }
    assert!(names.bytes() < 100 * 1024, "{}", names.bytes());
}

/// Any port of this machine, and nobody else to ask.
fn here() -> Dns {
    Dns {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        forward: Forward::Nobody,
    }
}

/// Runs `test` beside a server of `config`, in a thread of its own as it blocks.
fn with_server(config: &Config, test: impl FnOnce(SocketAddr, &Book) + Send) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let book = Book::new(Names::build(config), None, Arc::default());
    let (done, wait) = tokio::sync::oneshot::channel::<()>();
    let bound = runtime.block_on(async { serve(&here(), &book).unwrap() });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            test(bound[0], &book);
            drop(done);
        });
        runtime.block_on(wait).unwrap_err();
    });
}

/// The answer over UDP.
fn over_udp(addr: SocketAddr, message: &[u8]) -> Vec<u8> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(addr).unwrap();
    // A lost answer fails the test instead of hanging it.
    socket.set_read_timeout(Some(IDLE_TIMEOUT)).unwrap();
    socket.send(message).unwrap();
    let mut out = vec![0; 65_536];
    let length = socket.recv(&mut out).unwrap();
    out.truncate(length);
    out
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// The next answer over TCP; `None` if the server ended the connection.
fn read_framed(stream: &mut std::net::TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut out = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut out).unwrap();
    Some(out)
}

#[test]
fn queries_are_answered_over_udp_and_counted() {
    with_server(&config(), |addr, book| {
        let found = over_udp(addr, &query("hello", Kind::A, OPT));
        assert_eq!(addresses(&found), ["10.78.0.1".parse::<IpAddr>().unwrap()]);
        over_udp(addr, &query("no.cluster.local", Kind::A, &[]));
        over_udp(addr, &query("example.org", Kind::A, &[]));
        over_udp(addr, &query("example.org", Kind::A, &[]));
        over_udp(addr, &[0; 2000]);
        let counted = [Answered::Found, Answered::NoData, Answered::NoName];
        assert_eq!(
            counted.map(|answered| book.counters.read(answered)),
            [1, 0, 1]
        );
        let counted = [Answered::Refused, Answered::Malformed];
        assert_eq!(counted.map(|answered| book.counters.read(answered)), [2, 1]);
    });
}

#[test]
fn a_long_answer_is_cut_over_udp_and_whole_over_tcp() {
    let config = services(300, |_| "crowd.default.svc.cluster.local".to_owned());
    with_server(&config, |addr, _| {
        for (opt, bytes_max) in [([].as_slice(), 512), (OPT, 1232)] {
            let message = query("crowd", Kind::A, opt);
            let cut = over_udp(addr, &message);
            assert!(Answer::parse(&cut).unwrap().truncated && cut.len() <= bytes_max);
            assert!(addresses(&cut).len() > 20);
            let mut stream = std::net::TcpStream::connect(addr).unwrap();
            stream.write_all(&framed(&message)).unwrap();
            let whole = read_framed(&mut stream).unwrap();
            assert!(!Answer::parse(&whole).unwrap().truncated);
            assert_eq!(addresses(&whole).len(), 300);
        }
    });
}

#[test]
fn a_connection_takes_several_queries_however_they_are_cut() {
    with_server(&config(), |addr, _| {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        let one = framed(&query("hello", Kind::A, &[]));
        let other = framed(&query("all.data", Kind::A, OPT));
        let sent = [&one[..], &other, &one].concat();
        let (start, rest) = sent.split_at(one.len() + 1);
        stream.write_all(start).unwrap();
        assert_eq!(addresses(&read_framed(&mut stream).unwrap()).len(), 1);
        stream.write_all(rest).unwrap();
        assert_eq!(addresses(&read_framed(&mut stream).unwrap()).len(), 3);
        assert_eq!(addresses(&read_framed(&mut stream).unwrap()).len(), 1);
    });
}

#[test]
fn a_connection_without_queries_is_ended() {
    with_server(&config(), |addr, _| {
        let mut response = query("hello", Kind::A, &[]);
        response[2] |= 0x80;
        for sent in [framed(&response), vec![0, 0], vec![0xff, 0xff, 0]] {
            let mut stream = std::net::TcpStream::connect(addr).unwrap();
            stream.write_all(&sent).unwrap();
            assert_eq!(read_framed(&mut stream), None, "{sent:?}");
        }
    });
}

#[test]
fn a_published_table_answers_from_then_on() {
    with_server(&config(), |addr, book| {
        let message = query("service-3.default.svc.cluster.local", Kind::A, &[]);
        assert!(addresses(&over_udp(addr, &message)).is_empty());
        book.publish(Names::build(&services(5, several)));
        assert_eq!(addresses(&over_udp(addr, &message)).len(), 1);
    });
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_ended() {
    let book = Book::new(Names::build(&config()), None, Arc::default());
    let bound = serve(&here(), &book).unwrap();
    let mut stream = TcpStream::connect(bound[0]).await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[test]
fn all_addresses_are_those_that_queries_are_redirected_to() {
    let ips = |addr: &str| {
        let pairs = socket::open(addr.parse().unwrap()).unwrap();
        let port = pairs[0].addr.port();
        assert!(port != 0 && pairs.iter().all(|pair| pair.addr.port() == port));
        pairs
            .iter()
            .map(|pair| pair.addr.ip().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(ips("0.0.0.0:0"), ["127.0.0.1"]);
    assert_eq!(ips("127.0.0.1:0"), ["127.0.0.1"]);
    // Not everywhere is IPv6.
    let all = ips("[::]:0");
    let has_v6 = std::net::UdpSocket::bind("[::1]:0").is_ok();
    assert_eq!(all[0], "127.0.0.1");
    assert_eq!(all[1..], if has_v6 { vec!["::1"] } else { vec![] });
}

#[test]
fn a_namespace_without_ipv6_answers_over_ipv4() {
    // An address for documentation (RFC 3849), which no machine has.
    let also = "2001:db8::53".parse().unwrap();
    let pairs = socket::open_all([127, 0, 0, 1].into(), Some(also), 0).unwrap();
    assert_eq!(pairs.len(), 1);
}

#[test]
fn an_address_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error = socket::open(addr).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}
