//! Heads as ranges: what the hop must know of one, found by httparse. No I/O.

use std::io;
use std::ops::Range;

const HEADERS_MAX: usize = 64;

/// Which of the two grammars.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Request,
    Response,
}

/// A complete head at the front of a buffer.
pub(super) struct Head {
    /// Bytes of the head, its empty line included.
    pub(super) len: usize,
    /// Bytes of the body that follows.
    pub(super) body: usize,
    /// The sender closes after this message.
    pub(super) close: bool,
    /// The `connection` line, which belongs to one hop only.
    pub(super) dropped: Option<Range<usize>>,
}

/// The head at the front of `bytes`; `None` while it is incomplete.
pub(super) fn parse(bytes: &[u8], kind: Kind) -> io::Result<Option<Head>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    match kind {
        Kind::Request => {
            let mut request = httparse::Request::new(&mut headers);
            let parsed = request
                .parse(bytes)
                .map_err(|_| io::ErrorKind::InvalidData)?;
            let httparse::Status::Complete(len) = parsed else {
                return Ok(None);
            };
            examine(bytes, len, request.headers).map(Some)
        }
        Kind::Response => {
            let mut response = httparse::Response::new(&mut headers);
            let parsed = response
                .parse(bytes)
                .map_err(|_| io::ErrorKind::InvalidData)?;
            let httparse::Status::Complete(len) = parsed else {
                return Ok(None);
            };
            examine(bytes, len, response.headers).map(Some)
        }
    }
}

fn examine(bytes: &[u8], len: usize, headers: &[httparse::Header<'_>]) -> io::Result<Head> {
    let mut head = Head {
        len,
        body: 0,
        close: false,
        dropped: None,
    };
    for header in headers {
        match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("connection") => {
                head.close = header.value.eq_ignore_ascii_case(b"close");
                head.dropped = Some(line(bytes, header));
            }
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let text = std::str::from_utf8(header.value).ok();
                head.body = text
                    .and_then(|text| text.parse().ok())
                    .ok_or(io::ErrorKind::InvalidData)?;
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            _ => {}
        }
    }
    Ok(head)
}

/// From the first byte of the name to the line's CRLF, inclusive.
fn line(bytes: &[u8], header: &httparse::Header<'_>) -> Range<usize> {
    let start = header.name.as_ptr().addr() - bytes.as_ptr().addr();
    let value = header.value.as_ptr().addr() - bytes.as_ptr().addr() + header.value.len();
    let rest = bytes[value..]
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(0);
    start..value + rest + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_the_connection_line_and_finds_the_body() {
        let text = b"POST / HTTP/1.1\r\nConnection: close \r\ncontent-length: 5\r\n\r\nhello";
        let head = parse(text, Kind::Request).unwrap().unwrap();
        assert_eq!((head.len, head.body, head.close), (text.len() - 5, 5, true));
        assert_eq!(&text[head.dropped.unwrap()], b"Connection: close \r\n");
    }

    #[test]
    fn waits_for_the_rest_of_a_head() {
        assert!(
            parse(b"HTTP/1.1 200 OK\r\nserver", Kind::Response)
                .unwrap()
                .is_none()
        );
    }
}
