//! HTTP/1.1 messages read by their framing, independently of `wire`: a test must not share its
//! bugs. Lenient on purpose; used by the clients and the upstreams of this crate.

use std::io::{self, Read};

/// A request or response as it stood on the wire, with its body taken out of its framing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line, without its end.
    pub start: String,
    /// Names as written, values trimmed, in order.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
    /// Trailers of a chunked body.
    pub trailers: Vec<(String, String)>,
}

/// How the end of a body is known.
#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Message {
    /// A response's status.
    ///
    /// # Panics
    /// If the first line has none.
    #[must_use]
    pub fn status(&self) -> u16 {
        let status = self
            .start
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok());
        status.unwrap_or_else(|| panic!("no status in {:?}", self.start))
    }

    /// A request's target.
    #[must_use]
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// The first value of a header, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What was read of a stream and not yet taken as part of a message.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Everything that was read and not taken.
    pub fn take_all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// One request.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer closes first (also before the first byte).
    pub fn read_request(&mut self, stream: &mut impl Read) -> io::Result<Message> {
        let mut message = self.read_head(stream)?;
        let framing = match declared(&message) {
            Framing::UntilClose => Framing::Length(0),
            framing => framing,
        };
        self.read_body(stream, framing, &mut message)?;
        Ok(message)
    }

    /// One response, interim ones too, to a request with this method.
    ///
    /// # Errors
    /// As [`Inbox::read_request`].
    pub fn read_response(&mut self, stream: &mut impl Read, method: &str) -> io::Result<Message> {
        let mut message = self.read_head(stream)?;
        let framing = match message.status() {
            100..200 | 204 | 304 => Framing::Length(0),
            _ if method == "HEAD" => Framing::Length(0),
            _ => declared(&message),
        };
        self.read_body(stream, framing, &mut message)?;
        Ok(message)
    }

    /// Bytes up to and with `end`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer closes first.
    pub fn read_until(&mut self, stream: &mut impl Read, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            let found = self
                .bytes
                .windows(end.len())
                .position(|window| window == end);
            if let Some(at) = found {
                return Ok(self.bytes.drain(..at + end.len()).collect());
            }
            self.more(stream)?;
        }
    }

    /// Exactly so many bytes.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer closes first.
    pub fn read_exact(&mut self, stream: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
        while self.bytes.len() < count {
            self.more(stream)?;
        }
        Ok(self.bytes.drain(..count).collect())
    }

    fn more(&mut self, stream: &mut impl Read) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.bytes.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    fn read_head(&mut self, stream: &mut impl Read) -> io::Result<Message> {
        let head = self.read_until(stream, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let (start, fields) = head.split_once("\r\n").expect("it ends with two line ends");
        Ok(Message {
            start: start.to_owned(),
            headers: fields.lines().filter_map(field).collect(),
            ..Message::default()
        })
    }

    fn read_body(
        &mut self,
        stream: &mut impl Read,
        framing: Framing,
        message: &mut Message,
    ) -> io::Result<()> {
        match framing {
            Framing::Length(length) => message.body = self.read_exact(stream, length)?,
            Framing::Chunked => self.read_chunks(stream, message)?,
            Framing::UntilClose => {
                message.body = self.take_all();
                stream.read_to_end(&mut message.body)?;
            }
        }
        Ok(())
    }

    fn read_chunks(&mut self, stream: &mut impl Read, message: &mut Message) -> io::Result<()> {
        loop {
            let line = self.read_until(stream, b"\r\n")?;
            let line = String::from_utf8_lossy(&line);
            let size = line.trim_end().split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16)
                .map_err(|_| io::Error::other(format!("chunk size {size:?}")))?;
            if size == 0 {
                break;
            }
            message.body.extend(self.read_exact(stream, size)?);
            self.read_exact(stream, 2)?;
        }
        loop {
            let line = self.read_until(stream, b"\r\n")?;
            let Some(trailer) = field(&String::from_utf8_lossy(&line)) else {
                return Ok(());
            };
            message.trailers.push(trailer);
        }
    }
}

fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_owned(), value.trim().to_owned()))
}

fn declared(message: &Message) -> Framing {
    if message
        .header("transfer-encoding")
        .is_some_and(|te| te.eq_ignore_ascii_case("chunked"))
    {
        return Framing::Chunked;
    }
    let length = message
        .header("content-length")
        .and_then(|length| length.parse().ok());
    length.map_or(Framing::UntilClose, Framing::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wire: &str, method: &str, body: &str, rest: &str) -> Message {
        let (mut inbox, mut stream) = (Inbox::default(), wire.as_bytes());
        let message = inbox.read_response(&mut stream, method).unwrap();
        assert_eq!(
            (message.text().as_str(), &inbox.take_all()[..]),
            (body, rest.as_bytes())
        );
        message
    }

    #[test]
    fn framing_decides_where_a_body_ends() {
        let head = "HTTP/1.1 200 OK\r\n";
        check(
            &format!("{head}Content-Length: 2\r\n\r\nokmore"),
            "GET",
            "ok",
            "more",
        );
        check(
            &format!("{head}content-length: 2\r\n\r\nmore"),
            "HEAD",
            "",
            "more",
        );
        check(&format!("{head}\r\nall of it"), "GET", "all of it", "");
        check("HTTP/1.1 204 No Content\r\n\r\nmore", "GET", "", "more");
        let chunked =
            "transfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nt: v\r\n\r\n";
        let message = check(&format!("{head}{chunked}more"), "GET", "abcd", "more");
        assert_eq!(message.trailers, [("t".to_owned(), "v".to_owned())]);
        assert_eq!(
            (message.status(), message.header("Transfer-Encoding")),
            (200, Some("chunked"))
        );
    }

    #[test]
    fn request_without_framing_has_no_body() {
        let mut wire = &b"GET /x HTTP/1.1\r\nhost: a\r\n\r\nGET"[..];
        let mut inbox = Inbox::default();
        let message = inbox.read_request(&mut wire).unwrap();
        assert_eq!((message.target(), message.body.len()), ("/x", 0));
        let error = inbox.read_request(&mut wire).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
