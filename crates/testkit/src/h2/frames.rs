//! A connection of which a test writes and reads every frame, on either side. Used by tests of
//! what peers must not do, and of exactly what the proxy sends.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Lines;
use super::frame::{Frame, flag, kind};
use crate::client::{Client, RawClient, reset};
use crate::http::Inbox;
use crate::server::Server;
use crate::wait::{DEADLINE, eventually};

/// What a client says first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's head.
const HEAD: usize = 9;

trait Duplex: Read + Write + Send {}
impl<S: Read + Write + Send> Duplex for S {}

/// One side of a connection. Acknowledges settings and answers pings when it reads them.
pub struct Frames {
    stream: Box<dyn Duplex>,
    /// Where the stream is a plain one: to end it as a test likes.
    socket: Option<TcpStream>,
    inbox: Inbox,
    hpack: fluke_hpack::Decoder<'static>,
    answers: bool,
}

impl Frames {
    /// Connects, and says what every client says first.
    ///
    /// # Panics
    /// If the connection is refused.
    #[track_caller]
    #[must_use]
    pub fn connect(addr: SocketAddr) -> Self {
        Self::connect_with(addr, &[])
    }

    /// As [`Frames::connect`], with settings.
    ///
    /// # Panics
    /// If the connection is refused.
    #[track_caller]
    #[must_use]
    pub fn connect_with(addr: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut client = RawClient::connect(addr);
        let socket = client.stream().try_clone().expect("a socket can be shared");
        let stream = socket.try_clone().expect("a socket can be shared");
        let mut frames = Self::over(stream, Some(socket));
        frames.send_bytes(PREFACE);
        frames.send(&[Frame::settings(settings)]);
        frames
    }

    /// Over a connection that stands, such as one inside mesh TLS.
    ///
    /// # Panics
    /// If it is gone.
    #[track_caller]
    #[must_use]
    pub fn client<S: Read + Write + Send + 'static>(client: Client<S>) -> Self {
        let mut frames = Self::over(client.into_stream(), None);
        frames.send_bytes(PREFACE);
        frames.send(&[Frame::settings(&[])]);
        frames
    }

    fn over(stream: impl Read + Write + Send + 'static, socket: Option<TcpStream>) -> Self {
        Self {
            stream: Box::new(stream),
            socket,
            inbox: Inbox::default(),
            hpack: fluke_hpack::Decoder::new(),
            answers: true,
        }
    }

    /// From now on settings and pings are left without an answer.
    pub fn stop_answering(&mut self) {
        self.answers = false;
    }

    /// Sends frames in one write.
    ///
    /// # Panics
    /// If the connection is gone.
    #[track_caller]
    pub fn send(&mut self, frames: &[Frame]) {
        self.try_send(frames).expect("sends");
    }

    /// Sends frames in one write.
    ///
    /// # Errors
    /// What the connection says.
    pub fn try_send(&mut self, frames: &[Frame]) -> io::Result<()> {
        let bytes: Vec<_> = frames.iter().flat_map(Frame::bytes).collect();
        self.stream.write_all(&bytes)?;
        self.stream.flush()
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// If the connection is gone.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sends");
        self.stream.flush().expect("sends");
    }

    /// Reads the next frame, whatever it is.
    ///
    /// # Errors
    /// What the connection says; `UnexpectedEof` at its end.
    ///
    /// # Panics
    /// If what comes is not HTTP/2.
    pub fn read(&mut self) -> io::Result<Frame> {
        let mut frame = self.read_one()?;
        while frame.kind == kind::HEADERS && frame.flags & flag::END_HEADERS == 0 {
            let more = self.read_one()?;
            assert_eq!((more.kind, more.stream), (kind::CONTINUATION, frame.stream));
            frame.flags |= more.flags & flag::END_HEADERS;
            frame.payload.extend(more.payload);
        }
        if frame.kind == kind::HEADERS {
            frame.lines = self.decode(&frame.payload);
        }
        let answer = match frame.kind {
            _ if !self.answers || frame.flags & flag::ACK != 0 => return Ok(frame),
            kind::SETTINGS => Frame::new(kind::SETTINGS, flag::ACK, 0, []),
            kind::PING => Frame::new(kind::PING, flag::ACK, 0, &*frame.payload),
            _ => return Ok(frame),
        };
        // If nobody is there to have it, that shows with the next read.
        let _ = self.try_send(&[answer]);
        Ok(frame)
    }

    fn read_one(&mut self) -> io::Result<Frame> {
        let head = self.inbox.read_exact(&mut self.stream, HEAD)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.inbox.read_exact(&mut self.stream, length as usize)?;
        Ok(Frame::new(head[3], head[4], stream, payload))
    }

    fn decode(&mut self, block: &[u8]) -> Lines {
        let lines = self.hpack.decode(block).expect("what comes is HPACK");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let line = |(name, value)| (text(name), text(value));
        lines.into_iter().map(line).collect()
    }

    /// Reads until a frame is as wanted, over any others.
    ///
    /// # Panics
    /// If the connection ends first.
    #[track_caller]
    pub fn find(&mut self, what: &str, wanted: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            match self.read() {
                Ok(frame) if wanted(&frame) => return frame,
                Ok(_) => {}
                Err(error) => panic!("{what} did not come: {error}"),
            }
        }
    }

    /// Reads until a frame of this kind.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn find_kind(&mut self, kind: u8) -> Frame {
        self.find(&format!("a frame of type {kind}"), |frame| {
            frame.kind == kind
        })
    }

    /// Reads until a head of this stream.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn head(&mut self, stream: u32) -> Frame {
        self.find(&format!("a head of stream {stream}"), |frame| {
            frame.kind == kind::HEADERS && frame.stream == stream
        })
    }

    /// The status of the next head of this stream.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn status(&mut self, stream: u32) -> u16 {
        let head = self.head(stream);
        let status = head.line(":status").and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no status in {head:?}"))
    }

    /// The code with which the stream is reset.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn reset_of(&mut self, stream: u32) -> u32 {
        let reset = self.find(&format!("a reset of stream {stream}"), |frame| {
            frame.kind == kind::RST_STREAM && frame.stream == stream
        });
        reset.code()
    }

    /// Waits until everything sent so far has been read by the peer, and gives what came
    /// meanwhile.
    ///
    /// # Panics
    /// If the connection ends first.
    #[track_caller]
    pub fn sync(&mut self) -> Vec<Frame> {
        const MARK: [u8; 8] = *b"testsync";
        self.send(&[Frame::ping(MARK)]);
        let mut came = Vec::new();
        loop {
            let frame = self.read().expect("a sign of life comes");
            if frame.kind == kind::PING && frame.payload == MARK {
                return came;
            }
            came.push(frame);
        }
    }

    /// Everything until the peer closes.
    ///
    /// # Panics
    /// If it does not within [`DEADLINE`].
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<Frame> {
        let mut came = Vec::new();
        loop {
            match self.read() {
                Ok(frame) => came.push(frame),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return came,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return came,
                Err(error) => panic!("the connection did not end: {error}"),
            }
        }
    }

    /// The code with which the peer ends the connection; `None`: without a goodbye.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn goodbye(&mut self) -> Option<u32> {
        let came = self.read_to_end();
        let mut goodbyes = came.iter().filter(|frame| frame.kind == kind::GOAWAY);
        goodbyes.next_back().map(Frame::code)
    }

    /// Resets the connection instead of closing it.
    ///
    /// # Panics
    /// If it is not a plain one.
    pub fn reset(self) {
        reset(self.socket.as_ref().expect("a plain connection"));
    }
}

type Record = Arc<Mutex<Vec<Option<Result<(), String>>>>>;

/// An upstream whose connections do what a test's closure says.
pub struct RawH2Server {
    server: Server,
    ends: Record,
}

impl RawH2Server {
    /// Each connection has the preface and both sides' settings behind it when `play` gets it, with
    /// its number, counted from 0; it is closed afterwards.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn start(
        settings: &[(u16, u32)],
        play: impl Fn(usize, &mut Frames) + Clone + Send + 'static,
    ) -> Self {
        let ends = Record::default();
        let (record, settings) = (Arc::clone(&ends), settings.to_vec());
        let server = Server::start("127.0.0.1:0", move |number, mut stream| {
            stream.give_up_after(Some(DEADLINE));
            let socket = stream.socket().try_clone().expect("a socket can be shared");
            let mut frames = Frames::over(stream, Some(socket));
            let end = catch_unwind(AssertUnwindSafe(|| {
                let preface = frames.inbox.read_exact(&mut frames.stream, PREFACE.len());
                assert_eq!(preface.expect("a client comes"), PREFACE);
                frames.send(&[Frame::settings(&settings)]);
                play(number, &mut frames);
            }));
            drop(frames);
            let mut ends = record.lock().expect("nothing fails under the lock");
            if ends.len() <= number {
                ends.resize(number + 1, None);
            }
            ends[number] = Some(end.map_err(|cause| said(&*cause)));
        });
        Self { server, ends }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.server.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.server.open.load(Ordering::SeqCst)
    }

    /// Waits until what was to happen on a connection has happened.
    ///
    /// # Panics
    /// If it went wrong, or has not ended.
    #[track_caller]
    pub fn finished(&self, number: usize) {
        let end = eventually(&format!("connection {number} is over"), || {
            let ends = self.ends.lock().expect("nothing fails under the lock");
            ends.get(number).cloned().flatten()
        });
        assert_eq!(end, Ok(()), "connection {number}");
    }
}

/// What a panic said.
fn said(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    let text = text.or_else(|| cause.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_default()
}
