//! One GET over a new connection: admin pages of sidecars. Called outside measured windows only.
//! Not a client for anything that is measured.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An admin page that takes longer is as good as none.
const WITHIN: Duration = Duration::from_secs(5);

/// Status and body of `GET path`.
///
/// # Errors
/// When nobody listens, or the answer is not HTTP.
pub(crate) fn get(addr: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&addr, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    parse(&answer).ok_or_else(|| io::Error::other(format!("{addr} did not answer in HTTP/1.1")))
}

/// Whether `GET path` is answered with 200.
pub(crate) fn is_ok(addr: SocketAddr, path: &str) -> bool {
    matches!(get(addr, path), Ok((200, _)))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    Some((
        status,
        if chunked {
            unchunk(body)?
        } else {
            body.to_owned()
        },
    ))
}

fn unchunk(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        body = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                      3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(answer), Some((200, "abcde".to_owned())));
    }

    #[test]
    fn a_plain_body_is_taken_whole() {
        let answer = "HTTP/1.1 503 Service Unavailable\r\n\r\nDRAINING\n";
        assert_eq!(parse(answer), Some((503, "DRAINING\n".to_owned())));
    }
}
