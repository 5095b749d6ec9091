//! Charts of whole exchanges: heads, bodies and trailers in both roles, however the bytes are cut.

use super::super::frame::{flag, kind};
use super::super::{Config, Connection, Dialect, Event, PREFACE, Role};
use super::{Chart, GET, OK, data, raw, settings};

#[test]
fn a_request_is_answered() {
    let mut chart = Chart::server();
    let headers = chart.headers(1, GET, true);
    chart.check(&headers, "request 0 / end");
    let key = super::Key(0);
    let lines = b"Content-Type: a\r\nConnection: close\r\ncontent-length: 5\r\n";
    chart.connection.send_status(key, 103, b"Link: x\r\n", true);
    chart.connection.send_status(key, 200, lines, false);
    assert_eq!(chart.connection.send_data(key, b"hello", true), 5);
    chart.sent(
        "HEADERS 1 :status=103,link=x; \
         HEADERS 1 :status=200,content-type=a,content-length=5; DATA 1 5 end",
    );
    assert!(chart.connection.is_closed(key));
    chart.connection.release(key);
    chart.sent("");
}

#[test]
fn bodies_and_trailers_come_in_order() {
    let mut chart = Chart::server();
    let mut bytes = chart.headers(1, GET, false);
    bytes.extend(data(1, 3, false));
    bytes.extend(data(1, 0, false));
    bytes.extend(chart.headers(1, &[("x-sum", "5"), ("content-length", "3")], true));
    chart.check(&bytes, "request 0 /; data 0 3; trailers 0 x-sum: 5,");
}

#[test]
fn the_end_may_come_with_no_payload_or_with_padding() {
    let mut chart = Chart::server();
    chart.request(1, false);
    chart.check(&data(1, 0, true), "data 0 0 end");
    let key = chart.request(3, false);
    let padded = raw(
        kind::DATA,
        flag::PADDED | flag::END_STREAM,
        3,
        b"\x02abc\0\0",
    );
    chart.check(&padded, "data 1 3 end");
    assert_eq!(chart.connection.unconsumed(key), 3, "padding is given back");
    chart.request(5, false);
    let empty = raw(kind::DATA, flag::PADDED | flag::END_STREAM, 5, b"\x02\0\0");
    chart.check(&empty, "data 2 0 end");
}

#[test]
fn a_response_is_read() {
    let (mut chart, _) = Chart::asking(1);
    let mut bytes = chart.headers(1, &[(":status", "103"), ("link", "a")], false);
    bytes.extend(chart.headers(1, OK, false));
    bytes.extend(data(1, 4, true));
    chart.check(&bytes, "response 0 103; response 0 200; data 0 4 end");
}

/// A request's method, the fields of its answer, bytes of the body, and the events.
type Answer<'t> = (&'t str, &'t [(&'t str, &'t str)], usize, &'t str);

#[test]
fn a_response_is_held_to_its_kind() {
    let not_modified = &[(":status", "304"), ("content-length", "5")];
    let length = &[(":status", "200"), ("content-length", "5")];
    let cases: [Answer<'_>; 9] = [
        ("GET", length, 5, "response 0 200; data 0 5 end"),
        ("GET", length, 4, "response 0 200; reset 0 ProtocolError"),
        ("GET", length, 6, "response 0 200; reset 0 ProtocolError"),
        ("HEAD", length, 0, "response 0 200; data 0 0 end"),
        ("HEAD", length, 5, "response 0 200; reset 0 ProtocolError"),
        ("GET", not_modified, 0, "response 0 304; data 0 0 end"),
        (
            "GET",
            not_modified,
            1,
            "response 0 304; reset 0 ProtocolError",
        ),
        ("GET", &[(":status", "101")], 0, "reset 0 ProtocolError"),
        ("GET", &[], 0, "reset 0 ProtocolError"),
    ];
    for (method, fields, len, expected) in cases {
        let mut chart = Chart::client();
        chart.ask(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), true);
        let mut bytes = chart.headers(1, fields, false);
        bytes.extend(data(1, len, true));
        chart.check(&bytes, expected);
    }
}

#[test]
fn the_body_is_as_long_as_the_head_said() {
    let fields = [GET, &[("content-length", "5")]].concat();
    let check = |parts: &[(usize, bool)], expected: &str| {
        let mut chart = Chart::server();
        let mut bytes = chart.headers(1, &fields, false);
        parts
            .iter()
            .for_each(|(len, end)| bytes.extend(data(1, *len, *end)));
        chart.check(&bytes, &format!("request 0 /; {expected}"));
    };
    check(&[(2, false), (3, true)], "data 0 2; data 0 3 end");
    check(&[(5, false), (0, true)], "data 0 5; data 0 0 end");
    check(&[(2, false), (2, true)], "data 0 2; reset 0 ProtocolError");
    check(&[(2, false), (4, false)], "data 0 2; reset 0 ProtocolError");
    let mut chart = Chart::server();
    let bytes = chart.headers(1, &fields, true);
    chart.check(&bytes, "");
    chart.sent("RST_STREAM 1 ProtocolError");
}

#[test]
fn every_cut_of_the_bytes_says_the_same() {
    let mut chart = Chart::new(Role::Server, |_| {});
    let mut bytes = PREFACE.to_vec();
    bytes.extend(settings(&[]));
    bytes.extend(chart.headers(1, GET, false));
    bytes.extend(raw(kind::DATA, flag::PADDED, 1, b"\x03payload\0\0\0"));
    bytes.extend(data(1, 2, true));
    for cut in 1..bytes.len() {
        let mut connection = Connection::new(&Config::new(Role::Server, Dialect::Public));
        let (mut payload, mut ends, mut at, mut until) = (0, 0, 0, cut);
        loop {
            let received = connection.receive(&bytes[at..until]).unwrap();
            at += received.consumed;
            if let Event::Data { bytes, end, .. } = received.event {
                payload += bytes.len();
                ends += usize::from(end);
            }
            match (received.consumed, until == bytes.len()) {
                (0, true) => break,
                (0, false) => until = bytes.len(),
                _ => {}
            }
        }
        assert_eq!((at, payload, ends), (bytes.len(), 9, 1), "cut at {cut}");
    }
}

#[test]
fn a_large_head_is_answered_and_the_tables_stay_in_step() {
    let mut chart = Chart::new(Role::Server, |config| config.limits.head_bytes = 300);
    let large = "x".repeat(300);
    let fields = [GET, &[("x-large", large.as_str())]].concat();
    let same = [GET, &[("x-same", "same")]].concat();
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for place in 0..3 {
        bytes.extend(chart.headers(4 * place + 1, &fields, true));
        bytes.extend(chart.headers(4 * place + 3, &same, true));
        expected.push(format!(
            "too large {}; request {} / end",
            2 * place,
            2 * place + 1
        ));
    }
    chart.check(&bytes, &expected.join("; "));
    chart.connection.send_status(super::Key(0), 431, b"", true);
    chart.sent("HEADERS 1 :status=431 end");
}

#[test]
fn a_large_response_or_trailer_breaks_its_stream() {
    let large = "x".repeat(200);
    let mut chart = Chart::new(Role::Client, |config| config.limits.head_bytes = 300);
    chart.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true);
    chart.connection.output().clear();
    let bytes = chart.headers(1, &[OK[0], ("x", large.as_str()), ("y", &large)], true);
    chart.check(&bytes, "reset 0 ProtocolError");
    chart.sent("RST_STREAM 1 ProtocolError");
    let mut chart = Chart::new(Role::Server, |config| config.limits.headers = 6);
    chart.request(1, false);
    let bytes = chart.headers(1, &[("x", "y"); 7], true);
    chart.check(&bytes, "reset 0 ProtocolError");
}

#[test]
fn a_tunnel_carries_data_both_ways() {
    let mut chart = Chart::server();
    let connect = [
        (":method", "CONNECT"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", "a"),
        (":protocol", "websocket"),
    ];
    let bytes = chart.headers(1, &connect, false);
    chart.check(&bytes, "request 0 /chat");
    chart.connection.send_status(super::Key(0), 200, b"", false);
    chart.check(&data(1, 3, false), "data 0 3");
    chart.connection.send_data(super::Key(0), b"ab", false);
    chart.sent("HEADERS 1 :status=200; DATA 1 2");
}
