//! Keep-alive on both sides, pipelining and half-close.

use crate::world::{World, echo, echo_with, scripted, scripted_with};
use testkit::client::End;
use testkit::{EchoServer, RawClient, Step, until};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const ACTIVE: &str = "leno_connections_active";

#[test]
fn one_upstream_connection_serves_many_requests() {
    let world = echo();
    let mut client = world.client();
    for number in 0..100 {
        let body = format!("request {number}");
        assert_eq!(client.post("/", &body).text(), body);
    }
    assert_eq!(
        (
            world.upstream.request_count(),
            world.upstream.connection_count()
        ),
        (100, 1)
    );
}

#[test]
fn one_upstream_connection_serves_many_clients_in_turn() {
    let world = echo();
    for _ in 0..20 {
        assert_eq!(world.client().get("/bytes/1").text(), "x");
    }
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn clients_at_the_same_time_have_connections_of_their_own() {
    let stalling = vec![
        Step::ReadRequest,
        Step::send("HTTP/1.1 100 Continue\r\n\r\n"),
        Step::Stall,
    ];
    let world = scripted(vec![stalling]);
    let mut clients: Vec<_> = (0..5).map(|_| world.client()).collect();
    clients.iter_mut().for_each(|client| client.send(GET));
    clients
        .iter_mut()
        .for_each(|client| assert_eq!(client.response().status(), 100));
    assert_eq!(world.upstream.connection_count(), 5);
}

#[test]
fn pool_of_no_size_keeps_no_connection() {
    let world = echo_with(|sidecar| sidecar.with("limits: {poolConnections: 0}"));
    let mut client = world.client();
    let used = [0, 1, 2].map(|_| client.get("/").header("x-connection").map(str::to_owned));
    assert_eq!(used, ["0", "1", "2"].map(|number| Some(number.to_owned())));
    until("all are closed", || world.upstream.open_connections() == 0);
}

#[test]
fn unused_upstream_connection_is_closed_after_its_time() {
    let world = echo_with(|sidecar| sidecar.with("limits: {poolIdleTimeout: 200ms}"));
    let mut client = world.client();
    client.get("/");
    until("it is closed", || world.upstream.open_connections() == 0);
    assert_eq!(client.get("/bytes/1").text(), "x");
    assert_eq!(world.upstream.connection_count(), 2);
}

#[test]
fn answer_with_bytes_behind_it_does_not_disturb_the_next_one() {
    let stray = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok\
                 HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    let world = scripted(vec![
        vec![Step::ReadRequest, Step::send(stray), Step::ReadEnd],
        vec![Step::ReadRequest, Step::answer("good"), Step::ReadEnd],
    ]);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "ok");
    assert_eq!(client.get("/").text(), "good");
    world.upstream.finished(0);
}

/// Requests of several kinds, and the bodies of the answers.
fn pipeline(count: usize) -> (String, Vec<String>) {
    let request = |n: usize| match n % 3 {
        0 => format!("GET /bytes/{n} HTTP/1.1\r\nhost: a\r\n\r\n"),
        1 => format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n{n:04}"),
        _ => format!(
            "PUT / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\n{n:04}\r\n0\r\n\r\n"
        ),
    };
    let answer = |n: usize| match n % 3 {
        0 => "x".repeat(n),
        _ => format!("{n:04}"),
    };
    (
        (0..count).map(request).collect(),
        (0..count).map(answer).collect(),
    )
}

#[track_caller]
fn expect_in_order(client: &mut RawClient, world: &World<EchoServer>, answers: &[String]) {
    for answer in answers {
        assert_eq!(&client.response().text(), answer);
    }
    assert_eq!(world.upstream.request_count(), answers.len());
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn pipelined_requests_in_one_segment_are_answered_in_order() {
    let (world, (requests, answers)) = (echo(), pipeline(60));
    let mut client = world.client();
    client.send(requests);
    expect_in_order(&mut client, &world, &answers);
}

#[test]
fn pipelined_requests_may_be_cut_anywhere() {
    let (requests, answers) = pipeline(12);
    for size in [1, 2, 3, 7, 50, 61, 333] {
        let world = echo();
        let mut client = world.client();
        client.send_in_pieces(size, &requests);
        expect_in_order(&mut client, &world, &answers);
    }
}

#[test]
fn thousand_pipelined_requests_do_not_block_each_other() {
    let (world, (requests, answers)) = (echo(), pipeline(1000));
    let mut client = world.client();
    client.send(requests);
    expect_in_order(&mut client, &world, &answers);
}

#[test]
fn pipelined_requests_after_a_close_are_not_served() {
    let world = echo();
    let mut client = world.client();
    client.send(format!(
        "GET /1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n{GET}{GET}"
    ));
    assert_eq!(client.response().header("connection"), Some("close"));
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    assert_eq!(world.upstream.request_count(), 1);
}

#[test]
fn empty_line_between_requests_is_forgiven() {
    let world = echo();
    let mut client = world.client();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nok\r\n");
    assert_eq!(client.response().text(), "ok");
    assert_eq!(client.get("/bytes/1").text(), "x");
}

#[test]
fn client_that_half_closes_is_still_answered() {
    let world = echo();
    for request in [
        "GET /bytes/5 HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nxxxxx",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nxxxxx\r\n0\r\n\r\n",
    ] {
        let mut client = world.client();
        client.send(request);
        client.half_close();
        assert_eq!(client.response().text(), "xxxxx");
        assert_eq!(client.read_to_end(), (vec![], End::Closed));
    }
}

#[test]
fn client_that_half_closes_gets_a_large_answer_whole() {
    let world = echo();
    let mut client = world.client();
    client.send("GET /bytes/5000000 HTTP/1.1\r\nhost: a\r\n\r\n");
    client.half_close();
    assert_eq!(client.response().body.len(), 5_000_000);
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
}

#[test]
fn all_pipelined_requests_before_a_half_close_are_answered() {
    let (world, (requests, answers)) = (echo(), pipeline(20));
    let mut client = world.client();
    client.send(requests);
    client.half_close();
    expect_in_order(&mut client, &world, &answers);
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
}

#[test]
fn half_closed_connections_leave_nothing_behind() {
    let world = echo();
    let mut client = world.client();
    client.get("/");
    let before = world.proxy.open_fds();
    for _ in 0..50 {
        let mut client = world.client();
        client.send(GET);
        client.half_close();
        client.response();
        client.read_to_end();
    }
    until("only the first is left", || {
        world.proxy.metric(ACTIVE, &[]) < 1.5
    });
    until("no descriptor is left", || world.proxy.open_fds() <= before);
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let world = echo_with(|sidecar| sidecar.with("limits: {connections: 2}"));
    let mut two = [world.client(), world.client()];
    two.iter_mut()
        .for_each(|client| assert_eq!(client.get("/").status(), 200));
    assert_eq!(world.client().read_to_end().0, b"");
    world
        .proxy
        .metric_becomes("leno_connections_rejected_total", &[], 1.0);
    let [first, mut second] = two;
    drop(first);
    until("there is room again", || {
        world.client().try_get("/").is_ok()
    });
    assert_eq!(second.get("/").status(), 200);
}

#[test]
fn reset_of_the_client_ends_its_request_upstream() {
    let world = scripted_with(vec![vec![Step::ReadHead, Step::ReadEnd]], |sidecar| sidecar);
    let mut client = world.client();
    client.send(GET);
    until("the upstream has it", || {
        world.upstream.received_text(0) == GET
    });
    client.reset();
    world.upstream.finished(0);
    world.flagged("DC", 1.0);
}
