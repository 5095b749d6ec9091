//! The first request to a contestant, in the application's protocol: asked until it is answered.
//! Called by `subject`. Holds just enough HTTP/2 (RFC 9113) for one request without a body.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::cell::Protocol;

const PATIENCE: Duration = Duration::from_secs(20);
const HTTP1: &[u8] = b"GET /echo?size=1 HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n";
/// Preface, empty SETTINGS, and on stream 1 a HEADERS frame that ends it: GET (0x82), http (0x86),
/// a literal path (index 4) and authority (index 1) of RFC 7541's static table.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x19\x01\x05\x00\x00\x00\x01\
    \x82\x86\x04\x0c/echo?size=1\x01\x07bench:1";
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
/// `:status: 200` in the static table.
const STATUS_200: u8 = 0x88;
const PING: &[u8] = b"p";

/// Returns when `entry` has answered one request with success.
///
/// # Errors
/// When no such answer came in time; the message holds the last one.
pub(crate) fn first_answer(entry: SocketAddr, protocol: Protocol) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = match ask(entry, protocol) {
            Ok(None) => return Ok(()),
            Ok(Some(answer)) => answer,
            Err(error) => error.to_string(),
        };
        if Instant::now() > deadline {
            bail!("{entry} does not answer: {answer}");
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// What was wrong with the answer, if anything.
fn ask(entry: SocketAddr, protocol: Protocol) -> io::Result<Option<String>> {
    let mut stream = TcpStream::connect(entry)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    match protocol {
        Protocol::Http1 => http1(&mut stream),
        Protocol::Http2 | Protocol::Grpc => http2(&mut stream),
        Protocol::Tcp => echo(&mut stream),
    }
}

fn http1(stream: &mut TcpStream) -> io::Result<Option<String>> {
    stream.write_all(HTTP1)?;
    let mut head = [0; 64];
    let count = stream.read(&mut head)?;
    let answer = String::from_utf8_lossy(&head[..count]);
    let line = answer.lines().next().unwrap_or("nothing");
    Ok((!line.starts_with("HTTP/1.1 200")).then(|| line.to_owned()))
}

fn http2(stream: &mut (impl Read + Write)) -> io::Result<Option<String>> {
    stream.write_all(HTTP2)?;
    loop {
        let mut head = [0; FRAME_HEAD];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload)?;
        if head[3] == HEADERS {
            // Updates of the table's size (001xxxxx) may come before the first field.
            let first = payload.into_iter().find(|byte| byte >> 5 != 1);
            let wrong = first != Some(STATUS_200);
            return Ok(wrong.then(|| format!("HTTP/2 with a first field of {first:02x?}")));
        }
    }
}

fn echo(stream: &mut TcpStream) -> io::Result<Option<String>> {
    stream.write_all(PING)?;
    let mut answer = [0; PING.len()];
    stream.read_exact(&mut answer)?;
    Ok((answer != PING).then(|| "another byte than was sent".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything, answers what it holds.
    struct Scripted(io::Cursor<Vec<u8>>);

    impl Read for Scripted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(answer: &[u8], is_success: bool) {
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let script = [settings, answer].concat();
        let found = http2(&mut Scripted(io::Cursor::new(script)));
        assert_eq!(matches!(found, Ok(None)), is_success, "{found:?}");
    }

    #[test]
    fn only_a_status_of_200_is_an_answer() {
        check(b"\0\0\x01\x01\x04\0\0\0\x01\x88", true);
        check(b"\0\0\x02\x01\x04\0\0\0\x01\x20\x88", true);
        check(b"\0\0\x01\x01\x04\0\0\0\x01\x8d", false);
        check(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x02", false);
        check(b"", false);
    }

    #[test]
    fn the_frame_is_as_long_as_it_says() {
        let headers = HTTP2.len() - 24 - 2 * FRAME_HEAD;
        assert_eq!(headers, 0x19);
    }
}
