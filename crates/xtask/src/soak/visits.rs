//! What `leno load` does not speak: bodies in chunks that go both ways at once, and upgrades. Each
//! visit is a connection of its own. Called by the loads.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::configuration::OWN_HOST;
use super::generator::Answers;
use super::origin::{read_chunk, read_head, write_chunk};

/// As patient as the generator.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// From the end of a visit to the next one's beginning: leaves the machine to the others.
const PAUSE: Duration = Duration::from_millis(5);
/// Sizes of what is sent in one piece: one byte, one packet, more than a record of TLS.
const SIZES: [usize; 5] = [1, 700, 5, 40_000, 1448];
/// Requests on one connection.
const REQUESTS: usize = 3;

/// Visits the sidecar at `address` again and again.
pub(super) fn run(address: &str, until: Instant) -> Answers {
    let mut answers = Answers::default();
    while Instant::now() < until {
        for (name, visit) in [
            ("chunks", chunks as fn(&str) -> Result<()>),
            ("upgrade", upgrade),
        ] {
            answers.total += 1;
            if let Err(error) = visit(address) {
                *answers
                    .failed
                    .entry(format!("{name}: {error:#}"))
                    .or_default() += 1;
            }
            thread::sleep(PAUSE);
        }
    }
    answers
}

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    Ok(stream)
}

/// Each chunk is sent only when the one before it has come back.
fn chunks(address: &str) -> Result<()> {
    let stream = connect(address)?;
    let (mut reader, mut writer) = (BufReader::new(&stream), &stream);
    for _ in 0..REQUESTS {
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {OWN_HOST}\r\ntransfer-encoding: chunked\r\n\
             trailer: x-end\r\n\r\n"
        );
        writer.write_all(head.as_bytes())?;
        let head = read_head(&mut reader).context("head")?;
        ensure!(
            head.starts_with("HTTP/1.1 200 "),
            "answered {:?}",
            head.lines().next()
        );
        for size in SIZES {
            let payload = payload(size);
            write_chunk(writer, &payload)?;
            let mut back = Vec::new();
            while back.len() < size {
                let chunk = read_chunk(&mut reader).context("chunk")?;
                ensure!(!chunk.is_empty(), "the answer ended too early");
                back.extend_from_slice(&chunk);
            }
            ensure!(back == payload, "another payload came back");
        }
        writer.write_all(b"0\r\nx-end: yes\r\n\r\n")?;
        let last = read_chunk(&mut reader).context("last chunk")?;
        let trailers = read_head(&mut reader).context("trailers")?;
        ensure!(last.is_empty(), "the answer has more than was sent");
        ensure!(
            trailers.eq_ignore_ascii_case("x-end: yes\r\n\r\n"),
            "trailers: {trailers:?}"
        );
    }
    Ok(())
}

fn upgrade(address: &str) -> Result<()> {
    let stream = connect(address)?;
    let (mut reader, mut writer) = (BufReader::new(&stream), &stream);
    let head = format!(
        "GET / HTTP/1.1\r\nhost: {OWN_HOST}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    );
    writer.write_all(head.as_bytes())?;
    let head = read_head(&mut reader).context("head")?;
    ensure!(
        head.starts_with("HTTP/1.1 101 "),
        "answered {:?}",
        head.lines().next()
    );
    for size in SIZES {
        let payload = payload(size);
        writer.write_all(&payload)?;
        let mut back = vec![0; size];
        reader.read_exact(&mut back).context("message")?;
        ensure!(back == payload, "another message came back");
    }
    stream.shutdown(Shutdown::Write)?;
    let more = reader.read(&mut [0]).context("end")?;
    ensure!(more == 0, "more came back than was sent");
    Ok(())
}

fn payload(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 + size) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::origin::Origin;

    #[test]
    fn the_origin_answers_every_visit() {
        let address = Origin::start().unwrap().address.to_string();
        chunks(&address).unwrap();
        upgrade(&address).unwrap();
    }
}
