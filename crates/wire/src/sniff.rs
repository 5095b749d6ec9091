//! Tells from the first bytes of a connection which protocol its client speaks.
//! Called once per accepted connection, again with more bytes after `NeedMore`.
//! Never changes its mind: what it says of some bytes holds for all that begin with them.

use crate::http1::token;

/// The HTTP/2 connection preface (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How much of the preface decides: its first line, which no HTTP/1 request can share.
const PREFACE_DECIDES: usize = 16;

/// Longer than any registered method, so that a text protocol is not waited for forever.
const METHOD_BYTES_MAX: usize = 24;

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniffed {
    /// A TLS handshake record of any version.
    Tls,
    /// The beginning of an HTTP/1 request line.
    Http1,
    /// The connection preface of HTTP/2 with prior knowledge.
    Http2Preface,
    /// Something else.
    Unknown,
    /// Too few bytes to say; at most as many as a method, a space and `https://`.
    NeedMore,
}

/// Says what `bytes`, the first of a connection, are.
pub fn sniff(bytes: &[u8]) -> Sniffed {
    match bytes.first() {
        None => Sniffed::NeedMore,
        Some(0x16) => tls(bytes),
        Some(_) => match common_prefix(bytes, PREFACE) {
            n if n >= PREFACE_DECIDES => Sniffed::Http2Preface,
            n if n == bytes.len() => Sniffed::NeedMore,
            _ => http1(skip_empty_lines(bytes)),
        },
    }
}

fn tls(bytes: &[u8]) -> Sniffed {
    match bytes {
        [_] | [_, 3] => Sniffed::NeedMore,
        [_, 3, 0..=4, ..] => Sniffed::Tls,
        _ => Sniffed::Unknown,
    }
}

/// A method, a space, and the beginning of one of the four forms of a target.
fn http1(bytes: &[u8]) -> Sniffed {
    if matches!(bytes, [] | b"\r") {
        return Sniffed::NeedMore;
    }
    let method = bytes.iter().take_while(|b| token(**b)).count();
    if method == bytes.len() && method <= METHOD_BYTES_MAX {
        return Sniffed::NeedMore;
    }
    if method == 0 || method > METHOD_BYTES_MAX || bytes[method] != b' ' {
        return Sniffed::Unknown;
    }
    target(&bytes[..method], &bytes[method + 1..])
}

fn target(method: &[u8], target: &[u8]) -> Sniffed {
    match target.first() {
        None => Sniffed::NeedMore,
        Some(b'/' | b'*') => Sniffed::Http1,
        Some(_) if method == b"CONNECT" => Sniffed::Http1,
        Some(_) => scheme(target),
    }
}

fn scheme(target: &[u8]) -> Sniffed {
    let fits = |scheme: &[u8]| {
        let n = target.len().min(scheme.len());
        target[..n]
            .eq_ignore_ascii_case(&scheme[..n])
            .then_some(n == scheme.len())
    };
    match (fits(b"http://"), fits(b"https://")) {
        (Some(true), _) | (_, Some(true)) => Sniffed::Http1,
        (None, None) => Sniffed::Unknown,
        _ => Sniffed::NeedMore,
    }
}

/// Skips the empty lines that may precede a request (RFC 9112, section 2.2).
fn skip_empty_lines(mut bytes: &[u8]) -> &[u8] {
    for _ in 0..crate::http1::EMPTY_LINES_MAX {
        bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    }
    bytes
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Sniffed) {
        assert_eq!(sniff(bytes), expected, "{}", bytes.escape_ascii());
        for end in 0..bytes.len() {
            let part = sniff(&bytes[..end]);
            assert!(
                part == Sniffed::NeedMore || part == expected,
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn tells_protocols_apart() {
        let cases: &[(&[u8], Sniffed)] = &[
            (b"\x16\x03\x01\x02\x00\x01", Sniffed::Tls),
            (b"\x16\x03\x05", Sniffed::Unknown),
            (b"\x16\x02", Sniffed::Unknown),
            (b"GET / HTTP/1.1\r\n", Sniffed::Http1),
            (b"\r\n\r\nGET /", Sniffed::Http1),
            (b"OPTIONS *", Sniffed::Http1),
            (b"CONNECT a:1", Sniffed::Http1),
            (b"GET HTTPS://a", Sniffed::Http1),
            (b"GET http:/", Sniffed::NeedMore),
            (b"GET key\r\n", Sniffed::Unknown),
            (b"EHLO me", Sniffed::Unknown),
            (b"*1\r\n$4\r\nPING\r\n", Sniffed::Unknown),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Sniffed::Http2Preface),
            (b"PRI * HTTP/1.1\r\n", Sniffed::Http1),
            (b"AAAAAAAAAAAAAAAAAAAAAAAAA", Sniffed::Unknown),
            (b"\x00\x00\x00", Sniffed::Unknown),
        ];
        cases
            .iter()
            .for_each(|(bytes, expected)| check(bytes, *expected));
    }
}
