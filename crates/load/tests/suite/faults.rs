//! Targets that misbehave: every request is accounted for, and the run goes on.

use crate::world::{echo, plan, read_request, run, scripted, write};
use load::{Error, Failure, Rate};
use std::{net::TcpListener, time::Duration};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_refused_connection_ends_the_run_before_it_begins() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = load::run(&plan(address, "/", 10.0), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    assert!(
        error.to_string().contains("is the server listening"),
        "{error}"
    );
}

#[test]
fn meaningless_plans_are_refused_with_a_hint() {
    let address = "127.0.0.1:1".parse().unwrap();
    let check = |change: fn(&mut load::Plan), hint: &str| {
        let mut plan = plan(address, "/", 10.0);
        change(&mut plan);
        let text = load::run(&plan, &mut |_| {}).unwrap_err().to_string();
        assert!(text.contains(hint), "{text}");
    };
    check(
        |plan| plan.connections = 0,
        "connections must be at least 1",
    );
    check(|plan| plan.rate = Rate::PerSecond(0.0), "above 0");
    check(|plan| plan.duration = Duration::ZERO, "duration");
    check(|plan| plan.cpus = vec![100_000], "no CPU 100000");
    check(|plan| plan.method = "A B".to_owned(), "no HTTP method");
}

#[test]
fn a_close_after_each_answer_is_no_failure() {
    let address = scripted(|mut stream| {
        read_request(&mut stream);
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        );
    });
    let outcome = run(&plan(address, "/", 100.0));
    assert_eq!(outcome.statuses.get(&200), Some(&100));
    assert_eq!(outcome.failed(), 0);
    assert!(outcome.reconnects >= 90, "{}", outcome.reconnects);
}

#[test]
fn an_answer_that_ends_with_the_connection_is_whole() {
    let address = scripted(|mut stream| {
        read_request(&mut stream);
        write(&mut stream, "HTTP/1.0 200 OK\r\n\r\nuntil the end");
    });
    let outcome = run(&plan(address, "/", 50.0));
    assert_eq!(
        (outcome.statuses.get(&200), outcome.failed()),
        (Some(&50), 0)
    );
}

#[test]
fn an_answer_cut_short_is_a_failure() {
    let address = scripted(|mut stream| {
        read_request(&mut stream);
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        );
    });
    let outcome = run(&plan(address, "/", 50.0));
    assert_eq!(outcome.failures.get(&Failure::Closed), Some(&50));
    assert!(
        outcome.latency.is_empty(),
        "what was cut off has no latency"
    );
    assert_eq!(outcome.latency_failed.len(), 50);
}

#[test]
fn an_answer_that_is_not_http_is_a_failure() {
    let address = scripted(|mut stream| {
        read_request(&mut stream);
        write(&mut stream, "220 mail ready\r\n\r\n");
        read_request(&mut stream);
    });
    let outcome = run(&plan(address, "/", 50.0));
    assert_eq!(outcome.failures.get(&Failure::Malformed), Some(&50));
}

#[test]
fn a_timeout_counts_in_the_tail() {
    let address = scripted(|mut stream| {
        // Never answers.
        while read_request(&mut stream) {}
    });
    let mut plan = plan(address, "/", 40.0);
    plan.timeout = Duration::from_millis(100);
    plan.connections = 10;
    let outcome = run(&plan);
    assert_eq!(outcome.failures.get(&Failure::Timeout), Some(&40));
    assert_eq!(outcome.latency.len(), 40);
    assert!(
        outcome.latency.min() >= 99_900_000,
        "{}",
        outcome.latency.min()
    );
}

#[test]
fn answers_in_pieces_are_put_together() {
    let address = scripted(|mut stream| {
        stream.set_nodelay(true).unwrap();
        while read_request(&mut stream) {
            for byte in OK.chars() {
                write(&mut stream, byte.encode_utf8(&mut [0; 4]));
            }
        }
    });
    let outcome = run(&plan(address, "/", 100.0));
    assert_eq!(
        (outcome.statuses.get(&200), outcome.failed()),
        (Some(&100), 0)
    );
}

#[test]
fn statuses_are_counted_each_and_errors_apart() {
    let server = echo();
    let outcome = run(&plan(server.address(), "/?status=503:30,404:20", 500.0));
    let count = |status| outcome.statuses.get(&status).copied().unwrap_or(0);
    assert_eq!(count(200) + count(404) + count(503), 500);
    assert!(
        count(404) > 50 && count(503) > 90 && count(200) > 180,
        "{:?}",
        outcome.statuses
    );
    assert_eq!(outcome.errors(), count(404) + count(503));
    assert_eq!(outcome.latency_failed.len(), outcome.errors());
}

#[test]
fn a_server_that_goes_away_leaves_every_request_accounted_for() {
    let server = echo();
    let plan = plan(server.address(), "/", 200.0);
    let outcome = load::run(&plan, &mut |progress| {
        if progress.answers > 20 {
            server.stop();
        }
    })
    .unwrap();
    assert!(
        outcome.failures.contains_key(&Failure::Connect),
        "{:?}",
        outcome.failures
    );
    assert_eq!(outcome.requests + outcome.unfinished, outcome.scheduled);
}
