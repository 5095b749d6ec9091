//! Charts of frames that come where they must not: on idle, half-closed and closed streams, within
//! header blocks, before the settings (RFC 9113, sections 3.4, 5.1 and 6).

use super::super::frame::{flag, kind};
use super::super::{Code, Config, Connection, Dialect, Role};
use super::{Chart, GET, OK, data, ping, raw, reset, settings, window};

/// Frames before which nothing but the greetings came.
#[track_caller]
fn check(role: Role, bytes: &[u8], events: &str) {
    let mut chart = match role {
        Role::Server => Chart::server(),
        Role::Client => Chart::client(),
    };
    chart.check(bytes, events);
}

#[test]
fn a_connection_begins_with_preface_and_settings() {
    let cases: &[(&[u8], &str)] = &[
        (b"PRI * HTTP/2.0\r\n\r\nSN", "ProtocolError"),
        (b"GET / HTTP/1.1\r\n", "ProtocolError"),
        (b"PRI * HTTP/2.0\r\n\r\n", ""),
    ];
    let fresh = |role| {
        let mut chart = Chart::server();
        chart.connection = Connection::new(&Config::new(role, Dialect::Public));
        chart
    };
    for (bytes, expected) in cases {
        fresh(Role::Server).check(bytes, expected);
    }
    let mut chart = fresh(Role::Client);
    chart.check(&ping(), "ProtocolError");
    let mut chart = fresh(Role::Client);
    chart.check(&raw(kind::SETTINGS, 1, 0, b""), "ProtocolError");
    chart.check(&settings(&[]), "ProtocolError");
}

#[test]
fn idle_streams_take_nothing_but_heads() {
    for role in [Role::Server, Role::Client] {
        check(role, &data(1, 1, false), "ProtocolError");
        check(role, &reset(1, Code::Cancel), "ProtocolError");
        check(role, &window(1, 1), "ProtocolError");
        check(role, &window(2, 1), "ProtocolError");
        check(role, &raw(kind::PRIORITY, 0, 1, &[0, 0, 0, 3, 0]), "");
    }
    let mut chart = Chart::client();
    let bytes = chart.headers(1, OK, true);
    chart.check(&bytes, "ProtocolError");
    let mut chart = Chart::server();
    let bytes = chart.headers(2, GET, true);
    chart.check(&bytes, "ProtocolError");
}

#[test]
fn ids_only_grow() {
    let mut chart = Chart::server();
    chart.request(5, true);
    let bytes = chart.headers(3, GET, true);
    chart.check(&bytes, "ProtocolError");
    chart.sent("GOAWAY 5 ProtocolError");
}

#[test]
fn half_closed_streams_take_no_more_messages() {
    let mut chart = Chart::server();
    chart.request(1, true);
    chart.check(&window(1, 1), "");
    chart.check(&data(1, 1, true), "reset 0 StreamClosed");
    chart.request(3, true);
    let bytes = chart.headers(3, &[("x", "y")], true);
    chart.check(&bytes, "reset 1 StreamClosed");
    chart.sent("RST_STREAM 1 StreamClosed; RST_STREAM 3 StreamClosed");
}

#[test]
fn an_empty_frame_that_breaks_its_stream_holds_nothing_up() {
    let mut chart = Chart::server();
    chart.request(1, true);
    let bytes = [data(1, 0, true), raw(kind::PING, 1, 0, &[9; 8])].concat();
    chart.check(&bytes, "reset 0 StreamClosed; pong 9");
}

#[test]
fn closed_streams_take_nothing() {
    let ended = || {
        let mut chart = Chart::server();
        let key = chart.request(1, true);
        chart.connection.send_status(key, 204, b"", true);
        chart.connection.release(key);
        chart.connection.output().clear();
        chart
    };
    ended().check(&window(1, 1), "");
    ended().check(&reset(1, Code::Cancel), "");
    let mut chart = ended();
    chart.check(&data(1, 1, false), "");
    chart.sent("RST_STREAM 1 StreamClosed");
    let mut chart = ended();
    let bytes = chart.headers(1, &[("x", "y")], true);
    chart.check(&bytes, "StreamClosed");
}

#[test]
fn what_was_under_way_when_we_reset_is_ignored() {
    let mut chart = Chart::server();
    let key = chart.request(1, false);
    chart.connection.reset(key, Code::Cancel);
    chart.connection.reset(key, Code::Cancel);
    chart.sent("RST_STREAM 1 Cancel");
    chart.check(&data(1, 5, false), "");
    chart.connection.release(key);
    chart.check(&data(1, 5, false), "");
    let trailers = chart.headers(1, &[("x", "y")], true);
    chart.check(&trailers, "");
    chart.sent("");
    let key = chart.request(3, true);
    chart.connection.release(key);
    chart.sent("RST_STREAM 3 Cancel");
}

#[test]
fn header_blocks_are_not_interrupted() {
    let start = raw(kind::HEADERS, 0, 1, b"");
    let then = |frame: Vec<u8>| [start.clone(), frame].concat();
    let server = Role::Server;
    check(server, &then(data(1, 1, false)), "ProtocolError");
    check(server, &then(ping()), "ProtocolError");
    check(server, &then(raw(0x77, 0, 1, b"")), "ProtocolError");
    let other = raw(kind::CONTINUATION, flag::END_HEADERS, 3, b"");
    check(server, &then(other.clone()), "ProtocolError");
    check(server, &other, "ProtocolError");
    let mut chart = Chart::server();
    let whole = chart.headers(1, GET, true);
    let (first, rest) = whole[9..].split_at(3);
    let mut bytes = raw(kind::HEADERS, flag::END_STREAM, 1, first);
    bytes.extend(raw(kind::CONTINUATION, 0, 1, b""));
    bytes.extend(raw(kind::CONTINUATION, flag::END_HEADERS, 1, rest));
    chart.check(&bytes, "request 0 / end");
}

#[test]
fn impossible_frames_break_the_connection() {
    for role in [Role::Server, Role::Client] {
        let promise = raw(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2]);
        check(role, &promise, "ProtocolError");
        let mut large = raw(kind::PING, 0, 0, &[0; 8]);
        large[..3].copy_from_slice(&[0, 0x40, 1]);
        check(role, &large, "FrameSizeError");
        check(role, &raw(kind::PING, 0, 0, &[0; 7]), "FrameSizeError");
        check(role, &raw(kind::SETTINGS, 0, 0, &[0; 5]), "FrameSizeError");
        check(role, &raw(kind::DATA, 0, 0, b"x"), "ProtocolError");
    }
    check(Role::Client, &settings(&[(2, 1)]), "ProtocolError");
    check(Role::Server, &settings(&[(2, 1)]), "settings");
    check(
        Role::Server,
        &raw(kind::HEADERS, flag::END_HEADERS, 1, b"\x80"),
        "CompressionError",
    );
}

#[test]
fn a_broken_connection_stays_broken() {
    let mut chart = Chart::server();
    chart.check(&data(0, 1, false), "ProtocolError");
    chart.check(&ping(), "ProtocolError");
    chart.sent("GOAWAY 0 ProtocolError");
    assert!(chart.connection.is_going_away());
}

#[test]
fn a_stream_does_not_depend_on_itself() {
    let mut chart = Chart::server();
    let block = chart.headers(1, GET, true)[9..].to_vec();
    let payload = [&[0, 0, 0, 1, 0][..], &block].concat();
    let flags = flag::END_HEADERS | flag::END_STREAM | flag::PRIORITY;
    chart.check(&raw(kind::HEADERS, flags, 1, &payload), "");
    chart.sent("RST_STREAM 1 ProtocolError");
    chart.request(3, false);
    let itself = raw(kind::PRIORITY, 0, 3, &[0, 0, 0, 3, 0]);
    chart.check(&itself, "reset 0 ProtocolError");
}

#[test]
fn malformed_messages_break_their_stream_alone() {
    let mut chart = Chart::server();
    let upper = [GET, &[("X-Upper", "1")]].concat();
    let bytes = chart.headers(1, &upper, true);
    chart.check(&bytes, "");
    chart.sent("RST_STREAM 1 ProtocolError");
    chart.request(3, false);
    let bytes = chart.headers(3, &[(":path", "/")], true);
    chart.check(&bytes, "reset 0 ProtocolError");
    chart.request(5, false);
    let bytes = chart.headers(5, &[("x", "y")], false);
    chart.check(&bytes, "reset 1 ProtocolError");
    let mut chart = Chart::asking(1).0;
    chart.check(&data(1, 1, false), "reset 0 ProtocolError");
}

#[test]
fn streams_beyond_the_limit_are_refused_and_the_tables_stay_in_step() {
    let mut chart = Chart::new(Role::Server, |config| config.limits.streams = 1);
    let first = chart.request(1, false);
    let fields = [GET, &[("x-same", "same")]].concat();
    for stream in [3, 5, 7] {
        let bytes = chart.headers(stream, &fields, true);
        chart.check(&bytes, "");
    }
    let refused = [3, 5, 7].map(|id| format!("RST_STREAM {id} RefusedStream"));
    chart.sent(&refused.join("; "));
    chart.connection.release(first);
    let bytes = chart.headers(9, &fields, true);
    chart.check(&bytes, "request 0 / end");
}
