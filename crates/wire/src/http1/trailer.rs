//! The trailer section after the last chunk (RFC 9112, section 7.1.2), byte by byte. Called by
//! `Body`. Never keeps more of it than the beginning of a name.

use super::body::BodyError;
use super::line::token;

/// How long a trailer section may be, its blank line not counted.
const BYTES_MAX: u16 = 8 * 1024;

/// How many lines it may have.
const LINES_MAX: u8 = 64;

/// Room for the longest name in `FORBIDDEN`.
const NAME_BYTES: usize = 19;

/// What a trailer must not say (RFC 9110, section 6.5.1): framing, routing, the connection,
/// credentials, and how the content is to be read.
const FORBIDDEN: [&[u8]; 16] = [
    b"authorization",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"host",
    b"keep-alive",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// Whether a trailer must not have this name, in any case.
pub(crate) fn is_forbidden(name: &[u8]) -> bool {
    FORBIDDEN.iter().any(|f| f.eq_ignore_ascii_case(name))
}

#[derive(Clone, Copy, Debug, Default)]
enum Part {
    #[default]
    Start,
    Name,
    Value,
    LineLf,
    EndLf,
}

/// How far a trailer section has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Trailer {
    bytes: u16,
    lines: u8,
    /// Bytes of `name` that are set; one more than there is room for if it is longer.
    named: u8,
    part: Part,
    name: [u8; NAME_BYTES],
}

impl Trailer {
    /// Takes one byte; `true` if it is the last one of the section.
    pub(super) fn take(&mut self, byte: u8) -> Result<bool, BodyError> {
        self.bytes += 1;
        self.part = match (self.part, byte) {
            (Part::Start, b'\r') => Part::EndLf,
            (Part::EndLf, b'\n') => return Ok(true),
            (Part::Start | Part::Name, _) if token(byte) => self.name(byte),
            (Part::Name, b':') => self.name_end()?,
            (Part::Value, b'\r') => Part::LineLf,
            (Part::Value, b'\t' | 0x20..=0x7e | 0x80..) => Part::Value,
            (Part::LineLf, b'\n') => self.line_end(),
            _ => return Err(BodyError::Trailer),
        };
        match self.bytes <= BYTES_MAX && self.lines <= LINES_MAX {
            true => Ok(false),
            false => Err(BodyError::LargeTrailer),
        }
    }

    fn name(&mut self, byte: u8) -> Part {
        if let Some(place) = self.name.get_mut(self.named as usize) {
            *place = byte;
        }
        self.named = (self.named + 1).min(NAME_BYTES as u8 + 1);
        Part::Name
    }

    fn name_end(&mut self) -> Result<Part, BodyError> {
        let name = self.name.get(..self.named as usize).unwrap_or_default();
        self.named = 0;
        match is_forbidden(name) {
            true => Err(BodyError::ForbiddenTrailer),
            false => Ok(Part::Value),
        }
    }

    fn line_end(&mut self) -> Part {
        self.lines += 1;
        Part::Start
    }
}
