//! The application of an instance: started when those that it depends on are there, and again when
//! it ends, as its restart policy says.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context;
use control::kinds::RestartPolicy;
use tokio::time::sleep;

use super::{Instance, is_true};
use crate::backoff::Backoff;
use crate::explicit::Marked;
use crate::job::Job;
use crate::logs::say;
use crate::mesh::Workload;
use crate::name::WorkloadId;
use crate::state::{State, Step};
use crate::variables::{Variables, fill, of_services};
use crate::watched::{End, Process};

/// What stands for our own program in a command.
const OURS: &str = "${LENO}";

impl Instance {
    /// Has it run until it has ended for good.
    pub(super) async fn keep_application(self: &Rc<Self>) {
        is_true(&self.serving).await;
        if self.template.command.is_empty() {
            self.step(Step::Application);
            self.running.send_replace(true);
            return;
        }
        if self.application.borrow().is_none() && !*self.finished.borrow() {
            self.await_dependencies().await;
        }
        let mut backoff = Backoff::default();
        let mut is_first = self.look().is_some_and(|one| one.application.is_none());
        while !*self.finished.borrow() {
            let begun = match self.current_application() {
                Some(process) => Ok(process),
                None => self.start_application(is_first).await,
            };
            is_first = false;
            match begun {
                Ok(process) => {
                    backoff.begin(Instant::now());
                    let end = process.ended().await;
                    self.application_ended(&end);
                    self.end_leftovers().await;
                    self.judge_end(&end);
                }
                Err(error) => self.stumble(&error),
            }
            if !*self.finished.borrow() {
                sleep(backoff.next(Instant::now())).await;
            }
        }
    }

    fn current_application(&self) -> Option<Process> {
        let application = self.application.borrow().clone();
        application.filter(|process| process.end().is_none())
    }

    async fn await_dependencies(&self) {
        loop {
            let Some(missing) = self.missing() else {
                return;
            };
            self.change(|one| {
                one.step = Step::Dependencies;
                one.fault = Some(format!("waits for {missing}"));
            });
            let is_other = |_: &State| (self.missing().as_ref() != Some(&missing)).then_some(());
            self.shared.until(is_other).await;
        }
    }

    /// The first that it waits for.
    fn missing(&self) -> Option<WorkloadId> {
        let wanted = self.shared.wanted();
        let spec = self.spec();
        let mut others = spec.depends_on.iter().filter_map(|id| wanted.workload(id));
        let missing = others.find(|other| !self.shared.look(|state| is_there(other, state)));
        missing.map(|other| other.id.clone())
    }

    async fn start_application(self: &Rc<Self>, is_first: bool) -> anyhow::Result<Process> {
        let variables = self.variables();
        self.change(|one| (one.step, one.variables) = (Step::Application, variables));
        let job = self.application_job()?;
        if !is_first {
            self.change(|one| one.application.get_or_insert_default().restarts += 1);
        }
        let what = (job, self.outputs("application"), Vec::new());
        let launched = self.launch(what, |own, process| {
            own.change(|one| {
                one.application.get_or_insert_default().process = Some(process.identity());
            });
            *own.application.borrow_mut() = Some(process);
        });
        let process = launched
            .await
            .with_context(|| format!("start the application of {}", self.id))?;
        self.running.send_replace(true);
        Ok(process)
    }

    fn application_job(&self) -> anyhow::Result<Job> {
        let ours = &self.shared.start.borrow().launcher.program;
        let ours = ours.display().to_string();
        let one = self.look().context("the instance is gone")?;
        let known = one.words();
        let command = self.template.command.iter();
        let mut words = command.map(|word| fill(&word.replace(OURS, &ours), &known));
        let program = words.next().context("there is no command")?;
        Ok(Job {
            program: program.into(),
            args: words.collect(),
            ..one.job(&self.shared.folder, &self.template)
        })
    }

    /// What it is told of Services, as far as its sidecar carries what it sends.
    fn variables(&self) -> Variables {
        let (wanted, one) = (self.shared.wanted(), self.look());
        let Some(one) = one.filter(|_| self.template.sidecar && self.template.redirected.1) else {
            return Variables::new();
        };
        let (namespace, services) = (self.id.namespace(), &wanted.services);
        match &one.explicit {
            Some(explicit) => of_services(namespace, services, |service, port| {
                explicit.outbound(service, port)
            }),
            None => {
                let book = self.shared.addresses();
                of_services(namespace, services, |service, port| {
                    Some(SocketAddr::new(book.of(service)?, port))
                })
            }
        }
    }

    /// It has ended: nothing is sent to it any more.
    pub(super) fn application_ended(&self, end: &End) {
        self.running.send_replace(false);
        self.change(|one| {
            one.ready = false;
            if let Some(life) = &mut one.application {
                life.process = None;
                life.ended = Some(end.text.clone());
            }
        });
        self.shared.publish();
    }

    /// Ends what it has started and left behind, which has the ports that the next one needs.
    async fn end_leftovers(&self) {
        let groups = self.look().map(|one| one.cgroups).unwrap_or_default();
        self.end_left(Marked::Applications, groups).await;
    }

    /// Whether it is to be started again.
    pub(super) fn judge_end(&self, end: &End) {
        let has_completed = end.succeeded == Some(true);
        let step = match self.spec().spec.restart {
            RestartPolicy::OnFailure | RestartPolicy::Never if has_completed => Step::Completed,
            RestartPolicy::Never => Step::Failed,
            RestartPolicy::Always | RestartPolicy::OnFailure => Step::Application,
        };
        say(&format!("{} ended: {}", self.id, end.text));
        self.change(|one| {
            one.step = step;
            one.fault = (step != Step::Completed).then(|| format!("ended: {}", end.text));
        });
        if step != Step::Application {
            self.finished.send_replace(true);
            self.shared.publish();
        }
    }
}

/// Whether all of `workload` that is wanted is ready, or has completed.
fn is_there(workload: &Workload, state: &State) -> bool {
    let of_it = state.instances.iter();
    let of_it = of_it.filter(|one| one.workload == workload.id);
    let done = of_it.filter(|one| match workload.spec.restart {
        RestartPolicy::Always => one.ready,
        RestartPolicy::OnFailure | RestartPolicy::Never => one.step == Step::Completed,
    });
    done.count() >= workload.spec.replicas as usize
}
