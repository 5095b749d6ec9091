//! Finds the end of an answer in a stream of bytes. Used by the generator for each connection;
//! keeps no body and copies bytes only where a head or chunk line is cut by a read.

use std::mem::MaybeUninit;

const HEAD_BYTES_MAX: usize = 256 * 1024;
const HEADERS_MAX: usize = 128;

/// Reads one answer after the other.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    state: State,
    /// Start of a head or line whose end has not come yet.
    partial: Vec<u8>,
    status: u16,
    close: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Head,
    Body(u64),
    ChunkLine,
    Chunk(u64),
    Trailers,
    UntilClose,
}

/// An answer that has come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The connection cannot be used again.
    pub(crate) close: bool,
}

/// The answer breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Scanner {
    /// Takes bytes; gives the answer when it is whole, and how many bytes belonged to it.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        to_head: bool,
    ) -> Result<(usize, Option<Answer>), Malformed> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let (taken, done) = match self.state {
                State::Head => self.head(rest, to_head)?,
                State::Body(left) => self.body(rest, left),
                State::ChunkLine => self.chunk_line(rest)?,
                State::Chunk(left) => self.chunk(rest, left),
                State::Trailers => self.trailers(rest)?,
                State::UntilClose => (rest.len(), false),
            };
            used += taken;
            if done {
                return Ok((used, Some(self.finish())));
            }
        }
        Ok((used, None))
    }

    /// The peer has closed: the answer, if its end was marked by that.
    pub(crate) fn end(&mut self) -> Option<Answer> {
        (self.state == State::UntilClose).then(|| self.finish())
    }

    /// Forgets a half-read answer, for a new connection.
    pub(crate) fn reset(&mut self) {
        self.partial.clear();
        self.state = State::Head;
    }

    fn finish(&mut self) -> Answer {
        self.reset();
        Answer {
            status: self.status,
            close: self.close,
        }
    }

    fn head(&mut self, bytes: &[u8], to_head: bool) -> Result<(usize, bool), Malformed> {
        if self.partial.is_empty() {
            if let Some((length, done)) = self.parse_head(bytes, to_head)? {
                return Ok((length, done));
            }
            self.partial.extend_from_slice(bytes);
            return Ok((bytes.len(), false));
        }
        let before = self.partial.len();
        if before + bytes.len() > HEAD_BYTES_MAX {
            return Err(Malformed);
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        let parsed = self.parse_head(&whole, to_head)?;
        if let Some((length, done)) = parsed {
            whole.clear();
            self.partial = whole;
            return Ok((length - before, done));
        }
        self.partial = whole;
        Ok((bytes.len(), false))
    }

    /// The head's length and whether the answer ends with it; none if the head is not whole.
    fn parse_head(
        &mut self,
        bytes: &[u8],
        to_head: bool,
    ) -> Result<Option<(usize, bool)>, Malformed> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Malformed),
        };
        let status = response.code.ok_or(Malformed)?;
        if (100..200).contains(&status) {
            // An interim answer: the real one follows.
            return if status == 101 {
                Err(Malformed)
            } else {
                Ok(Some((length, false)))
            };
        }
        self.status = status;
        let framing = Framing::read(&response)?;
        self.close = framing.close;
        self.state = framing.state(to_head || status == 204 || status == 304);
        self.close |= self.state == State::UntilClose;
        Ok(Some((length, self.state == State::Body(0))))
    }

    fn body(&mut self, bytes: &[u8], left: u64) -> (usize, bool) {
        let taken = left.min(bytes.len() as u64);
        self.state = State::Body(left - taken);
        (taken as usize, left == taken)
    }

    fn chunk(&mut self, bytes: &[u8], left: u64) -> (usize, bool) {
        let taken = left.min(bytes.len() as u64);
        self.state = if left == taken {
            State::ChunkLine
        } else {
            State::Chunk(left - taken)
        };
        (taken as usize, false)
    }

    fn chunk_line(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let (taken, whole) = self.line(bytes)?;
        if whole {
            let size = chunk_size(&self.partial)?;
            self.partial.clear();
            // The CRLF after the data is counted as data.
            self.state = if size == 0 {
                State::Trailers
            } else {
                State::Chunk(size + 2)
            };
        }
        Ok((taken, false))
    }

    fn trailers(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let (taken, whole) = self.line(bytes)?;
        let last = whole && matches!(self.partial.as_slice(), b"\r\n" | b"\n");
        if whole {
            self.partial.clear();
        }
        Ok((taken, last))
    }

    /// Collects a line in `partial`; says how many bytes it took and whether it is whole.
    fn line(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let end = bytes
            .iter()
            .position(|&byte| byte == b'\n')
            .map(|at| at + 1);
        let taken = end.unwrap_or(bytes.len());
        if self.partial.len() + taken > HEAD_BYTES_MAX {
            return Err(Malformed);
        }
        self.partial.extend_from_slice(&bytes[..taken]);
        Ok((taken, end.is_some()))
    }
}

#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
}

impl Framing {
    fn read(response: &httparse::Response<'_, '_>) -> Result<Self, Malformed> {
        let mut framing = Self {
            close: response.version == Some(0),
            ..Self::default()
        };
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                let text = std::str::from_utf8(header.value).map_err(|_| Malformed)?;
                framing.length = Some(text.trim().parse().map_err(|_| Malformed)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                framing.chunked = header.value.to_ascii_lowercase().ends_with(b"chunked");
            } else if header.name.eq_ignore_ascii_case("connection") {
                framing.connection(header.value);
            }
        }
        Ok(framing)
    }

    fn connection(&mut self, value: &[u8]) {
        for token in value.split(|&byte| byte == b',') {
            let token = token.trim_ascii();
            if token.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.close = false;
            }
        }
    }

    fn state(&self, bodiless: bool) -> State {
        match self.length {
            _ if bodiless => State::Body(0),
            _ if self.chunked => State::ChunkLine,
            Some(length) => State::Body(length),
            None => State::UntilClose,
        }
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    let size = u64::from_str_radix(text, 16).map_err(|_| Malformed)?;
    if size > u64::MAX / 2 {
        Err(Malformed)
    } else {
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the text whole and byte by byte; both must give the same.
    fn check(text: &str, to_head: bool, expected: Result<Option<Answer>, Malformed>) {
        let bytes = text.as_bytes();
        let whole = Scanner::default()
            .feed(bytes, to_head)
            .map(|(_, answer)| answer);
        assert_eq!(whole, expected, "{text:?}");
        let mut scanner = Scanner::default();
        let mut found = Ok(None);
        for byte in bytes {
            found = scanner.feed(&[*byte], to_head).map(|(_, answer)| answer);
            if !matches!(found, Ok(None)) {
                break;
            }
        }
        assert_eq!(found, expected, "{text:?} byte by byte");
    }

    fn answer(status: u16, close: bool) -> Result<Option<Answer>, Malformed> {
        Ok(Some(Answer { status, close }))
    }

    #[test]
    fn finds_the_end_of_each_framing() {
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            false,
            answer(200, false),
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh",
            false,
            Ok(None),
        );
        check("HTTP/1.1 204 No Content\r\n\r\n", false, answer(204, false));
        check(
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            false,
            answer(304, false),
        );
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            true,
            answer(200, false),
        );
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(
            &format!("{head}3\r\nabc\r\n0\r\n\r\n"),
            false,
            answer(200, false),
        );
        check(
            &format!("{head}3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n"),
            false,
            answer(200, false),
        );
        check(&format!("{head}3\r\nabc\r\n0\r\nA: b\r\n"), false, Ok(None));
        check("HTTP/1.1 200 OK\r\n\r\nuntil the end", false, Ok(None));
    }

    #[test]
    fn skips_interim_answers() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        check(interim, false, answer(200, false));
    }

    #[test]
    fn knows_when_the_connection_ends() {
        let make = |version, connection| {
            format!(
                "HTTP/1.{version} 200 OK\r\nConnection: {connection}\r\nContent-Length: 0\r\n\r\n"
            )
        };
        check(&make(1, "close"), false, answer(200, true));
        check(&make(1, "x, Close"), false, answer(200, true));
        check(&make(0, "x"), false, answer(200, true));
        check(&make(0, "keep-alive"), false, answer(200, false));
    }

    #[test]
    fn a_close_ends_an_answer_without_length() {
        let mut scanner = Scanner::default();
        scanner.feed(b"HTTP/1.1 200 OK\r\n\r\nabc", false).unwrap();
        assert_eq!(
            scanner.end(),
            Some(Answer {
                status: 200,
                close: true
            })
        );
        scanner
            .feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false)
            .unwrap();
        assert_eq!(scanner.end(), None);
    }

    #[test]
    fn refuses_what_is_not_http() {
        check("SSH-2.0-x\r\n", false, Err(Malformed));
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            false,
            Err(Malformed),
        );
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            false,
            Err(Malformed),
        );
    }

    #[test]
    fn leaves_what_follows_the_answer() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP";
        let (used, answer) = Scanner::default().feed(text, false).unwrap();
        assert_eq!((used, answer.is_some()), (text.len() - 4, true));
    }
}
