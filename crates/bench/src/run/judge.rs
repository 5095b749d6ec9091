//! From what the generator and the environment saw to a repeat: its verdict and its faults.
//! Pure. It only ever makes a repeat look worse.

use crate::environment::Usage;
use crate::results::{CellKey, Latencies, Repeat, SidecarUsage, Verdict};
use crate::units;

/// Below this share of idle time the machine itself is what was measured.
const IDLE_MIN: f64 = 0.10;

/// Puts a repeat together.
pub(super) fn repeat(key: &CellKey, index: u32, outcome: &load::Outcome, usage: Usage) -> Repeat {
    let generator_cores = outcome.generator.cpu.as_secs_f64() / outcome.plan.duration.as_secs_f64();
    let (verdict, reasons) = verdict(&outcome.verdict, generator_cores, &usage);
    let mut statuses = outcome.statuses.clone();
    if outcome.failed() > 0 {
        statuses.insert(0, outcome.failed());
    }
    let mut repeat = Repeat {
        key: key.clone(),
        index,
        started: crate::clock::text(outcome.started),
        verdict,
        reasons,
        faults: Vec::new(),
        window_seconds: outcome.plan.duration.as_secs_f64(),
        asked_qps: outcome.asked_rate,
        achieved_qps: without_errors(outcome),
        requests: outcome.requests,
        errors: outcome.errors(),
        late: outcome.late_sends,
        unfinished: outcome.unfinished,
        statuses,
        generator_cores: Some(generator_cores),
        machine_idle: usage.machine_idle,
        machine_stolen: usage.machine_stolen,
        load_average: None,
        retaken: Vec::new(),
        client: usage.client,
        server: usage.server,
        gateway: usage.gateway,
        client_application: usage.client_application,
        server_application: usage.server_application,
        latencies: Latencies {
            intended: outcome.latency.clone(),
            sent: outcome.latency_from_send.clone(),
        },
    };
    repeat.faults = faults(&repeat);
    repeat
}

/// What the target took on, less the share of it that failed: errors are not throughput.
fn without_errors(outcome: &load::Outcome) -> f64 {
    match outcome.requests {
        0 => outcome.achieved_rate,
        all => outcome.achieved_rate * (1.0 - units::count(outcome.errors()) / units::count(all)),
    }
}

fn verdict(
    generator: &load::Verdict,
    generator_cores: f64,
    usage: &Usage,
) -> (Verdict, Vec<String>) {
    let idle = usage.machine_idle.unwrap_or(1.0);
    match generator {
        _ if idle < IDLE_MIN => {
            let parts = [
                &usage.client,
                &usage.server,
                &usage.gateway,
                &usage.client_application,
                &usage.server_application,
            ];
            let parts = parts.into_iter().flatten().map(SidecarUsage::cores);
            let ours = generator_cores + parts.sum::<f64>();
            let share = idle * 100.0;
            let reason = format!(
                "the machine was idle for {share:.1} % of the window; what is measured here used \
                 {ours:.2} CPUs"
            );
            (Verdict::MachineBound, vec![reason])
        }
        load::Verdict::Valid => (Verdict::Valid, Vec::new()),
        load::Verdict::Saturated => (
            Verdict::Saturated,
            vec!["the target took less than the asked rate".to_owned()],
        ),
        load::Verdict::Void { reason } => (Verdict::Void, vec![reason.clone()]),
    }
}

/// What contradicts the cell: errors, no requests, a hole in the tail, or CPU in the wrong place.
fn faults(repeat: &Repeat) -> Vec<String> {
    let mut faults = Vec::new();
    if repeat.requests == 0 {
        faults.push("no requests".to_owned());
    }
    if repeat.errors > 0 {
        let share = units::count(repeat.errors) * 100.0 / units::count(repeat.requests.max(1));
        faults.push(format!(
            "{} errors ({share:.2} %): {:?}",
            repeat.errors, repeat.statuses
        ));
    }
    if repeat.unfinished > 0 && repeat.verdict == Verdict::Valid {
        faults.push(format!(
            "{} requests were never sent and are missing from the tail",
            repeat.unfinished
        ));
    }
    let (key, mode) = (&repeat.key, repeat.key.mode);
    for (side, crosses, usage) in [
        ("client", key.crosses_client(), &repeat.client),
        ("server", key.crosses_server(), &repeat.server),
    ] {
        let worked = usage.as_ref().is_some_and(SidecarUsage::worked);
        if worked != crosses {
            let found = if worked { "used CPU" } else { "used no CPU" };
            faults.push(format!(
                "the {side} sidecar {found} in mode {}",
                mode.name()
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Mode, sample};

    #[test]
    fn a_sound_repeat_has_no_faults() {
        assert_eq!(faults(&sample::repeat("leno", 0)), Vec::<String>::new());
    }

    #[test]
    fn cpu_in_the_wrong_place_is_a_fault() {
        let mut repeat = sample::repeat("leno", 0);
        repeat.server = None;
        assert_eq!(
            faults(&repeat),
            ["the server sidecar used no CPU in mode both"]
        );
        let mut repeat = sample::repeat("leno", 0);
        repeat.key.mode = Mode::ServerOnly;
        assert_eq!(
            faults(&repeat),
            ["the client sidecar used CPU in mode serveronly"]
        );
    }

    #[test]
    fn requests_never_sent_are_a_fault_of_a_valid_repeat_only() {
        let mut repeat = sample::repeat("leno", 0);
        repeat.unfinished = 3;
        assert!(faults(&repeat)[0].starts_with("3 requests were never sent"));
        repeat.verdict = Verdict::Saturated;
        assert_eq!(faults(&repeat), Vec::<String>::new());
    }

    #[test]
    fn errors_are_a_fault_with_their_statuses() {
        let mut repeat = sample::repeat("leno", 0);
        repeat.errors = 50;
        repeat.statuses.insert(503, 50);
        let faults = faults(&repeat);
        assert!(faults[0].starts_with("50 errors (1.00 %)"), "{faults:?}");
        assert!(faults[0].contains("503"), "{faults:?}");
    }

    #[test]
    fn a_machine_without_idle_time_gives_no_verdict() {
        let usage = Usage {
            machine_idle: Some(0.01),
            ..Usage::default()
        };
        let void = load::Verdict::Void {
            reason: String::new(),
        };
        assert_eq!(verdict(&void, 0.0, &usage).0, Verdict::MachineBound);
        assert_eq!(
            verdict(&load::Verdict::Valid, 0.0, &Usage::default()).0,
            Verdict::Valid
        );
    }
}
