//! Accepting connections, one thread each, until the server is dropped. Used by the upstreams of
//! this crate. A dropped server has closed its socket and every connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a waiting connection looks whether its server is still wanted.
const TICK: Duration = Duration::from_millis(50);

pub(crate) struct Server {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
    /// Connections accepted so far, and open now.
    pub(crate) accepted: Arc<AtomicUsize>,
    pub(crate) open: Arc<AtomicUsize>,
}

impl Server {
    /// Serves connections on an address, each with its number, counted from 0.
    pub(crate) fn start(
        addr: &str,
        serve: impl Fn(usize, Patient) + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(addr).expect("the address can be bound");
        let addr = listener
            .local_addr()
            .expect("a bound socket has an address");
        let stop = Arc::new(AtomicBool::new(false));
        let (accepted, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let accepting = {
            let (stop, accepted, open) = (stop.clone(), accepted.clone(), open.clone());
            thread::spawn(move || accept(&listener, &stop, &accepted, &open, &serve))
        };
        Self {
            addr,
            stop,
            accepting: Some(accepting),
            accepted,
            open,
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then ends and closes the socket.
        let _ = TcpStream::connect_timeout(&self.addr, Duration::from_secs(1));
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

fn accept(
    listener: &TcpListener,
    stop: &Arc<AtomicBool>,
    accepted: &AtomicUsize,
    open: &Arc<AtomicUsize>,
    serve: &(impl Fn(usize, Patient) + Clone + Send + 'static),
) {
    let mut connections = Vec::new();
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { continue };
        let number = accepted.fetch_add(1, Ordering::SeqCst);
        open.fetch_add(1, Ordering::SeqCst);
        let patient = Patient::new(stream, Arc::clone(stop));
        let (serve, open) = (serve.clone(), Arc::clone(open));
        connections.push(thread::spawn(move || {
            serve(number, patient);
            open.fetch_sub(1, Ordering::SeqCst);
        }));
        connections.retain(|connection| !connection.is_finished());
    }
    for connection in connections {
        let _ = connection.join();
    }
}

/// A stream whose reads wait until bytes come, the server is dropped or a deadline passes.
pub(crate) struct Patient {
    stream: TcpStream,
    stop: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Patient {
    fn new(stream: TcpStream, stop: Arc<AtomicBool>) -> Self {
        stream.set_nodelay(true).expect("a TCP socket has no delay");
        stream
            .set_read_timeout(Some(TICK))
            .expect("a socket has a read timeout");
        stream
            .set_write_timeout(Some(crate::DEADLINE))
            .expect("a socket has a write timeout");
        Self {
            stream,
            stop,
            deadline: None,
        }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Does nothing until the server is dropped.
    pub(crate) fn stall(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            thread::sleep(TICK);
        }
    }

    pub(crate) fn give_up_after(&mut self, limit: Option<Duration>) {
        self.deadline = limit.map(|limit| Instant::now() + limit);
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Asked first: a busy peer must not keep a server that is to end.
            if self.stop.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
            if self
                .deadline
                .is_some_and(|deadline| Instant::now() > deadline)
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
