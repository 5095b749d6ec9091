//! Whether the application of an instance answers: when it does it is sent requests, and when it
//! does not for long it is started anew.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use control::kinds::{Check, PortRef, Probe, RestartPolicy};
use tokio::time::sleep;

use super::{Instance, is, is_true};
use crate::job::Job;
use crate::logs::say;
use crate::mesh::Workload;
use crate::probe::{Prober, Tally, Target};
use crate::variables::fill;

/// Looking who listens costs little: at first it is done often, so that a start is short.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// For looking who listens.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// As a probe's.
const LOOK_FAILURES: u32 = 3;

/// One way of asking, as it is to be done.
struct Plan {
    target: Target,
    timeout: Duration,
    failures: u32,
    successes: u32,
    /// None: by itself, at first often.
    period: Option<Duration>,
}

impl Instance {
    /// Says of the instance whether it is ready, until its application has ended for good.
    pub(super) async fn watch_readiness(&self) {
        tokio::select! {
            () = is_true(&self.finished) => {}
            () = self.judge_readiness() => {}
        }
    }

    async fn judge_readiness(&self) {
        loop {
            is_true(&self.serving).await;
            is_true(&self.running).await;
            tokio::select! {
                () = self.ask_readiness() => {}
                () = is(&self.running, false) => {}
                () = is(&self.serving, false) => {}
            }
            let was_ready = self.change(|one| std::mem::take(&mut one.ready));
            if was_ready {
                self.shared.publish();
            }
        }
    }

    /// Goes on until it is dropped.
    async fn ask_readiness(&self) {
        let is_ready = self.look().is_some_and(|one| one.ready);
        let (mut last, mut pause) = (self.spec(), LOOK_MIN);
        let delay = last.spec.readiness.as_ref();
        if let Some(probe) = delay.filter(|_| !is_ready) {
            sleep(probe.initial_delay).await;
        }
        let mut tally = self.tally(&last, is_ready);
        loop {
            let now = self.spec();
            if now.spec.readiness != last.spec.readiness {
                tally = self.tally(&now, tally.is_good());
            }
            last = now;
            let Some(plan) = self.readiness(&last) else {
                self.set_ready(match self.is_job(&last) {
                    true => Err("it runs, and has not completed".into()),
                    false => Ok(()),
                });
                sleep(LOOK_MAX).await;
                continue;
            };
            let answer = self.prober().check(&plan.target, plan.timeout).await;
            let is_good = tally.count(answer.is_ok());
            self.set_ready(match answer {
                _ if is_good => Ok(()),
                Ok(()) => Err("it has just begun to answer".into()),
                Err(error) => Err(error),
            });
            sleep(plan.period.unwrap_or(pause)).await;
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    fn tally(&self, workload: &Workload, is_ready: bool) -> Tally {
        let plan = self.readiness(workload);
        let (failures, successes) = plan.map_or((1, 1), |plan| (plan.failures, plan.successes));
        Tally::new(is_ready, failures, successes)
    }

    /// How it is found out whether it is ready; none: it is when it runs.
    fn readiness(&self, workload: &Workload) -> Option<Plan> {
        if let Some(probe) = &workload.spec.readiness {
            return Some(self.plan(workload, probe));
        }
        let ports: Vec<_> = workload.spec.ports.iter().map(|port| port.port).collect();
        let is_asked = !ports.is_empty() && !self.template.command.is_empty();
        is_asked.then_some(Plan {
            target: Target::Listening(ports),
            timeout: LOOK_WITHIN,
            failures: LOOK_FAILURES,
            successes: 1,
            period: None,
        })
    }

    /// Whether it is ready for nobody: there is nothing to call, and it is to come to an end.
    fn is_job(&self, workload: &Workload) -> bool {
        !self.template.command.is_empty() && workload.spec.restart != RestartPolicy::Always
    }

    fn plan(&self, workload: &Workload, probe: &Probe) -> Plan {
        let port = |port: &PortRef| match port {
            PortRef::Number(port) => *port,
            PortRef::Name(name) => {
                let mut ports = workload.spec.ports.iter();
                let named = ports.find(|port| port.name.as_ref() == Some(name));
                named.map_or(0, |port| port.port)
            }
        };
        Plan {
            target: match &probe.check {
                Check::Http { path, port: at } => Target::Http {
                    port: port(at),
                    path: path.clone(),
                },
                Check::Tcp { port: at } => Target::Tcp { port: port(at) },
                Check::Exec(command) => Target::Exec(Box::new(self.command(command))),
            },
            timeout: probe.timeout,
            failures: probe.failures,
            successes: probe.successes,
            period: Some(probe.period),
        }
    }

    fn command(&self, command: &[String]) -> Job {
        let Some(one) = self.look() else {
            return Job::default();
        };
        let known = one.words();
        let mut words = command.iter().map(|word| fill(word, &known));
        Job {
            program: words.next().unwrap_or_default().into(),
            args: words.collect(),
            ..one.job(&self.shared.folder, &self.template)
        }
    }

    fn prober(&self) -> Prober {
        let one = self.look();
        let namespace = one
            .as_ref()
            .and_then(|one| one.namespace().map(Path::to_path_buf));
        let addresses = one.map(|one| one.addresses).unwrap_or_default();
        let launcher = self.shared.start.borrow().launcher.clone();
        match namespace {
            Some(path) => Prober::new(path, addresses, launcher),
            None => Prober::here(addresses, launcher),
        }
    }

    /// Tells everybody, if it is news.
    fn set_ready(&self, answer: Result<(), String>) {
        let fault = answer.err();
        let Some(now) = self.look() else { return };
        let is_ready = fault.is_none();
        if is_ready {
            if now.ready && now.fault.is_none() {
                return;
            }
            self.change(|one| (one.ready, one.fault) = (true, None));
        } else if now.ready || now.fault != fault {
            self.change(|one| (one.ready, one.fault) = (false, fault));
        }
        if now.ready != is_ready {
            self.shared.publish();
        }
    }

    /// Ends an application that does not answer any more, so that it is started anew.
    pub(super) async fn watch_liveness(self: &Rc<Self>) {
        tokio::select! {
            () = is_true(&self.finished) => {}
            () = self.judge_liveness() => {}
        }
    }

    async fn judge_liveness(&self) {
        loop {
            is_true(&self.running).await;
            tokio::select! {
                error = self.ask_liveness() => self.start_anew(&error).await,
                () = is(&self.running, false) => {}
            }
        }
    }

    /// Why the application is of no use any more.
    async fn ask_liveness(&self) -> String {
        let mut tally: Option<Tally> = None;
        loop {
            let spec = self.spec();
            let Some(probe) = &spec.spec.liveness else {
                tally = None;
                sleep(LOOK_MAX).await;
                continue;
            };
            if tally.is_none() {
                sleep(probe.initial_delay).await;
            }
            let counted =
                tally.get_or_insert_with(|| Tally::new(true, probe.failures, probe.successes));
            let plan = self.plan(&spec, probe);
            let answer = self.prober().check(&plan.target, plan.timeout).await;
            if let (false, Err(error)) = (counted.count(answer.is_ok()), answer) {
                return error;
            }
            sleep(probe.period).await;
        }
    }

    async fn start_anew(&self, error: &str) {
        say(&format!("{} is started anew: {error}", self.id));
        let application = self.application.borrow().clone();
        if let Some(application) = application {
            application.finish(self.spec().spec.grace).await;
        }
        is(&self.running, false).await;
    }
}
