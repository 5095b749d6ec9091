//! Messages of gRPC that are nearly right, and such that are not.

use std::sync::Arc;

use identity::key;
use prost::Message;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};
use xds::proto::identity::SignRequest;

use super::dice::Dice;
use crate::sidecar::{id, node};

/// Deeper than any message is, and than is read.
const DEPTH_MAX: usize = 200;

/// What a sidecar says first.
pub(super) fn good(name: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(node(name)),
        type_url: Kind::Cluster.type_url().to_owned(),
        resource_names_subscribe: vec!["*".to_owned(), "some".to_owned()],
        resource_names_unsubscribe: vec!["other".to_owned()],
        initial_resource_versions: [("some".to_owned(), "1".to_owned())].into(),
        response_nonce: "1".to_owned(),
        ..DeltaDiscoveryRequest::default()
    }
}

/// The same in the other variant of the protocol.
pub(super) fn good_whole(name: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        version_info: "1".to_owned(),
        node: Some(node(name)),
        resource_names: vec!["*".to_owned(), "some".to_owned()],
        type_url: Kind::Cluster.type_url().to_owned(),
        response_nonce: "1".to_owned(),
        ..DiscoveryRequest::default()
    }
}

/// A request for a certificate as it should be.
pub(super) fn csr(name: &str) -> Vec<u8> {
    key::generate().unwrap().csr(&id(name)).unwrap()
}

/// What a client of TLS says first.
pub(super) fn client_hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("leno-control").unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// With the prefix of gRPC.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    lying(0, message.len(), message)
}

fn lying(flag: u8, length: usize, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flag];
    bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
    bytes.extend(message);
    bytes
}

/// `message` with a prefix that is not its own.
pub(super) fn misframed(dice: &mut Dice, message: &[u8]) -> Vec<u8> {
    let length = message.len();
    match dice.below(6) {
        0 => lying(dice.byte(), length, message),
        1 => lying(0, length + 1 + dice.below(100), message),
        2 => lying(0, dice.below(length), message),
        3 => lying(0, [5 << 20, 0xffff_ffff][dice.below(2)], message),
        4 => dice.bytes(64),
        _ => dice.spoil(framed(message)),
    }
}

/// A request for a certificate that is spoilt inside of a good message, or altogether.
pub(super) fn spoilt_csr(dice: &mut Dice, csr: &[u8]) -> Vec<u8> {
    match dice.once_in(4) {
        true => dice.spoil(sign_request(csr.to_vec())),
        false => sign_request(dice.spoil(csr.to_vec())),
    }
}

pub(super) fn sign_request(csr: Vec<u8>) -> Vec<u8> {
    SignRequest { csr: csr.into() }.encode_to_vec()
}

/// Protocol buffers of no message in particular.
pub(super) fn random(dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 => dice.bytes(600),
        1 => nested(dice),
        _ => fields(dice, 4),
    }
}

fn fields(dice: &mut Dice, depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.below(6) {
        let field = u8::try_from(1 + dice.below(9)).unwrap();
        let wire = [0, 1, 2, 2, 2, 2, 5, 7][dice.below(8)];
        bytes.push(field << 3 | wire);
        match wire {
            0 => bytes.extend((0..dice.below(11)).map(|_| 0x80).chain([1])),
            1 => bytes.extend(dice.next().to_be_bytes()),
            2 => {
                let inner = inner(dice, depth);
                bytes.extend(delimited(&inner));
            }
            _ => bytes.extend([dice.byte(); 4]),
        }
    }
    bytes
}

fn inner(dice: &mut Dice, depth: usize) -> Vec<u8> {
    match dice.below(4) {
        0 => dice.bytes(40),
        1 => Kind::ALL[dice.below(Kind::COUNT)].type_url().into(),
        2 => b"*".to_vec(),
        _ if depth == 0 => b"curl.default".to_vec(),
        _ => fields(dice, depth - 1),
    }
}

fn nested(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.below(DEPTH_MAX) {
        let tag = u8::try_from(1 + dice.below(7)).unwrap() << 3 | 2;
        bytes = [vec![tag], delimited(&bytes)].concat();
    }
    bytes
}

fn delimited(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encode_length_delimiter(bytes.len(), &mut out).unwrap();
    out.extend(bytes);
    out
}
