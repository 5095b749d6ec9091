//! The companion of a stock Envoy: it starts it, gives it the workload's certificate and a way to
//! the control plane, answers for names, and ends with it. Called by `app` in the place of workers.
//! Must never touch a byte of what Envoy carries, nor let a key go anywhere but to its Envoy.

mod admin;
mod bootstrap;
mod callers;
mod drain;
mod folder;
mod process;
mod secrets;
mod tunnel;

use crate::admin::{Phase, State};
use crate::app;
use crate::control::{Proof, Told};
use crate::dns::{Book, Names};
use crate::hearing::{Hearing, hear};
use crate::log;
use crate::options::Options;
use crate::quiet::announce;
use crate::snapshot::Snapshot;
use crate::socket::Sockets;
use crate::surfaces::Surfaces;
use crate::telemetry::metrics::{Registry, SLOTS_MAX};
pub(crate) use admin::{Admin, PAGES, PREFIX};
use anyhow::Context;
use folder::Folder;
use identity::tls::Tickets;
use model::{Config, Listener};
use process::Process;
pub use process::become_envoy;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Runs Envoy until it is told to end and has drained.
///
/// # Errors
/// When something cannot be opened, Envoy cannot be started, or ends by itself.
pub(crate) fn run(options: &Options, config: &Arc<Config>, sockets: Sockets) -> anyhow::Result<()> {
    let tickets = Tickets::new();
    let snapshot = Arc::new(Snapshot::build(Arc::clone(config), None, None)?);
    let registry = Registry::new(&config.workload, SLOTS_MAX);
    let names = Names::build(config);
    let book = Book::new(names, config.dns.as_ref(), registry.dns());
    app::harden(options);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut companion = Companion::begin((snapshot, tickets, book), &registry, sockets)?;
        companion.run().await?;
        companion.drain().await
    })
}

/// All that it looks after.
struct Companion {
    config: Arc<Config>,
    snapshot: Arc<Snapshot>,
    tickets: Arc<Tickets>,
    book: Arc<Book>,
    state: Arc<State>,
    registry: Arc<Registry>,
    surfaces: Surfaces,
    told: Option<Hearing>,
    /// What the workload is proven by now.
    proof: watch::Sender<Option<Proof>>,
    /// Listeners that have sockets, as the control plane says.
    listeners: BTreeMap<String, SocketAddr>,
    admin: Arc<Admin>,
    // Last: the folder goes after the process.
    process: Process,
    _folder: Folder,
}

/// How far Envoy is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    /// It serves; the names may be missing still.
    Live,
    /// That was said.
    Ready,
}

impl Companion {
    fn begin(
        (snapshot, tickets, book): (Arc<Snapshot>, Arc<Tickets>, Arc<Book>),
        registry: &Arc<Registry>,
        mut sockets: Sockets,
    ) -> anyhow::Result<Self> {
        let config = Arc::clone(&snapshot.config);
        let envoy = config.envoy.as_ref().context("there is no `envoy`")?;
        let folder = Folder::make(&envoy.folder)?;
        let (tunnels, secrets) = (folder.listen(folder::XDS)?, folder.listen(folder::SECRETS)?);
        let admin = Arc::new(Admin::new(folder.path(folder::ADMIN)));
        let state = State::beside_envoy(Arc::clone(&snapshot), Arc::clone(&admin));
        let generation = Arc::clone(&state);
        let applied = move || generation.generation();
        state.describe(Arc::clone(registry), Box::new(applied));
        let surfaces = Surfaces::open(&config, &mut sockets)?;
        surfaces.serve(&state, &book)?;
        // Nobody waits at a listener of Envoy's.
        let (_, wanted) = mpsc::unbounded_channel();
        let told = Hearing::begin(&config, &state, registry, wanted)?;
        let process = bootstrap::start(&config, envoy, &folder)?;
        let proof = watch::Sender::new(None);
        serve(&config, process.id(), (tunnels, secrets), &proof);
        Ok(Self {
            config: Arc::clone(&config),
            snapshot,
            tickets,
            book,
            state,
            registry: Arc::clone(registry),
            surfaces,
            told,
            proof,
            listeners: BTreeMap::new(),
            admin,
            process,
            _folder: folder,
        })
    }

    /// Returns when the process is to end.
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let admin = Arc::clone(&self.admin);
        let mut live = pin!(admin.until_live());
        let mut stage = Stage::Starting;
        loop {
            if stage == Stage::Live && self.is_told() {
                stage = Stage::Ready;
                self.announce().await;
            }
            tokio::select! {
                _ = terminate.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                _ = hang_up.recv() => log::info(format_args!(
                    "nothing is read again: changes take effect at the next start"
                )),
                Some(told) = hear(&mut self.told) => self.adopt(&told),
                end = self.process.end() => return Err(end.into_error()),
                () = &mut live, if stage == Stage::Starting => stage = Stage::Live,
            }
        }
    }

    fn is_told(&self) -> bool {
        self.proof.borrow().is_some()
    }

    fn adopt(&mut self, told: &Told) {
        let result = self.put_to_use(told);
        self.registry.reloaded(result.is_ok());
        if let Err(error) = result {
            log::error(format_args!("configuration kept as it was: {error:#}"));
        }
    }

    /// Puts to use what the control plane says now.
    fn put_to_use(&mut self, told: &Told) -> anyhow::Result<()> {
        let mut named = Config::clone(&self.config);
        told.complete(&mut named);
        let identity = told.identity(&self.tickets, || Ok(None))?;
        let config = Arc::clone(&self.config);
        let snapshot = Snapshot::build(config, identity, Some(&self.snapshot))?;
        self.snapshot = Arc::new(snapshot);
        self.state.publish(Arc::clone(&self.snapshot));
        self.book.publish(Names::build(&named));
        let bound = |listener: &Arc<Listener>| (listener.name.clone(), listener.address);
        let listeners = named.listeners.iter().filter(|listener| listener.bind);
        self.listeners = listeners.map(bound).collect();
        self.proof.send_replace(told.proof().cloned());
        Ok(())
    }

    /// Says, once, that Envoy serves, and where.
    async fn announce(&mut self) {
        // Which port was free only Envoy knows.
        if self.listeners.values().any(|addr| addr.port() == 0) {
            let bound = self.admin.listeners().await;
            for (name, addr) in bound {
                self.listeners.entry(name).and_modify(|known| *known = addr);
            }
        }
        let bound = self.listeners.iter().map(|(name, addr)| (name, *addr));
        announce(&self.surfaces, bound);
        self.state.set_phase(Phase::Ready);
    }

    /// Has Envoy end what it has begun, and then itself.
    async fn drain(mut self) -> anyhow::Result<()> {
        self.state.set_phase(Phase::Draining);
        log::info(format_args!("draining"));
        drain::drain(&self.admin, &mut self.process, &self.config.limits).await?;
        if let Some(told) = self.told.take() {
            told.end().await;
        }
        Ok(())
    }
}

/// Answers Envoy, of that process id and no other, at its two sockets.
fn serve(
    config: &Arc<Config>,
    envoy: u32,
    (tunnels, secrets): (UnixListener, UnixListener),
    proof: &watch::Sender<Option<Proof>>,
) {
    let (config, proofs) = (Arc::clone(config), proof.subscribe());
    let carry = move |stream| tunnel::carry(stream, Arc::clone(&config), proofs.clone());
    tokio::spawn(callers::serve(tunnels, envoy, carry));
    let proofs = proof.subscribe();
    let tell = move |stream| secrets::serve(stream, proofs.clone());
    tokio::spawn(callers::serve(secrets, envoy, tell));
}
