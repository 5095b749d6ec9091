//! A client, our name server, and name servers of the test's own behind it, over real sockets.

use std::sync::atomic::{AtomicUsize, Ordering};

use model::Forward;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use wire::dns::{Code, Kind, Query, Section};

use super::super::{Book, Names, serve, socket};
use super::*;
use crate::telemetry::metrics::Answered;

/// Before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an upstream sends in answer to a query that came this way: messages, or nothing.
type Script = Box<dyn Fn(&[u8], Transport) -> Vec<Vec<u8>> + Send + Sync>;

/// A name server that does as it is told.
struct Server {
    addr: SocketAddr,
    /// Queries that came.
    asked: Arc<AtomicUsize>,
    /// One is taken for each query that is answered.
    leave: Arc<Semaphore>,
}

impl Server {
    fn start(script: impl Fn(&[u8], Transport) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let pair = socket::open_all([127, 0, 0, 1].into(), None, 0)
            .unwrap()
            .remove(0);
        let server = Self {
            addr: pair.addr,
            asked: Arc::default(),
            leave: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        };
        let script: Arc<Script> = Arc::new(Box::new(script));
        let udp = UdpSocket::from_std(pair.udp).unwrap();
        let tcp = TcpListener::from_std(pair.tcp).unwrap();
        let (asked, leave) = (Arc::clone(&server.asked), Arc::clone(&server.leave));
        tokio::spawn(run_udp(udp, Arc::clone(&script), (asked, leave)));
        tokio::spawn(run_tcp(tcp, script, Arc::clone(&server.asked)));
        server
    }

    /// Says this to every question.
    fn saying(records: &'static [(Section, Kind, u32, &'static [u8])]) -> Self {
        Self::start(move |query, _| vec![message(query, 0, records)])
    }

    fn silent() -> Self {
        Self::start(|_, _| Vec::new())
    }

    fn failing(code: Code) -> Self {
        Self::start(move |query, _| vec![message(query, code as u16, &[])])
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn run_udp(
    socket: UdpSocket,
    script: Arc<Script>,
    (asked, leave): (Arc<AtomicUsize>, Arc<Semaphore>),
) {
    let mut query = vec![0; 65_536];
    loop {
        let (length, peer) = socket.recv_from(&mut query).await.unwrap();
        asked.fetch_add(1, Ordering::Relaxed);
        leave.acquire().await.unwrap().forget();
        for message in script(&query[..length], Transport::Udp) {
            socket.send_to(&message, peer).await.unwrap();
        }
    }
}

async fn run_tcp(listener: TcpListener, script: Arc<Script>, asked: Arc<AtomicUsize>) {
    // Whoever is told nothing stays connected.
    let mut streams = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let query = read_framed(&mut stream).await;
        asked.fetch_add(1, Ordering::Relaxed);
        for message in script(&query, Transport::Tcp) {
            stream.write_all(&framed(&message)).await.unwrap();
        }
        streams.push(stream);
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

async fn read_framed(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u16().await.unwrap();
    let mut out = vec![0; length.into()];
    stream.read_exact(&mut out).await.unwrap();
    out
}

/// An answer to `query` with these records of the name that is asked for.
fn message(query: &[u8], code: u16, records: &[(Section, Kind, u32, &[u8])]) -> Vec<u8> {
    let name = Query::parse(query).unwrap().name.wire().len();
    let mut out = query[..12 + name + 4].to_vec();
    out[2..4].copy_from_slice(&(0x8180 | code).to_be_bytes());
    for section in [Section::Answer, Section::Authority, Section::Additional] {
        let count = records.iter().filter(|record| record.0 == section).count();
        let at = 6 + 2 * section as usize;
        out[at..at + 2].copy_from_slice(&(count as u16).to_be_bytes());
    }
    for (_, kind, ttl, data) in records {
        let owner: &[u8] = if *kind == OPT { &[0] } else { &[0xc0, 12] };
        out.extend_from_slice(owner);
        out.extend_from_slice(&kind.0.to_be_bytes());
        out.extend_from_slice(&[0, 1]);
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    }
    out
}

const OPT: Kind = Kind::OPT;
const ADDRESS: (Section, Kind, u32, &[u8]) = (Section::Answer, Kind::A, 60, &[192, 0, 2, 7]);
/// That there is nothing, for 20 seconds.
const NOTHING: (Section, Kind, u32, &[u8]) = (
    Section::Authority,
    Kind::SOA,
    600,
    &[
        0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 20,
    ],
);

/// Our name server, which asks others, and a client of it.
struct World {
    addr: SocketAddr,
    book: Arc<Book>,
}

impl World {
    fn start(servers: &[&Server]) -> Self {
        let dns = Dns {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            forward: Forward::Servers(servers.iter().map(|server| server.addr).collect()),
        };
        let config = crate::config::parse("dns: 127.0.0.1:1", std::path::Path::new("")).unwrap();
        let book = Book::new(Names::build(&config), Some(&dns), Arc::default());
        let addr = serve(&dns, &book).unwrap()[0];
        Self { addr, book }
    }

    /// Until a number of queries were found so.
    async fn until(&self, recalled: Recalled, count: usize) {
        let wait = async {
            while self.counted(recalled) < count as u64 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, wait).await.expect("as many queries");
    }

    async fn ask(&self, message: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(self.addr).await.unwrap();
        socket.send(message).await.unwrap();
        let mut out = vec![0; 65_536];
        let length = timeout(PATIENCE, socket.recv(&mut out)).await;
        out.truncate(length.expect("an answer").unwrap());
        out
    }

    async fn ask_over_tcp(&self, message: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(&framed(message)).await.unwrap();
        let read = timeout(PATIENCE, read_framed(&mut stream)).await;
        read.expect("an answer")
    }

    /// Code, kinds and times to live of what is said of `name`.
    async fn look_up(&self, name: &str) -> (u16, Vec<(Kind, u32)>) {
        let message = self.ask(&query(name, Kind::A, &[])).await;
        let answer = wire::dns::Answer::parse(&message).unwrap();
        let records = answer.records().map(|(_, it)| (it.kind, it.ttl));
        (answer.code, records.collect())
    }

    fn counted(&self, recalled: Recalled) -> u64 {
        self.book.counters.read_recalled(recalled)
    }
}

fn query(name: &str, kind: Kind, opt: &[u8]) -> Vec<u8> {
    super::super::tests::query(name, kind, opt)
}

/// Time goes on by this much, at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_name_outside_the_mesh_is_asked_for_and_remembered() {
    let server = Server::saying(&[ADDRESS]);
    let world = World::start(&[&server]);
    let mut message = query("Www.Example.ORG", Kind::A, &[]);
    for id in [7, 8] {
        message[1] = id;
        let said = world.ask(&message).await;
        let answer = wire::dns::Answer::parse(&said).unwrap();
        assert_eq!((answer.id, answer.code), (id.into(), 0));
        assert!(!answer.authoritative && !answer.truncated);
        let (name, kind, _) = answer.question.unwrap();
        assert_eq!((name.wire(), kind), (&message[12..29], Kind::A));
        let (_, record) = answer.records().next().unwrap();
        assert_eq!(record.data, [192, 0, 2, 7]);
    }
    assert_eq!(server.asked(), 1);
    assert_eq!(world.counted(Recalled::Fresh), 1);
    assert_eq!(world.book.counters.read(Answered::Forwarded), 2);
}

#[tokio::test]
async fn what_is_remembered_grows_old_and_is_asked_again() {
    let server = Server::saying(&[ADDRESS]);
    let world = World::start(&[&server]);
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
    pass(Duration::from_secs(45)).await;
    let (_, records) = world.look_up("a.test").await;
    // More time has passed if the machine is busy.
    assert!((1..=15).contains(&records[0].1), "{records:?}");
    assert_eq!(server.asked(), 1);
    pass(Duration::from_secs(15)).await;
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn that_there_is_nothing_is_remembered_as_long_as_the_zone_says() {
    for code in [Code::NoError, Code::NoName] {
        let server = Server::start(move |query, _| vec![message(query, code as u16, &[NOTHING])]);
        let world = World::start(&[&server]);
        let nothing = (code as u16, vec![(Kind::SOA, 300)]);
        assert_eq!(world.look_up("a.test").await, nothing);
        assert_eq!(world.look_up("a.test").await.0, code as u16);
        assert_eq!(server.asked(), 1);
        pass(Duration::from_secs(20)).await;
        assert_eq!(world.look_up("a.test").await, nothing);
        assert_eq!(server.asked(), 2);
    }
}

#[tokio::test]
async fn names_of_the_meshs_zone_are_nobody_elses() {
    let server = Server::saying(&[ADDRESS]);
    let world = World::start(&[&server]);
    for name in [
        "no.default.svc.cluster.local",
        "example.org.default.svc.cluster.local",
        "example.org.cluster.local",
    ] {
        let (code, records) = world.look_up(name).await;
        assert_eq!((code, records[0].0), (Code::NoName as u16, Kind::SOA));
    }
    let mut without_recursion = query("example.org", Kind::A, &[]);
    without_recursion[2] = 0;
    let said = world.ask(&without_recursion).await;
    let answer = wire::dns::Answer::parse(&said).unwrap();
    assert_eq!(answer.code, Code::Refused as u16);
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn a_flood_of_equal_questions_is_one_question() {
    const CLIENTS: usize = 60;
    let server = Server::saying(&[ADDRESS]);
    server.leave.forget_permits(Semaphore::MAX_PERMITS);
    let world = Arc::new(World::start(&[&server]));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let world = Arc::clone(&world);
        clients.spawn(async move { world.look_up("a.test").await });
    }
    world.until(Recalled::Joined, CLIENTS - 1).await;
    server.leave.add_permits(CLIENTS);
    while let Some(said) = clients.join_next().await {
        assert_eq!(said.unwrap(), (0, vec![(Kind::A, 60)]));
    }
    assert_eq!(world.counted(Recalled::Asked), 1);
}

#[tokio::test]
async fn what_does_not_fit_the_question_is_passed_over() {
    let server = Server::start(|query, _| {
        let forged = (Section::Answer, Kind::A, 60, [203, 0, 113, 66]);
        let forged = (forged.0, forged.1, forged.2, forged.3.as_slice());
        let mut other_id = message(query, 0, &[forged]);
        other_id[0] ^= 1;
        let mut other_name = message(query, 0, &[forged]);
        other_name[13] ^= 1;
        let mut other_kind = message(query, 0, &[forged]);
        other_kind[12 + 8 + 1] = 28;
        let no_answer = query.to_vec();
        let right = message(query, 0, &[ADDRESS]);
        vec![
            other_id,
            other_name,
            other_kind,
            no_answer,
            vec![0; 3],
            right,
        ]
    });
    let world = World::start(&[&server]);
    let said = world.ask(&query("a.test", Kind::A, &[])).await;
    let answer = wire::dns::Answer::parse(&said).unwrap();
    let (_, record) = answer.records().next().unwrap();
    assert_eq!(record.data, [192, 0, 2, 7]);
}

#[tokio::test]
async fn who_guesses_long_enough_meets_tcp() {
    let server = Server::start(|query, transport| match transport {
        Transport::Udp => {
            let mut forged = message(query, 0, &[]);
            forged[0] ^= 1;
            vec![forged; 40]
        }
        Transport::Tcp => vec![message(query, 0, &[ADDRESS])],
    });
    let world = World::start(&[&server]);
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
}

/// More than fits into a datagram.
fn crowd(query: &[u8], transport: Transport) -> Vec<Vec<u8>> {
    let mut whole = message(query, 0, &[ADDRESS; 200]);
    if transport == Transport::Udp {
        whole = message(query, 0, &[ADDRESS; 3]);
        whole[2] |= 2;
    }
    vec![whole]
}

#[tokio::test]
async fn a_cut_answer_is_asked_for_again_over_tcp() {
    let server = Server::start(crowd);
    let world = World::start(&[&server]);
    let message = query("a.test", Kind::A, &[]);
    let cut = world.ask(&message).await;
    let answer = wire::dns::Answer::parse(&cut).unwrap();
    assert!(answer.truncated && cut.len() <= 512);
    assert_eq!(answer.records().count(), (512 - 12 - 12) / 16);
    let whole = world.ask_over_tcp(&message).await;
    let answer = wire::dns::Answer::parse(&whole).unwrap();
    assert!(!answer.truncated);
    assert_eq!(answer.records().count(), 200);
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn who_asks_over_tcp_is_asked_for_over_tcp() {
    let server = Server::start(|query, transport| match transport {
        Transport::Udp => Vec::new(),
        Transport::Tcp => vec![message(query, 0, &[ADDRESS])],
    });
    let world = World::start(&[&server]);
    let said = world.ask_over_tcp(&query("a.test", Kind::A, &[])).await;
    assert_eq!(
        wire::dns::Answer::parse(&said).unwrap().records().count(),
        1
    );
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn where_tcp_goes_nowhere_udp_is_tried() {
    let server = Server::start(|query, transport| match transport {
        Transport::Udp => vec![message(query, 0, &[ADDRESS])],
        Transport::Tcp => Vec::new(),
    });
    let world = World::start(&[&server]);
    let said = world.ask_over_tcp(&query("a.test", Kind::A, &[])).await;
    assert_eq!(
        wire::dns::Answer::parse(&said).unwrap().records().count(),
        1
    );
}

#[tokio::test]
async fn silence_is_not_waited_for_twice() {
    let order: Arc<Mutex<Vec<bool>>> = Arc::default();
    let say = |answers: bool| {
        let order = Arc::clone(&order);
        Server::start(move |query, _| {
            order.lock().unwrap().push(answers);
            match answers {
                true => vec![message(query, 0, &[ADDRESS])],
                false => Vec::new(),
            }
        })
    };
    let (silent, server) = (say(false), say(true));
    let world = World::start(&[&silent, &server]);
    // Who answered is asked first from then on.
    for (name, first) in [("a.test", false), ("b.test", true), ("c.test", true)] {
        assert_eq!(world.look_up(name).await, (0, vec![(Kind::A, 60)]));
        assert_eq!(
            order.lock().unwrap().drain(..).next(),
            Some(first),
            "{name}"
        );
    }
}

#[tokio::test]
async fn whoever_fails_is_followed_by_the_next_at_once() {
    let failing = Server::failing(Code::ServerFailure);
    let refusing = Server::failing(Code::Refused);
    // Whoever is connected to somebody is not reached by others.
    let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    other.connect("127.0.0.1:9").unwrap();
    let gone = Server {
        addr: other.local_addr().unwrap(),
        ..Server::silent()
    };
    let server = Server::saying(&[ADDRESS]);
    let world = World::start(&[&failing, &gone, &refusing, &server]);
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
    let [answered, failed, _] = world.book.counters.read_upstream();
    assert!(answered == 1 && failed >= 3, "{failed}");
}

#[tokio::test]
async fn a_failure_is_told_and_asked_for_again_later() {
    let failing = Server::failing(Code::ServerFailure);
    let world = World::start(&[&failing]);
    let failure = (Code::ServerFailure as u16, vec![]);
    for asked in 1..=2 {
        assert_eq!(world.look_up("a.test").await, failure);
        assert_eq!(failing.asked(), asked);
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(world.book.counters.read(Answered::Failed), 2);
}

#[tokio::test]
async fn when_all_are_silent_clients_are_told_so() {
    let silent = [Server::silent(), Server::silent()];
    let world = World::start(&[&silent[0], &silent[1]]);
    let failure = (Code::ServerFailure as u16, vec![]);
    assert_eq!(world.look_up("a.test").await, failure);
    assert!(silent.iter().all(|server| server.asked() >= 1));
    assert_eq!(world.book.counters.read(Answered::Failed), 1);
}

#[tokio::test]
async fn an_old_answer_outlives_the_servers_silence() {
    let is_silent = Arc::new(AtomicUsize::new(0));
    let silence = Arc::clone(&is_silent);
    let server = Server::start(move |query, _| match silence.load(Ordering::Relaxed) {
        0 => vec![message(query, 0, &[ADDRESS])],
        _ => Vec::new(),
    });
    let world = World::start(&[&server]);
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
    is_silent.store(1, Ordering::Relaxed);
    pass(Duration::from_secs(61)).await;
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 30)]));
    assert_eq!(world.counted(Recalled::Stale), 1);
    is_silent.store(0, Ordering::Relaxed);
    let heard = async {
        while world.look_up("a.test").await != (0, vec![(Kind::A, 60)]) {
            pass(Duration::from_secs(1)).await;
        }
    };
    timeout(PATIENCE, heard).await.expect("a new answer");
}

#[tokio::test]
async fn old_servers_are_asked_without_what_they_do_not_know() {
    let server = Server::start(|query, _| match Query::parse(query).unwrap().edns {
        Some(_) => {
            // As the oldest say it: without the question.
            let mut out = query[..12].to_vec();
            out[2..4].copy_from_slice(&0x8181_u16.to_be_bytes());
            out[4..].fill(0);
            vec![out]
        }
        None => vec![message(query, 0, &[ADDRESS])],
    });
    let world = World::start(&[&server]);
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn what_is_said_of_a_connection_stays_there() {
    let server = Server::start(|query, _| {
        let edns = Query::parse(query).unwrap().edns.unwrap();
        assert_eq!((edns.payload, edns.version), (1232, 0));
        let opt = (Section::Additional, OPT, 0, b"\0\x0a\0\x02xx".as_slice());
        let last = (Section::Additional, Kind::A, 60, [192, 0, 2, 8].as_slice());
        vec![message(query, 0, &[ADDRESS, opt, last])]
    });
    let world = World::start(&[&server]);
    assert_eq!(world.look_up("a.test").await, (0, vec![(Kind::A, 60)]));
    let opt = [0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0];
    let said = world.ask(&query("a.test", Kind::A, &opt)).await;
    let answer = wire::dns::Answer::parse(&said).unwrap();
    let kinds: Vec<_> = answer
        .records()
        .map(|(_, it)| (it.kind, it.data.len()))
        .collect();
    assert_eq!(kinds, [(Kind::A, 4), (OPT, 0)]);
    // Who wants signatures asks something else.
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn too_many_questions_are_not_asked() {
    let silent = Server::silent();
    let world = World::start(&[&silent]);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(world.addr).await.unwrap();
    for number in 0..=QUESTIONS_MAX {
        let message = query(&format!("a{number}.test"), Kind::A, &[]);
        socket.send(&message).await.unwrap();
        // One after the other, lest the socket's queue overflow.
        let asked = (number + 1).min(QUESTIONS_MAX);
        world.until(Recalled::Asked, asked).await;
    }
    let mut out = [0; 512];
    let length = timeout(PATIENCE, socket.recv(&mut out)).await;
    let answer = wire::dns::Answer::parse(&out[..length.unwrap().unwrap()]).unwrap();
    assert_eq!(answer.code, Code::ServerFailure as u16);
    assert_eq!(world.counted(Recalled::Asked), QUESTIONS_MAX as u64);
}

#[tokio::test]
async fn for_who_may_not_wait_nobody_is_asked() {
    let server = Server::saying(&[ADDRESS]);
    let world = World::start(&[&server]);
    world.look_up("known.test").await;
    let answer = |name| {
        let (message, mut out) = (query(name, Kind::A, &[]), Vec::new());
        let how = (Transport::Udp, false);
        assert!(world.book.answer(&message, how, &mut out).is_none());
        wire::dns::Answer::parse(&out).unwrap().code
    };
    assert_eq!(answer("known.test"), Code::NoError as u16);
    assert_eq!(answer("other.test"), Code::ServerFailure as u16);
    assert_eq!(server.asked(), 1);
}
