//! The programs that a mesh has once: the control plane, and what answers for names of other
//! machines. Each is started again when it ends. Run by the supervisor.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;
use tokio::time::sleep;

use super::shared::{Shared, blocking};
use crate::backoff::Backoff;
use crate::job::{Job, PATH};
use crate::logs::{self, say};
use crate::process::Outputs;
use crate::state::{Life, State};
use crate::watched::Process;
use crate::{cgroup, ready, written};

/// How long one that is replaced has to end in order.
const GRACE: std::time::Duration = std::time::Duration::from_secs(5);

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Without it there is no mesh.
    Control,
    /// Without it, names of other machines are not known.
    Resolver,
}

/// One of them.
pub(super) struct Service {
    which: Which,
    shared: Rc<Shared>,
    process: RefCell<Option<Process>>,
    /// Whether it ends because its successor is to begin.
    is_replaced: Cell<bool>,
}

impl Service {
    pub(super) fn new(which: Which, shared: &Rc<Shared>) -> Rc<Self> {
        Rc::new(Self {
            which,
            shared: Rc::clone(shared),
            process: RefCell::default(),
            is_replaced: Cell::new(false),
        })
    }

    /// Keeps it, beginning with one that a supervisor before us left.
    pub(super) async fn run(self: Rc<Self>) {
        let mut backoff = Backoff::default();
        let mut adopted = self.adopt().await;
        let mut is_first = adopted.is_none();
        loop {
            let begun = match adopted.take() {
                Some(process) => Ok(process),
                None => self.start(is_first).await,
            };
            match begun {
                Ok(process) => {
                    backoff.begin(Instant::now());
                    self.await_end(&process).await;
                }
                Err(error) if is_first && self.which == Which::Control => self.shared.fail(&error),
                Err(error) => say(&format!("{error:#}")),
            }
            is_first = false;
            if !self.is_replaced.take() {
                sleep(backoff.next(Instant::now())).await;
            }
        }
    }

    /// The one that serves already; nothing else of it is left.
    async fn adopt(&self) -> Option<Process> {
        let left = self.shared.look(|state| self.of(state).clone());
        let serving = left.process.filter(|_| left.serving);
        let process = serving.and_then(Process::adopt);
        if process.is_none() {
            let groups = self.shared.cgroups.make(self.name());
            let killed = blocking(move || {
                cgroup::kill(&groups);
                Ok(())
            });
            let _ = killed.await;
        }
        (*self.process.borrow_mut()).clone_from(&process);
        process
    }

    /// Ends it, for the next to begin at once with whatever program there is now.
    pub(super) async fn replace(&self) {
        self.is_replaced.set(true);
        let process = self.process.borrow().clone();
        if let Some(process) = process {
            process.finish(GRACE).await;
        }
    }

    async fn await_end(&self, process: &Process) {
        let end = process.ended().await;
        say(&format!("{} ended: {}", self.label(), end.text));
        self.change(|life| {
            life.process = None;
            life.serving = false;
            life.ended = Some(end.text);
        });
    }

    /// Starts it and waits until it serves.
    async fn start(&self, is_first: bool) -> anyhow::Result<Process> {
        let shared = &self.shared;
        let outputs = Outputs {
            stdout: shared.folder.output(self.name(), "out"),
            stderr: shared.folder.output(self.name(), "err"),
        };
        let skipped = logs::length(&outputs.stdout);
        let job = self.job()?;
        let (launcher, files) = (shared.start.borrow().launcher.clone(), outputs.clone());
        let child = blocking(move || launcher.start(&job, &files)).await;
        let mut child = child.with_context(|| format!("start {}", self.label()))?;
        let process = Process::of(&mut child)?;
        *self.process.borrow_mut() = Some(process.clone());
        self.change(|life| {
            life.process = Some(process.identity());
            life.restarts += u32::from(!is_first);
        });
        let said = ready::wait(&process, self.label(), (&outputs, skipped)).await;
        match said {
            Ok(said) => {
                self.tell(&said);
                Ok(process)
            }
            Err(error) => {
                // It may run, and would be in the way of the next.
                process.kill().await;
                self.change(|life| life.process = None);
                Err(error)
            }
        }
    }

    fn tell(&self, said: &Value) {
        self.change(|life| life.serving = true);
        if self.which == Which::Control {
            let admin = said["admin"].as_str().map(str::to_owned);
            self.shared.change(|state| state.admin = admin);
        }
    }

    fn job(&self) -> anyhow::Result<Job> {
        let shared = &self.shared;
        let start = shared.start.borrow();
        let (program, args) = match self.which {
            Which::Control => (&start.control, self.control_args()),
            Which::Resolver => {
                let config = shared.folder.resolver();
                written::replace(&config, &written::resolver_config(&shared.ground))?;
                let args = vec!["--config".to_owned(), config.display().to_string()];
                (&start.proxy, args)
            }
        };
        Ok(Job {
            program: program.clone(),
            args,
            directory: "/".into(),
            environment: vec![("PATH".into(), PATH.into())],
            user: shared.look(|state| match self.which {
                Which::Control => state.control_user,
                Which::Resolver => state.resolver_user,
            }),
            cgroups: shared.cgroups.make(self.name()),
            ..Job::default()
        })
    }

    fn control_args(&self) -> Vec<String> {
        let folder = &self.shared.folder;
        let path = |path: PathBuf| path.display().to_string();
        let mut args = [
            ["--source".into(), path(folder.source())],
            ["--source".into(), path(folder.status())],
            ["--state".into(), path(folder.control())],
            ["--admin".into(), "127.0.0.1:0".into()],
        ]
        .concat();
        for address in written::control_addresses(&self.shared.ground) {
            args.extend(["--listen".into(), address.to_string()]);
        }
        args
    }

    const fn label(&self) -> &'static str {
        match self.which {
            Which::Control => "leno-control",
            Which::Resolver => "the resolver",
        }
    }

    /// Of its logs and its group.
    const fn name(&self) -> &'static str {
        match self.which {
            Which::Control => "control",
            Which::Resolver => "resolver",
        }
    }

    const fn of<'a>(&self, state: &'a State) -> &'a Life {
        match self.which {
            Which::Control => &state.control,
            Which::Resolver => &state.resolver,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Life)) {
        self.shared.change(|state| {
            change(match self.which {
                Which::Control => &mut state.control,
                Which::Resolver => &mut state.resolver,
            });
        });
    }
}
