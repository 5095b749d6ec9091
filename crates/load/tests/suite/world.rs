//! What the tests share: servers on port 0, scripted peers, runs without progress.

use load::{
    Outcome, Plan, Rate,
    serve::{self, Server},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

pub(crate) fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// An echo server with default options.
pub(crate) fn echo() -> Server {
    serve::start(&serve::Options::new(local())).unwrap()
}

/// A short open loop against `path` of `address`.
pub(crate) fn plan(address: SocketAddr, path: &str, rate: f64) -> Plan {
    Plan {
        rate: Rate::PerSecond(rate),
        duration: Duration::from_secs(1),
        ..Plan::new(format!("http://{address}{path}"))
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    load::run(plan, &mut |_| {}).unwrap()
}

/// A peer that treats every connection by `script`, on a thread of its own that lives as long as
/// the test program.
pub(crate) fn scripted(script: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind(local()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || script(stream));
        }
    });
    address
}

/// Reads one bodiless request; false at the end of the stream.
pub(crate) fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return false;
        }
        seen.push(byte[0]);
    }
    true
}

/// Writes; a peer that is gone is no concern of the script.
pub(crate) fn write(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}
