//! The sidecar of an instance: started, started again when it ends, replaced by a newer one, and
//! ended when there is nothing left for it to do.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::{DRAINED_WITHIN, Instance, blocking, is_true};
use crate::backoff::Backoff;
use crate::job::{Job, PATH};
use crate::logs::{self, say};
use crate::name::WorkloadId;
use crate::state::Running;
use crate::watched::Process;
use crate::{foreign, operator, ready, written};

/// So often in a row a sidecar may end before its instance is no longer ready.
const ENDS_MAX: u32 = 2;
/// So often it is asked for a token, while the control plane has not heard of an instance.
const ASKED_MAX: u32 = 40;
const ASKED_PERIOD: Duration = Duration::from_millis(100);

impl Instance {
    /// Has one serve until the application has ended for good.
    pub(super) async fn keep_sidecar(self: &Rc<Self>) {
        if !self.template.sidecar {
            self.serving.send_replace(true);
            return;
        }
        tokio::select! {
            () = is_true(&self.finished) => {}
            () = self.serve() => {}
        }
        self.end_sidecar().await;
    }

    async fn serve(self: &Rc<Self>) {
        let mut backoff = Backoff::default();
        loop {
            if let Err(error) = self.have_sidecar().await {
                self.stumble(&error);
            } else {
                self.serving.send_replace(true);
                backoff.begin(Instant::now());
                self.await_sidecar_end().await;
            }
            let wait = backoff.next(Instant::now());
            if backoff.failures() > ENDS_MAX {
                self.serving.send_replace(false);
            }
            sleep(wait).await;
            self.change(|one| one.sidecar.restarts += 1);
        }
    }

    /// Starts one, if there is none, and waits until it serves.
    async fn have_sidecar(self: &Rc<Self>) -> anyhow::Result<()> {
        if self.current_sidecar().is_some() {
            return Ok(());
        }
        let context = || format!("start the sidecar of {}", self.id);
        let token = self.token().await.with_context(context)?;
        let started = self.start_sidecar(token, |own, process| {
            own.change(|one| one.sidecar.process = Some(process.identity()));
            own.sidecars.replace(vec![process]);
        });
        if let Err(error) = started.await.with_context(context) {
            self.change(|one| one.sidecar.process = None);
            return Err(error);
        }
        self.change(|one| one.sidecar.serving = true);
        Ok(())
    }

    fn current_sidecar(&self) -> Option<Process> {
        let last = self.sidecars.borrow().last().cloned();
        last.filter(|process| process.end().is_none())
    }

    /// Starts one, which `record` keeps; gives it when it serves.
    async fn start_sidecar(
        self: &Rc<Self>,
        token: String,
        record: fn(&Self, Process),
    ) -> anyhow::Result<Process> {
        let outputs = self.outputs("sidecar");
        let skipped = logs::length(&outputs.stdout);
        let one = self.look().context("the instance is gone")?;
        let job = self.sidecar_job(&one, token)?;
        let held = self.sockets(&one)?;
        let launched = self.launch((job, outputs.clone(), held), record);
        let process = launched.await?;
        let label = format!("the sidecar of {}", self.id);
        let ready = ready::wait(&process, &label, (&outputs, skipped)).await;
        if let Err(error) = ready {
            process.kill().await;
            return Err(error);
        }
        Ok(process)
    }

    fn sidecar_job(&self, one: &Running, token: String) -> anyhow::Result<Job> {
        let (own, shared) = (self.folder(), &self.shared);
        // Anew each time: after a rotation it is another.
        let user = shared.look(|state| state.control_user);
        let trusted = foreign::read_of(&shared.folder.trust_bundle(), user)?;
        written::replace(&own.trust_bundle(), &trusted)?;
        let start = shared.start.borrow();
        let envoy = match one.envoy {
            true => Some(
                start
                    .envoy
                    .as_deref()
                    .context("there is no envoy: give --envoy")?,
            ),
            false => None,
        };
        let bootstrap = written::bootstrap(&shared.ground, one, &shared.folder, envoy);
        written::replace(&own.bootstrap(), &bootstrap)?;
        Ok(Job {
            program: start.proxy.clone(),
            args: vec!["--config".into(), own.bootstrap().display().to_string()],
            directory: own.root().to_path_buf(),
            environment: vec![("PATH".into(), PATH.into())],
            user: one.sidecar_user.context("the instance has no sidecar")?,
            netns: one.namespace().map(Path::to_path_buf),
            cgroups: one.sidecar_cgroups.clone(),
            resolver: None,
            // A second one has those of the first.
            sockets: match self.current_sidecar() {
                None if one.explicit.is_none() => self.template.sockets.clone(),
                _ => Vec::new(),
            },
            input: Some(token + "\n"),
            is_attached: false,
        })
    }

    /// Copies of the sockets that are kept for its sidecars. Those that a supervisor before us kept
    /// are the running one's alone, until it has ended.
    fn sockets(&self, one: &Running) -> anyhow::Result<Vec<OwnedFd>> {
        let Some(explicit) = &one.explicit else {
            return Ok(Vec::new());
        };
        let mut held = self.held.borrow_mut();
        if held.is_empty() && self.current_sidecar().is_none() {
            *held = explicit.reopen(&self.template.sockets)?;
        }
        let copies = held.iter().map(OwnedFd::try_clone);
        Ok(copies.collect::<Result<_, _>>()?)
    }

    /// What a sidecar proves itself by. One that has been there before proves itself by its
    /// certificate, and is needed most while nobody gives tokens.
    async fn token(&self) -> anyhow::Result<String> {
        let certificate = self.folder().certificate();
        self.shared
            .until(|state| (state.control.serving || certificate.exists()).then_some(()))
            .await;
        let (socket, id) = (self.shared.folder.operator(), self.id.clone());
        let may_wait = !certificate.exists();
        let token = blocking(move || ask(&socket, &id, may_wait)).await;
        match token {
            Err(error) if certificate.exists() => {
                say(&format!(
                    "the sidecar of {} starts with the certificate that it has: {error:#}",
                    self.id
                ));
                Ok(String::new())
            }
            token => token,
        }
    }

    /// Waits until the one that serves has ended, though others may have taken over meanwhile.
    async fn await_sidecar_end(&self) {
        while let Some(current) = self.current_sidecar() {
            let end = current.ended().await;
            // It may be over because another serves, which is about to be told.
            let _done = self.taking_over.lock().await;
            let last = self.sidecars.borrow().last().map(Process::identity);
            if last != Some(current.identity()) {
                continue;
            }
            say(&format!("the sidecar of {} ended: {}", self.id, end.text));
            self.change(|one| {
                one.sidecar.process = None;
                one.sidecar.serving = false;
                one.sidecar.ended = Some(end.text);
            });
        }
    }

    /// Ends all there are: they take no more, and do to its end what they have begun.
    pub(super) async fn end_sidecar(&self) {
        let successor = self.successor.borrow().clone();
        if let Some(successor) = successor {
            successor.kill().await;
        }
        let sidecars = self.sidecars.borrow().clone();
        for process in sidecars {
            process.finish(DRAINED_WITHIN).await;
            let end = process.ended().await;
            self.change(|one| {
                one.sidecar.process = None;
                one.sidecar.serving = false;
                one.sidecar.ended = Some(end.text);
            });
        }
    }

    /// Has a sidecar of the program that there is now take over; the one before goes on if it does
    /// not.
    pub(in crate::supervisor) async fn upgrade(self: &Rc<Self>) -> anyhow::Result<()> {
        let _taking_over = self.taking_over.lock().await;
        let Some(before) = self.current_sidecar() else {
            bail!("{} has no sidecar to take over from", self.id);
        };
        ensure!(!self.is_stopping(), "{} is being taken away", self.id);
        let started = self.start_sidecar(String::new(), |own, process| {
            own.successor.replace(Some(process));
        });
        let started = started.await;
        self.successor.take();
        let after = started.with_context(|| format!("the sidecar of {} goes on", self.id))?;
        self.change(|one| one.sidecar.process = Some(after.identity()));
        let mut sidecars = self.sidecars.borrow_mut();
        sidecars.retain(|one| one.end().is_none());
        sidecars.push(after);
        let id = self.id.clone();
        spawn_local(async move {
            let end = before.ended().await;
            say(&format!(
                "the sidecar of {id} that was replaced ended: {}",
                end.text
            ));
        });
        Ok(())
    }
}

/// Asks for a token; where a new one has no other, until the control plane has heard of it.
fn ask(socket: &Path, id: &WorkloadId, may_wait: bool) -> anyhow::Result<String> {
    let mut asked = 1;
    loop {
        let token = operator::token(socket, id);
        if token.is_ok() || !may_wait || asked >= ASKED_MAX {
            return token;
        }
        let _ = operator::settle(socket, ASKED_PERIOD);
        std::thread::sleep(ASKED_PERIOD);
        asked += 1;
    }
}
