//! A target that cannot keep up is a result; a generator that cannot is none.

use crate::world::{echo, plan, run};
use load::{Rate, Verdict};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

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
    assert_eq!(outcome.late_sends, 0, "its connections were never free");
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

#[test]
fn a_generator_without_a_cpu_of_its_own_voids_the_run() {
    if !std::path::Path::new("/proc/thread-self/schedstat").exists() {
        eprintln!("SKIPPED: this kernel does not tell how long a thread waits for a CPU");
        return;
    }
    let mut options = load::serve::Options::new(crate::world::local());
    let cpus = thread::available_parallelism().unwrap().get();
    options.cpus = vec![cpus - 1];
    let server = load::serve::start(&options).unwrap();
    let mut plan = plan(server.address(), "/", 1.0);
    (plan.rate, plan.cpus, plan.connections) = (Rate::Max, vec![0], 32);
    plan.duration = Duration::from_millis(400);
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| hog(0, &stop));
        }
        let outcome = run(&plan);
        stop.store(true, Relaxed);
        outcome
    });
    assert!(
        matches!(outcome.verdict, Verdict::Void { .. }),
        "{:?}",
        outcome.generator
    );
}

/// Keeps a CPU busy.
fn hog(cpu: usize, stop: &AtomicBool) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
    while !stop.load(Relaxed) {
        std::hint::spin_loop();
    }
}
