//! The forms of a request target and the Host header.

use crate::world::{forwarded, scripted};
use testkit::Step;

/// A request line and a Host header, and what the upstream receives of them.
#[track_caller]
fn check(line: &str, host: &str, line_passed: &str, host_passed: &str) {
    let received = forwarded(format!("{line} HTTP/1.1\r\nHost: {host}\r\nx: 1\r\n\r\n"));
    let mut lines: Vec<_> = received
        .trim_end()
        .split("\r\n")
        .map(str::to_lowercase)
        .collect();
    lines[1..].sort();
    let first = format!("{line_passed} HTTP/1.1").to_lowercase();
    assert_eq!(lines, [&first, &format!("host: {host_passed}"), "x: 1"]);
}

#[test]
fn origin_form_and_host_pass_as_they_are() {
    check("GET /", "a", "GET /", "a");
    check("GET /?", "a.b:8080", "GET /?", "a.b:8080");
    check(
        "GET /a?b?c=http://d/",
        "[::1]:80",
        "GET /a?b?c=http://d/",
        "[::1]:80",
    );
    check("GET /", "", "GET /", "");
}

#[test]
fn absolute_form_becomes_origin_form() {
    check("GET http://a/b?c", "a", "GET /b?c", "a");
    check("GET HTTP://a:80/b", "a:80", "GET /b", "a:80");
    check("POST https://a.b:8443/", "a.b:8443", "POST /", "a.b:8443");
    check("GET http://[::1]:80/", "[::1]:80", "GET /", "[::1]:80");
}

#[test]
fn absolute_form_without_a_path_asks_for_the_root() {
    check("GET http://a", "a", "GET /", "a");
    check("GET http://a?b=c", "a", "GET /?b=c", "a");
}

#[test]
fn asterisk_passes_for_options() {
    check("OPTIONS *", "a", "OPTIONS *", "a");
    check("OPTIONS /", "a", "OPTIONS /", "a");
}

#[test]
fn options_of_a_whole_server_in_absolute_form_becomes_an_asterisk() {
    check("OPTIONS http://a:80", "a:80", "OPTIONS *", "a:80");
}

#[test]
fn connect_is_refused_and_never_a_tunnel() {
    let world = scripted(vec![vec![Step::ReadEnd]]);
    let mut client = world.client();
    client.send("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n");
    assert_eq!(client.response().status(), 501);
    client.read_to_end();
    assert_eq!(world.upstream.received_text(0), "");
}
