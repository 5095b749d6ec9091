//! From what the generator and the environment saw to a repeat: its verdict and its faults.
//! Pure. It only ever makes a repeat look worse.

use crate::environment::Usage;
use crate::loader::Outcome;
use crate::results::{CellKey, Latencies, Repeat, SidecarUsage, Verdict, pool};
use crate::units;

/// Below this share of idle time the machine itself is what was measured.
const IDLE_MIN: f64 = 0.10;

/// From this share of stolen CPU time on, whoever came too late cannot be blamed.
const STOLEN_MAX: f64 = 0.10;

/// Puts a repeat together.
pub(super) fn repeat(key: &CellKey, index: u32, outcome: &Outcome, usage: Usage) -> Repeat {
    let window_seconds = outcome.window.as_secs_f64();
    let generator_cores = outcome
        .generator_cpu
        .map(|cpu| cpu.as_secs_f64() / window_seconds);
    let (verdict, reasons) = verdict(&outcome.verdict, generator_cores.unwrap_or(0.0), &usage);
    let mut repeat = Repeat {
        key: key.clone(),
        index,
        started: crate::clock::text(outcome.started),
        verdict,
        reasons,
        faults: Vec::new(),
        window_seconds,
        asked_qps: outcome.asked_rate,
        achieved_qps: without_errors(outcome),
        requests: outcome.requests,
        errors: outcome.errors(),
        late: outcome.late,
        unfinished: outcome.unfinished,
        statuses: outcome.statuses.clone(),
        generator_cores,
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
            intended: outcome.intended.clone().unwrap_or_else(pool::empty),
            sent: outcome.sent.clone(),
        },
    };
    repeat.faults = faults(&repeat);
    repeat
}

/// What the target took on, less the share of it that failed: errors are not throughput. A closed
/// loop counts good answers only.
fn without_errors(outcome: &Outcome) -> f64 {
    let all = units::count(outcome.requests.max(1));
    let failed = match outcome.asked_rate {
        Some(_) => units::count(outcome.errors()) / all,
        None => 0.0,
    };
    outcome.achieved_rate * (1.0 - failed)
}

fn verdict(
    generator: &load::Verdict,
    generator_cores: f64,
    usage: &Usage,
) -> (Verdict, Vec<String>) {
    let idle = usage.machine_idle.unwrap_or(1.0);
    let stolen = usage.machine_stolen.unwrap_or(0.0);
    match generator {
        // With what was taken away there would have been enough.
        _ if idle < IDLE_MIN && idle + stolen >= IDLE_MIN => {
            let [idle, stolen] = [idle, stolen].map(|share| share * 100.0);
            let reason = format!(
                "the hypervisor kept {stolen:.1} % of the CPU time, and {idle:.1} % was left idle"
            );
            (Verdict::Void, beside(generator, reason))
        }
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
            (Verdict::MachineBound, beside(generator, reason))
        }
        load::Verdict::Saturated if stolen >= STOLEN_MAX => {
            let reason = format!(
                "the target took less than the asked rate, while the hypervisor kept {:.1} % of \
                 the CPU time",
                stolen * 100.0
            );
            (Verdict::Void, vec![reason])
        }
        load::Verdict::Valid => (Verdict::Valid, Vec::new()),
        load::Verdict::Saturated => (
            Verdict::Saturated,
            vec!["the target took less than the asked rate".to_owned()],
        ),
        load::Verdict::Void { reason } => (Verdict::Void, vec![reason.clone()]),
    }
}

/// A reason, and the generator's own where it had one.
fn beside(generator: &load::Verdict, reason: String) -> Vec<String> {
    let mut reasons = vec![reason];
    if let load::Verdict::Void { reason } = generator {
        reasons.push(reason.clone());
    }
    reasons
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
    let unfinished = repeat.unfinished.unwrap_or(0);
    if unfinished > 0 && repeat.verdict == Verdict::Valid {
        faults.push(format!(
            "{unfinished} requests were never sent and are missing from the tail"
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
        repeat.unfinished = Some(3);
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
        let (found, reasons) = verdict(&void, 0.0, &usage);
        assert_eq!((found, reasons.len()), (Verdict::MachineBound, 2));
        let robbed = Usage {
            machine_stolen: Some(0.2),
            ..usage
        };
        let found = verdict(&load::Verdict::Valid, 0.0, &robbed);
        assert_eq!(found.0, Verdict::Void);
        let slow = |machine_stolen| {
            let usage = Usage {
                machine_stolen: Some(machine_stolen),
                ..Usage::default()
            };
            verdict(&load::Verdict::Saturated, 0.0, &usage).0
        };
        assert_eq!(
            [slow(0.01), slow(0.25)],
            [Verdict::Saturated, Verdict::Void]
        );
        assert_eq!(
            verdict(&load::Verdict::Valid, 0.0, &Usage::default()).0,
            Verdict::Valid
        );
    }
}
