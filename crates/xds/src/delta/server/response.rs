//! A response as the bytes that it is sent as: a head of its own, and resources that are encoded
//! once and shared by all streams.

use crate::kind::Kind;
use crate::proto::discovery::{DeltaDiscoveryResponse, Resource};
use crate::proto::google::Any;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint, string};

/// Tag 2, length-delimited: `DeltaDiscoveryResponse.resources`.
const RESOURCES: u8 = 0x12;
/// `Resource.version`, in front of `Resource.resource`.
const VERSION: u32 = 1;
/// `Resource.name`, behind it.
const NAME: u32 = 3;

/// A resource in the state that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique among its kind.
    pub name: String,
    /// Follows from its bytes alone, so that it outlives the process.
    pub version: String,
    /// As it lies in a response: with name, version and type.
    pub encoded: Bytes,
}

/// A message to a client.
#[derive(Debug)]
pub struct Response {
    /// Of all resources in it.
    pub kind: Kind,
    /// How many resources there are in it.
    pub added: usize,
    /// How many names there are in it.
    pub removed: usize,
    /// The encoded message, to be sent one after the other.
    pub parts: Vec<Bytes>,
}

impl Entry {
    /// Encodes the envelope of a resource whose message is `value`.
    #[must_use]
    pub fn new(kind: Kind, name: String, value: Bytes) -> Self {
        let version = version(&value);
        let resource = Resource {
            version: version.clone(),
            resource: Some(Any {
                type_url: kind.type_url().to_owned(),
                value,
            }),
            name: name.clone(),
            ..Resource::default()
        };
        let length = resource.encoded_len();
        let prefix = 1 + encoded_len_varint(length as u64);
        let mut encoded = BytesMut::with_capacity(prefix + length);
        encoded.put_u8(RESOURCES);
        encode_varint(length as u64, &mut encoded);
        resource.encode(&mut encoded).expect("a buffer that grows");
        Self {
            name,
            version,
            encoded: encoded.freeze(),
        }
    }

    /// The resource as it lies in a response of the state-of-the-world variant. There it is an
    /// `Any` with the very tag that it has in the envelope here, between version and name.
    #[must_use]
    pub(crate) fn resource(&self) -> Bytes {
        let from = string::encoded_len(VERSION, &self.version);
        let until = string::encoded_len(NAME, &self.name);
        let envelope = envelope(&self.encoded);
        envelope.slice(from..envelope.len() - until)
    }

    /// The resource's own message, without the envelope.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let message = DeltaDiscoveryResponse::decode(self.encoded.clone());
        let resources = message.map(|message| message.resources).unwrap_or_default();
        let mut bodies = resources.into_iter().filter_map(|one| one.resource);
        bodies.next().map(|any| any.value).unwrap_or_default()
    }
}

impl Response {
    pub(super) fn new(
        kind: Kind,
        nonce: u64,
        added: Vec<Bytes>,
        removed_resources: Vec<String>,
    ) -> Self {
        let removed = removed_resources.len();
        let head = DeltaDiscoveryResponse {
            type_url: kind.type_url().to_owned(),
            nonce: nonce.to_string(),
            removed_resources,
            ..DeltaDiscoveryResponse::default()
        };
        let count = added.len();
        let mut parts = added;
        parts.insert(0, head.encode_to_vec().into());
        Self {
            kind,
            added: count,
            removed,
            parts,
        }
    }
}

/// Without tag and length.
fn envelope(encoded: &Bytes) -> Bytes {
    let mut rest = encoded.slice(1..);
    decode_varint(&mut rest).expect("what was encoded here");
    rest
}

/// FNV-1a of 64 bits, in hexadecimal: the same bytes have the same version in every process.
pub(crate) fn version(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_message() {
        let entries = ["a", "b"].map(|name| {
            let value = Bytes::from(format!("value of {name}"));
            Entry::new(Kind::Cluster, name.to_owned(), value)
        });
        let added = entries.iter().map(|entry| entry.encoded.clone()).collect();
        let response = Response::new(Kind::Cluster, 7, added, vec!["gone".to_owned()]);
        let message = DeltaDiscoveryResponse::decode(response.parts.concat().as_slice()).unwrap();
        assert_eq!((response.added, response.removed), (2, 1));
        assert_eq!(message.nonce, "7");
        assert_eq!(message.removed_resources, ["gone"]);
        for (resource, entry) in message.resources.iter().zip(&entries) {
            assert_eq!(resource.name, entry.name);
            assert_eq!(resource.version, entry.version);
            let any = resource.resource.as_ref().unwrap();
            assert_eq!(any.type_url, Kind::Cluster.type_url());
            assert_eq!(any.value, entry.value());
        }
    }

    #[test]
    fn a_version_follows_from_the_bytes_and_stays_the_same_for_ever() {
        assert_eq!(version(b""), "cbf29ce484222325");
        assert_eq!(version(b"a"), "af63dc4c8601ec8c");
        assert_ne!(version(b"ab"), version(b"ba"));
    }
}
