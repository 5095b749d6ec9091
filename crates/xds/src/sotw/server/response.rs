//! A response of the state-of-the-world variant as the bytes that it is sent as: a head of its own,
//! and resources as they lie in what `delta` sends.

use crate::delta::server::{Entry, Response};
use crate::kind::Kind;
use crate::proto::discovery::DiscoveryResponse;
use prost::Message;

pub(super) fn respond(kind: Kind, nonce: u64, entries: &[&Entry]) -> Response {
    let head = DiscoveryResponse {
        version_info: version_of(entries.iter().copied()),
        type_url: kind.type_url().to_owned(),
        nonce: nonce.to_string(),
        ..DiscoveryResponse::default()
    };
    let head = head.encode_to_vec().into();
    let resources = entries.iter().map(|entry| entry.resource());
    Response {
        kind,
        added: entries.len(),
        removed: 0,
        parts: std::iter::once(head).chain(resources).collect(),
    }
}

/// Follows from names and versions, in whatever order they come: the same resources have the same
/// version in every process.
pub(super) fn version_of<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let sum = entries.map(mix).fold(0, u64::wrapping_add);
    format!("{sum:016x}")
}

/// FNV-1a of 64 bits, its bits stirred, since they are to be added up.
fn mix(entry: &Entry) -> u64 {
    let bytes = entry.name.bytes().chain([0]).chain(entry.version.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ hash >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn entry(name: &str, value: &'static str) -> Entry {
        let value = Bytes::from_static(value.as_bytes());
        Entry::new(Kind::Cluster, name.to_owned(), value)
    }

    #[test]
    fn parts_are_one_message() {
        let long = "x".repeat(300);
        let entries = [entry("a", "one"), entry(&long, ""), entry("c", "three")];
        let entries: Vec<_> = entries.iter().collect();
        let response = respond(Kind::Cluster, 7, &entries);
        let message = DiscoveryResponse::decode(response.parts.concat().as_slice()).unwrap();
        assert_eq!((response.added, response.removed), (3, 0));
        assert_eq!(
            (message.nonce.as_str(), message.version_info.len()),
            ("7", 16)
        );
        assert_eq!(message.resources.len(), 3);
        for (any, entry) in message.resources.iter().zip(entries) {
            assert_eq!(any.type_url, Kind::Cluster.type_url());
            assert_eq!(any.value, entry.value());
        }
    }

    #[test]
    fn a_version_is_that_of_names_and_bytes_in_any_order() {
        let [a, b, other] = [entry("a", "1"), entry("b", "2"), entry("b", "3")];
        let version = version_of([&a, &b].into_iter());
        assert_eq!(version, version_of([&b, &a].into_iter()));
        for different in [vec![], vec![&a], vec![&a, &other], vec![&a, &b, &b]] {
            assert_ne!(version, version_of(different.into_iter()));
        }
    }
}
