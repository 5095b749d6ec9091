//! Reads requests of the echo server: one head, one body, whole. Called by `connection`; holds
//! a body no longer than its limit.

use std::mem::MaybeUninit;

const HEAD_BYTES_MAX: usize = 256 * 1024;
const HEADERS_MAX: usize = 200;
/// An echoed body is held in memory whole.
pub(crate) const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Reads one request after the other from a connection.
#[derive(Default)]
pub(crate) struct Reader {
    state: State,
    /// Start of a head or line whose end has not come yet.
    partial: Vec<u8>,
    pub(crate) request: Request,
}

/// A request, valid once the reader has said `Whole`. Reused for the next one.
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) is_head: bool,
    /// What follows the question mark.
    pub(crate) query: String,
    pub(crate) http10: bool,
    pub(crate) close: bool,
    pub(crate) body: Vec<u8>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Head,
    Body(usize),
    ChunkLine,
    Chunk(usize),
    ChunkEnd(usize),
    Trailers,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// The client waits for `100 Continue`.
    Expects,
    Whole,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    TooLarge,
}

impl Reader {
    /// Takes bytes up to the next step; says how many.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Step), Refusal> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let (taken, step) = match self.state {
                State::Head => self.head(rest)?,
                State::Body(left) => self.body(rest, left),
                State::ChunkLine => self.chunk_line(rest)?,
                State::Chunk(left) => self.chunk(rest, left),
                State::ChunkEnd(left) => self.chunk_end(rest, left),
                State::Trailers => self.trailers(rest)?,
            };
            used += taken;
            if step != Step::More {
                return Ok((used, step));
            }
        }
        Ok((used, Step::More))
    }

    fn head(&mut self, bytes: &[u8]) -> Result<(usize, Step), Refusal> {
        if self.partial.is_empty() {
            if let Some(found) = self.parse_head(bytes)? {
                return Ok(found);
            }
            self.partial.extend_from_slice(bytes);
            return Ok((bytes.len(), Step::More));
        }
        let before = self.partial.len();
        if before + bytes.len() > HEAD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        let found = self.parse_head(&whole)?;
        if let Some((length, step)) = found {
            return Ok((length - before, step));
        }
        self.partial = whole;
        Ok((bytes.len(), Step::More))
    }

    fn parse_head(&mut self, bytes: &[u8]) -> Result<Option<(usize, Step)>, Refusal> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut []);
        let length = match head.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLarge),
            Err(_) => return Err(Refusal::Malformed),
        };
        let framing = Framing::read(&head)?;
        let path = head.path.unwrap_or_default();
        let request = &mut self.request;
        request.is_head = head.method == Some("HEAD");
        request.query.clear();
        request
            .query
            .push_str(path.split_once('?').map_or("", |(_, query)| query));
        request.http10 = head.version == Some(0);
        request.close = framing.close.unwrap_or(request.http10);
        request.body.clear();
        self.state = match framing.length {
            _ if framing.chunked => State::ChunkLine,
            0 => State::Head,
            length if length > BODY_BYTES_MAX => return Err(Refusal::TooLarge),
            length => State::Body(length),
        };
        let step = match self.state {
            State::Head => Step::Whole,
            _ if framing.expects && length == bytes.len() => Step::Expects,
            _ => Step::More,
        };
        Ok(Some((length, step)))
    }

    fn body(&mut self, bytes: &[u8], left: usize) -> (usize, Step) {
        let taken = left.min(bytes.len());
        self.request.body.extend_from_slice(&bytes[..taken]);
        self.state = if taken == left {
            State::Head
        } else {
            State::Body(left - taken)
        };
        (
            taken,
            if taken == left {
                Step::Whole
            } else {
                Step::More
            },
        )
    }

    fn chunk_line(&mut self, bytes: &[u8]) -> Result<(usize, Step), Refusal> {
        let (taken, whole) = self.line(bytes)?;
        if whole {
            let size = chunk_size(&self.partial)?;
            self.partial.clear();
            if self.request.body.len() + size > BODY_BYTES_MAX {
                return Err(Refusal::TooLarge);
            }
            self.state = if size == 0 {
                State::Trailers
            } else {
                State::Chunk(size)
            };
        }
        Ok((taken, Step::More))
    }

    fn chunk(&mut self, bytes: &[u8], left: usize) -> (usize, Step) {
        let taken = left.min(bytes.len());
        self.request.body.extend_from_slice(&bytes[..taken]);
        self.state = if taken == left {
            State::ChunkEnd(2)
        } else {
            State::Chunk(left - taken)
        };
        (taken, Step::More)
    }

    fn chunk_end(&mut self, bytes: &[u8], left: usize) -> (usize, Step) {
        let taken = left.min(bytes.len());
        self.state = if taken == left {
            State::ChunkLine
        } else {
            State::ChunkEnd(left - taken)
        };
        (taken, Step::More)
    }

    fn trailers(&mut self, bytes: &[u8]) -> Result<(usize, Step), Refusal> {
        let (taken, whole) = self.line(bytes)?;
        if !whole {
            return Ok((taken, Step::More));
        }
        let last = matches!(self.partial.as_slice(), b"\r\n" | b"\n");
        self.partial.clear();
        if last {
            self.state = State::Head;
        }
        Ok((taken, if last { Step::Whole } else { Step::More }))
    }

    fn line(&mut self, bytes: &[u8]) -> Result<(usize, bool), Refusal> {
        let end = bytes
            .iter()
            .position(|&byte| byte == b'\n')
            .map(|at| at + 1);
        let taken = end.unwrap_or(bytes.len());
        if self.partial.len() + taken > HEAD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        self.partial.extend_from_slice(&bytes[..taken]);
        Ok((taken, end.is_some()))
    }
}

#[derive(Default)]
struct Framing {
    length: usize,
    chunked: bool,
    expects: bool,
    close: Option<bool>,
}

impl Framing {
    fn read(head: &httparse::Request<'_, '_>) -> Result<Self, Refusal> {
        let mut framing = Self::default();
        for header in head.headers.iter() {
            let text = || std::str::from_utf8(header.value).unwrap_or_default().trim();
            match header.name.len() {
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    framing.length = text().parse().map_err(|_| Refusal::Malformed)?;
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    if !text().eq_ignore_ascii_case("chunked") {
                        return Err(Refusal::Malformed);
                    }
                    framing.chunked = true;
                }
                6 if header.name.eq_ignore_ascii_case("expect") => {
                    framing.expects = text().eq_ignore_ascii_case("100-continue");
                }
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    framing.connection(text());
                }
                _ => {}
            }
        }
        Ok(framing)
    }

    fn connection(&mut self, value: &str) {
        for token in value.split(',').map(str::trim) {
            if token.eq_ignore_ascii_case("close") {
                self.close = Some(true);
            } else if token.eq_ignore_ascii_case("keep-alive") {
                self.close = Some(false);
            }
        }
    }
}

fn chunk_size(line: &[u8]) -> Result<usize, Refusal> {
    let digits = line
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_| Refusal::Malformed)?;
    let size = usize::from_str_radix(text, 16).map_err(|_| Refusal::Malformed)?;
    if size > BODY_BYTES_MAX {
        Err(Refusal::TooLarge)
    } else {
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<(Step, Request), Refusal> {
        let mut reader = Reader::default();
        let mut last = Step::More;
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (used, step) = reader.feed(rest)?;
                rest = &rest[used..];
                last = step;
            }
        }
        Ok((last, reader.request))
    }

    fn check(text: &str, query: &str, body: &str, close: bool) {
        let whole = [text.as_bytes()];
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        for pieces in [&whole[..], &bytes[..]] {
            let (step, request) = read(pieces).unwrap();
            assert_eq!(step, Step::Whole, "{text:?}");
            assert_eq!(
                (request.query.as_str(), request.close),
                (query, close),
                "{text:?}"
            );
            assert_eq!(request.body, body.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn reads_every_framing() {
        check(
            "GET /echo?size=1 HTTP/1.1\r\nHost: a\r\n\r\n",
            "size=1",
            "",
            false,
        );
        check(
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
            "",
            "hi",
            false,
        );
        let chunks = "2\r\nhi\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n";
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{head}{chunks}"), "", "hi!", false);
        check("GET / HTTP/1.0\r\n\r\n", "", "", true);
        check(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            "",
            "",
            false,
        );
        check("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "", "", true);
    }

    #[test]
    fn tells_when_the_client_waits() {
        let head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(read(&[head]).unwrap().0, Step::Expects);
        let with_body = [head.as_slice(), b"hi"].concat();
        assert_eq!(read(&[&with_body]).unwrap().0, Step::Whole);
    }

    #[test]
    fn refuses_what_it_cannot_hold_or_read() {
        let check = |text: &str, refusal| {
            assert_eq!(read(&[text.as_bytes()]).err(), Some(refusal), "{text:?}");
        };
        check("GET /\r\n\r\n", Refusal::Malformed);
        check(
            "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            Refusal::TooLarge,
        );
        check(
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            Refusal::Malformed,
        );
    }
}
