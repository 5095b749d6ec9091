//! Heads go on as they came but for what is dropped or added.

use super::*;
use wire::http1::{Limits, Method, Parsed};

const LIMITS: Limits = Limits {
    head_bytes: 65_536,
    headers: 200,
};

fn request(head: &str, extra: &str, dropped: &[&str]) -> String {
    let mut exchange = Exchange::default();
    let parsed = exchange.request.parse(head.as_bytes(), &LIMITS).unwrap();
    assert_eq!(parsed, Parsed::Complete);
    for name in dropped {
        exchange.drop_request_line(head.as_bytes(), name);
    }
    exchange.request_extra.extend_from_slice(extra.as_bytes());
    let body = head.len() - exchange.request.len;
    exchange.with_request(head.as_bytes(), body, b"", joined)
}

fn joined(slices: &[IoSlice<'_>]) -> String {
    let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
    String::from_utf8(all).unwrap()
}

#[test]
fn an_unchanged_head_is_one_slice_with_its_body() {
    let head = "POST /x HTTP/1.1\r\nhOsT: a\r\nContent-Length: 2\r\n\r\nhi";
    let mut exchange = Exchange::default();
    exchange.request.parse(head.as_bytes(), &LIMITS).unwrap();
    let slices = exchange.with_request(head.as_bytes(), 2, b"", |slices| slices.len());
    assert_eq!(slices, 1);
    assert_eq!(request(head, "", &[]), head);
}

#[test]
fn dropped_lines_go_and_added_ones_come_last() {
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nX: 1\r\nB: 2\r\nx: 3\r\n\r\n";
    let sent = request(head, "y: 4\r\n", &["x"]);
    assert_eq!(sent, "GET / HTTP/1.1\r\nHost: a\r\nB: 2\r\ny: 4\r\n\r\n");
}

#[test]
fn an_added_line_can_be_taken_away_again() {
    let mut exchange = Exchange::default();
    exchange
        .request_extra
        .extend_from_slice(b"a: 1\r\nX-b: 2\r\nc: 3\r\n");
    exchange.drop_request_line(b"", "x-B");
    assert_eq!(exchange.request_extra, b"a: 1\r\nc: 3\r\n");
}

#[test]
fn http10_and_absolute_targets_become_http11_in_origin_form() {
    let sent = request("GET /p HTTP/1.0\r\nA: b\r\n\r\n", "host: \r\n", &[]);
    assert_eq!(sent, "GET /p HTTP/1.1\r\nA: b\r\nhost: \r\n\r\n");
    let head = "GET http://h?q HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
    let sent = request(head, "host: h\r\n", &["host"]);
    assert_eq!(sent, "GET /?q HTTP/1.1\r\nA: b\r\nhost: h\r\n\r\n");
}

#[test]
fn more_runs_than_slices_are_copied() {
    let mut head = String::from("GET / HTTP/1.1\r\nHost: a\r\n");
    let mut kept = head.clone();
    for place in 0..3 * SLICES {
        head.push_str(&format!("drop: {place}\r\nkeep: {place}\r\n"));
        kept.push_str(&format!("keep: {place}\r\n"));
    }
    head.push_str("\r\n");
    kept.push_str("\r\n");
    assert_eq!(request(&head, "", &["drop"]), kept);
}

#[test]
fn an_answer_of_http10_becomes_http11() {
    let head = "HTTP/1.0 200 Fine\r\nContent-Length: 2\r\n\r\nok";
    let mut exchange = Exchange::default();
    exchange
        .response
        .parse(head.as_bytes(), &LIMITS, Method::Get)
        .unwrap();
    let sent = exchange.with_response(head.as_bytes(), 2, b"", joined);
    assert_eq!(sent, "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok");
}
