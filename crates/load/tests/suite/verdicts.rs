//! A target that cannot keep up is a result; a generator that cannot is none.

use crate::world::{echo, plan, run};
use load::Verdict;
use std::time::Duration;

#[test]
fn a_target_that_cannot_keep_up_saturates() {
    let server = echo();
    let mut plan = plan(server.address(), "/?delay=20ms", 1000.0);
    plan.connections = 2;
    let outcome = run(&plan);
    assert_eq!(outcome.verdict, Verdict::Saturated);
    assert_eq!(outcome.asked_rate, Some(1000.0));
    assert!(outcome.achieved_rate <= 102.0, "{}", outcome.achieved_rate);
    assert_eq!(outcome.scheduled, 1000);
    assert_eq!(outcome.requests + outcome.unfinished, 1000);
    // What waited for a connection counts from when it should have been sent.
    assert!(outcome.latency.max() > 20 * outcome.latency_from_send.min());
}

#[test]
fn a_generator_that_sends_late_voids_the_run() {
    let server = echo();
    let mut plan = plan(server.address(), "/", 100.0);
    plan.stall_before_send = Duration::from_millis(2);
    let outcome = run(&plan);
    assert!(outcome.late_sends > 90, "{}", outcome.late_sends);
    let Verdict::Void { reason } = outcome.verdict else {
        panic!("{}", outcome.verdict)
    };
    assert!(
        reason.contains("over 1 ms late on a free connection"),
        "{reason}"
    );
}
