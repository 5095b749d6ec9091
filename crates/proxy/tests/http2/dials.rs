//! Connections to upstreams that take no more: how often they are asked.

use crate::world::start;
use std::io::{Read, Write};
use std::net::TcpListener;
use testkit::h2::Frame;
use testkit::{Frames, Sidecar, until};

const FAILURES: &str = "leno_upstream_connect_failures_total";

/// Settings of one stream at a time.
const ONE_STREAM: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1];

#[test]
fn endpoint_that_is_full_and_refuses_connections_is_not_stormed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            drop(listener);
            socket.write_all(&ONE_STREAM).unwrap();
            let mut bytes = [0; 4096];
            while socket.read(&mut bytes).unwrap_or(0) > 0 {}
        });
        let sidecar = Sidecar::outbound(&[addr])
            .listener("protocol: http")
            .with("limits: {requestTimeout: 2s}")
            .cluster("protocol: http2");
        let proxy = start(&sidecar);
        let mut frames = Frames::connect(proxy.addr());
        frames.send(&[Frame::post(1, "/")]);
        until("it is under way", || {
            proxy.metric("leno_upstream_connections_active", &[]) > 0.5
        });
        frames.send(&[
            Frame::data(1, [], true),
            Frame::get(3, "/"),
            Frame::get(5, "/"),
        ]);
        // The first one's timeout is the clock.
        let mut statuses = [3, 5].map(|stream| (stream, 0));
        let mut ended = false;
        while !ended || statuses.iter().any(|(_, status)| *status == 0) {
            let head = frames.find_kind(testkit::h2::kind::HEADERS);
            let status = head.line(":status").unwrap().parse().unwrap();
            match statuses
                .iter_mut()
                .find(|(stream, _)| *stream == head.stream)
            {
                Some(entry) => entry.1 = status,
                None => (ended, _) = (true, assert_eq!(status, 504)),
            }
        }
        assert!(
            statuses
                .iter()
                .all(|(_, status)| matches!(status, 503 | 504)),
            "{statuses:?}"
        );
        let failures = proxy.metric(FAILURES, &[]);
        println!("{failures} attempts");
        // Requests are few, and probes come ever more seldom.
        assert!((1.0..=20.0).contains(&failures), "{failures} attempts");
    });
}
