//! Peers that mean ill: whatever they send, the control plane stays as it is, and others are
//! served. What they make it hold is measured from outside, by the pages of memory it has.

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xds::delta;
use xds::grpc::Error;
use xds::grpc::client::Channel;
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::proto::identity::{SIGN, SignRequest, SignResponse};

use crate::sidecar::{Sidecar, bearer, connect, dial, enrol, member, node, stranger};
use crate::world::World;

/// Of each kind.
const ROUNDS: u64 = 300;
/// What the control plane may grow by under all of it.
const GROWTH_BYTES: u64 = 24 << 20;

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn bytes(&mut self, length_max: u64) -> Vec<u8> {
        let length = self.next() % length_max;
        (0..length).map(|_| self.next().to_be_bytes()[0]).collect()
    }

    /// `message` with some bytes changed, cut off or added.
    fn spoil(&mut self, message: &impl Message) -> Bytes {
        let mut bytes = message.encode_to_vec();
        for _ in 0..self.next() % 4 {
            let at = usize::try_from(self.next() % (bytes.len() as u64 + 1)).unwrap();
            match self.next() % 3 {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next().to_be_bytes()[0]),
                _ => bytes.extend(self.bytes(8)),
            }
        }
        bytes.into()
    }
}

fn resident_bytes(world: &World) -> u64 {
    let path = format!("/proc/{}/statm", world.pid());
    let statm = std::fs::read_to_string(path).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Sends `requests` on one stream; whether it still lives.
async fn send(channel: &Channel, path: &str, requests: &[Bytes]) -> Result<(), Error> {
    let (mut sender, mut receiver) = channel.bidi(path, HeaderMap::new()).await?;
    for request in requests {
        sender.send_parts(std::slice::from_ref(request)).await?;
    }
    sender.end()?;
    while receiver.recv_bytes().await?.is_some() {}
    Ok(())
}

fn good() -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(node("curl")),
        type_url: Kind::Cluster.type_url().to_owned(),
        resource_names_subscribe: vec!["*".to_owned(), "some".to_owned()],
        resource_names_unsubscribe: vec!["other".to_owned()],
        initial_resource_versions: [("some".to_owned(), "1".to_owned())].into(),
        response_nonce: "1".to_owned(),
        ..DeltaDiscoveryRequest::default()
    }
}

#[tokio::test]
async fn random_bytes_in_tls_http2_and_messages_change_nothing() {
    let world = World::new();
    let credentials = enrol(&world, "curl").await;
    let mut dice = Dice(7);
    let before = resident_bytes(&world);
    for round in 0..ROUNDS {
        // Not TLS, not HTTP/2, and not gRPC, in turns.
        if round % 20 == 0 {
            let mut stream = tokio::net::TcpStream::connect(world.xds).await.unwrap();
            // It may have been closed already: that is an answer.
            let _ = stream.write_all(&dice.bytes(300)).await;
            let mut stream = dial(&world, stranger(&world)).await;
            let _ = stream.write_all(&dice.bytes(300)).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        if round % 10 == 0 {
            let channel = connect(&world, member(&credentials)).await;
            for _ in 0..10 {
                let noise: Vec<_> = (0..3).map(|_| dice.spoil(&good())).collect();
                // However it ends.
                let _ = send(&channel, delta::PATH, &noise).await;
            }
        }
    }
    let curl = connect(&world, member(&credentials)).await;
    Sidecar::new("curl").connect(&curl).await.unwrap();
    let grown = resident_bytes(&world).saturating_sub(before);
    assert!(grown < GROWTH_BYTES, "{grown} bytes more");
}

#[tokio::test]
async fn random_requests_for_certificates_are_refused_one_by_one() {
    let world = World::new();
    let mut dice = Dice(11);
    let token = world.token("curl").await;
    let mut channel = connect(&world, stranger(&world)).await;
    let before = resident_bytes(&world);
    for round in 0..ROUNDS {
        if round % 10 == 0 {
            channel = connect(&world, stranger(&world)).await;
        }
        let request = SignRequest {
            csr: dice.bytes(600).into(),
        };
        let metadata = bearer(if round % 2 == 0 { "guess" } else { &token });
        let answer = channel
            .unary::<SignResponse>(SIGN, metadata, &request)
            .await;
        assert!(matches!(answer, Err(Error::Status(_))), "{answer:?}");
    }
    let grown = resident_bytes(&world).saturating_sub(before);
    assert!(grown < GROWTH_BYTES, "{grown} bytes more");
}

#[tokio::test]
async fn names_without_end_are_refused() {
    let world = World::new();
    let credentials = enrol(&world, "curl").await;
    let channel = connect(&world, member(&credentials)).await;
    let before = resident_bytes(&world);
    let (mut sender, mut receiver) = channel.bidi(delta::PATH, HeaderMap::new()).await.unwrap();
    let names = |from: u32| (from..from + 1000).map(|number| format!("{number:0200}"));
    let asking = async {
        for from in 0.. {
            let request = DeltaDiscoveryRequest {
                type_url: Kind::Endpoints.type_url().to_owned(),
                resource_names_subscribe: names(from * 1000).collect(),
                ..good()
            };
            if sender.send(&request).await.is_err() {
                break;
            }
        }
    };
    let hearing = async {
        loop {
            match receiver.recv::<DeltaDiscoveryResponse>().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it was let go on"),
                Err(error) => return error,
            }
        }
    };
    let error = tokio::select! {
        error = hearing => error,
        () = async { asking.await; std::future::pending().await } => unreachable!(),
    };
    assert!(
        error.to_string().contains("names stand for nothing"),
        "{error}"
    );
    let grown = resident_bytes(&world).saturating_sub(before);
    assert!(grown < GROWTH_BYTES, "{grown} bytes more");
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_up_nobody() {
    let world = World::new();
    let (curl, hello) = (enrol(&world, "curl").await, enrol(&world, "hello").await);
    let silent = connect(&world, member(&curl)).await;
    let (mut sender, _receiver) = silent.bidi(delta::PATH, HeaderMap::new()).await.unwrap();
    sender.send(&good()).await.unwrap();
    let channel = connect(&world, member(&hello)).await;
    let mut sidecar = Sidecar::new("hello");
    sidecar.connect(&channel).await.unwrap();
    for octet in 3..60 {
        let address = format!("10.77.0.{octet}");
        world.write(
            "status.yaml",
            &crate::world::STATUS.replace("10.77.0.2", &address),
        );
        let new = format!("inbound|{address}:8080");
        while !sidecar.names(Kind::Cluster).contains(&new.as_str()) {
            sidecar.step().await.unwrap();
        }
    }
}
