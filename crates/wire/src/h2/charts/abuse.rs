//! Charts of peers that attack: each of them is cut off with ENHANCE_YOUR_CALM, and who does the
//! same in measure is not.

use super::super::frame::{flag, kind};
use super::super::{Code, Role};
use super::{Chart, GET, data, ping, raw, reset, settings, window};

/// After how many of `frame` the connection is cut off; they come in large reads.
fn flood(chart: &mut Chart, frame: &[u8], most: usize) -> Option<usize> {
    let all = frame.repeat(most);
    let mut at = 0;
    loop {
        match chart.connection.receive(&all[at..]) {
            Ok(received) if received.consumed == 0 => return None,
            Ok(received) => at += received.consumed,
            Err(violation) => {
                assert_eq!(violation.code, Code::EnhanceYourCalm);
                return Some(at / frame.len());
            }
        }
        chart.connection.output().clear();
    }
}

#[test]
fn frames_without_use_are_bounded() {
    let frames = [
        ping(),
        settings(&[]),
        data(1, 0, false),
        raw(kind::DATA, flag::PADDED, 1, b"\x02\0\0"),
        raw(kind::PRIORITY, 0, 1, &[0, 0, 0, 3, 0]),
        window(1, 1),
        window(0, 1),
        raw(0x77, 0, 0, b"what"),
        raw(kind::GOAWAY, 0, 0, &[0; 8]),
    ];
    for frame in frames {
        let mut chart = Chart::server();
        chart.request(1, false);
        assert_eq!(flood(&mut chart, &frame, 5000), Some(1000), "{frame:?}");
    }
}

#[test]
fn useful_work_pays_for_them() {
    let mut chart = Chart::server();
    let key = chart.request(1, false);
    let mixed = [data(1, 1, false), ping().repeat(9)].concat();
    assert_eq!(flood(&mut chart, &mixed, 5000), None);
    chart.connection.send_status(key, 200, b"", false);
    for _ in 0..5000 {
        chart.connection.send_data(key, b"x", false);
        chart.check(&[window(1, 1), window(0, 1)].concat(), "");
        chart.connection.output().clear();
    }
}

#[test]
fn a_frame_alone_is_no_flood() {
    let mut chart = Chart::server();
    for _ in 0..5000 {
        chart.check(&ping(), "");
        chart.connection.output().clear();
    }
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    let mut chart = Chart::server();
    let cut = (0..200_000).find(|_| chart.connection.receive(&ping()).is_err());
    assert!(cut.is_some());
    let bytes = chart.connection.output_len();
    assert!(bytes < (1 << 20) + 100, "{bytes}");
}

#[test]
fn rapid_resets_are_bounded() {
    let mut chart = Chart::server();
    let cut = (0..5000).find(|at| {
        let key = chart.request(2 * at + 1, true);
        let is_cut = chart
            .connection
            .receive(&reset(2 * at + 1, Code::Cancel))
            .is_err();
        chart.connection.release(key);
        is_cut
    });
    assert_eq!(cut, Some(500));
}

#[test]
fn resets_of_answered_streams_are_not() {
    let mut chart = Chart::server();
    for at in 0..2000 {
        let key = chart.request(2 * at + 1, true);
        chart.connection.send_status(key, 200, b"", false);
        chart.check(&reset(2 * at + 1, Code::Cancel), "reset 0 Cancel");
        chart.connection.release(key);
        chart.connection.output().clear();
    }
}

#[test]
fn streams_that_we_are_made_to_reset_are_bounded() {
    let malformed = [GET, &[("X", "")]].concat();
    let mut chart = Chart::server();
    let cut = (0..5000).find(|at| {
        let bytes = chart.headers(2 * at + 1, &malformed, true);
        let is_cut = chart.connection.receive(&bytes).is_err();
        chart.connection.output().clear();
        is_cut
    });
    assert_eq!(cut, Some(500));
    let mut chart = Chart::server();
    let cut = (0..5000).find(|at| {
        let key = chart.request(2 * at + 1, true);
        let is_cut = chart.connection.receive(&window(2 * at + 1, 0)).is_err();
        chart.connection.release(key);
        chart.connection.output().clear();
        is_cut
    });
    assert_eq!(cut, Some(500));
}

#[test]
fn header_blocks_end() {
    let start = raw(kind::HEADERS, 0, 1, b"");
    let check = |more: Vec<u8>, expected: usize| {
        let mut chart = Chart::server();
        chart.check(&start, "");
        assert_eq!(flood(&mut chart, &more, 100), Some(expected));
    };
    check(raw(kind::CONTINUATION, 0, 1, b""), 32);
    check(raw(kind::CONTINUATION, 0, 1, &[0; 16_384]), 8);
}

#[test]
fn a_header_bomb_makes_no_text() {
    // One line of 4,000 bytes enters the table; each further byte of the block repeats it.
    let mut chart = Chart::new(Role::Server, |config| config.limits.headers = usize::MAX);
    let mut block = chart.headers(1, GET, true)[9..].to_vec();
    block.extend_from_slice(&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    block.extend_from_slice(&[b'y'; 4000]);
    block.extend_from_slice(&[0x80 | 62; 10_000]);
    let bytes = raw(
        kind::HEADERS,
        flag::END_HEADERS | flag::END_STREAM,
        1,
        &block,
    );
    chart.check(&bytes, "too large 0");
    let mut text = Vec::new();
    chart.connection.take_trailers(&mut text);
    assert!(text.len() <= 65_536, "{}", text.len());
}

#[test]
fn closed_streams_that_are_not_released_take_room() {
    let mut chart = Chart::new(Role::Server, |config| config.limits.streams = 2);
    for at in 0..4 {
        chart.request(2 * at + 1, true);
        let events = chart.events(&reset(2 * at + 1, Code::Cancel));
        assert_eq!(events, format!("reset {at} Cancel"));
    }
    let bytes = chart.headers(9, GET, true);
    chart.check(&bytes, "");
    chart.sent("RST_STREAM 9 RefusedStream");
}
