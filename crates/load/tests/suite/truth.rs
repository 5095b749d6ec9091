//! The generator's figures against what the server knows of itself.

use crate::world::{echo, is_undisturbed, local, plan, run};
use hdrhistogram::Histogram;
use load::{
    Arrivals, Error, Outcome, Phase, Rate, Verdict,
    serve::{self, Served, Stall},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// A busy machine may void a run, and a void run proves nothing.
const ATTEMPTS: usize = 5;

/// Three delays far apart, each percentile well inside one of them.
const DELAYS: &str = "/?delay=20ms:70,50ms:25,100ms:5";

fn measure(arrivals: Arrivals) -> (Outcome, Served) {
    let server = echo();
    let mut plan = plan(server.address(), DELAYS, 400.0);
    plan.arrivals = arrivals;
    plan.connections = 64;
    plan.duration = Duration::from_secs(2);
    let outcome = run(&plan);
    server.stop();
    (outcome, server.join().unwrap())
}

fn is_near(ours: &Histogram<u64>, truth: &Histogram<u64>) {
    let near = |name: &str, ours: f64, truth: f64| {
        assert!(
            (ours / truth - 1.0).abs() < 0.02,
            "{name}: {ours} is not {truth}"
        );
    };
    for quantile in [0.5, 0.9, 0.98] {
        let value = |histogram: &Histogram<u64>| histogram.value_at_quantile(quantile) as f64;
        near(&format!("quantile {quantile}"), value(ours), value(truth));
    }
    near("mean", ours.mean(), truth.mean());
}

#[test]
fn latencies_are_within_two_percent_of_the_servers_own_delays() {
    for _ in 0..ATTEMPTS {
        let (outcome, served) = measure(Arrivals::Staggered);
        if outcome.verdict == Verdict::Valid {
            assert_eq!((outcome.requests, served.answers), (800, 800));
            is_near(&outcome.latency_from_send, &served.delays);
            is_near(&outcome.latency, &served.delays);
            return;
        }
    }
    eprintln!("SKIPPED: this machine is too busy, {ATTEMPTS} runs were void");
}

#[test]
fn poisson_arrivals_keep_the_rate_and_count_waiting() {
    let (outcome, served) = measure(Arrivals::Poisson);
    assert_eq!(outcome.requests + outcome.unfinished, outcome.scheduled);
    assert_eq!(served.answers, outcome.requests);
    // 800 expected; five standard deviations.
    let scheduled = outcome.scheduled;
    assert!(scheduled.abs_diff(800) < 141, "{scheduled}");
    // Two requests may fall due within one answer: the second then waits for the connection.
    assert!(outcome.latency.mean() > outcome.latency_from_send.mean());
}

#[test]
fn a_stall_of_a_second_shows_in_the_open_loop_and_not_from_send() {
    let mut options = serve::Options::new(local());
    options.stall = Some(Stall {
        before_answer: 200,
        length: Duration::from_secs(1),
    });
    let server = serve::start(&options).unwrap();
    let mut plan = plan(server.address(), "/", 200.0);
    plan.duration = Duration::from_secs(3);
    let outcome = run(&plan);
    assert_eq!(outcome.requests + outcome.unfinished, 600);
    let slower = |histogram: &Histogram<u64>, millis: u64| {
        histogram.count_between(millis * 1_000_000, u64::MAX)
    };
    // 200 requests fell due in that second; those of its first half waited for over half a second.
    let held_up = slower(&outcome.latency, 500);
    assert!(held_up + outcome.unfinished >= 95, "{held_up}");
    assert!(held_up <= 130 || !is_undisturbed(&outcome), "{held_up}");
    // Only what was in flight as it began was slow from its send: one per connection.
    let in_flight = slower(&outcome.latency_from_send, 500);
    assert!(
        (1..=u64::from(plan.connections)).contains(&in_flight),
        "{in_flight}"
    );
    assert!(
        outcome.latency.max() >= 990_000_000,
        "{}",
        outcome.latency.max()
    );
}

#[test]
fn only_the_window_is_recorded_and_its_edges_are_told() {
    let server = echo();
    let mut plan = plan(server.address(), "/?size=10", 500.0);
    plan.warm_up = Duration::from_millis(300);
    let mut phases = Vec::new();
    let outcome = load::run(&plan, &mut |progress| {
        if phases
            .last()
            .is_none_or(|(phase, _)| *phase != progress.phase)
        {
            phases.push((progress.phase, progress.answers));
        }
    })
    .unwrap();
    let order: Vec<Phase> = phases.iter().map(|(phase, _)| *phase).collect();
    use Phase::{Connecting, Done, Draining, Measuring, WarmUp};
    assert_eq!(order, [Connecting, WarmUp, Measuring, Draining, Done]);
    assert_eq!((outcome.scheduled, outcome.requests), (500, 500));
    assert_eq!(outcome.statuses.get(&200), Some(&500));
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n".len();
    assert_eq!(outcome.bytes_received, 500 * (head as u64 + 10));
    // The warm-up's requests came on top.
    assert_eq!(phases.last().map(|(_, answers)| *answers), Some(650));
    assert_eq!(
        outcome
            .seconds
            .iter()
            .map(|second| second.len())
            .sum::<u64>(),
        500
    );
}

#[test]
fn threads_share_the_connections_and_the_schedule() {
    let server = echo();
    let mut plan = plan(server.address(), "/", 700.0);
    (plan.connections, plan.threads) = (7, 3);
    let outcome = run(&plan);
    assert_eq!((outcome.requests, outcome.failed()), (700, 0));
    server.stop();
    assert_eq!(server.join().unwrap().connections, 7);
}

#[test]
fn a_closed_loop_sends_when_the_answer_is_there() {
    let server = echo();
    let mut plan = plan(server.address(), "/?delay=5ms", 1.0);
    plan.rate = Rate::Max;
    let outcome = run(&plan);
    // Four connections, 5 ms each: at most 800 a second, and no schedule to be late on.
    assert!(
        (40..=800).contains(&outcome.requests),
        "{}",
        outcome.requests
    );
    assert_eq!((outcome.scheduled, outcome.late_sends), (0, 0));
    assert_eq!(outcome.latency, outcome.latency_from_send);
}

#[test]
fn a_body_larger_than_any_buffer_goes_and_comes_whole() {
    let server = echo();
    let mut plan = plan(server.address(), "/", 20.0);
    plan.method = "POST".to_owned();
    plan.body = vec![b'x'; 5_000_000];
    plan.duration = Duration::from_millis(200);
    let outcome = run(&plan);
    assert_eq!(outcome.statuses.get(&200), Some(&4));
    assert!(outcome.bytes_received > 20_000_000);
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_has() {
    let server = echo();
    let mut plan = plan(server.address(), "/", 500.0);
    plan.duration = Duration::from_secs(600);
    let stop = Arc::new(AtomicBool::new(false));
    plan.stop = Some(Arc::clone(&stop));
    let outcome = load::run(&plan, &mut |progress| {
        stop.store(progress.answers > 100, Relaxed);
    })
    .unwrap();
    assert!(outcome.requests > 100, "{}", outcome.requests);
    assert_eq!(outcome.requests, outcome.scheduled);
    assert!(outcome.elapsed < plan.duration);
    assert_ne!(outcome.verdict, Verdict::Saturated);

    plan.warm_up = plan.duration;
    let error = load::run(&plan, &mut |_| stop.store(true, Relaxed)).unwrap_err();
    assert!(matches!(error, Error::Stopped), "{error}");
}
