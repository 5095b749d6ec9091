//! Where a body ends and which of its bytes are payload (RFC 9112, sections 6 and 7). Called by
//! the pump with whatever has arrived. Never keeps a byte: chunks pass through as they came, so
//! what it lets pass must be what every other reader understands.

use std::ops::Range;

use super::Framing;
use super::trailer::Trailer;

/// The longest chunk size in digits; leading zeros count.
const SIZE_DIGITS_MAX: u8 = 16;

/// The longest extension of one chunk in bytes.
const EXTENSION_BYTES_MAX: u16 = 256;

/// How many bytes of extensions a body may have beyond one per byte of payload: a body that is
/// mostly extensions is an attack on the reader's time.
const EXTENSION_BYTES_FREE: u64 = 16 * 1024;

/// Why a body is refused. The connection it came on must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A chunk size that is not 1 to 16 hexadecimal digits, or more than `i64::MAX`.
    #[error("malformed chunk size")]
    ChunkSize,
    /// A control byte in a chunk extension.
    #[error("malformed chunk extension")]
    ChunkExtension,
    /// Too much extension for one chunk, or for so little payload.
    #[error("chunk extensions are too long")]
    LongExtension,
    /// Something else than CR LF where a chunk or its size must end.
    #[error("chunk line does not end in carriage return and line feed")]
    ChunkEnd,
    /// A trailer line that is not a name, a colon, a value and CR LF.
    #[error("malformed trailer")]
    Trailer,
    /// A trailer field that would change framing, routing or rights after the fact.
    #[error("field is not allowed in a trailer")]
    ForbiddenTrailer,
    /// More trailers than 8 KiB or 64 lines.
    #[error("trailers are too large")]
    LargeTrailer,
    /// The connection closed before the body's end.
    #[error("body ends before its length")]
    Truncated,
}

/// What a call to `Body::decode` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// How many bytes it went through. Fewer than given: call again with the rest, unless the
    /// body is done.
    pub consumed: usize,
    /// The payload among them, perhaps empty; the bytes around it are framing.
    pub payload: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `left` more bytes of a body with a length.
    Length,
    UntilClose,
    /// The digits of a chunk size, `left` being the number so far.
    Size,
    Extension,
    SizeLf,
    /// `left` more bytes of a chunk.
    Data,
    DataCr,
    DataLf,
    Trailer,
    Done,
}

/// The framing of one body: how much of it is still to come.
#[derive(Clone, Debug)]
pub struct Body {
    left: u64,
    payload: u64,
    extensions: u64,
    trailer: Trailer,
    extension: u16,
    digits: u8,
    state: State,
}

impl Body {
    /// The beginning of a body that is framed like this.
    pub fn new(framing: Framing) -> Self {
        let (state, left) = match framing {
            Framing::None | Framing::Length(0) => (State::Done, 0),
            Framing::Length(length) => (State::Length, length),
            Framing::Chunked => (State::Size, 0),
            Framing::UntilClose => (State::UntilClose, 0),
        };
        let trailer = Trailer::default();
        Self {
            left,
            payload: 0,
            extensions: 0,
            trailer,
            extension: 0,
            digits: 0,
            state,
        }
    }

    /// Whether nothing more belongs to the body.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes of payload so far.
    pub fn payload_bytes(&self) -> u64 {
        self.payload
    }

    /// How many of `bytes` belong to the body, framing included: all of them, unless it ends
    /// among them. Call again with what follows. After an error the body must not be used.
    #[inline]
    pub fn advance(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut at = 0;
        while at < bytes.len() && !self.is_done() {
            at += self.decode(&bytes[at..])?.consumed;
        }
        Ok(at)
    }

    /// Whether what the next call to `decode` goes through belongs to the trailer section: lines
    /// with their ends, then the blank line.
    #[inline]
    pub fn is_in_trailers(&self) -> bool {
        self.state == State::Trailer
    }

    /// Goes through framing up to and including the next run of payload in `bytes`, or up to the
    /// trailer section. After an error the body must not be used.
    #[inline]
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Decoded, BodyError> {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Done => break,
                State::Length | State::Data => return Ok(self.counted(at, bytes.len())),
                State::UntilClose => {
                    self.payload += (bytes.len() - at) as u64;
                    return Ok(Decoded {
                        consumed: bytes.len(),
                        payload: at..bytes.len(),
                    });
                }
                before => {
                    at += self.framing(&bytes[at..])?;
                    if self.state == State::Trailer && before != State::Trailer {
                        break;
                    }
                }
            }
        }
        Ok(Decoded {
            consumed: at,
            payload: at..at,
        })
    }

    /// Goes through framing alone, as far as it reaches before the next run of payload, or up to
    /// the trailer section: for when there is no room for payload. After an error the body must
    /// not be used.
    pub fn decode_framing(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        let mut at = 0;
        while at < bytes.len() {
            let before = self.state;
            if matches!(
                before,
                State::Done | State::Length | State::Data | State::UntilClose
            ) {
                break;
            }
            at += self.framing(&bytes[at..])?;
            if self.state == State::Trailer && before != State::Trailer {
                break;
            }
        }
        Ok(at)
    }

    /// The connection closed: whether the body was allowed to end here.
    pub fn end_of_input(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::UntilClose | State::Done => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }

    /// Takes the run of payload that begins at `at`.
    #[inline]
    fn counted(&mut self, at: usize, end: usize) -> Decoded {
        let run = self.left.min((end - at) as u64);
        self.left -= run;
        self.payload += run;
        if self.left == 0 {
            self.state = if self.state == State::Length {
                State::Done
            } else {
                State::DataCr
            };
        }
        let consumed = at + run as usize;
        Decoded {
            consumed,
            payload: at..consumed,
        }
    }

    /// Takes some framing from the beginning of `bytes`, which is not empty: at once what is
    /// there in full and in its plainest form, as it nearly always is; else one byte.
    #[inline]
    fn framing(&mut self, bytes: &[u8]) -> Result<usize, BodyError> {
        match (self.state, self.digits) {
            (State::DataCr, _) if bytes.starts_with(b"\r\n") => {
                self.state = State::Size;
                return Ok(2);
            }
            (State::Size, 0) if bytes.starts_with(b"0\r\n\r\n") => {
                self.state = State::Done;
                return Ok(5);
            }
            (State::Size, 0) => {
                if let Some((size, len)) = plain_size(bytes) {
                    (self.left, self.state) = (size, State::Data);
                    return Ok(len);
                }
            }
            _ => {}
        }
        self.framing_byte(bytes[0]).map(|()| 1)
    }

    fn framing_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match self.state {
            State::Size => return self.size(byte),
            State::Extension => return self.extension(byte),
            State::SizeLf => return self.size_end(byte),
            State::DataCr if byte == b'\r' => State::DataLf,
            State::DataLf if byte == b'\n' => State::Size,
            State::Trailer => match self.trailer.take(byte)? {
                true => State::Done,
                false => State::Trailer,
            },
            _ => return Err(BodyError::ChunkEnd),
        };
        Ok(())
    }

    fn size(&mut self, byte: u8) -> Result<(), BodyError> {
        match (byte, (byte as char).to_digit(16)) {
            (_, Some(digit)) if self.digits < SIZE_DIGITS_MAX => {
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                return Ok(());
            }
            (b'\r', _) if self.digits > 0 => self.state = State::SizeLf,
            (b';', _) if self.digits > 0 => self.state = State::Extension,
            (b'\n', _) if self.digits > 0 => return Err(BodyError::ChunkEnd),
            _ => return Err(BodyError::ChunkSize),
        }
        match self.left <= i64::MAX as u64 {
            true => Ok(()),
            false => Err(BodyError::ChunkSize),
        }
    }

    fn extension(&mut self, byte: u8) -> Result<(), BodyError> {
        match byte {
            b'\r' => self.state = State::SizeLf,
            b'\t' | 0x20..=0x7e | 0x80.. => self.extension += 1,
            b'\n' => return Err(BodyError::ChunkEnd),
            _ => return Err(BodyError::ChunkExtension),
        }
        self.extensions += 1;
        let allowed = self.payload.saturating_add(EXTENSION_BYTES_FREE);
        match self.extension <= EXTENSION_BYTES_MAX && self.extensions <= allowed {
            true => Ok(()),
            false => Err(BodyError::LongExtension),
        }
    }

    fn size_end(&mut self, byte: u8) -> Result<(), BodyError> {
        if byte != b'\n' {
            return Err(BodyError::ChunkEnd);
        }
        (self.digits, self.extension) = (0, 0);
        self.state = if self.left == 0 {
            State::Trailer
        } else {
            State::Data
        };
        Ok(())
    }
}

/// The chunk size at the beginning of `bytes` and the length of its line, if it is not zero, has
/// no extension, and not so many digits that it could be too large.
#[inline]
fn plain_size(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0;
    for (at, byte) in bytes.iter().take(SIZE_DIGITS_MAX as usize).enumerate() {
        match (*byte as char).to_digit(16) {
            Some(digit) => size = size << 4 | u64::from(digit),
            None if size > 0 && bytes[at..].starts_with(b"\r\n") => return Some((size, at + 2)),
            None => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in steps of `step` and says how it ended: the payload and the number of
    /// bytes that belong to the body.
    fn decode(framing: Framing, bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize), BodyError> {
        let (mut body, mut payload, mut at) = (Body::new(framing), Vec::new(), 0);
        while at < bytes.len() && !body.is_done() {
            let window = &bytes[at..bytes.len().min(at + step)];
            let decoded = body.decode(window)?;
            payload.extend_from_slice(&window[decoded.payload]);
            at += decoded.consumed;
        }
        body.end_of_input()?;
        assert_eq!(body.payload_bytes(), payload.len() as u64);
        Ok((payload, at))
    }

    /// In steps of every size the outcome is the expected payload, `rest` bytes not belonging to
    /// the body.
    fn check(framing: Framing, bytes: &[u8], expected: Result<(&str, usize), BodyError>) {
        let expected = expected.map(|(text, rest)| (text.as_bytes().to_vec(), bytes.len() - rest));
        for step in 1..=bytes.len().max(1) {
            assert_eq!(
                decode(framing, bytes, step),
                expected,
                "{:?}",
                bytes.escape_ascii().to_string()
            );
        }
        let mut body = Body::new(framing);
        let advanced = body
            .advance(bytes)
            .and_then(|n| body.end_of_input().map(|()| n));
        assert_eq!(advanced, expected.map(|(_, consumed)| consumed));
    }

    #[test]
    fn measures_bodies_without_chunks() {
        check(Framing::None, b"GET", Ok(("", 3)));
        check(Framing::Length(0), b"GET", Ok(("", 3)));
        check(Framing::Length(3), b"abcd", Ok(("abc", 1)));
        check(Framing::Length(3), b"ab", Err(BodyError::Truncated));
        check(Framing::UntilClose, b"abc", Ok(("abc", 0)));
    }

    #[test]
    fn decodes_chunks() {
        let cases: &[(&[u8], (&str, usize))] = &[
            (b"0\r\n\r\n", ("", 0)),
            (b"3\r\nabc\r\n0\r\n\r\nGET", ("abc", 3)),
            (
                b"0003\r\nabc\r\nA\r\n0123456789\r\n000\r\n\r\n",
                ("abc0123456789", 0),
            ),
            (
                b"3;a=b; c=\"d\"\r\nabc\r\n0;x\r\nx-sum: 1\r\ny:\r\n\r\n",
                ("abc", 0),
            ),
            (b"1\r\n\n\r\n0\r\n\r\n", ("\n", 0)),
        ];
        cases
            .iter()
            .for_each(|(bytes, expected)| check(Framing::Chunked, bytes, Ok(*expected)));
    }

    #[test]
    fn refuses_chunks_that_readers_could_take_differently() {
        let cases: &[(&[u8], BodyError)] = &[
            (b"", BodyError::Truncated),
            (b"3\r\nab", BodyError::Truncated),
            (b"0\r\n", BodyError::Truncated),
            (b"\r\n", BodyError::ChunkSize),
            (b";a\r\n", BodyError::ChunkSize),
            (b"g\r\n", BodyError::ChunkSize),
            (b"-1\r\n", BodyError::ChunkSize),
            (b"0x3\r\n", BodyError::ChunkSize),
            (b" 3\r\n", BodyError::ChunkSize),
            (b"3 \r\n", BodyError::ChunkSize),
            (b"3 ;a\r\n", BodyError::ChunkSize),
            (b"8000000000000000\r\n", BodyError::ChunkSize),
            (b"00000000000000003\r\n", BodyError::ChunkSize),
            (b"3\nabc\r\n", BodyError::ChunkEnd),
            (b"3\rabc\r\n", BodyError::ChunkEnd),
            (b"3;a\nabc\r\n", BodyError::ChunkEnd),
            (b"3;\x00\r\nabc\r\n", BodyError::ChunkExtension),
            (b"3;a\rb\r\nabc\r\n", BodyError::ChunkEnd),
            (b"3\r\nabcd\r\n", BodyError::ChunkEnd),
            (b"3\r\nabc\n0\r\n", BodyError::ChunkEnd),
            (b"3\r\nabc0\r\n", BodyError::ChunkEnd),
            (b"0\r\n\n", BodyError::Trailer),
            (b"0\r\n\r0", BodyError::Trailer),
            (b"0\r\nx: 1\n\r\n", BodyError::Trailer),
            (b"0\r\nx: 1\r\n y\r\n\r\n", BodyError::Trailer),
            (b"0\r\nx : 1\r\n\r\n", BodyError::Trailer),
            (b"0\r\n: 1\r\n\r\n", BodyError::Trailer),
            (b"0\r\nx: \x00\r\n\r\n", BodyError::Trailer),
            (b"0\r\nGET / HTTP/1.1\r\n\r\n", BodyError::Trailer),
            (
                b"0\r\nContent-Length: 1\r\n\r\n",
                BodyError::ForbiddenTrailer,
            ),
            (
                b"0\r\nPROXY-authorization: 1\r\n\r\n",
                BodyError::ForbiddenTrailer,
            ),
            (
                b"0\r\nx: 1\r\ntransfer-encoding: chunked\r\n\r\n",
                BodyError::ForbiddenTrailer,
            ),
        ];
        cases
            .iter()
            .for_each(|(bytes, error)| check(Framing::Chunked, bytes, Err(*error)));
    }

    #[test]
    fn bounds_extensions_and_trailers() {
        let extended = |n: usize| format!("0;{}\r\n\r\n", "x".repeat(n));
        check(Framing::Chunked, extended(256).as_bytes(), Ok(("", 0)));
        check(
            Framing::Chunked,
            extended(257).as_bytes(),
            Err(BodyError::LongExtension),
        );
        let trailed = |n: usize| format!("0\r\n{}\r\n", "x:\r\n".repeat(n));
        check(Framing::Chunked, trailed(64).as_bytes(), Ok(("", 0)));
        check(
            Framing::Chunked,
            trailed(65).as_bytes(),
            Err(BodyError::LargeTrailer),
        );
        let long = format!("0\r\nx: {}\r\n\r\n", "y".repeat(8192));
        let mut body = Body::new(Framing::Chunked);
        assert_eq!(body.advance(long.as_bytes()), Err(BodyError::LargeTrailer));
        let wasteful = format!("1;{}\r\nx\r\n", "y".repeat(200)).repeat(100);
        let mut body = Body::new(Framing::Chunked);
        assert_eq!(
            body.advance(wasteful.as_bytes()),
            Err(BodyError::LongExtension)
        );
    }

    #[test]
    fn framing_alone_stops_before_payload_and_before_trailers() {
        let mut body = Body::new(Framing::Chunked);
        let text = b"3\r\nabc\r\n2\r\nde\r\n0\r\nx: 1\r\n\r\nGET";
        let mut at = 0;
        for (framing, payload) in [(3, 3), (5, 2)] {
            assert_eq!(body.decode_framing(&text[at..]), Ok(framing));
            assert_eq!(body.decode_framing(&text[at + framing..]), Ok(0));
            at += framing;
            assert_eq!(body.decode(&text[at..]).unwrap().payload, 0..payload);
            at += payload;
        }
        assert_eq!(body.decode_framing(&text[at..]), Ok(5));
        assert!(body.is_in_trailers());
        assert_eq!(body.decode_framing(&text[at + 5..]), Ok(8));
        assert!(body.is_done());
        assert_eq!(body.decode_framing(b"GET"), Ok(0));
        let mut body = Body::new(Framing::Length(3));
        assert_eq!(body.decode_framing(b"abc"), Ok(0));
        let mut body = Body::new(Framing::Chunked);
        assert_eq!(body.decode_framing(b"x\r\n"), Err(BodyError::ChunkSize));
    }

    #[test]
    fn a_body_is_small() {
        assert!(size_of::<Body>() <= 64, "{}", size_of::<Body>());
    }
}
