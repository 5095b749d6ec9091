//! The load of a cost run: generator and backend, both on the core that no proxy uses.
//! Reads the contestant's counters as the generator's window opens and closes, never outside it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use load::{ClientTls, GrpcMode, Phase, Rate, serve};

use super::cell::{Cell, Protocol, Shape};
use super::process::on_core;
use super::subject::Subject;
use crate::dataplane::certificates::dns_name;
use crate::dataplane::{Certificates, Side};
use crate::meter::{self, Machine};

/// Long enough for a contestant under callgrind to shake hands with everybody.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The application behind the proxies: the echo server, in a thread of ours.
pub(crate) struct Backend {
    server: serve::Server,
}

impl Backend {
    /// Starts it for `protocol` on `core`; its thread stays in the caller's network.
    ///
    /// # Errors
    /// When it cannot listen.
    pub(crate) fn start(protocol: Protocol, core: Option<usize>) -> anyhow::Result<Self> {
        Self::with_threads(protocol, core, 1)
    }

    /// The same with `threads`, which take connections in turn.
    ///
    /// # Errors
    /// As [`Backend::start`].
    pub(crate) fn with_threads(
        protocol: Protocol,
        core: Option<usize>,
        threads: usize,
    ) -> anyhow::Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = serve::Options {
            threads,
            cpus: core.into_iter().collect(),
            tcp: (protocol == Protocol::Tcp).then_some(address),
            ..serve::Options::new(address)
        };
        Ok(Self {
            server: serve::start(&options).context("start the backend")?,
        })
    }

    /// Where it serves the protocol that it was started for.
    pub(crate) fn address(&self) -> SocketAddr {
        let server = &self.server;
        server.tcp_address().unwrap_or_else(|| server.address())
    }
}

/// What to send, where, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) target: SocketAddr,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) protocol: Protocol,
    pub(crate) shape: Shape,
    pub(crate) size: usize,
    /// Requests per second; absent as many as it takes.
    pub(crate) rate: Option<f64>,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) core: Option<usize>,
    /// Set to end the load early.
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

impl Load {
    /// A closed loop of `cell`'s shape on `target`.
    pub(crate) fn closed(target: SocketAddr, cell: &Cell, window: Duration) -> Self {
        Self {
            target,
            tls: None,
            protocol: cell.scene.protocol,
            shape: cell.shape,
            size: cell.size_bytes,
            rate: None,
            warm_up: Duration::ZERO,
            window,
            core: None,
            stop: None,
        }
    }
}

/// What a window showed.
pub(crate) struct Driven {
    /// Answers per second inside the window.
    pub(crate) rate: f64,
    /// Between the two readings of the contestant's counters.
    pub(crate) seconds: f64,
    /// CPU time of all its processes between the two readings.
    pub(crate) cpu_nanos: u64,
    /// CPUs that neither the contestant nor we used, on average.
    pub(crate) others: f64,
    /// The dearest process's memory while all connections were still open.
    pub(crate) pss_bytes: u64,
    /// From the intended send time, nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// Answers since the first request, warm-up included.
    pub(crate) answers: u64,
    /// CPU time of the generator's threads inside its window.
    pub(crate) generator_cpu: Duration,
    /// What the generator says of itself. A closed loop keeps it busy, which is void and no fault.
    pub(crate) verdict: load::Verdict,
}

/// Puts `load` on `subject`, or on a target without a proxy.
///
/// # Errors
/// When a request failed, or a counter could not be read: such a window is no measurement.
pub(crate) fn drive(load: &Load, subject: Option<&Subject>) -> anyhow::Result<Driven> {
    let mut answers = 0;
    let mut readings = Readings {
        subject,
        open: None,
        close: None,
    };
    let plan = plan(load);
    let outcome = on_core(load.core, || {
        load::run(&plan, &mut |progress| {
            answers = progress.answers;
            readings.take(progress.phase);
        })
    })??;
    let failed: u64 = outcome.failures.values().sum();
    let wrong = outcome.requests - failed - outcome.statuses.get(&200).copied().unwrap_or(0);
    if failed + wrong > 0 {
        bail!(
            "{failed} of {} requests failed, {wrong} had another status than 200",
            outcome.requests
        );
    }
    if outcome.requests == 0 && load.stop.is_none() {
        bail!("no request came to an end within the window");
    }
    let (open, close) = readings.both()?;
    Ok(Driven {
        rate: outcome.achieved_rate,
        seconds: (close.at - open.at).as_secs_f64(),
        cpu_nanos: close.cpu_nanos - open.cpu_nanos,
        others: close.others_since(&open),
        pss_bytes: close.pss_bytes,
        latency: outcome.latency,
        answers,
        generator_cpu: outcome.generator.cpu,
        verdict: outcome.verdict,
    })
}

/// TLS as a mesh's client sidecar speaks it, with the certificates in `folder`.
pub(crate) fn mesh_tls(folder: &Path) -> ClientTls {
    let certificates = Certificates::in_folder(folder);
    ClientTls {
        roots_pem: Some(certificates.trust_bundle()),
        certificate_pem: Some(certificates.chain(Side::Client)),
        key_pem: Some(certificates.key(Side::Client)),
        server_name: Some(dns_name(Side::Server)),
        insecure: false,
        // Whoever offers no name of the mesh is taken for an application with TLS of its own.
        alpn: ["leno-http/1.1", "http/1.1"].map(str::to_owned).into(),
    }
}

fn plan(load: &Load) -> load::Plan {
    let target = load.target;
    let (protocol, url) = match load.protocol {
        Protocol::Http1 if load.tls.is_some() => {
            (load::Protocol::Http1, format!("https://{target}/echo"))
        }
        Protocol::Http1 => (load::Protocol::Http1, format!("http://{target}/echo")),
        Protocol::Http2 => (load::Protocol::Http2, format!("http://{target}/echo")),
        Protocol::Grpc => (
            load::Protocol::Grpc(GrpcMode::Unary),
            format!("http://{target}"),
        ),
        Protocol::Tcp => (load::Protocol::Tcp, target.to_string()),
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let mut plan = load::Plan {
        protocol,
        connections: count(load.shape.connections),
        streams: count(load.shape.streams),
        rate: load.rate.map_or(Rate::Max, Rate::PerSecond),
        duration: load.window,
        warm_up: load.warm_up,
        timeout: TIMEOUT,
        tls: load.tls.clone(),
        cpus: load.core.into_iter().collect(),
        stop: load.stop.clone(),
        ..load::Plan::new(url)
    };
    match load.protocol {
        Protocol::Http1 | Protocol::Http2 => plan.url += &format!("?size={}", load.size),
        Protocol::Grpc | Protocol::Tcp => plan.body = vec![b'x'; load.size],
    }
    plan
}

/// The counters at one moment.
struct Reading {
    at: Instant,
    cpu_nanos: u64,
    /// CPU time of this process: generator and backend.
    own: Duration,
    machine: Machine,
    pss_bytes: u64,
}

impl Reading {
    fn others_since(&self, open: &Self) -> f64 {
        let Some((idle, _)) = self.machine.shares_since(open.machine) else {
            return 0.0;
        };
        let cpus = thread::available_parallelism().map_or(1, usize::from) as f64;
        let contestant = Duration::from_nanos(self.cpu_nanos - open.cpu_nanos);
        let ours = (contestant + self.own.saturating_sub(open.own)).as_secs_f64();
        let seconds = (self.at - open.at).as_secs_f64();
        ((1.0 - idle) * cpus - ours / seconds).max(0.0)
    }
}

/// The counters at both ends of a window; only the first failure is kept.
struct Readings<'a> {
    subject: Option<&'a Subject>,
    open: Option<anyhow::Result<Reading>>,
    close: Option<anyhow::Result<Reading>>,
}

impl Readings<'_> {
    fn take(&mut self, phase: Phase) {
        match phase {
            Phase::Measuring if self.open.is_none() => self.open = Some(self.read(false)),
            Phase::Draining if self.close.is_none() => self.close = Some(self.read(true)),
            _ => {}
        }
    }

    /// Memory is walked page by page, which takes a while: only after the window.
    fn read(&self, memory: bool) -> anyhow::Result<Reading> {
        let at = Instant::now();
        let cpu_nanos = self.subject.map_or(Ok(0), Subject::cpu_nanos)?;
        let own = meter::cpu_of(std::process::id())?;
        let machine = Machine::read()?;
        let pss_bytes = match self.subject {
            Some(subject) if memory => subject.pss_bytes()?,
            _ => 0,
        };
        Ok(Reading {
            at,
            cpu_nanos,
            own,
            machine,
            pss_bytes,
        })
    }

    fn both(self) -> anyhow::Result<(Reading, Reading)> {
        let open = self.open.context("the generator told of no window")??;
        let close = self.close.context("the generator told of no end")??;
        Ok((open, close))
    }
}
