//! Holds the codec against hyper: generated messages, most of them slightly wrong, are read by
//! both. What we accept, hyper reads in the same way; what hyper accepts and we refuse is refused
//! by one of the rules listed in `differential/verdict.rs`.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

#[path = "differential/generate.rs"]
mod generate;
#[path = "differential/hpack.rs"]
mod hpack;
#[path = "differential/ours.rs"]
mod ours;
#[path = "differential/theirs.rs"]
mod theirs;
#[path = "differential/verdict.rs"]
mod verdict;

use std::path::Path;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use verdict::check;
use wire::http1::Method;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

/// Generated cases are different in each run; `PROPTEST_CASES` makes them more.
fn config() -> ProptestConfig {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    ProptestConfig {
        cases: config.cases.max(2000),
        ..config
    }
}

fn check_request(runtime: &Runtime, bytes: &[u8]) {
    check(
        bytes,
        &ours::read_request(bytes),
        &runtime.block_on(theirs::read_request(bytes)),
    );
}

fn check_response(runtime: &Runtime, bytes: &[u8], method: Method) {
    let theirs = runtime.block_on(theirs::read_response(bytes, method));
    check(bytes, &ours::read_response(bytes, method), &theirs);
}

/// Each of the fuzz seeds of a target.
fn seeds(target: &str) -> impl Iterator<Item = Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
}

#[test]
fn requests_mean_the_same_to_hyper() {
    let runtime = runtime();
    proptest!(config(), |(bytes in generate::request())| check_request(&runtime, &bytes));
}

#[test]
fn responses_mean_the_same_to_hyper() {
    let runtime = runtime();
    let methods = prop_oneof![Just(Method::Get), Just(Method::Head)];
    proptest!(config(), |(bytes in generate::response(), method in methods)| {
        check_response(&runtime, &bytes, method);
    });
}

#[test]
fn smuggling_shapes_mean_the_same_to_hyper() {
    let runtime = runtime();
    seeds("request_head").for_each(|bytes| check_request(&runtime, &bytes));
    seeds("response_head").for_each(|bytes| check_response(&runtime, &bytes, Method::Get));
    for body in seeds("body") {
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        check_request(&runtime, &[head, body.as_slice()].concat());
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check_response(&runtime, &[head, body.as_slice()].concat(), Method::Get);
    }
}
