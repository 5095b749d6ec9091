//! An upstream that follows a script, one per connection, and records what it received.
//! Used by tests of how the proxy copes with peers that stop, close, reset or babble.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex};

use crate::client::reset;
use crate::http::Inbox;
use crate::server::{Patient, Server};
use crate::wait::{DEADLINE, eventually};

/// One thing that the upstream does. What a connection has not read when it closes makes the
/// kernel reset it; read first to close in order.
#[derive(Debug, Clone)]
pub enum Step {
    /// Reads to the end of a head.
    ReadHead,
    /// Reads a whole request, by its framing.
    ReadRequest,
    /// Reads until these bytes have come.
    ReadUntil(Vec<u8>),
    /// Reads so many bytes.
    ReadBytes(usize),
    /// Reads until the peer closes or resets.
    ReadEnd,
    /// Sends bytes as they are.
    Send(Vec<u8>),
    /// Sends bytes in pieces of at most so many.
    SendInPieces(usize, Vec<u8>),
    /// Says that nothing more will be sent.
    HalfClose,
    /// Resets the connection; ends the script.
    Reset,
    /// Keeps the connection and does nothing, not even read, until the upstream is dropped.
    Stall,
}

impl Step {
    /// Sends bytes as they are.
    pub fn send(bytes: impl AsRef<[u8]>) -> Self {
        Self::Send(bytes.as_ref().to_vec())
    }

    /// Sends a 200 with a length and this body.
    pub fn answer(body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        Self::Send([head.as_bytes(), body].concat())
    }
}

/// Accepts connections and plays a script on each, after which it closes the connection.
pub struct ScriptedUpstream {
    server: Server,
    records: Arc<Mutex<Vec<Record>>>,
}

/// What happened on one connection.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Every byte that was read.
    pub received: Vec<u8>,
    /// The script is over.
    pub done: bool,
    /// The step at which it ended early, and why.
    pub failure: Option<String>,
}

impl ScriptedUpstream {
    /// Plays the first script on the first connection, and so on; the last one on all that
    /// follow.
    ///
    /// # Panics
    /// Without a script, or if no port can be bound.
    #[must_use]
    pub fn start(scripts: Vec<Vec<Step>>) -> Self {
        assert!(!scripts.is_empty(), "an upstream needs a script");
        let records = Arc::new(Mutex::new(Vec::new()));
        let (scripts, shared) = (Arc::new(scripts), Arc::clone(&records));
        let server = Server::start("127.0.0.1:0", move |number, stream| {
            let script = &scripts[number.min(scripts.len() - 1)];
            play(
                script,
                Recorder {
                    stream,
                    number,
                    records: &shared,
                },
            );
        });
        Self { server, records }
    }

    /// Plays the same script on every connection.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn always(script: Vec<Step>) -> Self {
        Self::start(vec![script])
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.server
            .accepted
            .load(std::sync::atomic::Ordering::SeqCst)
    }

    /// What was received so far on a connection, counted from 0.
    ///
    /// # Panics
    /// If a connection's thread panicked.
    #[must_use]
    pub fn received(&self, number: usize) -> Vec<u8> {
        self.record(number).received
    }

    /// What was received so far, as text.
    ///
    /// # Panics
    /// If a connection's thread panicked.
    #[must_use]
    pub fn received_text(&self, number: usize) -> String {
        String::from_utf8_lossy(&self.received(number)).into_owned()
    }

    /// Waits until the script on a connection is over.
    ///
    /// # Panics
    /// If it ended early, or not at all.
    #[track_caller]
    pub fn finished(&self, number: usize) -> Record {
        let record = eventually(
            &format!("the script of connection {number} is over"),
            || Some(self.record(number)).filter(|record| record.done),
        );
        assert_eq!(record.failure, None, "connection {number}: {record:?}");
        record
    }

    fn record(&self, number: usize) -> Record {
        let records = self.records.lock().expect("no thread panicked");
        records.get(number).cloned().unwrap_or_default()
    }
}

fn play(script: &[Step], mut stream: Recorder<'_>) {
    let mut inbox = Inbox::default();
    let failure = script.iter().enumerate().find_map(|(index, step)| {
        stream.stream.give_up_after(Some(DEADLINE));
        let error = perform(step, &mut inbox, &mut stream).err()?;
        Some(format!("step {index}, {step:?}: {error}"))
    });
    let (number, records) = (stream.number, stream.records);
    // Closed first, so that who sees the script done sees the connection closed.
    drop(stream);
    change(records, number, |record| {
        (record.done, record.failure) = (true, failure)
    });
}

fn perform(step: &Step, inbox: &mut Inbox, stream: &mut Recorder<'_>) -> io::Result<()> {
    match step {
        Step::ReadHead => inbox.read_until(stream, b"\r\n\r\n").map(drop),
        Step::ReadRequest => inbox.read_request(stream).map(drop),
        Step::ReadUntil(end) => inbox.read_until(stream, end).map(drop),
        Step::ReadBytes(count) => inbox.read_exact(stream, *count).map(drop),
        Step::ReadEnd => match stream.read_to_end(&mut Vec::new()) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(()),
        },
        Step::Send(bytes) => stream.stream.write_all(bytes),
        Step::SendInPieces(size, bytes) => {
            let mut pieces = bytes.chunks(*size);
            pieces.try_for_each(|piece| stream.stream.write_all(piece))
        }
        Step::HalfClose => stream.stream.socket().shutdown(Shutdown::Write),
        Step::Reset => {
            reset(stream.stream.socket());
            Ok(())
        }
        Step::Stall => {
            stream.stream.stall();
            Ok(())
        }
    }
}

struct Recorder<'a> {
    stream: Patient,
    number: usize,
    records: &'a Mutex<Vec<Record>>,
}

impl Read for Recorder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        let bytes = &buffer[..count];
        change(self.records, self.number, |record| {
            record.received.extend_from_slice(bytes)
        });
        Ok(count)
    }
}

fn change(records: &Mutex<Vec<Record>>, number: usize, change: impl FnOnce(&mut Record)) {
    let mut records = records.lock().expect("no thread panicked");
    if records.len() <= number {
        records.resize_with(number + 1, Record::default);
    }
    change(&mut records[number]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{End, RawClient};

    #[test]
    fn plays_one_script_per_connection_and_records() {
        let upstream = ScriptedUpstream::start(vec![
            vec![Step::ReadRequest, Step::answer("one")],
            vec![
                Step::ReadHead,
                Step::send("HTTP/1.1 200 OK\r\nconte"),
                Step::Reset,
            ],
        ]);
        let mut first = RawClient::connect(upstream.addr());
        assert_eq!(first.post("/", "body").text(), "one");
        assert_eq!(first.read_to_end().1, End::Closed);
        assert!(upstream.finished(0).received.ends_with(b"\r\n\r\nbody"));
        for number in 1..3 {
            let mut client = RawClient::connect(upstream.addr());
            client.send("GET / HTTP/1.1\r\n\r\n");
            assert_eq!(client.read_to_end().1, End::Reset);
            assert_eq!(
                upstream.finished(number).received,
                b"GET / HTTP/1.1\r\n\r\n"
            );
        }
    }

    #[test]
    #[should_panic(expected = "step 0, ReadHead")]
    fn script_that_ends_early_fails_the_test() {
        let upstream = ScriptedUpstream::always(vec![Step::ReadHead]);
        drop(RawClient::connect(upstream.addr()));
        upstream.finished(0);
    }

    #[test]
    fn stalls_until_it_is_dropped() {
        let upstream = ScriptedUpstream::always(vec![Step::Stall]);
        let mut client = RawClient::connect(upstream.addr());
        drop(upstream);
        assert_eq!(client.read_to_end().0, b"");
    }
}
