//! The echo server: fortio's `/echo` parameters on every path, and a log of its own delays, so
//! that a generator's figures can be held against the truth. Threads share one listener; thread
//! 0 accepts and hands connections out in turn.

mod connection;
mod echo;
mod request;
mod worker;

use crate::{Error, clock, report, run::pin, tally::histogram};
use hdrhistogram::Histogram;
use rustix::{
    event::{EventfdFlags, eventfd},
    fd::OwnedFd,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
    },
};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, SystemTime},
};

const BACKLOG: i32 = 4096;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes any free one.
    pub address: SocketAddr,
    /// Threads that serve.
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn; empty = no pinning.
    pub cpus: Vec<usize>,
    /// Where the delays are written at the end: JSON if the name ends so, else an HDR log.
    pub delay_log: Option<PathBuf>,
    /// TCP congestion control of the connections; absent = the system's.
    pub congestion: Option<String>,
    /// Stand still once, for tests of what a stall does to a measurement.
    pub stall: Option<Stall>,
}

impl Options {
    /// One thread on this address, nothing logged.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            threads: 1,
            cpus: Vec::new(),
            delay_log: None,
            congestion: None,
            stall: None,
        }
    }
}

/// One pause of the whole server.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Before the answer with this number, counted from 0.
    pub before_answer: u64,
    /// How long.
    pub length: Duration,
}

/// What a server did, from its start to its end.
#[derive(Clone, Debug)]
pub struct Served {
    /// Answers written whole.
    pub answers: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Nanoseconds from a request fully read to its answer fully written.
    pub delays: Histogram<u64>,
    /// When it began to listen.
    pub started: SystemTime,
    /// How long it served.
    pub elapsed: Duration,
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<worker::Counts, Error>>>,
    log: Option<PathBuf>,
    started: (SystemTime, u64),
}

/// What the threads of a server share.
pub(crate) struct Shared {
    stop: AtomicBool,
    inboxes: Vec<Inbox>,
    congestion: Option<String>,
    stall: Option<Stall>,
    stalled: AtomicBool,
    answers: AtomicU64,
}

/// Accepted connections on their way to a thread.
pub(crate) struct Inbox {
    accepted: Mutex<Vec<OwnedFd>>,
    wake: OwnedFd,
}

impl Inbox {
    fn new() -> Result<Self, Error> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let wake = eventfd(0, flags).map_err(Error::system("make an eventfd"))?;
        Ok(Self {
            accepted: Mutex::new(Vec::new()),
            wake,
        })
    }

    fn wake(&self) {
        // Full means that the thread is about to wake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Listens and serves until [`Server::stop`].
///
/// # Errors
/// An address that cannot be listened on, or a CPU that does not exist.
pub fn start(options: &Options) -> Result<Server, Error> {
    let fail = |errno: rustix::io::Errno| Error::Listen {
        address: options.address,
        source: errno.into(),
    };
    crate::limit::raise_descriptors();
    let listener = listener(options.address).map_err(fail)?;
    let bound = getsockname(&listener).map_err(fail)?;
    let address = SocketAddr::try_from(bound).map_err(fail)?;
    let count = options.threads.max(1);
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        inboxes: (0..count).map(|_| Inbox::new()).collect::<Result<_, _>>()?,
        congestion: options.congestion.clone(),
        stall: options.stall,
        stalled: AtomicBool::new(false),
        answers: AtomicU64::new(0),
    });
    let mut server = Server {
        address,
        shared,
        threads: Vec::with_capacity(count),
        log: options.delay_log.clone(),
        started: (SystemTime::now(), clock::now()),
    };
    let mut listener = Some(listener);
    for number in 0..count {
        let cpu = options
            .cpus
            .get(number % options.cpus.len().max(1))
            .copied();
        server.spawn(number, cpu, listener.take())?;
    }
    Ok(server)
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers written so far, a moment old.
    pub fn answers(&self) -> u64 {
        self.shared.answers.load(Relaxed)
    }

    /// Lets the threads end; what is half written is cut off.
    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        self.shared.inboxes.iter().for_each(Inbox::wake);
    }

    /// Waits until the threads have ended, and writes the delay log where one was asked for.
    ///
    /// # Errors
    /// A thread that the kernel failed, or a log that cannot be written.
    pub fn join(mut self) -> Result<Served, Error> {
        let mut served = Served {
            answers: 0,
            connections: 0,
            delays: histogram(),
            started: self.started.0,
            elapsed: Duration::ZERO,
        };
        for thread in self.threads.drain(..) {
            let counts = thread.join().expect("a serving thread panicked")?;
            served.answers += counts.delays.len();
            served.connections += counts.connections;
            served
                .delays
                .add(&counts.delays)
                .expect("all histograms have the same bounds");
        }
        served.elapsed = Duration::from_nanos(clock::now() - self.started.1);
        if let Some(path) = &self.log {
            report::write_delays(&served, path)?;
        }
        Ok(served)
    }

    fn spawn(
        &mut self,
        number: usize,
        cpu: Option<usize>,
        listener: Option<OwnedFd>,
    ) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            pin(cpu)?;
            worker::Worker::new(number, shared, listener)?.run()
        };
        let thread = Builder::new()
            .name(format!("serve-{number}"))
            .spawn(work)
            .map_err(|source| Error::System {
                doing: "start a thread",
                source,
            })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listener(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    Ok(fd)
}
