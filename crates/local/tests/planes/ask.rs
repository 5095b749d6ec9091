//! One question, and what becomes of it: a status, bytes that come back, or an end.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection that is ended, or never made, comes to.
pub(crate) const ENDED: &str = "ended";

/// All that is answered to a request on a connection of its own.
pub(crate) fn request(target: SocketAddr, head: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{head}\r\nhost: callee\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The status of an answer.
pub(crate) fn status(address: IpAddr, port: u16, path: &str) -> String {
    let answer = request((address, port).into(), &format!("GET {path} HTTP/1.1"));
    let answer = answer.unwrap_or_default();
    let mut words = answer.split(' ').skip(1);
    words.next().unwrap_or(ENDED).to_owned()
}

/// Whether bytes come back as they were sent.
pub(crate) fn echo(address: IpAddr, port: u16) -> String {
    let mut answer = [0; 4];
    let mut ask = || {
        let mut stream = TcpStream::connect_timeout(&(address, port).into(), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"ping")?;
        stream.read_exact(&mut answer)
    };
    match ask() {
        Ok(()) => String::from_utf8_lossy(&answer).into_owned(),
        Err(_) => ENDED.to_owned(),
    }
}
