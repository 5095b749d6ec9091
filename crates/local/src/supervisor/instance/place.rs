//! The place of an instance: its network, its folders, its groups; made anew, or as a supervisor
//! before us has left it. Must never follow a link that a workload could have put there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use tokio::time::sleep;

use super::{Instance, blocking};
use crate::backoff::Backoff;
use crate::explicit::{Explicit, Marked, give, kill_marked};
use crate::plan::{Ground, Placed};
use crate::state::{Running, Step};
use crate::watched::{End, Process};
use crate::{cgroup, network, written};

impl Instance {
    /// Makes it, again and again until it is there.
    pub(super) async fn make_place(&self) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.try_place().await {
            self.stumble(&error);
            sleep(backoff.next(Instant::now())).await;
        }
        self.step(Step::Sidecar);
    }

    async fn try_place(&self) -> anyhow::Result<()> {
        let one = self.look().context("the instance is gone")?;
        self.lay_out(&one)?;
        self.apply_limits()?;
        if self.shared.ground.is_explicit {
            return self.open_sockets(&one);
        }
        let ground = self.shared.ground.clone();
        let placed = Placed {
            id: one.id.clone(),
            offset: one.offset,
            addresses: one.addresses.clone(),
        };
        let interception = self.spec().spec.sidecar.interception;
        let policy = one
            .sidecar_user
            .map(|user| ground.policy(user, interception));
        let _busy = self.shared.busy.acquire().await;
        self.entirely(async move {
            let work = move || {
                let built = network::build_instance(&ground, &placed, policy.as_ref());
                // So that it can be tried again from the start.
                built.inspect_err(|_| undo(&ground, &placed))
            };
            blocking(work).await
        })
        .await
    }

    /// What there is instead of a network: the control plane is told of it before the sidecar asks.
    fn open_sockets(&self, one: &Running) -> anyhow::Result<()> {
        let address = one
            .addresses
            .first()
            .context("an instance has an address")?;
        let services = &self.shared.wanted().services;
        let (explicit, held) = Explicit::open(*address, &self.spec(), services)?;
        *self.held.borrow_mut() = held;
        self.change(|one| one.explicit = Some(explicit));
        self.shared.publish();
        Ok(())
    }

    /// Writes the files that its programs read.
    fn lay_out(&self, one: &Running) -> anyhow::Result<()> {
        let (own, shared) = (self.folder(), &self.shared);
        fs::create_dir_all(own.root()).with_context(|| format!("make {}", own.root().display()))?;
        self.template.save(&own.template())?;
        make_home(&own.application_home(), one.user)?;
        if one.has_resolver {
            let text = written::resolver(&shared.ground, &one.id);
            written::replace(&own.resolver(), &text)?;
        }
        let Some(user) = one.sidecar_user else {
            return Ok(());
        };
        make_home(&own.sidecar_home(), user)?;
        make_home(&shared.folder.handover(one.offset), user)
    }

    /// Goes on where a supervisor before us has stopped: what lives is kept, and what it had not
    /// told the state of is gone.
    pub(super) async fn take_over(&self) {
        let Some(one) = self.look() else { return };
        let is_over = matches!(one.step, Step::Completed | Step::Failed);
        let serving = one.sidecar.process.filter(|_| one.sidecar.serving);
        let sidecar = serving.and_then(Process::adopt);
        let life = one.application.as_ref();
        let application = life.and_then(|life| life.process).and_then(Process::adopt);
        if sidecar.is_none() {
            self.end_left(Marked::Ours, one.sidecar_cgroups.clone())
                .await;
        }
        let groups = one.cgroups.clone();
        if application.is_none() {
            self.end_left(Marked::Applications, groups).await;
        } else {
            // Probes that nobody waits for any more.
            let cleared = blocking(move || {
                cgroup::clear(&groups);
                Ok(())
            });
            let _ = cleared.await;
        }
        let had_application = life.is_some_and(|life| life.process.is_some());
        let lost_application = had_application && application.is_none();
        self.serving.send_replace(sidecar.is_some());
        self.running.send_replace(application.is_some());
        self.sidecars.borrow_mut().extend(sidecar);
        *self.application.borrow_mut() = application;
        self.finished.send_replace(is_over);
        if lost_application {
            let end = End {
                succeeded: None,
                text: "ended while there was no supervisor".into(),
            };
            self.application_ended(&end);
            self.judge_end(&end);
        }
    }

    /// Ends whoever of one kind is left in its place: its `groups` have them, where there are such.
    pub(super) async fn end_left(&self, which: Marked, groups: Vec<PathBuf>) {
        let is_explicit = self.shared.ground.is_explicit;
        let root = self.folder().root().to_path_buf();
        let killed = blocking(move || {
            cgroup::kill(&groups);
            if is_explicit {
                kill_marked(&root, &[which]);
            }
            Ok(())
        });
        let _ = killed.await;
    }
}

fn undo(ground: &Ground, placed: &Placed) {
    network::remove_instance(&ground.name, &placed.id, placed.offset);
}

/// A folder that is one user's alone.
pub(in crate::supervisor) fn make_home(path: &Path, user: u32) -> anyhow::Result<()> {
    let make = || {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        give(path, Some(user), Some(user))
    };
    make().with_context(|| format!("make {}", path.display()))
}
