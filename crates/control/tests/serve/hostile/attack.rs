//! Who means ill, and how: doors that are stood before, and what is thrown at them.

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use xds::proto::identity::SIGN;
use xds::{delta, sotw};

use super::dice::Dice;
use super::{frames, messages};
use crate::sidecar::{enrol, member, stranger};
use crate::world::World;

/// Calls of one connection: as many as it may make at once. Half of them are for resources, in
/// either variant.
const CALLS: usize = 8;

/// How far inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// Before TLS.
    Tcp,
    /// In TLS, without a certificate.
    Stranger,
    /// With a certificate of the mesh.
    Member,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Bytes.
    Noise,
    /// The beginning of TLS, spoilt.
    Hello,
    /// Frames of HTTP/2 that are wrong, or come at the wrong time.
    Http2,
    /// Messages with a prefix that is not theirs.
    Framing,
    /// Messages of something else.
    Protobuf,
    /// Good messages, spoilt.
    Spoilt,
}

/// Every sort behind every door.
pub(super) const ATTACKS: [(Door, Sort); 12] = [
    (Door::Tcp, Sort::Noise),
    (Door::Tcp, Sort::Hello),
    (Door::Stranger, Sort::Noise),
    (Door::Stranger, Sort::Http2),
    (Door::Stranger, Sort::Framing),
    (Door::Stranger, Sort::Protobuf),
    (Door::Stranger, Sort::Spoilt),
    (Door::Member, Sort::Noise),
    (Door::Member, Sort::Http2),
    (Door::Member, Sort::Framing),
    (Door::Member, Sort::Protobuf),
    (Door::Member, Sort::Spoilt),
];

/// One of several, with workloads of its own.
pub(super) struct Attacker {
    world: Arc<World>,
    dice: Dice,
    /// Whose certificate it has.
    name: String,
    /// Whose tokens it is given, in turns.
    names: Vec<String>,
    member: Arc<ClientConfig>,
    stranger: Arc<ClientConfig>,
    hello: Vec<u8>,
    csr: Vec<u8>,
    /// Connections that were made.
    pub(super) connections: usize,
}

impl Attacker {
    /// One who controls the workloads `names`.
    pub(super) async fn new(world: &Arc<World>, seed: u64, names: Vec<String>) -> Self {
        let credentials = enrol(world, &names[0]).await;
        let stranger = stranger(world);
        Self {
            world: Arc::clone(world),
            dice: Dice::new(seed),
            member: member(&credentials),
            hello: messages::client_hello(&stranger),
            csr: messages::csr(&names[0]),
            stranger,
            name: names[0].clone(),
            names,
            connections: 0,
        }
    }

    /// Throws `count` things.
    pub(super) async fn attack(&mut self, door: Door, sort: Sort, count: usize) {
        let mut thrown = 0;
        while thrown < count {
            let bytes = match sort {
                Sort::Noise => self.dice.bytes(300),
                Sort::Hello => self.dice.spoil(self.hello.clone()),
                Sort::Http2 => {
                    let path = [delta::PATH, sotw::PATH, SIGN][self.dice.below(3)];
                    frames::wrong(&mut self.dice, path)
                }
                Sort::Framing | Sort::Protobuf | Sort::Spoilt => {
                    Box::pin(self.call(door, sort)).await;
                    thrown += CALLS;
                    continue;
                }
            };
            self.throw(door, &bytes).await;
            thrown += 1;
        }
    }

    async fn dial(&mut self) -> TcpStream {
        self.connections += 1;
        TcpStream::connect(self.world.xds).await.unwrap()
    }

    async fn shake_hands(&mut self, door: Door) -> impl AsyncRead + AsyncWrite + Unpin + use<> {
        let config = match door {
            Door::Member => &self.member,
            _ => &self.stranger,
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let name = ServerName::try_from("leno-control").unwrap();
        let stream = self.dial().await;
        Box::pin(connector.connect(name, stream)).await.unwrap()
    }

    async fn throw(&mut self, door: Door, bytes: &[u8]) {
        let waits = !self.dice.once_in(8);
        match door {
            Door::Tcp => throw(self.dial().await, bytes, waits).await,
            _ => throw(self.shake_hands(door).await, bytes, waits).await,
        }
    }

    /// Calls all at once, and waits until each is answered or all are cut off.
    async fn call(&mut self, door: Door, sort: Sort) {
        let token = self.token(door, sort).await;
        let mut bytes = frames::preface();
        for (at, stream) in (1..).step_by(2).take(CALLS).enumerate() {
            let (path, body) = match at % 4 {
                0 => (
                    delta::PATH,
                    self.request(door, sort, &messages::good(&self.name)),
                ),
                2 => (
                    sotw::PATH,
                    self.request(door, sort, &messages::good_whole(&self.name)),
                ),
                _ => (SIGN, self.sign_request(sort)),
            };
            let head = frames::head(path, token.as_deref());
            bytes.extend(frames::call(&mut self.dice, stream, &head, &body));
        }
        let mut stream = self.shake_hands(door).await;
        // It may have been cut off already: that is an answer.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.flush().await;
        hear(stream).await;
    }

    /// What a stranger says to be allowed: something good only where the rest is nearly good, since
    /// tokens are written to the disk.
    async fn token(&mut self, door: Door, sort: Sort) -> Option<String> {
        match (door, sort) {
            (Door::Stranger, Sort::Spoilt) => {
                self.names.rotate_left(1);
                Some(self.world.token(&self.names[0]).await)
            }
            (Door::Stranger, _) => Some(self.dice.next().to_string()),
            _ => None,
        }
    }

    fn request(&mut self, door: Door, sort: Sort, good: &impl Message) -> Vec<u8> {
        let good = good.encode_to_vec();
        let dice = &mut self.dice;
        let mut body = Vec::new();
        if door == Door::Member && !dice.once_in(4) {
            body = messages::framed(&good);
        }
        for _ in 0..=dice.below(3) {
            body.extend(match sort {
                Sort::Framing => messages::misframed(dice, &good),
                Sort::Protobuf => messages::framed(&messages::random(dice)),
                _ => messages::framed(&dice.spoil(good.clone())),
            });
        }
        body
    }

    fn sign_request(&mut self, sort: Sort) -> Vec<u8> {
        let dice = &mut self.dice;
        match sort {
            Sort::Framing => messages::misframed(dice, &messages::sign_request(self.csr.clone())),
            Sort::Protobuf => messages::framed(&messages::random(dice)),
            _ => messages::framed(&messages::spoilt_csr(dice, &self.csr)),
        }
    }
}

/// Throws `bytes` and waits for the end, or goes away at once.
async fn throw(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8], waits: bool) {
    // However it ends.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    if waits {
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
}

/// Reads until all calls have ended, or the connection has.
async fn hear(mut stream: impl AsyncRead + Unpin) {
    let mut over = BTreeSet::new();
    let mut head = [0; frames::HEAD_BYTES];
    while over.len() < CALLS && stream.read_exact(&mut head).await.is_ok() {
        let [_, a, b, kind, flags, id @ ..] = head;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([a, b]))];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        let is_last = match kind {
            frames::HEADERS | frames::DATA => flags & frames::END_STREAM != 0,
            kind => kind == frames::RST_STREAM,
        };
        if is_last {
            over.insert(id);
        }
    }
}
