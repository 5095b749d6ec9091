//! Authentication that is bound to a connection (NTLM, Negotiate) from clients that share theirs:
//! whatever the upstream then takes its connection for, it is nobody else's.

use crate::world::{HEAD, World, echo1, scripted1};
use testkit::h2::Frame;
use testkit::{EchoServer, ScriptedUpstream, Step};

fn proof(stream: u32, scheme: &str) -> Frame {
    let value = format!("{scheme} TlRMTVNT");
    let head = [&HEAD[..], &[("authorization", &*value)]].concat();
    Frame::headers(stream, &head, true)
}

/// Every connection answers with its own number.
fn numbered(count: usize) -> World<ScriptedUpstream> {
    let answers = |number: usize| {
        let once = vec![Step::ReadRequest, Step::answer(number.to_string())];
        vec![once; 9].concat()
    };
    scripted1((1..=count).map(answers).collect())
}

#[test]
fn authenticated_connection_is_not_shared_afterwards() {
    for scheme in ["NTLM", "Negotiate", "negotiate"] {
        let world = numbered(6);
        let mut one = world.frames();
        let mut seen = Vec::new();
        for stream in [1, 3] {
            one.send(&[proof(stream, scheme)]);
            assert_eq!(one.status(stream), 200);
            let number = one.find("its number", |frame| frame.stream == stream);
            seen.push(String::from_utf8(number.payload).unwrap());
        }
        for _ in 0..3 {
            let number = world.http1().get("/").text();
            assert!(!seen.contains(&number), "{scheme}: {number} of {seen:?}");
        }
        let mut other = world.frames();
        other.send(&[proof(1, scheme)]);
        assert_eq!(other.status(1), 200);
        let number = other.find("its number", |frame| frame.stream == 1);
        let number = String::from_utf8(number.payload).unwrap();
        assert!(!seen.contains(&number), "{scheme}: {number} of {seen:?}");
    }
}

#[test]
fn other_schemes_share_connections() {
    let world: World<EchoServer> = echo1();
    let mut frames = world.frames();
    for stream in [1, 3, 5] {
        frames.send(&[proof(stream, "Basic")]);
        assert_eq!(frames.status(stream), 200);
        frames.sync();
    }
    assert_eq!(world.upstream.connection_count(), 1);
}
