//! The first request to a contestant: asked again until it is answered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

const PATIENCE: Duration = Duration::from_secs(20);
const REQUEST: &[u8] = b"GET /echo?size=1 HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n";

/// Returns when `entry` has answered one request with 200.
///
/// # Errors
/// When no such answer came in time; the message holds the last one.
pub(crate) fn first_answer(entry: SocketAddr) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask(entry).unwrap_or_else(|error| error.to_string());
        if answer.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "{entry} does not answer: {}",
                answer.lines().next().unwrap_or("nothing")
            );
        }
        thread::sleep(Duration::from_micros(500));
    }
}

fn ask(entry: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(entry)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST)?;
    let mut head = [0; 64];
    let count = stream.read(&mut head)?;
    Ok(String::from_utf8_lossy(&head[..count]).into_owned())
}
