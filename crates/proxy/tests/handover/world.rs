//! Proxies that succeed each other at one place, and clients that must not notice.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use testkit::h2::{H2Client, Request};
use testkit::{DEADLINE, ProxyProcess, RawClient, until};

pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");

/// The folder in which successors find whoever serves.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("handover")
    }

    /// A configuration's key.
    pub(crate) fn key(&self) -> String {
        format!("handover: {:?}", self.path())
    }
}

pub(crate) fn start(yaml: &str) -> ProxyProcess {
    ProxyProcess::start(PROXY, yaml)
}

pub(crate) fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().spawn(run).unwrap()
}

/// Waits for a process that has been succeeded.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is not looked at"
)]
pub(crate) fn ended(proxy: ProxyProcess) {
    let exit = proxy.wait(std::time::Instant::now());
    assert!(exit.status.success(), "{exit:?}");
    assert!(!exit.stderr.contains("panicked"), "{}", exit.stderr);
    assert!(!exit.stderr.contains("error:"), "{}", exit.stderr);
}

/// Waits until the log says something.
#[track_caller]
pub(crate) fn says(proxy: &ProxyProcess, words: &str) {
    let said = || proxy.stderr().contains(words);
    until(&format!("the log says `{words}`"), said);
}

/// Clients of one kind that go on until they are finished. Each exchange is one that must succeed.
pub(crate) struct Load {
    name: &'static str,
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    done: AtomicUsize,
    stopping: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// So many clients, each made by `client`, which gives what one exchange is.
    pub(crate) fn start<E>(
        name: &'static str,
        clients: usize,
        client: impl Fn() -> E + Clone + Send + 'static,
    ) -> Self
    where
        E: FnMut() -> Result<(), String>,
    {
        let shared = Arc::new(Shared::default());
        let clients = (0..clients).map(|_| {
            let (shared, client) = (Arc::clone(&shared), client.clone());
            spawn(move || shared.run(client()))
        });
        Self {
            name,
            clients: clients.collect(),
            shared,
        }
    }

    /// Waits until so many further exchanges are over.
    #[track_caller]
    pub(crate) fn goes_on(&self, exchanges: usize) {
        let done = || self.shared.done.load(Ordering::SeqCst);
        let aim = done() + exchanges;
        until(&format!("{} goes on", self.name), || done() >= aim);
    }

    /// Ends it; nothing may have failed.
    #[track_caller]
    pub(crate) fn finish(self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().unwrap();
        }
        let failures = self.shared.failures.lock().unwrap();
        let (failed, first) = (failures.len(), failures.first());
        let done = self.shared.done.load(Ordering::SeqCst);
        assert!(
            failed == 0,
            "{}: {failed} of {done}, as {first:?}",
            self.name
        );
    }
}

impl Shared {
    fn run(&self, mut exchange: impl FnMut() -> Result<(), String>) {
        while !self.stopping.load(Ordering::SeqCst) {
            if let Err(failure) = exchange() {
                self.failures.lock().unwrap().push(failure);
            }
            self.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn said(expected: &str, got: &str) -> Result<(), String> {
    match got == expected {
        true => Ok(()),
        false => Err(format!("{got:?} instead of {expected:?}")),
    }
}

/// A connection for each request.
pub(crate) fn brief(addr: SocketAddr) -> impl Fn() -> Exchange + Clone + Send + 'static {
    move || {
        Box::new(move || {
            let mut client = RawClient::connect(addr);
            let request = "POST / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                           content-length: 5\r\n\r\nbrief";
            let answer = client
                .try_send(request)
                .and_then(|()| client.try_response("POST"));
            said("brief", &answer.map_err(|error| error.to_string())?.text())
        })
    }
}

/// What a client does again and again.
pub(crate) type Exchange = Box<dyn FnMut() -> Result<(), String>>;

/// Streams on a connection that is kept until it is told to go.
pub(crate) fn streams(addr: SocketAddr) -> impl Fn() -> Exchange + Clone + Send + 'static {
    move || {
        let mut kept = None;
        Box::new(move || {
            let request = Request::new("GET", "/bytes/2000");
            let client = kept.get_or_insert_with(|| H2Client::connect(addr));
            // Told before it began: nothing was sent.
            let call = client.try_call(&request, true).or_else(|_| {
                let client = kept.insert(H2Client::connect(addr));
                client.try_call(&request, true)
            });
            let answer = call.and_then(|call| call.try_answer());
            let answer = answer.map_err(|error| error.to_string())?;
            said(
                "200 2000",
                &format!("{} {}", answer.status, answer.body.len()),
            )
        })
    }
}

/// A connection that nobody reads, for each few bytes.
pub(crate) fn bytes(addr: SocketAddr) -> impl Fn() -> Exchange + Clone + Send + 'static {
    move || {
        Box::new(move || {
            let exchange = || {
                let mut stream = TcpStream::connect(addr)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                stream.write_all(b"ping")?;
                let mut answer = [0; 4];
                stream.read_exact(&mut answer)?;
                std::io::Result::Ok(answer)
            };
            let answer = exchange().map_err(|error| error.to_string())?;
            said("ping", &String::from_utf8_lossy(&answer))
        })
    }
}

/// Questions about the name `web`, over UDP and TCP in turn.
pub(crate) fn names(addr: SocketAddr) -> impl Fn() -> Exchange + Clone + Send + 'static {
    move || {
        let mut number = 0_u16;
        let mut query = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03web\0\0\x01\0\x01".to_vec();
        Box::new(move || {
            number = number.wrapping_add(1);
            query[..2].copy_from_slice(&number.to_be_bytes());
            let answer = match number % 4 {
                0 => over_tcp(addr, &query),
                _ => over_udp(addr, &query),
            };
            let answer = answer.map_err(|error| error.to_string())?;
            let is_answer = answer[..2] == query[..2] && answer[3] & 0xf == 0 && answer[7] == 1;
            said("true", &is_answer.to_string())
        })
    }
}

fn over_udp(addr: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(DEADLINE))?;
    socket.send_to(query, addr)?;
    let mut answer = vec![0; 512];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn over_tcp(addr: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// An application that says back what it hears, without a protocol. To `GET /long` it answers with
/// a long body, of which as much is sent as was asked for; to any other request that it agrees to
/// another protocol.
pub(crate) struct Parrot {
    pub(crate) addr: SocketAddr,
}

/// The whole of the long body.
pub(crate) const LONG_BYTES: usize = 6 * 1000;

impl Parrot {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // It ends with the test's process.
        spawn(move || {
            for stream in listener.incoming().flatten() {
                spawn(move || parrot(stream));
            }
        });
        Self { addr }
    }
}

fn parrot(mut stream: TcpStream) -> std::io::Result<()> {
    let mut heard = vec![0; 4096];
    let length = stream.read(&mut heard)?;
    heard.truncate(length);
    while heard.starts_with(b"GET ") && !heard.ends_with(b"\r\n\r\n") {
        let mut more = [0; 4096];
        let length = stream.read(&mut more)?;
        heard.extend_from_slice(&more[..length]);
    }
    let answer = match () {
        () if heard.starts_with(b"GET /long") => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LONG_BYTES}\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            return long(&mut stream);
        }
        () if heard.starts_with(b"GET ") => {
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
              upgrade: websocket\r\n\r\n"
                .to_vec()
        }
        () => heard,
    };
    stream.write_all(&answer)?;
    let mut from = stream.try_clone()?;
    std::io::copy(&mut from, &mut stream).map(drop)
}

/// Parts of the long body that may be sent.
pub(crate) static PARTS: AtomicUsize = AtomicUsize::new(0);

fn long(stream: &mut TcpStream) -> std::io::Result<()> {
    for part in 0..6 {
        until("the next part is asked for", || {
            PARTS.load(Ordering::SeqCst) > part
        });
        stream.write_all(&[b'x'; LONG_BYTES / 6])?;
    }
    Ok(())
}
