//! The quiet thread: admin pages, names, signals, changes of files, what the control plane says,
//! and a successor that takes over. Called by `app`; must never wait for a worker.

use crate::admin::Phase;
use crate::control::{Onward, Told};
use crate::handover::{self, Door, Handed, Predecessor, Request};
use crate::heap::Trimmer;
use crate::hearing::{Hearing, hear};
use crate::log;
use crate::reload::Live;
use crate::surfaces::Surfaces;
use crate::telemetry::metrics::{Registry, SLOT_IDLE};
use crate::worker::Message;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Interval, interval};

/// How often files are looked at for changes, and idle counters swept.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

/// All that it looks after.
pub(crate) struct Quiet {
    live: Live,
    registry: Arc<Registry>,
    surfaces: Surfaces,
    told: Option<Hearing>,
    succession: Option<Succession>,
    /// Who serves until this process does.
    predecessor: Option<Predecessor>,
    is_ready: bool,
}

/// Where a successor comes, and how far it is.
struct Succession {
    door: Door,
    answering: Option<JoinHandle<()>>,
    requests: (mpsc::Sender<Request>, mpsc::Receiver<Request>),
    /// While one takes over; the agent rests, if there is one.
    heir: Option<Option<oneshot::Sender<Onward>>>,
    is_over: bool,
}

/// What happens by itself.
struct Clocks {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    look: Interval,
    sweep: Interval,
    started: Instant,
    trimmer: Trimmer,
}

impl Quiet {
    /// Opens what is served beside the workers, and begins to listen to the control plane.
    ///
    /// # Errors
    /// When an address cannot be bound, or the control plane cannot be asked.
    pub(crate) fn begin(
        mut live: Live,
        registry: &Arc<Registry>,
        predecessor: Option<Predecessor>,
        wanted: UnboundedReceiver<Arc<str>>,
    ) -> anyhow::Result<Self> {
        let config = Arc::clone(&live.snapshot().config);
        live.describe(registry);
        let surfaces = Surfaces::open(&config, live.sockets())?;
        if predecessor.is_none() {
            surfaces.serve(live.state(), live.book())?;
        }
        let succession = config.handover.as_deref().map(Succession::open);
        Ok(Self {
            told: Hearing::begin(&config, live.state(), registry, wanted)?,
            live,
            registry: Arc::clone(registry),
            surfaces,
            succession: succession.transpose()?,
            predecessor,
            is_ready: false,
        })
    }

    /// Returns when the process is to end.
    pub(crate) async fn run(&mut self) -> anyhow::Result<()> {
        let mut clocks = Clocks::start()?;
        loop {
            if !self.is_ready && (self.told.is_none() || self.live.is_told()) {
                self.serve()?;
            }
            let rests = self.succession.as_ref().is_some_and(Succession::is_begun);
            tokio::select! {
                _ = clocks.terminate.recv() => return Ok(()),
                _ = clocks.interrupt.recv() => return Ok(()),
                // A successor has what is open now: nothing else is to be opened.
                _ = clocks.hang_up.recv(), if !rests => self.reload(),
                Some(news) = hear(&mut self.told) => self.adopt(news),
                request = next(&mut self.succession) => match request {
                    Request::Give(answer) => self.give(answer).await,
                    Request::Rest(rests) => {
                        self.surfaces.rest();
                        // That it is gone is heard as well.
                        let _ = rests.send(());
                    }
                    Request::Resume => self.resume(),
                    Request::Leave => {
                        self.leave();
                        return Ok(());
                    }
                },
                _ = clocks.look.tick() => {
                    clocks.trim(&self.live);
                    if !rests && self.live.has_changed() {
                        self.reload();
                    }
                }
                _ = clocks.sweep.tick() => clocks.sweep(&self.registry),
            }
        }
    }

    /// Says, once, that the sidecar serves.
    fn serve(&mut self) -> anyhow::Result<()> {
        self.is_ready = true;
        self.live.sockets().settle();
        if let Some(predecessor) = self.predecessor.take() {
            // Prepared only: nothing is accepted before this thread has a rest.
            self.surfaces.serve(self.live.state(), self.live.book())?;
            predecessor.relieve()?;
        }
        // Nothing can fail from here on.
        self.live.accept();
        if let Some(succession) = &mut self.succession {
            succession.begin();
        }
        announce(&self.surfaces, self.live.bound());
        self.live.state().set_phase(Phase::Ready);
        Ok(())
    }

    fn adopt(&mut self, told: Told) {
        let result = self.live.adopt(told);
        self.registry.reloaded(result.is_ok());
        if let Err(error) = result {
            log::error(format_args!("configuration kept as it was: {error:#}"));
        }
    }

    fn reload(&mut self) {
        let result = self.live.reload();
        self.registry.reloaded(result.is_ok());
        match result {
            Ok(()) => log::info(format_args!("configuration reloaded")),
            Err(error) => log::error(format_args!("configuration kept as it was: {error:#}")),
        }
    }

    /// Gives a successor what it needs; from then on nothing changes until it serves or has failed.
    async fn give(&mut self, answer: oneshot::Sender<Result<Vec<Handed>, String>>) {
        let given = self.prepare().await;
        if given.is_err() {
            self.resume();
        }
        // That it is gone is heard as well.
        let _ = answer.send(given);
    }

    async fn prepare(&mut self) -> Result<Vec<Handed>, String> {
        let over = match &self.told {
            Some(told) => Some(told.pause().await?),
            None => None,
        };
        if let Some(succession) = &mut self.succession {
            succession.heir = Some(over);
        }
        // Said before it began to rest.
        while let Some(news) = self.told.as_mut().and_then(Hearing::heard) {
            self.adopt(news);
        }
        self.offer()
            .map_err(|error| format!("a socket cannot be copied: {error}"))
    }

    fn offer(&self) -> io::Result<Vec<Handed>> {
        let mut all = self.live.offer()?;
        all.extend(self.surfaces.offer()?);
        Ok(all)
    }

    /// As if no successor had come.
    fn resume(&mut self) {
        if self.surfaces.rests() {
            let served = self.surfaces.serve(self.live.state(), self.live.book());
            served.unwrap_or_else(|error| {
                log::error(format_args!("pages and names are not served: {error:#}"));
            });
        }
        self.go_on(Onward::AsBefore);
    }

    /// Has the agent rest no longer, if it does.
    fn go_on(&mut self, onward: Onward) {
        let succession = self.succession.as_mut();
        if let Some(Some(over)) = succession.and_then(|succession| succession.heir.take()) {
            // The agent is gone only when everything ends.
            let _ = over.send(onward);
        }
    }

    /// The successor serves.
    fn leave(&mut self) {
        self.surfaces.leave();
        self.go_on(Onward::KeepingNothing);
        if let Some(succession) = &mut self.succession {
            succession.is_over = true;
        }
    }

    /// Begins nothing more; gives the time that what runs has.
    pub(crate) async fn drain(&mut self) -> Duration {
        self.live.state().set_phase(Phase::Draining);
        log::info(format_args!("draining"));
        // Nobody who comes from here on finds anything to take over.
        let is_replaced = self.succession.as_ref().is_some_and(|one| one.is_over);
        if let Some(succession) = self.succession.take() {
            succession.end();
        }
        self.live.let_go();
        if is_replaced {
            return self.live.snapshot().config.limits.handover_timeout;
        }
        if let Some(told) = self.told.take() {
            told.end().await;
        }
        self.live.snapshot().config.limits.drain_timeout
    }

    /// Connections that outlive a handover are under the rules of the mesh as it is, not as it was:
    /// puts to use what the control plane says of it, until this is dropped.
    pub(crate) async fn follow(&mut self) {
        while let Some(news) = hear(&mut self.told).await {
            self.adopt(news);
        }
        std::future::pending().await
    }
}

impl Succession {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            door: Door::open(path)?,
            answering: None,
            requests: mpsc::channel(1),
            heir: None,
            is_over: false,
        })
    }

    /// Answers from now on, in the place of whoever did.
    fn begin(&mut self) {
        match self.door.show() {
            Ok(listener) => {
                let requests = self.requests.0.clone();
                let serve = |listener| tokio::spawn(handover::serve(listener, requests));
                self.answering = listener.map(serve);
            }
            Err(error) => log::error(format_args!("nobody can take over: {error}")),
        }
    }

    fn is_begun(&self) -> bool {
        self.heir.is_some()
    }

    fn end(self) {
        if let Some(answering) = self.answering {
            answering.abort();
        }
        if self.is_over {
            self.door.leave();
        }
    }
}

async fn next(succession: &mut Option<Succession>) -> Request {
    let request = match succession {
        Some(succession) => succession.requests.1.recv().await,
        None => None,
    };
    match request {
        Some(request) => request,
        None => std::future::pending().await,
    }
}

impl Clocks {
    fn start() -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "the quiet thread's own clock")]
        let started = Instant::now();
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            look: interval(LOOK_PERIOD),
            sweep: interval(SWEEP_PERIOD),
            started,
            trimmer: Trimmer::default(),
        })
    }

    fn trim(&mut self, live: &Live) {
        if self.trimmer.look([live.connections(), live.listeners()]) {
            let seats = live.seats().iter();
            seats.for_each(|seat| seat.sender.send(Message::Trim));
        }
    }

    fn sweep(&self, registry: &Registry) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        registry.sweep(SLOT_IDLE, now_ms);
    }
}

/// The one line on standard output.
pub(crate) fn announce<'a>(
    surfaces: &Surfaces,
    bound: impl Iterator<Item = (&'a String, SocketAddr)>,
) {
    let listeners: serde_json::Map<_, _> = bound
        .map(|(name, addr)| (name.clone(), addr.to_string().into()))
        .collect();
    let line = serde_json::json!({
        "event": "ready",
        "pid": std::process::id(),
        "admin": surfaces.admin(),
        "metrics": surfaces.metrics(),
        "dns": surfaces.names(),
        "listeners": listeners,
    });
    // Who does not read it, or has no room for it, is served all the same.
    let _ = writeln!(io::stdout(), "{line}");
}
