//! HTTP/2 and gRPC: the counts of runs against the echo server, and peers that misbehave.

use crate::world::{Treatment, body, echo, framed, local, plan, run, scripted_h2, shown};
use bytes::Bytes;
use h2::Reason;
use http::Response;
use load::{Error, Failure, GrpcMode, Outcome, Plan, Protocol, Rate, report, serve};
use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

const UNARY: Protocol = Protocol::Grpc(GrpcMode::Unary);
const STREAM: Protocol = Protocol::Grpc(GrpcMode::Stream);

fn streams(address: SocketAddr, protocol: Protocol, path: &str) -> Plan {
    Plan {
        protocol,
        streams: 5,
        body: b"what is sent".to_vec(),
        method: "POST".to_owned(),
        ..plan(address, path, 200.0)
    }
}

/// Every request ended well; how many there were.
fn all_well(outcome: &Outcome) -> u64 {
    assert_eq!(outcome.failed(), 0, "{:?}", outcome.failures);
    assert_eq!(outcome.statuses.get(&200), Some(&outcome.requests));
    outcome.requests
}

#[test]
fn a_closed_loop_keeps_every_stream_of_every_connection_busy() {
    let server = echo();
    let mut plan = plan(server.address(), "/?delay=20ms&size=10", 1.0);
    (plan.protocol, plan.rate) = (Protocol::Http2, Rate::Max);
    (plan.connections, plan.streams, plan.threads) = (10, 10, 2);
    let outcome = run(&plan);
    let requests = all_well(&outcome);
    // A hundred at a time, 20 ms each at least: at most 5000, and no fewer than one round.
    assert!((100..=5100).contains(&requests), "{requests}");
    assert_eq!(outcome.bytes_received, 10 * requests);
    assert_eq!(outcome.latency, outcome.latency_from_send);
    assert!(outcome.latency.min() >= 20_000_000);
    server.stop();
    let served = server.join().unwrap();
    assert_eq!(served.connections, 10);
    assert!(served.answers >= requests, "{}", served.answers);
}

#[test]
fn an_open_loop_sends_what_the_schedules_of_its_streams_hold() {
    for protocol in [Protocol::Http2, UNARY, STREAM] {
        let server = echo();
        let mut plan = streams(server.address(), protocol, "/");
        plan.warm_up = Duration::from_millis(300);
        plan.threads = 3;
        let outcome = run(&plan);
        assert_eq!(all_well(&outcome), 200, "{protocol:?}");
        assert_eq!((outcome.scheduled, outcome.unfinished), (200, 0));
        assert_eq!(outcome.asked_rate, Some(200.0));
        assert_eq!(outcome.latency.len(), 200);
        assert_eq!(outcome.bytes_sent, outcome.bytes_received, "{protocol:?}");
        server.stop();
        // The warm-up's came on top.
        assert_eq!(server.join().unwrap().answers, 260, "{protocol:?}");
    }
}

#[test]
fn a_stall_shows_in_the_open_loop_and_not_from_send() {
    let mut options = serve::Options::new(local());
    options.stall = Some(serve::Stall {
        before_answer: 100,
        length: Duration::from_secs(1),
    });
    let server = serve::start(&options).unwrap();
    let mut plan = plan(server.address(), "/", 200.0);
    (plan.protocol, plan.streams, plan.connections) = (Protocol::Http2, 2, 2);
    plan.duration = Duration::from_secs(2);
    let outcome = run(&plan);
    assert_eq!(all_well(&outcome) + outcome.unfinished, 400);
    let held_up = outcome.latency.count_between(500_000_000, u64::MAX);
    assert!(held_up + outcome.unfinished >= 95, "{held_up}");
    // Those before it were not, however busy the machine is.
    assert!(held_up < outcome.requests, "{held_up}");
    let in_flight = outcome
        .latency_from_send
        .count_between(500_000_000, u64::MAX);
    assert!((1..=4).contains(&in_flight), "{in_flight}");
}

#[test]
fn bodies_larger_than_any_window_go_and_come_whole() {
    for protocol in [Protocol::Http2, UNARY, STREAM] {
        let server = echo();
        let mut plan = streams(server.address(), protocol, "/");
        plan.rate = Rate::PerSecond(20.0);
        plan.duration = Duration::from_millis(200);
        plan.body = vec![b'x'; 5_000_000];
        let outcome = run(&plan);
        assert_eq!(all_well(&outcome), 4, "{protocol:?}");
        assert!(outcome.bytes_received >= 20_000_000, "{protocol:?}");
    }
}

#[test]
fn statuses_are_those_that_the_query_asks_for() {
    let server = echo();
    let outcome = run(&streams(server.address(), Protocol::Http2, "/?status=503"));
    assert_eq!(outcome.statuses.get(&503), Some(&200));
    assert_eq!((outcome.errors(), outcome.failed()), (200, 0));
}

#[test]
fn a_grpc_method_that_is_unknown_is_a_failure_each_time() {
    for protocol in [UNARY, STREAM] {
        let server = echo();
        let outcome = run(&streams(
            server.address(),
            protocol,
            "/leno.load.Echo/Nothing",
        ));
        assert_eq!(outcome.failures.get(&Failure::GrpcStatus), Some(&200));
        assert_eq!(outcome.errors(), 200);
    }
}

#[test]
fn results_name_the_protocol_and_what_the_generator_used() {
    let server = echo();
    let outcome = run(&streams(server.address(), STREAM, "/"));
    let json = report::fortio(&outcome);
    assert_eq!(json["RunType"], "GRPC");
    assert_eq!(json["NumThreads"], 20);
    assert_eq!(json["RetCodes"]["OK"], 200);
    let own = &json["Leno"];
    assert_eq!(own["Protocol"], "grpc");
    assert_eq!(own["GrpcMode"], "stream");
    assert_eq!(own["Streams"], 5);
    assert!(own["GeneratorCpu"].as_f64().unwrap() > 0.0);
    let text = report::text(&outcome);
    let line = "  grpc stream, 4 connections × 5 streams, 1 s measured";
    assert!(text.contains(line) && text.contains("s of CPU"), "{text}");
    assert!(text.contains("200 × OK"), "{text}");
}

/// Runs against a peer that treats every request so.
fn against(protocol: Protocol, treat: Treatment) -> Outcome {
    run(&streams(scripted_h2(treat), protocol, "/"))
}

fn check(protocol: Protocol, treat: Treatment, expected: Failure) {
    let outcome = against(protocol, treat);
    assert_eq!(
        outcome.failures.get(&expected),
        Some(&200),
        "{protocol:?}: {}",
        shown(&outcome)
    );
    assert_eq!(outcome.reconnects, 0, "the connections were not at fault");
}

#[test]
fn a_stream_that_is_reset_fails_its_request_only() {
    for protocol in [Protocol::Http2, UNARY] {
        check(
            protocol,
            |_, respond| respond.send_reset(Reason::INTERNAL_ERROR),
            Failure::Reset,
        );
    }
}

#[test]
fn a_request_that_is_never_answered_times_out_in_the_tail() {
    let address = scripted_h2(|_, respond| {
        let mut send = respond.send_response(Response::new(()), false).unwrap();
        send.send_data(Bytes::from_static(b"half"), false).unwrap();
        // Dropped, it would be reset.
        let _ = Box::leak(Box::new(send));
    });
    let mut plan = streams(address, Protocol::Http2, "/");
    plan.timeout = Duration::from_secs(1);
    let outcome = run(&plan);
    let timeouts = outcome.failures.get(&Failure::Timeout).copied();
    assert_eq!(timeouts, Some(outcome.requests), "{}", shown(&outcome));
    assert_eq!(outcome.requests + outcome.unfinished, 200);
    assert!(outcome.latency.min() >= 999_000_000);
}

#[test]
fn a_grpc_echo_must_be_what_was_sent() {
    let answers: [Treatment; 3] = [
        |_, respond| body(respond, framed(b"something else"), Some("0")),
        |_, respond| body(respond, framed(b"what is"), Some("0")),
        |request, respond| {
            let twice = [request.body().clone(), request.body().clone()].concat();
            body(respond, twice.into(), Some("0"));
        },
    ];
    for answer in answers {
        check(UNARY, answer, Failure::WrongEcho);
    }
}

#[test]
fn a_grpc_status_other_than_ok_is_a_failure_even_after_the_right_echo() {
    check(
        UNARY,
        |request, respond| body(respond, request.into_body(), Some("13")),
        Failure::GrpcStatus,
    );
}

#[test]
fn grpc_without_a_status_is_malformed() {
    check(
        UNARY,
        |request, respond| body(respond, request.into_body(), None),
        Failure::Malformed,
    );
}

#[test]
fn an_http_error_in_the_place_of_grpc_is_counted_by_its_status() {
    let outcome = against(UNARY, |_, respond| {
        let response = Response::builder().status(503).body(()).unwrap();
        respond.send_response(response, true).unwrap();
    });
    assert_eq!(outcome.statuses.get(&503), Some(&200));
    assert_eq!(outcome.errors(), 200);
}

#[test]
fn a_peer_that_speaks_http1_only_ends_the_run_before_it_begins() {
    let address = crate::world::scripted(|mut stream| {
        crate::world::read_request(&mut stream);
        crate::world::write(&mut stream, "HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let mut plan = plan(address, "/", 10.0);
    plan.protocol = Protocol::Http2;
    let error = load::run(&plan, &mut |_| {}).unwrap_err();
    assert!(
        error.to_string().contains("may not speak HTTP/2"),
        "{error}"
    );
}

#[test]
fn a_refused_connection_ends_the_run_before_it_begins() {
    let listener = TcpListener::bind(local()).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = load::run(&streams(address, Protocol::Http2, "/"), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[test]
fn a_server_that_goes_away_leaves_every_request_accounted_for() {
    for protocol in [Protocol::Http2, UNARY, STREAM] {
        let server = echo();
        let plan = streams(server.address(), protocol, "/");
        let outcome = load::run(&plan, &mut |progress| {
            if progress.answers > 20 {
                server.stop();
            }
        })
        .unwrap();
        assert!(outcome.failed() > 0, "{protocol:?}: {}", shown(&outcome));
        assert_eq!(outcome.requests + outcome.unfinished, outcome.scheduled);
    }
}

#[test]
fn a_server_that_is_replaced_is_found_again() {
    let server = echo();
    let address = server.address();
    let plan = streams(address, STREAM, "/");
    let (mut first, mut second) = (Some(server), None);
    let outcome = load::run(&plan, &mut |progress| {
        if progress.answers > 20
            && let Some(server) = first.take()
        {
            server.stop();
            server.join().unwrap();
            second = Some(serve::start(&serve::Options::new(address)).unwrap());
        }
    })
    .unwrap();
    assert!(outcome.reconnects >= 4, "{}", shown(&outcome));
    assert_eq!(outcome.requests + outcome.unfinished, 200);
    assert!(second.unwrap().answers() > 50, "{}", shown(&outcome));
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let address = "127.0.0.1:1".parse().unwrap();
    let check = |change: fn(&mut Plan), hint: &str| {
        let mut plan = streams(address, Protocol::Http2, "/");
        change(&mut plan);
        let text = load::run(&plan, &mut |_| {}).unwrap_err().to_string();
        assert!(text.contains(hint), "{text}");
    };
    check(|plan| plan.streams = 0, "streams must be at least 1");
    check(|plan| plan.streams = u32::MAX, "at most 1048576");
    check(|plan| plan.protocol = Protocol::Http1, "needs the protocol");
    check(|plan| plan.url = "https://a/".to_owned(), "plaintext only");
    check(
        |plan| plan.headers.push(("Upgrade".to_owned(), "x".to_owned())),
        "leave it out",
    );
}
