//! The echo server: fortio's `/echo` parameters on every path, a gRPC service and a TCP echo, and
//! a log of its own delays, so that a generator's figures can be held against the truth. Threads
//! share the listeners; thread 0 accepts and hands connections out in turn. The first bytes of a
//! connection tell HTTP/1 from HTTP/2.

pub mod bookinfo;

mod connection;
mod echo;
mod http2;
mod payload;
mod request;
mod tcp;
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
    /// Where to listen for the TCP echo; none = not at all.
    pub tcp: Option<SocketAddr>,
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
            tcp: None,
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
    /// Answers written whole. The TCP echo has none: it knows no requests.
    pub answers: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Nanoseconds from a request fully read to its answer fully written; with HTTP/2, handed
    /// over to be framed.
    pub delays: Histogram<u64>,
    /// When it began to listen.
    pub started: SystemTime,
    /// How long it served.
    pub elapsed: Duration,
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    tcp: Option<SocketAddr>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<worker::Counts, Error>>>,
    log: Option<PathBuf>,
    started: (SystemTime, u64),
}

/// What the threads of a server share.
pub(crate) struct Shared {
    stop: AtomicBool,
    inboxes: Vec<Inbox>,
    cpus: Vec<usize>,
    congestion: Option<String>,
    stall: Option<Stall>,
    stalled: AtomicBool,
    answers: AtomicU64,
}

impl Shared {
    /// The CPU of thread `number`; none = any.
    fn cpu(&self, number: usize) -> Option<usize> {
        self.cpus.get(number % self.cpus.len().max(1)).copied()
    }

    /// An answer has been written.
    #[inline]
    fn on_answered(&self) {
        let answers = self.answers.fetch_add(1, Relaxed) + 1;
        let Some(stall) = self.stall else {
            return;
        };
        if answers == stall.before_answer && !self.stalled.swap(true, Relaxed) {
            std::thread::sleep(stall.length);
        }
    }
}

/// What a listener's connections carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Http,
    TcpEcho,
}

/// The listeners, for the thread that accepts.
#[derive(Default)]
pub(crate) struct Listeners {
    http: Option<OwnedFd>,
    tcp: Option<OwnedFd>,
}

/// Accepted connections on their way to a thread.
pub(crate) struct Inbox {
    accepted: Mutex<Vec<(Service, OwnedFd)>>,
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
    crate::limit::raise_descriptors();
    let (http, address) = bound(options.address)?;
    let (tcp, tcp_address) = options.tcp.map(bound).transpose()?.unzip();
    let count = options.threads.max(1);
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        inboxes: (0..count).map(|_| Inbox::new()).collect::<Result<_, _>>()?,
        cpus: options.cpus.clone(),
        congestion: options.congestion.clone(),
        stall: options.stall,
        stalled: AtomicBool::new(false),
        answers: AtomicU64::new(0),
    });
    let mut server = Server {
        address,
        tcp: tcp_address,
        shared,
        threads: Vec::with_capacity(count),
        log: options.delay_log.clone(),
        started: (SystemTime::now(), clock::now()),
    };
    let mut listeners = Listeners {
        http: Some(http),
        tcp,
    };
    for number in 0..count {
        server.spawn(number, std::mem::take(&mut listeners))?;
    }
    Ok(server)
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for the TCP echo, if it does.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Answers written so far, a moment old.
    pub fn answers(&self) -> u64 {
        self.shared.answers.load(Relaxed)
    }

    /// Lets the threads end. Streams of HTTP/2 get a moment to; what else is half written is cut
    /// off.
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

    fn spawn(&mut self, number: usize, listeners: Listeners) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            pin(shared.cpu(number))?;
            worker::Worker::new(number, shared, listeners)?.run()
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

/// A listener and the address it got.
fn bound(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), Error> {
    let fail = |errno: rustix::io::Errno| Error::Listen {
        address,
        source: errno.into(),
    };
    let listener = listener(address).map_err(fail)?;
    let bound = getsockname(&listener).map_err(fail)?;
    Ok((listener, SocketAddr::try_from(bound).map_err(fail)?))
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
