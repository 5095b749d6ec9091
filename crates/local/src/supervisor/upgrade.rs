//! Newer programs take over from those that run: sidecars one after the other, then the rest. The
//! first that cannot leaves everything after it as it was. An instance on Envoy is replaced: Envoy
//! gives nobody its sockets.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::time::timeout;

use super::desk::{Event, Teller};
use super::instance::Instance;
use super::rollout;
use super::service::Service;
use super::shared::Shared;
use crate::name::WorkloadId;
use crate::state::State;

/// How long a new control plane may take to serve, a little longer than is waited for its line.
const SERVES_WITHIN: Duration = Duration::from_secs(25);

/// How long an instance that takes the place of another may take, beside what the application of
/// that has to end.
const REPLACED_WITHIN: Duration = Duration::from_secs(60);

/// Programs that are newer; none: the one that there was.
#[derive(Clone, Debug, Default)]
pub(super) struct Newer {
    pub(super) proxy: Option<PathBuf>,
    pub(super) control: Option<PathBuf>,
    pub(super) envoy: Option<PathBuf>,
}

/// So often the sidecar of one that is new may be started again.
const STARTS_MAX: u32 = 2;

/// Everything that can be newer.
pub(super) struct All {
    pub(super) shared: Rc<Shared>,
    pub(super) control: Rc<Service>,
    pub(super) resolver: Rc<Service>,
}

impl All {
    /// Tells `teller` how it goes.
    pub(super) async fn run(self, programs: Newer, workloads: Vec<WorkloadId>, teller: Teller) {
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
        programs: Newer,
        workloads: &[WorkloadId],
        teller: &Teller,
    ) -> anyhow::Result<()> {
        let instances = self.find(workloads)?;
        let old = self.shared.start.borrow().clone();
        {
            let mut start = self.shared.start.borrow_mut();
            start.proxy = programs.proxy.unwrap_or_else(|| old.proxy.clone());
            start.envoy = programs.envoy.or_else(|| old.envoy.clone());
        }
        for instance in instances {
            let upgraded = match instance.template.envoy {
                true => self.succeed(&instance).await,
                false => instance.upgrade().await,
            };
            if let Err(error) = upgraded {
                // What is started again from now on is what served until now.
                let mut start = self.shared.start.borrow_mut();
                (start.proxy, start.envoy) = (old.proxy, old.envoy);
                return Err(error);
            }
            self.shared.save();
            let text = match instance.template.envoy {
                true => format!("{}: replaced, its data plane is envoy", instance.id),
                false => format!("{}: upgraded", instance.id),
            };
            let _ = teller.send(Event::Said { text });
        }
        if workloads.is_empty() {
            self.resolver.replace().await;
        }
        if let Some(control) = programs.control {
            self.replace_control(control).await?;
            let text = "leno-control: upgraded".to_owned();
            let _ = teller.send(Event::Said { text });
        }
        Ok(())
    }

    /// Has another instance take the place of one, which goes on until that is ready.
    async fn succeed(&self, instance: &Instance) -> anyhow::Result<()> {
        let (shared, id) = (&self.shared, &instance.id);
        let grace = shared.look(|state| state.instance(id).map(|one| one.grace));
        let within = REPLACED_WITHIN + grace.with_context(|| format!("{id} is gone"))?;
        let before = shared.look(ids);
        shared.change(|state| state.supersede(id));
        let missing = || rollout::missing_of(shared, &instance.workload);
        let settled = async {
            let mut changes = shared.changes();
            while !missing().is_empty() && !shared.look(|state| has_failing(state, &before)) {
                // The sender is the supervisor's: there will always be another.
                let _ = changes.changed().await;
            }
        };
        // Who is still to come says why, whoever had enough of waiting.
        let _ = timeout(within, settled).await;
        match missing().into_iter().next() {
            Some((who, why)) => bail!("{id} is not replaced: {who}: {why}"),
            None => Ok(()),
        }
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

fn ids(state: &State) -> BTreeSet<WorkloadId> {
    state.instances.iter().map(|one| one.id.clone()).collect()
}

/// Whether the sidecar of one that was not there `before` does not come up.
fn has_failing(state: &State, before: &BTreeSet<WorkloadId>) -> bool {
    let mut new = state
        .instances
        .iter()
        .filter(|one| !before.contains(&one.id));
    new.any(|one| !one.ready && one.sidecar.restarts > STARTS_MAX)
}
