//! The header by which a load balancer says whose connection it passes on: the PROXY protocol of
//! `HAProxy`, versions 1 and 2. Read at the start of downstream connections and written at that of
//! upstream ones by the proxy. Never believed unless the configuration says so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// How version 1 begins.
const WORD: &[u8] = b"PROXY ";
/// Longest line of version 1 with its end, as the protocol has it.
const LINE_BYTES_MAX: usize = 107;
/// Most that version 2 may say after its first 16 bytes: every extension in use, certificates'
/// names included, is a fraction of that.
const BODY_BYTES_MAX: usize = 4096;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its bytes; what follows is the connection's own.
    pub len: usize,
    /// Where the connection came from and where it went; `None` if the sender speaks for itself
    /// (health checks) or does not know.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}

/// Why a connection has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// It begins with something else.
    Missing,
    /// It begins like one and does not go on like one.
    Malformed,
    /// It is longer than any header that is in use.
    TooLong,
}

/// Reads the header that `bytes`, the first of a connection, begin with; `None` if more of them are
/// needed.
///
/// # Errors
/// When there is none, or none that can be understood.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, Reject> {
    if begins(bytes, SIGNATURE) {
        parse_v2(bytes)
    } else if begins(bytes, WORD) {
        parse_v1(bytes)
    } else {
        Err(Reject::Missing)
    }
}

/// Whether `bytes` begin with `start`, as far as they go.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(a, b)| a == b)
}

fn parse_v1(bytes: &[u8]) -> Result<Option<Header>, Reject> {
    let seen = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = seen.iter().position(|b| *b == b'\r') else {
        let full = seen.len() == LINE_BYTES_MAX;
        return if full { Err(Reject::TooLong) } else { Ok(None) };
    };
    match seen.get(end + 1) {
        Some(b'\n') => {}
        None if seen.len() < LINE_BYTES_MAX => return Ok(None),
        _ => return Err(Reject::Malformed),
    }
    let line = seen.get(WORD.len()..end).ok_or(Reject::Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| Reject::Malformed)?;
    let addresses = if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        None
    } else {
        Some(read_line(line).ok_or(Reject::Malformed)?)
    };
    let len = end + 2;
    Ok(Some(Header { len, addresses }))
}

/// `TCP4 source destination port port`, each apart by one space.
fn read_line(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let mut words = line.split(' ');
    let family = words.next()?;
    let mut ip = || {
        let word = words.next()?;
        match family {
            "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            _ => None,
        }
    };
    let (source, destination) = (ip()?, ip()?);
    let (source_port, destination_port) = (port(words.next()?)?, port(words.next()?)?);
    words.next().is_none().then_some((
        SocketAddr::new(source, source_port),
        SocketAddr::new(destination, destination_port),
    ))
}

fn port(word: &str) -> Option<u16> {
    let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    plain.then(|| word.parse().ok())?
}

/// Bytes of the version 2 header before its addresses.
const FIXED: usize = 16;
/// Commands, in the low half of the 13th byte; version in the high half.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// Families and transports: the 14th byte.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

fn parse_v2(bytes: &[u8]) -> Result<Option<Header>, Reject> {
    let kind = match *bytes.get(SIGNATURE.len()..).unwrap_or_default() {
        [command, ..] if command != LOCAL && command != PROXY => return Err(Reject::Malformed),
        // UNSPEC, UDP and UNIX have no address of ours; the rest was never given a meaning.
        [PROXY, kind, ..] if !matches!(kind >> 4, 0..=3) || kind & 15 > 2 => {
            return Err(Reject::Malformed);
        }
        [LOCAL, _, ..] => 0,
        [PROXY, kind, ..] => kind,
        _ => return Ok(None),
    };
    let Some(&[high, low]) = bytes.get(14..FIXED) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let needed = match kind {
        TCP4 => 12,
        TCP6 => 36,
        _ => 0,
    };
    match length {
        _ if length > BODY_BYTES_MAX => return Err(Reject::TooLong),
        _ if length < needed => return Err(Reject::Malformed),
        _ => {}
    }
    let len = FIXED + length;
    let Some(body) = bytes.get(FIXED..len) else {
        return Ok(None);
    };
    let addresses = match kind {
        TCP4 => Some(addresses(body, |ip: [u8; 4]| ip.into())),
        TCP6 => Some(addresses(body, |ip: [u8; 16]| ip.into())),
        _ => None,
    };
    Ok(Some(Header { len, addresses }))
}

/// Two addresses of `N` bytes, then two ports. Invariant: `body` is that long.
fn addresses<const N: usize>(
    body: &[u8],
    ip: impl Fn([u8; N]) -> IpAddr,
) -> (SocketAddr, SocketAddr) {
    let part = |at: usize| -> [u8; N] { body[at..at + N].try_into().expect("N bytes are N") };
    let port = |at: usize| u16::from_be_bytes([body[2 * N + at], body[2 * N + at + 1]]);
    (
        SocketAddr::new(ip(part(0)), port(0)),
        SocketAddr::new(ip(part(N)), port(2)),
    )
}

/// Both of one family: IPv4 if both are, however they are written.
fn align(source: SocketAddr, destination: SocketAddr) -> (IpAddr, IpAddr) {
    let v6 = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (source @ IpAddr::V4(_), destination @ IpAddr::V4(_)) => (source, destination),
        (source, destination) => (v6(source).into(), v6(destination).into()),
    }
}

/// Adds a header of version 1 to `out`.
pub fn write_v1(source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let (from, to) = align(source, destination);
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from_port, to_port) = (source.port(), destination.port());
    write!(out, "PROXY {family} {from} {to} {from_port} {to_port}\r\n").expect("vectors grow");
}

/// Adds a header of version 2 to `out`.
pub fn write_v2(source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    match align(source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[PROXY, TCP4, 0, 12]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            out.extend_from_slice(&[PROXY, TCP6, 0, 36]);
            for ip in [from, to] {
                let IpAddr::V6(ip) = ip else {
                    unreachable!("both are of one family")
                };
                out.extend_from_slice(&ip.octets());
            }
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// However the bytes arrive, and whatever follows them.
    #[track_caller]
    fn check(bytes: &[u8], expected: Result<Option<Header>, Reject>) {
        for end in 0..bytes.len() {
            let part = parse(&bytes[..end]);
            assert!(part == Ok(None) || part == expected, "{end}: {part:?}");
        }
        assert_eq!(parse(bytes), expected, "{}", bytes.escape_ascii());
        if let Ok(Some(header)) = expected {
            let followed = [bytes, b"\r\nPROXY \0"].concat();
            assert_eq!(parse(&followed), expected, "{}", header.len);
        }
    }

    fn found(len: usize, addresses: Option<(&str, &str)>) -> Result<Option<Header>, Reject> {
        let addresses = addresses.map(|(from, to)| (addr(from), addr(to)));
        Ok(Some(Header { len, addresses }))
    }

    #[test]
    fn lines_of_version_1() {
        let v4 = Some(("192.0.2.1:56324", "10.0.0.1:443"));
        let v6 = Some(("[2001:db8::1]:1", "[::1]:65535"));
        for (line, addresses) in [
            ("PROXY TCP4 192.0.2.1 10.0.0.1 56324 443\r\n", v4),
            ("PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", v6),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff:f anything 1 2\r\n", None),
        ] {
            check(line.as_bytes(), found(line.len(), addresses));
        }
        for line in [
            "PROXY TCP4 192.0.2.1 10.0.0.1 56324 443 \r\n",
            "PROXY TCP4 192.0.2.1  10.0.0.1 56324 443\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 56324\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 +1 443\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 01 443\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 65536 443\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 10.0.0.1 1 2\r\n",
            "PROXY UNKNOWN2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\rX",
            "PROXY \u{e9}\r\n",
            "PROXY \r\n",
        ] {
            check(line.as_bytes(), Err(Reject::Malformed));
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES_MAX));
        check(long.as_bytes(), Err(Reject::TooLong));
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE_BYTES_MAX - 16));
        check(longest.as_bytes(), found(LINE_BYTES_MAX, None));
    }

    fn v2(head: &[u8], length: u16, body: &[u8]) -> Vec<u8> {
        [SIGNATURE, head, &length.to_be_bytes(), body].concat()
    }

    #[test]
    fn headers_of_version_2() {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0, 80, 1, 187];
        let both = Some(("192.0.2.1:80", "10.0.0.1:443"));
        let extended = [&v4[..], &[4, 0, 1, 0]].concat();
        check(&v2(&[0x21, 0x11], 12, &v4), found(28, both));
        check(&v2(&[0x21, 0x11], 16, &extended), found(32, both));
        // LOCAL, UNSPEC, UDP, UNIX: there are addresses, but none to be used.
        for head in [
            [0x20, 0x00],
            [0x20, 0x11],
            [0x20, 0xff],
            [0x21, 0x00],
            [0x21, 0x12],
        ] {
            check(&v2(&head, 12, &v4), found(28, None));
        }
        check(&v2(&[0x20, 0x00], 0, b""), found(16, None));
        for head in [[0x21, 0x41], [0x21, 0x13], [0x22, 0x11], [0x11, 0x11]] {
            check(&v2(&head, 12, &v4), Err(Reject::Malformed));
        }
        check(&v2(&[0x21, 0x11], 11, &v4), Err(Reject::Malformed));
        check(&v2(&[0x21, 0x21], 35, &[0; 35]), Err(Reject::Malformed));
        check(&v2(&[0x21, 0x00], 4097, b""), Err(Reject::TooLong));
    }

    #[test]
    fn other_beginnings_are_no_header() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXX",
            b"proxy",
            b"\r\n\r\nGET",
            b"\x16\x03",
        ] {
            check(bytes, Err(Reject::Missing));
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (from, to, read) in [
            ("192.0.2.1:1", "10.0.0.1:2", ("192.0.2.1:1", "10.0.0.1:2")),
            (
                "[::ffff:192.0.2.1]:1",
                "10.0.0.1:2",
                ("192.0.2.1:1", "10.0.0.1:2"),
            ),
            ("[2001:db8::1]:1", "[::1]:2", ("[2001:db8::1]:1", "[::1]:2")),
            (
                "192.0.2.1:1",
                "[::1]:2",
                ("[::ffff:192.0.2.1]:1", "[::1]:2"),
            ),
        ] {
            for write in [write_v1, write_v2] {
                let mut out = Vec::new();
                write(addr(from), addr(to), &mut out);
                check(&out, found(out.len(), Some(read)));
            }
        }
    }
}
