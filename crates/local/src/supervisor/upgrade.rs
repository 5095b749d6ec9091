//! Newer programs take over from those that run: sidecars one after the other, then the rest. The
//! first that cannot leaves everything after it as it was.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{bail, ensure};
use tokio::time::timeout;

use super::desk::{Event, Teller};
use super::instance::Instance;
use super::service::Service;
use super::shared::Shared;
use crate::name::WorkloadId;
use crate::state::State;

/// How long a new control plane may take to serve, a little longer than is waited for its line.
const SERVES_WITHIN: Duration = Duration::from_secs(25);

/// Everything that can be newer.
pub(super) struct All {
    pub(super) shared: Rc<Shared>,
    pub(super) control: Rc<Service>,
    pub(super) resolver: Rc<Service>,
}

impl All {
    /// Tells `teller` how it goes.
    pub(super) async fn run(
        self,
        programs: (Option<PathBuf>, Option<PathBuf>),
        workloads: Vec<WorkloadId>,
        teller: Teller,
    ) {
        let end = match self.upgrade(programs, &workloads, &teller).await {
            Ok(()) => Event::Done,
            Err(error) => Event::Failed {
                message: format!("{error:#}"),
            },
        };
        self.shared.save();
        let _ = teller.send(end);
    }

    async fn upgrade(
        &self,
        (proxy, control): (Option<PathBuf>, Option<PathBuf>),
        workloads: &[WorkloadId],
        teller: &Teller,
    ) -> anyhow::Result<()> {
        let instances = self.find(workloads)?;
        let old = self.shared.start.borrow().proxy.clone();
        if let Some(proxy) = proxy {
            self.shared.start.borrow_mut().proxy = proxy;
        }
        for instance in instances {
            if let Err(error) = instance.upgrade().await {
                // What is started again from now on is what served until now.
                self.shared.start.borrow_mut().proxy = old;
                return Err(error);
            }
            self.shared.save();
            let text = format!("{}: upgraded", instance.id);
            let _ = teller.send(Event::Said { text });
        }
        if workloads.is_empty() {
            self.resolver.replace().await;
        }
        if let Some(control) = control {
            self.replace_control(control).await?;
            let text = "leno-control: upgraded".to_owned();
            let _ = teller.send(Event::Said { text });
        }
        Ok(())
    }

    /// Those whose sidecars are meant.
    fn find(&self, workloads: &[WorkloadId]) -> anyhow::Result<Vec<Rc<Instance>>> {
        let all = self.shared.instances();
        for name in workloads {
            let is_meant = |one: &Rc<Instance>| one.workload == *name || one.id == *name;
            ensure!(
                all.iter().any(is_meant),
                "there is no workload {name}: take one of {}",
                self.shared.look(State::known)
            );
        }
        let is_meant = |one: &Rc<Instance>| {
            workloads.is_empty() || workloads.contains(&one.workload) || workloads.contains(&one.id)
        };
        let meant = all.into_iter().filter(is_meant);
        Ok(meant.filter(|one| one.has_sidecar()).collect())
    }

    async fn replace_control(&self, program: PathBuf) -> anyhow::Result<()> {
        let old = std::mem::replace(&mut self.shared.start.borrow_mut().control, program);
        if self.serves_anew().await {
            return Ok(());
        }
        self.shared.start.borrow_mut().control = old;
        ensure!(
            self.serves_anew().await,
            "neither the new control plane nor the one before it serves: see control.err"
        );
        bail!("the new control plane does not serve: the one before it does again, see control.err")
    }

    /// Whether another control plane serves than did.
    async fn serves_anew(&self) -> bool {
        let before = self.shared.look(|state| state.control.process);
        self.control.replace().await;
        let serves = |state: &State| {
            let is_new = state.control.process != before && state.control.serving;
            is_new.then_some(())
        };
        timeout(SERVES_WITHIN, self.shared.until(serves))
            .await
            .is_ok()
    }
}
