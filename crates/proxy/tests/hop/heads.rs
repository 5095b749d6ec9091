//! Long heads over the hop: up to the limits they pass, above they are refused by status, and the
//! connection they would have taken serves others.

use crate::world::{PROXY, echo, warm};
use testkit::{EchoServer, Pair, Sidecar, until};

fn lines(count: usize, bytes: usize) -> String {
    let line = |n| format!("X-Line-{n:04}: {}\r\n", "v".repeat(bytes));
    (0..count).map(line).collect()
}

fn request(lines: &str) -> String {
    format!("GET /long HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

#[test]
fn f13_long_heads_pass_up_to_the_limits() {
    let pair = echo();
    let mut client = warm(&pair);
    // Near 64 KiB as HTTP/1 counts, in few lines and in many.
    for lines in [
        lines(190, 300),
        lines(8, 8_000),
        lines(198, 1),
        lines(1, 64_000),
    ] {
        assert!(lines.len() < 64 * 1024);
        assert_eq!(client.ask(request(&lines)).status(), 200, "{}", lines.len());
        let received = pair.app.requests().pop().unwrap();
        assert_eq!(received.headers.len(), lines.lines().count() + 1);
    }
}

#[test]
fn long_target_passes() {
    let pair = echo();
    let target = format!("/{}?{}", "p".repeat(30_000), "q".repeat(30_000));
    let answer = pair.client().get(&target);
    assert_eq!(answer.status(), 200);
    assert_eq!(pair.app.requests()[0].target(), target);
}

#[test]
fn head_above_the_limits_is_refused_by_status() {
    let pair = echo();
    for lines in [lines(300, 1), lines(300, 300), lines(1, 70_000)] {
        assert_eq!(pair.client().ask(request(&lines)).status(), 431);
    }
    assert_eq!(warm(&pair).get("/").status(), 200);
}

#[test]
fn head_that_only_the_servers_side_refuses_costs_one_request() {
    let small = |sidecar: Sidecar| sidecar.with("limits: {headBytes: 4096, headers: 20}");
    let pair = Pair::start_with(PROXY, EchoServer::start(), small, |outbound| outbound);
    let mut client = warm(&pair);
    for lines in [lines(30, 1), lines(7, 1000), lines(1, 7_000)] {
        let answer = client.ask(request(&lines));
        assert_eq!(answer.status(), 431, "{}: {}", lines.len(), answer.text());
        assert_eq!(client.get("/").status(), 200);
    }
    assert!((pair.hop_connections() - 1.0).abs() < 0.5);
}

#[test]
fn long_head_of_an_answer_passes() {
    let lines = lines(190, 300);
    let answer = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nhi");
    let received = crate::world::answered_text(crate::world::GET, &answer);
    assert!(received == answer, "{} of {}", received.len(), answer.len());
}

#[test]
fn answer_whose_head_is_above_the_limits_is_a_bad_gateway() {
    for lines in [lines(300, 1), lines(1, 70_000)] {
        let answer = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nhi");
        let received = crate::world::answered_text(crate::world::GET, &answer);
        assert!(received.starts_with("HTTP/1.1 502 "), "{}", &received[..40]);
    }
}

#[test]
fn answer_whose_head_only_the_clients_side_refuses_costs_one_request() {
    let small = |sidecar: Sidecar| sidecar.with("limits: {headBytes: 4096, headers: 20}");
    let lines = lines(30, 100);
    let once = [
        testkit::Step::ReadRequest,
        testkit::Step::send(format!(
            "HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nhi"
        )),
        testkit::Step::ReadRequest,
        testkit::Step::answer("short"),
    ];
    let app = testkit::ScriptedUpstream::always(once.to_vec());
    let pair = Pair::start_with(PROXY, app, |inbound| inbound, small);
    let mut client = pair.client();
    assert_eq!(client.get("/").status(), 502);
    until("another is served", || client.get("/").text() == "short");
    assert!((pair.hop_connections() - 1.0).abs() < 0.5);
}
