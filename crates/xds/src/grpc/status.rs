//! How a call ends: a code and a sentence, carried by `grpc-status` and `grpc-message`.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt::{self, Write};

/// Trailers, or headers of an answer that is nothing but its end.
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The end of a call that was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Status {
    /// What kind of end.
    pub code: Code,
    /// For people.
    pub message: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => f.write_str(self.code.label()),
            message => write!(f, "{} ({})", message, self.code.label()),
        }
    }
}

/// The codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are those of gRPC")]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// As it is sent.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code with that number; `Unknown` for others.
    #[must_use]
    pub fn from_number(number: usize) -> Self {
        Self::ALL.get(number).copied().unwrap_or(Self::Unknown)
    }

    /// The word that the documentation of gRPC has for it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl Status {
    /// A status with a sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// The end of a call that succeeded.
    #[must_use]
    pub const fn ok() -> Self {
        let message = String::new();
        Self {
            code: Code::Ok,
            message,
        }
    }

    /// Whether the call succeeded.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.code == Code::Ok
    }

    /// What `headers` say; `None` if there is no status in them.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let number = headers.get(STATUS)?.to_str().ok()?.parse();
        let message = headers.get(MESSAGE).map(HeaderValue::as_bytes);
        Some(Self {
            code: number.map_or(Code::Unknown, Code::from_number),
            message: decode_percents(message.unwrap_or_default()),
        })
    }

    /// Adds the status to `headers`.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(STATUS, HeaderValue::from(u16::from(self.code.number())));
        if !self.message.is_empty() {
            let message = encode_percents(&self.message);
            let message = HeaderValue::try_from(message).expect("visible ASCII");
            headers.insert(MESSAGE, message);
        }
    }
}

fn encode_percents(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string that grows"),
        }
    }
    out
}

/// What is not an escape stays as it is: a message is only for people.
fn decode_percents(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        match after.get(..2).filter(|_| *byte == b'%').and_then(hex) {
            Some(escaped) => {
                out.push(escaped);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0, |value: u8, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | u8::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes_agree() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), number);
            assert_eq!(Code::from_number(number), code);
        }
        assert_eq!(Code::from_number(17), Code::Unknown);
    }

    #[test]
    fn a_status_survives_its_headers() {
        for message in ["", "plain", "100 %", "zwei\nZeilen: ä", "%41"] {
            let status = Status::new(Code::Aborted, message);
            let mut headers = HeaderMap::new();
            status.write(&mut headers);
            assert_eq!(Status::read(&headers), Some(status));
        }
    }

    #[test]
    fn what_peers_get_wrong_is_still_read() {
        for (status, message, expected) in [
            ("5", "a%2", Status::new(Code::NotFound, "a%2")),
            ("5", "a%zz%", Status::new(Code::NotFound, "a%zz%")),
            ("-1", "a%+1", Status::new(Code::Unknown, "a%+1")),
            ("99", "%FF", Status::new(Code::Unknown, "\u{fffd}")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(STATUS, HeaderValue::from_static(status));
            headers.insert(MESSAGE, HeaderValue::from_static(message));
            assert_eq!(Status::read(&headers), Some(expected));
        }
        assert_eq!(Status::read(&HeaderMap::new()), None);
    }
}
