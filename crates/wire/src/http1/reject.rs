//! The ways in which the head of a message can be wrong, one variant each, and how the scanner's
//! coarse errors are told apart. Called on the cold path only; never by a head that is accepted.

use httparse::Error;

use super::line::token;

/// Why a head is refused. The connection it came on must be closed: where the next message
/// begins is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// The head is longer than `Limits::head_bytes`.
    #[error("head is larger than the limit")]
    HeadTooLarge,
    /// The head has more lines than `Limits::headers`.
    #[error("head has more lines than the limit")]
    TooManyLines,
    /// The client speaks HTTP/2 with prior knowledge.
    #[error("http/2 preface where http/1 was expected")]
    Http2Preface,
    /// A version that is well formed and neither 1.0 nor 1.1.
    #[error("http version is neither 1.0 nor 1.1")]
    UnsupportedVersion,
    /// Something else where the version should be.
    #[error("malformed http version")]
    BadVersion,
    /// The method is not a token.
    #[error("malformed method")]
    BadMethod,
    /// The target has a byte or a form that no target has, or does not fit its method.
    #[error("malformed request target")]
    BadTarget,
    /// The status line is malformed.
    #[error("malformed status line")]
    BadStatusLine,
    /// More empty lines before a request than are allowed; any before a response.
    #[error("empty lines before the message")]
    EmptyLines,
    /// A CR that no LF follows.
    #[error("carriage return without a line feed")]
    BareCr,
    /// An LF that follows no CR.
    #[error("line feed without a carriage return")]
    BareLf,
    /// A line that begins with a space or a tab (obs-fold).
    #[error("folded header line")]
    FoldedLine,
    /// A space or a tab between a name and its colon.
    #[error("space between header name and colon")]
    SpaceBeforeColon,
    /// A line that begins with a colon.
    #[error("empty header name")]
    EmptyName,
    /// A name that is not a token, or a line without a colon.
    #[error("malformed header name")]
    BadName,
    /// A NUL in a header line.
    #[error("nul in a header line")]
    Nul,
    /// Another control byte in a value.
    #[error("control byte in a header value")]
    BadValue,
    /// Content-Length beside Transfer-Encoding.
    #[error("both content-length and transfer-encoding")]
    LengthAndEncoding,
    /// A Content-Length that is not one decimal number up to `i64::MAX`.
    #[error("malformed content-length")]
    BadLength,
    /// A second Content-Length, even if it is equal.
    #[error("more than one content-length")]
    DuplicateLength,
    /// A list of transfer codings, an empty one, or a second line of them.
    #[error("transfer-encoding is not chunked alone")]
    BadEncoding,
    /// One transfer coding that is not `chunked`.
    #[error("unknown transfer-encoding")]
    UnknownEncoding,
    /// A transfer coding in a message of HTTP/1.0, which has none.
    #[error("transfer-encoding in an http/1.0 message")]
    EncodingInHttp10,
    /// A CONNECT request that announces a body.
    #[error("connect request with a body")]
    ConnectBody,
    /// No Host in a request of HTTP/1.1.
    #[error("no host header")]
    MissingHost,
    /// A second Host.
    #[error("more than one host header")]
    DuplicateHost,
    /// A Host that is not a host with an optional port.
    #[error("malformed host header")]
    BadHost,
    /// A Host that is not the authority of the target.
    #[error("host header differs from the request target")]
    HostMismatch,
    /// Connection lists a field that frames or routes the message, or too many of them.
    #[error("connection header lists a field it must not")]
    BadConnection,
}

impl Reject {
    /// The status of the answer to a client: 400, 431, 501 or 505.
    pub fn status(&self) -> u16 {
        match self {
            Self::HeadTooLarge | Self::TooManyLines => 431,
            Self::UnknownEncoding => 501,
            Self::Http2Preface | Self::UnsupportedVersion => 505,
            _ => 400,
        }
    }
}

/// Says what the scanner found wrong in a request; nothing if more bytes are needed to say it.
#[cold]
pub(super) fn explain_request(head: &[u8], error: Error) -> Result<(), Reject> {
    let mut parts = head.splitn(3, |b| *b == b' ');
    let method = parts.next().unwrap_or_default();
    let version = parts.nth(1).unwrap_or_default();
    match error {
        Error::Version => explain_version(head, version),
        Error::Token if method.is_empty() || !method.iter().all(|b| token(*b)) => {
            Err(Reject::BadMethod)
        }
        Error::Token => Err(Reject::BadTarget),
        Error::NewLine if !matches!(version.get(8), None | Some(b'\r')) => Err(Reject::BadVersion),
        _ => Err(explain_lines(head, error)),
    }
}

/// Says what the scanner found wrong in a response; nothing if more bytes are needed to say it.
#[cold]
pub(super) fn explain_response(head: &[u8], error: Error) -> Result<(), Reject> {
    match error {
        Error::Version if matches!(head.get(..8), Some(b"HTTP/1.0" | b"HTTP/1.1")) => {
            Err(Reject::BadStatusLine)
        }
        Error::Version => explain_version(head, head),
        Error::Status => Err(Reject::BadStatusLine),
        _ => Err(explain_lines(head, error)),
    }
}

/// Waits until it has seen as much of the version as it takes to call it unsupported.
fn explain_version(head: &[u8], version: &[u8]) -> Result<(), Reject> {
    let fits = version
        .iter()
        .zip(b"HTTP/0.0")
        .all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        });
    match fits {
        true if version.len() < 8 => Ok(()),
        true if head.starts_with(b"PRI * HTTP/2.0") => Err(Reject::Http2Preface),
        true => Err(Reject::UnsupportedVersion),
        false => Err(Reject::BadVersion),
    }
}

fn explain_lines(head: &[u8], error: Error) -> Reject {
    let mut lines = head.split_inclusive(|b| *b == b'\n').skip(1);
    match error {
        Error::TooManyHeaders => Reject::TooManyLines,
        Error::NewLine => Reject::BareCr,
        _ => lines.find_map(explain_line).unwrap_or(Reject::BadName),
    }
}

/// The first thing that is wrong in `line`, which may still lack its end.
fn explain_line(line: &[u8]) -> Option<Reject> {
    let name = line.iter().take_while(|b| token(**b)).count();
    match (name, *line.get(name)?) {
        (_, 0) => Some(Reject::Nul),
        (0, b' ' | b'\t') => Some(Reject::FoldedLine),
        (0, b':') => Some(Reject::EmptyName),
        (0, b'\r' | b'\n') => None,
        (_, b':') => explain_value(&line[name + 1..]),
        (_, b' ' | b'\t') => Some(Reject::SpaceBeforeColon),
        _ => Some(Reject::BadName),
    }
}

fn explain_value(value: &[u8]) -> Option<Reject> {
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    value.iter().find_map(|byte| match byte {
        0 => Some(Reject::Nul),
        b'\r' => Some(Reject::BareCr),
        b'\t' => None,
        1..0x20 | 0x7f => Some(Reject::BadValue),
        _ => None,
    })
}
