//! The only assembly: sockets, workers, the quiet thread. `run` joins the planes and is called by
//! `main`; what happens to a configuration after the start is in [`crate::reload`].

use crate::control::{self, Told};
use crate::dns;
use crate::heap::Trimmer;
use crate::log;
use crate::options::Options;
use crate::reload::Live;
use crate::snapshot::{Identity, Snapshot};
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::metrics::{Registry, SLOT_IDLE, SLOTS_MAX};
use crate::worker::{self, Message, Plan, Seat};
use crate::{admin, socket};
use anyhow::Context;
use identity::tls::Tickets;
use model::Config;
use rt::{Detached, Mailbox};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::process::{getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use rustix::thread::{clear_ambient_capability_set, set_capabilities, set_no_new_privs};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// A worker's stack: enough for a handshake, far below the default's 2 MiB.
const STACK_BYTES: usize = 512 * 1024;
/// How often files are looked at for changes, and idle counters swept.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
const SWEEP_PERIOD: Duration = Duration::from_secs(60);
/// What a drain may take longer than its limit before the process ends anyway.
const DRAIN_SLACK: Duration = Duration::from_secs(1);

/// Runs the sidecar until it is told to end and has drained.
///
/// # Errors
/// When the configuration, a certificate or an address cannot be used.
pub fn run(options: &Options) -> anyhow::Result<()> {
    raise_descriptors();
    let config = Arc::new(options.load()?);
    let tickets = Tickets::new();
    let identity = Identity::load(&config, &tickets)?;
    let snapshot = Arc::new(Snapshot::build(Arc::clone(&config), identity, None)?);
    let registry = Registry::new(&config.workload, SLOTS_MAX);
    let access_log = open_access_log(&config, &registry)?;
    let (seats, mailboxes) = make_seats(worker_count(&config))?;
    let sockets = socket::open_all((0..).zip(&config.listeners))?;
    let book = dns::Book::new(dns::Names::build(&config), registry.dns());
    let mut live = Live::new(
        options.clone(),
        snapshot,
        (tickets, book),
        Arc::clone(&seats),
    );
    live.listen(sockets);
    // Threads begin with the rights of the one that starts them.
    harden(options);
    let (wants, wanted) = mpsc::unbounded_channel();
    let threads = start_workers(mailboxes, &live, &registry, (&wants, access_log.as_ref()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        quiet(&mut live, &registry, wanted).await?;
        let limit = live.snapshot().config.limits.drain_timeout;
        drain(&seats, threads, limit).await;
        anyhow::Ok(())
    })?;
    if let Some(log) = access_log {
        log.close(DRAIN_SLACK);
    }
    Ok(())
}

/// Gives up what a sidecar never needs, so that nobody gains it through one: reading its memory,
/// and rights that it was started with.
fn harden(options: &Options) {
    let mut given_up = vec![set_no_new_privs(true)];
    if !options.dumpable {
        given_up.push(set_dumpable_behavior(DumpableBehavior::NotDumpable));
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    given_up.push(clear_ambient_capability_set());
    given_up.push(set_capabilities(None, none));
    for error in given_up.into_iter().filter_map(Result::err) {
        log::warn(format_args!("more rights than needed are kept: {error}"));
    }
}

/// Takes all descriptors that may be had: shells and supervisors start programs with 1,024 for the
/// sake of `select`, which nothing here uses.
fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    ) {
        log::warn(format_args!("at most {current:?} descriptors: {error}"));
    }
}

/// As many as the configuration says, or as the cgroup's quota and the affinity allow.
fn worker_count(config: &Config) -> usize {
    match config.workers {
        0 => thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

fn open_access_log(config: &Config, registry: &Registry) -> anyhow::Result<Option<AccessLog>> {
    let Some(log) = &config.access_log else {
        return Ok(None);
    };
    let opened = AccessLog::open(log, registry.access_log_dropped());
    let context = || format!("the access log {} cannot be opened", log.path.display());
    Ok(Some(opened.with_context(context)?))
}

type Mailboxes = Vec<Detached<Message>>;

fn make_seats(count: usize) -> anyhow::Result<(Arc<Vec<Seat>>, Mailboxes)> {
    let mut seats = Vec::with_capacity(count);
    let mut mailboxes = Vec::with_capacity(count);
    for _ in 0..count {
        let (sender, mailbox) = Mailbox::detached()?;
        let (connections, generation) = (AtomicU32::new(0), AtomicU64::new(1));
        seats.push(Seat {
            sender,
            connections,
            generation,
        });
        mailboxes.push(mailbox);
    }
    Ok((Arc::new(seats), mailboxes))
}

fn start_workers(
    mailboxes: Mailboxes,
    live: &Live,
    registry: &Arc<Registry>,
    (wants, access_log): (&UnboundedSender<Arc<str>>, Option<&AccessLog>),
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let start = |(id, mailbox)| {
        let plan = Plan {
            id,
            wants: wants.clone(),
            mailbox,
            seats: Arc::clone(live.seats()),
            snapshot: Arc::clone(live.snapshot()),
            registry: Arc::clone(registry),
            access_log: access_log.map(AccessLog::sender),
        };
        let body = move || {
            if let Err(error) = worker::run(plan) {
                log::error(format_args!("worker {id}: {error}"));
            }
        };
        let builder = thread::Builder::new()
            .name(format!("worker-{id}"))
            .stack_size(STACK_BYTES);
        builder
            .spawn(body)
            .context("a worker thread cannot be started")
    };
    mailboxes.into_iter().enumerate().map(start).collect()
}

/// The quiet thread: admin pages, names, signals, changes of files, what the control plane says.
/// Returns when the process is to end.
async fn quiet(
    live: &mut Live,
    registry: &Arc<Registry>,
    wanted: UnboundedReceiver<Arc<str>>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut look = tokio::time::interval(LOOK_PERIOD);
    let mut trimmer = Trimmer::default();
    let mut sweep = tokio::time::interval(SWEEP_PERIOD);
    #[expect(clippy::disallowed_methods, reason = "the quiet thread's own clock")]
    let started = Instant::now();
    let mut surfaces = Some(serve_admin(live, registry).await?);
    let mut told = ask_control(live, registry, wanted)?;
    if told.is_none() {
        begin(live, &mut surfaces);
    }
    loop {
        if live.is_told() {
            begin(live, &mut surfaces);
        }
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => reload(live, registry),
            Some(news) = hear(&mut told) => adopt(live, registry, news),
            _ = look.tick() => {
                if trimmer.look(live.connections()) {
                    live.seats().iter().for_each(|seat| seat.sender.send(Message::Trim));
                }
                if live.has_changed() {
                    reload(live, registry);
                }
            }
            _ = sweep.tick() => {
                let now_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                registry.sweep(SLOT_IDLE, now_ms);
            }
        }
    }
    live.state().set_ready(false);
    log::info(format_args!("draining"));
    if let Some(Hearing { news, agent }) = told {
        drop(news);
        // It has a last file to write; if it cannot, the one before is good enough.
        tokio::time::timeout(DRAIN_SLACK, agent).await.ok();
    }
    Ok(())
}

/// Says, once, that the sidecar serves.
fn begin(live: &Live, surfaces: &mut Option<Surfaces>) {
    if let Some(surfaces) = surfaces.take() {
        announce(&surfaces, live.bound());
        live.state().set_ready(true);
    }
}

/// What the control plane says, and who listens to it.
struct Hearing {
    news: mpsc::Receiver<Told>,
    agent: tokio::task::JoinHandle<()>,
}

/// Begins to listen to the control plane, if there is one.
fn ask_control(
    live: &Live,
    registry: &Arc<Registry>,
    wanted: UnboundedReceiver<Arc<str>>,
) -> anyhow::Result<Option<Hearing>> {
    let config = &live.snapshot().config;
    let Some(plane) = &config.control else {
        return Ok(None);
    };
    let agent = control::Agent::new(plane, &config.workload, wanted)?;
    let (sender, news) = mpsc::channel(1);
    let (state, registry) = (Arc::clone(live.state()), Arc::clone(registry));
    let show: control::Show = Box::new(move |status| {
        let status = Arc::new(status.clone());
        registry.show_control(Arc::clone(&status));
        state.show_control(status);
    });
    let agent = tokio::spawn(agent.run(sender, show));
    Ok(Some(Hearing { news, agent }))
}

async fn hear(told: &mut Option<Hearing>) -> Option<Told> {
    match told {
        Some(told) => told.news.recv().await,
        None => std::future::pending().await,
    }
}

fn adopt(live: &mut Live, registry: &Registry, told: Told) {
    let result = live.adopt(told);
    registry.reloaded(result.is_ok());
    if let Err(error) = result {
        log::error(format_args!("configuration kept as it was: {error:#}"));
    }
}

fn reload(live: &mut Live, registry: &Registry) {
    let result = live.reload();
    registry.reloaded(result.is_ok());
    match result {
        Ok(()) => log::info(format_args!("configuration reloaded")),
        Err(error) => log::error(format_args!("configuration kept as it was: {error:#}")),
    }
}

/// Bound addresses of what the quiet thread serves.
struct Surfaces {
    admin: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    dns: Vec<SocketAddr>,
}

async fn serve_admin(live: &mut Live, registry: &Arc<Registry>) -> anyhow::Result<Surfaces> {
    let config = Arc::clone(&live.snapshot().config);
    live.describe(registry);
    let admin = serve_page(live, config.admin, admin::Surface::Admin).await?;
    let metrics = serve_page(live, config.metrics, admin::Surface::Metrics).await?;
    let dns = config.dns.map(|addr| dns::serve(addr, live.book()));
    Ok(Surfaces {
        admin,
        metrics,
        dns: dns.transpose()?.unwrap_or_default(),
    })
}

async fn serve_page(
    live: &Live,
    addr: Option<SocketAddr>,
    which: admin::Surface,
) -> anyhow::Result<Option<SocketAddr>> {
    let Some(addr) = addr else { return Ok(None) };
    let listener = tokio::net::TcpListener::bind(addr).await;
    let listener = listener
        .with_context(|| format!("{addr} cannot be bound; choose another address or `off`"))?;
    let bound = listener.local_addr()?;
    tokio::spawn(admin::serve(listener, Arc::clone(live.state()), which));
    Ok(Some(bound))
}

/// The one line on standard output.
fn announce<'a>(surfaces: &Surfaces, bound: impl Iterator<Item = (&'a String, SocketAddr)>) {
    let listeners: serde_json::Map<_, _> = bound
        .map(|(name, addr)| (name.clone(), addr.to_string().into()))
        .collect();
    let line = serde_json::json!({
        "event": "ready",
        "pid": std::process::id(),
        "admin": surfaces.admin,
        "metrics": surfaces.metrics,
        "dns": surfaces.dns,
        "listeners": listeners,
    });
    // Who does not read it, or has no room for it, is served all the same.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Waits for the workers on the quiet thread, which goes on to answer for the admin pages.
async fn drain(seats: &[Seat], threads: Vec<JoinHandle<()>>, limit: Duration) {
    for seat in seats {
        seat.sender.send(Message::Drain);
    }
    let drained = async {
        while threads.iter().any(|thread| !thread.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // What takes longer ends with the process.
    tokio::time::timeout(limit + DRAIN_SLACK, drained)
        .await
        .ok();
}
