//! The few header fields that decide where a message ends, whom it is for and what the
//! connection does next. Called for each line of a head; never looks at any other field.

use super::Framing;
use super::line::{Line, Span, Version};
use super::reject::Reject;

/// How many fields a Connection header may list beside its own options: enough for any honest
/// peer, few enough that looking for each of them among all lines stays cheap.
const LISTED_MAX: usize = 32;

/// Fields that Connection cannot make hop-by-hop: without them the next hop would find another
/// end of the message or another receiver, or not know that the client waits for its word.
const NEVER_LISTED: [&[u8]; 4] = [b"content-length", b"transfer-encoding", b"host", b"expect"];

/// A field that the codec acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    Expect,
    Upgrade,
    /// Keep-Alive, Proxy-Connection, TE: meant for this hop, never for the next.
    HopByHop,
}

impl Field {
    /// Which field the token `name` is, in any case. Its length and first letter settle most.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        match (name.len(), name[0] | 0x20) {
            (2, b't') => is(name, b"te", Self::HopByHop),
            (4, b'h') => is(name, b"host", Self::Host),
            (6, b'e') => is(name, b"expect", Self::Expect),
            (7, b'u') => is(name, b"upgrade", Self::Upgrade),
            (10, b'c') => is(name, b"connection", Self::Connection),
            (10, b'k') => is(name, b"keep-alive", Self::HopByHop),
            (14, b'c') => is(name, b"content-length", Self::ContentLength),
            (16, b'p') => is(name, b"proxy-connection", Self::HopByHop),
            (17, b't') => is(name, b"transfer-encoding", Self::TransferEncoding),
            _ => None,
        }
    }
}

impl Field {
    /// Whether it says where a message ends.
    #[inline]
    pub(super) fn frames(self) -> bool {
        matches!(self, Self::ContentLength | Self::TransferEncoding)
    }

    /// What is wrong with such a field whose line is not as it should be.
    #[cold]
    pub(super) fn malformed(self) -> Reject {
        match self {
            Self::TransferEncoding => Reject::BadEncoding,
            _ => Reject::BadLength,
        }
    }
}

/// `field` if the token `name` is `lower` in any case. In a token no byte but a letter becomes a
/// letter by the bit for lower case, and none but itself a hyphen; so all bytes compare at once.
#[inline]
fn is<const N: usize>(name: &[u8], lower: &[u8; N], field: Field) -> Option<Field> {
    let name: &[u8; N] = name.try_into().ok()?;
    let differ = name
        .iter()
        .zip(lower)
        .fold(0, |differ, (a, b)| differ | ((a | 0x20) ^ b));
    (differ == 0).then_some(field)
}

/// What the fields of one head said.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) host: Option<Span>,
    pub(crate) length: Option<u64>,
    pub(super) chunked: bool,
    pub(crate) expect_continue: bool,
    pub(super) has_upgrade: bool,
    options: Options,
}

impl Fields {
    /// Takes in the line of one field and marks it as dropped if it is for this hop only.
    pub(crate) fn take(
        &mut self,
        field: Field,
        value: &[u8],
        line: &mut Line,
    ) -> Result<(), Reject> {
        line.dropped = matches!(field, Field::HopByHop | Field::Connection | Field::Upgrade);
        match field {
            Field::Host => match self.host.replace(line.value) {
                None => Ok(()),
                Some(_) => Err(Reject::DuplicateHost),
            },
            Field::ContentLength => match self.length.replace(length(value)?) {
                None => Ok(()),
                Some(_) => Err(Reject::DuplicateLength),
            },
            Field::TransferEncoding => self.take_encoding(value),
            Field::Connection => {
                self.options.take(value);
                Ok(())
            }
            Field::Expect => {
                self.expect_continue |= value.eq_ignore_ascii_case(b"100-continue");
                Ok(())
            }
            Field::Upgrade => {
                self.has_upgrade |= !value.is_empty();
                Ok(())
            }
            Field::HopByHop => Ok(()),
        }
    }

    fn take_encoding(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.chunked || value.is_empty() || value.iter().any(|b| b",; \t".contains(b)) {
            return Err(Reject::BadEncoding);
        }
        self.chunked = value.eq_ignore_ascii_case(b"chunked");
        self.chunked.then_some(()).ok_or(Reject::UnknownEncoding)
    }

    /// The framing that was asked for, if any.
    #[inline]
    pub(super) fn framing(&self, version: Version) -> Result<Option<Framing>, Reject> {
        match (self.chunked, self.length) {
            (false, None) => Ok(None),
            (false, Some(length)) => Ok(Some(Framing::Length(length))),
            (true, Some(_)) => Err(Reject::LengthAndEncoding),
            (true, None) if version == Version::Http10 => Err(Reject::EncodingInHttp10),
            (true, None) => Ok(Some(Framing::Chunked)),
        }
    }

    /// Whether the sender keeps the connection open after this message.
    #[inline]
    pub(super) fn keep_alive(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.options.close,
            Version::Http10 => self.options.keep_alive && !self.options.close,
        }
    }

    /// Whether the sender asks for another protocol. HTTP/1.0 cannot (RFC 9110, section 7.8).
    #[inline]
    pub(super) fn upgrade(&self, version: Version) -> bool {
        self.has_upgrade && self.options.upgrade && version == Version::Http11
    }

    /// Marks what Connection lists as dropped.
    #[inline]
    pub(super) fn drop_listed(&self, buf: &[u8], lines: &mut [Line]) -> Result<(), Reject> {
        if self.options.listed {
            drop_listed(buf, lines)
        } else {
            Ok(())
        }
    }
}

/// What the Connection lines said.
#[derive(Debug, Default)]
struct Options {
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    /// There is something else in them: names of fields.
    listed: bool,
}

impl Options {
    fn take(&mut self, value: &[u8]) {
        for option in list(value) {
            match option {
                _ if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
                _ if option.eq_ignore_ascii_case(b"close") => self.close = true,
                _ if option.eq_ignore_ascii_case(b"upgrade") => self.upgrade = true,
                _ => self.listed = true,
            }
        }
    }
}

#[cold]
fn drop_listed(buf: &[u8], lines: &mut [Line]) -> Result<(), Reject> {
    let mut listed = 0;
    for at in 0..lines.len() {
        if Field::of(lines[at].name.of(buf)) != Some(Field::Connection) {
            continue;
        }
        for name in list(lines[at].value.of(buf)) {
            listed += 1;
            if listed > LISTED_MAX || NEVER_LISTED.iter().any(|n| n.eq_ignore_ascii_case(name)) {
                return Err(Reject::BadConnection);
            }
            drop_named(buf, lines, name);
        }
    }
    Ok(())
}

fn drop_named(buf: &[u8], lines: &mut [Line], name: &[u8]) {
    for line in lines {
        line.dropped |= line.name.of(buf).eq_ignore_ascii_case(name);
    }
}

/// The elements of a comma-separated list; empty ones do not count (RFC 9110, section 5.6.1).
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|b| *b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// One decimal number, nothing else. More than `i64::MAX` is refused because some readers keep
/// lengths in a signed number.
fn length(value: &[u8]) -> Result<u64, Reject> {
    let fits = matches!(value.len(), 1..=19) && value.iter().all(u8::is_ascii_digit);
    if !fits {
        return Err(Reject::BadLength);
    }
    match value.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0')) {
        n if n <= i64::MAX as u64 => Ok(n),
        _ => Err(Reject::BadLength),
    }
}
