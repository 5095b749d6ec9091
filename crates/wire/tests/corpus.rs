//! Replays the checked-in fuzz seeds on the stable compiler: what the fuzz targets check holds for
//! each, and a head named `good-` is accepted, one named `bad-` refused.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

use std::path::{Path, PathBuf};

use wire::client_hello::{self, ClientHello};
use wire::http1::{Body, Framing, Limits, Method, Parsed, RequestHead, ResponseHead};
use wire::proxy_protocol;

#[path = "../../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a library of its own for the fuzz targets")]
mod bodies;

const LIMITS: Limits = Limits {
    head_bytes: 4096,
    headers: 64,
};

/// Name and bytes of each seed of a target; there are some.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths
        .iter()
        .map(|path| (name(path), std::fs::read(path).unwrap()))
        .collect()
}

/// Runs `check` and `accepted` over the seeds of `target` and compares with their names.
fn replay(target: &str, check: fn(&[u8]), accepted: fn(&[u8]) -> bool) {
    for (name, bytes) in seeds(target) {
        println!("{target}/{name}");
        check(&bytes);
        match name.split('-').next() {
            Some("good") => assert!(accepted(&bytes), "{name}"),
            Some("bad") => assert!(!accepted(&bytes), "{name}"),
            _ => {}
        }
    }
}

#[test]
fn request_heads() {
    replay("request_head", bodies::request_head, |bytes| {
        RequestHead::default().parse(bytes, &LIMITS) == Ok(Parsed::Complete)
    });
}

#[test]
fn response_heads() {
    replay("response_head", bodies::response_head, |bytes| {
        ResponseHead::default().parse(bytes, &LIMITS, Method::Get) == Ok(Parsed::Complete)
    });
}

#[test]
fn chunked_bodies() {
    replay("body", bodies::body, |bytes| {
        let mut body = Body::new(Framing::Chunked);
        body.advance(bytes).is_ok() && body.is_done()
    });
}

#[test]
fn first_bytes() {
    replay("sniff", bodies::sniffing, |_| true);
}

#[test]
fn client_hellos() {
    replay("client_hello", bodies::client_hello, |bytes| {
        ClientHello::default().parse(bytes) == client_hello::Parsed::Complete
    });
}

#[test]
fn proxy_headers() {
    replay("proxy_protocol", bodies::proxy_header, |bytes| {
        matches!(proxy_protocol::parse(bytes), Ok(Some(_)))
    });
}

#[test]
fn names() {
    replay("dns", bodies::dns::dns, |bytes| {
        wire::dns::Query::parse(bytes).is_ok()
    });
}

#[test]
fn header_blocks() {
    replay("hpack", bodies::hpack::hpack, bodies::hpack::is_good);
}

#[test]
fn connections() {
    replay("h2", bodies::h2::h2, bodies::h2::is_good);
}
