//! The only assembly: sockets, workers, the quiet thread. `run` joins the planes and is called by
//! `main`; what happens after the start is in [`crate::quiet`].

use crate::dns;
use crate::envoy;
use crate::handover::{self, Handed, Predecessor};
use crate::log;
use crate::options::Options;
use crate::quiet::Quiet;
use crate::reload::Live;
use crate::snapshot::{Identity, Snapshot};
use crate::socket::{self, Sockets};
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::metrics::{Registry, SLOTS_MAX};
use crate::worker::{self, Message, Plan, Seat};
use anyhow::Context;
use identity::tls::Tickets;
use model::{Config, Limits};
use rt::{Detached, Mailbox};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::process::{getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use rustix::thread::{clear_ambient_capability_set, set_capabilities, set_no_new_privs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedSender};

/// A worker's stack: enough for a handshake, far below the default's 2 MiB.
const STACK_BYTES: usize = 512 * 1024;
/// What a drain may take longer than its limit before the process ends anyway.
pub(crate) const DRAIN_SLACK: Duration = Duration::from_secs(1);

/// Runs the sidecar until it is told to end and has drained.
///
/// # Errors
/// When the configuration, a certificate or an address cannot be used.
pub fn run(options: &Options) -> anyhow::Result<()> {
    // First of all: these descriptors have numbers that were agreed on.
    let inherited = socket::inherit();
    raise_descriptors();
    let config = Arc::new(options.load()?);
    if config.envoy.is_some() {
        return envoy::run(options, &config, Sockets::new(inherited, Vec::new(), false));
    }
    let (predecessor, handed) = take_over(&config)?.unzip();
    let handed = handed.unwrap_or_default();
    let sockets = Sockets::new(inherited, handed, config.handover.is_some());
    let tickets = Tickets::new();
    let identity = Identity::load(&config, &tickets)?;
    let snapshot = Arc::new(Snapshot::build(Arc::clone(&config), identity, None)?);
    let registry = Registry::new(&config.workload, SLOTS_MAX);
    let access_log = open_access_log(&config, &registry)?;
    let (seats, mailboxes) = make_seats(worker_count(&config))?;
    let names = dns::Names::build(&config);
    let book = dns::Book::new(names, config.dns.as_ref(), registry.dns());
    let mut live = Live::new(
        options.clone(),
        snapshot,
        (tickets, book),
        Arc::clone(&seats),
        sockets,
    );
    live.open()?;
    // Threads begin with the rights of the one that starts them.
    harden(options);
    let (wants, wanted) = mpsc::unbounded_channel();
    let threads = start_workers(mailboxes, &live, &registry, (&wants, access_log.as_ref()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut quiet = Quiet::begin(live, &registry, predecessor, wanted)?;
        quiet.run().await?;
        let limit = quiet.drain().await;
        tokio::select! {
            drained = drain(&seats, threads, limit) => drained,
            () = quiet.follow() => Ok(()),
        }
    })?;
    if let Some(log) = access_log {
        log.close(DRAIN_SLACK);
    }
    Ok(())
}

/// The process that serves already, if there is one, and its sockets.
fn take_over(config: &Config) -> anyhow::Result<Option<(Predecessor, Vec<Handed>)>> {
    let Some(path) = &config.handover else {
        return Ok(None);
    };
    let taken = handover::take(path);
    taken.with_context(|| format!("cannot take over at {}", path.display()))
}

/// Gives up what a sidecar never needs, so that nobody gains it through one: reading its memory,
/// and rights that it was started with.
pub(crate) fn harden(options: &Options) {
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

/// Waits for the workers on the quiet thread, which goes on to answer for the admin pages. Told to
/// end once more, it waits no longer than when nobody had taken over.
async fn drain(
    seats: &[Seat],
    threads: Vec<JoinHandle<()>>,
    limit: Duration,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    // The one that accepts tells the others.
    seats[0].sender.send(Message::Drain(limit));
    let drained = async {
        while threads.iter().any(|thread| !thread.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // What takes longer ends with the process.
    let within = |limit| tokio::time::sleep(limit + DRAIN_SLACK);
    tokio::select! {
        () = drained => {}
        () = within(limit) => {}
        () = async {
            terminate.recv().await;
            within(Limits::DRAIN_TIMEOUT.min(limit)).await;
        } => {}
    }
    Ok(())
}
