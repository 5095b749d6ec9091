//! Heads to header blocks: HTTP/1.1 text with ranges becomes fields. Called by the connection for
//! each head that it sends. Never sends what is meant for one hop only, and never decides what a
//! head says.

use super::config::Dialect;
use super::head::reason;
use super::hpack::Encoder;
use crate::http1::{Field, Line, Method, Origin, RequestHead, ResponseHead, Version};

/// Names up to this long are written in lower case in one go; the longest registered one has 36.
const NAME_BYTES: usize = 64;

/// The encoder of a connection, with what it needs beside HPACK.
#[derive(Debug)]
pub(super) struct Encode {
    pub(super) hpack: Encoder,
    dialect: Dialect,
    /// A path with what it lacks, or a long name in lower case.
    scratch: Vec<u8>,
    /// A name in lower case.
    name: [u8; NAME_BYTES],
}

/// A head's text and further lines as text, each with its CR LF.
#[derive(Clone, Copy)]
pub(super) struct Source<'h> {
    pub(super) bytes: &'h [u8],
    pub(super) extra: &'h [u8],
}

impl Encode {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            hpack: Encoder::new(),
            dialect,
            scratch: Vec::new(),
            name: [0; NAME_BYTES],
        }
    }

    /// Appends the block of a request.
    pub(super) fn request(&mut self, head: &RequestHead, source: Source<'_>, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Public => self.public_start(head, source, out),
            Dialect::Hop => self.hop_start(head, source, out),
        }
        if head.te_trailers {
            self.hpack.field(b"te", b"trailers", out);
        }
        let host_too = self.dialect == Dialect::Hop;
        self.kept(&head.lines, source.bytes, host_too, out);
        self.text(source.extra, host_too, out);
    }

    /// Appends the block of a response. A public one says by 200 that the protocol changes
    /// (RFC 8441, section 5).
    pub(super) fn response(&mut self, head: &ResponseHead, source: Source<'_>, out: &mut Vec<u8>) {
        let switches = head.status == 101 && self.dialect == Dialect::Public;
        self.hpack
            .status(if switches { 200 } else { head.status }, out);
        let written = head.reason.of(source.bytes).trim_ascii();
        if self.dialect == Dialect::Hop && written != reason::of(head.status).as_bytes() {
            self.hpack.field(b":reason", written, out);
        }
        if self.dialect == Dialect::Hop && head.status == 101 {
            self.agreed(head, source.bytes, out);
        }
        self.kept(&head.lines, source.bytes, true, out);
        self.text(source.extra, true, out);
    }

    /// Which protocol begins: for the client to know, although its line is for one hop only.
    #[cold]
    fn agreed(&mut self, head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(line) = head.find(bytes, "upgrade") {
            self.hpack.field(b":upgrade", line.value.of(bytes), out);
        }
    }

    /// Appends the block of a response that is not forwarded.
    pub(super) fn status(&mut self, status: u16, lines: &[u8], out: &mut Vec<u8>) {
        self.hpack.status(status, out);
        self.text(lines, true, out);
    }

    /// Appends lines of text, each `name: value` with CR LF; trailers are nothing else.
    pub(super) fn text(&mut self, lines: &[u8], host_too: bool, out: &mut Vec<u8>) {
        for (name, value) in fields(lines) {
            self.line(name, value, host_too, out);
        }
    }

    /// The pseudo-header fields of RFC 9113, section 8.3.1, of CONNECT (section 8.5) and of one
    /// that asks for a protocol (RFC 8441, section 4), which takes the place of any Upgrade.
    fn public_start(&mut self, head: &RequestHead, source: Source<'_>, out: &mut Vec<u8>) {
        let protocol = head.protocol.map(|span| span.of(source.bytes));
        let method = match protocol {
            Some(_) => b"CONNECT",
            None => head.method_span.of(source.bytes),
        };
        self.hpack.field(b":method", method, out);
        if let Some(authority) = authority(head, source) {
            self.hpack.field(b":authority", authority, out);
        }
        if head.method == Method::Connect && protocol.is_none() {
            return;
        }
        self.hpack.field(b":scheme", b"http", out);
        self.path(head, source, out);
        if let Some(protocol) = protocol {
            self.hpack.field(b":protocol", protocol, out);
        }
    }

    fn hop_start(&mut self, head: &RequestHead, source: Source<'_>, out: &mut Vec<u8>) {
        let method = head.method_span.of(source.bytes);
        self.hpack.field(b":method", method, out);
        self.path(head, source, out);
        match (head.version, head.origin) {
            (Version::Http10, _) => self.hpack.field(b":version", b"1.0", out),
            (_, Origin::Http2) => self.hpack.field(b":version", b"2", out),
            (_, Origin::Http1) => {}
        }
        if let Some(protocol) = head.protocol {
            let protocol = protocol.of(source.bytes);
            self.hpack.field(b":upgrade", protocol, out);
        }
    }

    /// The path as an origin takes it: not empty, `*` for OPTIONS of a whole server.
    fn path(&mut self, head: &RequestHead, source: Source<'_>, out: &mut Vec<u8>) {
        let path = match head.path_instead.as_slice() {
            [] => head.path.of(source.bytes),
            instead => instead,
        };
        let path: &[u8] = match path.first() {
            None if head.method == Method::Options => b"*",
            None => b"/",
            Some(b'?') => {
                self.scratch.clear();
                self.scratch.push(b'/');
                self.scratch.extend_from_slice(path);
                &self.scratch
            }
            Some(_) => path,
        };
        self.hpack.field(b":path", path, out);
    }

    #[inline]
    fn kept(&mut self, lines: &[Line], bytes: &[u8], host_too: bool, out: &mut Vec<u8>) {
        for line in lines.iter().filter(|line| !line.dropped) {
            self.line(line.name.of(bytes), line.value.of(bytes), host_too, out);
        }
    }

    /// One line, unless it frames the message in HTTP/1, is for one hop only, or is a host that
    /// has become the authority.
    #[inline]
    fn line(&mut self, name: &[u8], value: &[u8], host_too: bool, out: &mut Vec<u8>) {
        if name.is_empty() {
            return;
        }
        match Field::of(name) {
            None | Some(Field::ContentLength | Field::Expect) => {}
            Some(Field::Host) if host_too => {}
            Some(_) => return,
        }
        let name = match self.dialect {
            Dialect::Hop => name,
            Dialect::Public => lower(name, &mut self.name, &mut self.scratch),
        };
        self.hpack.field(name, value, out);
    }
}

/// `name` in lower case, as HTTP/2 asks for: in `room` if it fits, else in `scratch`.
#[inline]
fn lower<'r>(name: &[u8], room: &'r mut [u8; NAME_BYTES], scratch: &'r mut Vec<u8>) -> &'r [u8] {
    let Some(words) = room.get_mut(..name.len().next_multiple_of(8)) else {
        scratch.clear();
        scratch.extend_from_slice(name);
        scratch.make_ascii_lowercase();
        return scratch;
    };
    words[..name.len()].copy_from_slice(name);
    for word in words.as_chunks_mut().0 {
        *word = lower_word(u64::from_ne_bytes(*word)).to_ne_bytes();
    }
    &room[..name.len()]
}

/// Eight bytes at once: names are so short that a loop over bytes would cost more than the rest.
/// The high bit of a byte of each sum says whether the seven low ones reach a bound.
#[inline]
fn lower_word(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 255;
    let low = word & (EACH * 0x7f);
    let from_a = low + EACH * (0x80 - b'A' as u64);
    let after_z = low + EACH * (0x80 - b'Z' as u64 - 1);
    let is_upper = from_a & !after_z & !word & (EACH * 0x80);
    word | (is_upper >> 2)
}

/// Whom a request is for: the host of the further lines, of the kept ones, of the target.
fn authority<'h>(head: &RequestHead, source: Source<'h>) -> Option<&'h [u8]> {
    let is_host = |name: &[u8]| name.eq_ignore_ascii_case(b"host");
    let extra = fields(source.extra).find(|(name, _)| is_host(name));
    let kept = || {
        let lines = head.lines.iter().filter(|line| !line.dropped);
        let mut hosts = lines.filter(|line| is_host(line.name.of(source.bytes)));
        hosts.next().map(|line| line.value)
    };
    let came = || kept().or(head.authority).map(|span| span.of(source.bytes));
    let host = extra.map(|(_, value)| value).or_else(came);
    host.filter(|host| !host.is_empty())
}

/// Names and values of lines of text.
fn fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|b| *b == b'\n').filter_map(|line| {
        let colon = line.iter().position(|b| *b == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;
    use crate::http1::{Limits, Parsed, Span};

    const LIMITS: Limits = Limits {
        head_bytes: 4096,
        headers: 64,
    };

    #[test]
    fn names_are_written_in_lower_case() {
        let all: Vec<u8> = (0..=255).collect();
        for len in [0, 1, 7, 8, 9, 63, 64, 65, 256] {
            for name in all.windows(len.max(1)).step_by(5) {
                let name = &name[..len];
                let mut room = [0xff; NAME_BYTES];
                let lowered = lower(name, &mut room, &mut Vec::new()).to_vec();
                assert_eq!(lowered, name.to_ascii_lowercase());
            }
        }
    }

    fn fields_of(block: &[u8]) -> String {
        let mut fields = Vec::new();
        let mut visit = |field: super::super::hpack::Field<'_>| {
            let text = |bytes| str::from_utf8(bytes).unwrap().to_owned();
            fields.push(format!("{}={}", text(field.name), text(field.value)));
            0
        };
        Decoder::new(4096).decode(block, &mut visit).unwrap();
        fields.join(" ")
    }

    fn request(dialect: Dialect, text: &str, extra: &str, change: fn(&mut RequestHead)) -> String {
        let (mut head, mut out) = (RequestHead::default(), Vec::new());
        assert_eq!(head.parse(text.as_bytes(), &LIMITS), Ok(Parsed::Complete));
        change(&mut head);
        let source = Source {
            bytes: text.as_bytes(),
            extra: extra.as_bytes(),
        };
        Encode::new(dialect).request(&head, source, &mut out);
        fields_of(&out)
    }

    #[track_caller]
    fn check(text: &str, extra: &str, change: fn(&mut RequestHead), public: &str, hop: &str) {
        assert_eq!(request(Dialect::Public, text, extra, change), public);
        assert_eq!(request(Dialect::Hop, text, extra, change), hop);
    }

    #[test]
    fn requests_lose_what_is_for_one_hop() {
        check(
            "POST /a HTTP/1.1\r\nHost: B\r\nConnection: x-c\r\nX-C: 1\r\nX-D: 1\r\n\
             Transfer-Encoding: chunked\r\nTE: gzip\r\n\r\n",
            "X-E: 1\r\nConnection: close\r\n",
            |_| {},
            ":method=POST :authority=B :scheme=http :path=/a x-d=1 x-e=1",
            ":method=POST :path=/a Host=B X-D=1 X-E=1",
        );
    }

    #[test]
    fn a_host_of_ours_takes_the_place_of_the_clients() {
        check(
            "GET / HTTP/1.1\r\nHost: b\r\n\r\n",
            "Host: c:8\r\n",
            |head| head.lines[0].dropped = true,
            ":method=GET :authority=c:8 :scheme=http :path=/",
            ":method=GET :path=/ Host=c:8",
        );
    }

    #[test]
    fn targets_become_paths() {
        let paths = [
            ("GET http://a?b", "/?b"),
            ("GET http://a", "/"),
            ("OPTIONS http://a", "*"),
            ("OPTIONS *", "*"),
        ];
        for (line, path) in paths {
            let method = line.split(' ').next().unwrap();
            check(
                &format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"),
                "",
                |_| {},
                &format!(":method={method} :authority=a :scheme=http :path={path}"),
                &format!(":method={method} :path={path} Host=a"),
            );
        }
        check(
            "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
            "",
            |_| {},
            ":method=CONNECT :authority=a:80",
            ":method=CONNECT :path=a:80 Host=a:80",
        );
    }

    #[test]
    fn the_hop_says_what_the_client_spoke() {
        check(
            "GET / HTTP/1.0\r\n\r\n",
            "",
            |_| {},
            ":method=GET :scheme=http :path=/",
            ":method=GET :path=/ :version=1.0",
        );
        check(
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "",
            |head| (head.origin, head.te_trailers) = (Origin::Http2, true),
            ":method=GET :authority=a :scheme=http :path=/ te=trailers",
            ":method=GET :path=/ :version=2 te=trailers host=a",
        );
        check(
            "GET /c HTTP/1.1\r\nhost: a\r\n\r\nwebsocket",
            "",
            |head| head.protocol = Some(Span::at(head.len, 9)),
            ":method=CONNECT :authority=a :scheme=http :path=/c :protocol=websocket",
            ":method=GET :path=/c :upgrade=websocket host=a",
        );
    }

    #[track_caller]
    fn check_response(text: &str, public: &str, hop: &str) {
        for (dialect, expected) in [(Dialect::Public, public), (Dialect::Hop, hop)] {
            let (mut head, mut out) = (ResponseHead::default(), Vec::new());
            let parsed = head.parse(text.as_bytes(), &LIMITS, Method::Get);
            assert_eq!(parsed, Ok(Parsed::Complete));
            let source = Source {
                bytes: text.as_bytes(),
                extra: b"",
            };
            Encode::new(dialect).response(&head, source, &mut out);
            assert_eq!(fields_of(&out), expected);
        }
    }

    #[test]
    fn responses_keep_their_reason_on_the_hop() {
        check_response(
            "HTTP/1.1 200 OK\r\nX-A: 1\r\nKeep-Alive: 5\r\n\r\n",
            ":status=200 x-a=1",
            ":status=200 X-A=1",
        );
        check_response(
            "HTTP/1.1 200  Fine \r\n\r\n",
            ":status=200",
            ":status=200 :reason=Fine",
        );
        check_response(
            "HTTP/1.1 404\r\n\r\n",
            ":status=404",
            ":status=404 :reason=",
        );
        check_response(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            ":status=200",
            ":status=101 :upgrade=x",
        );
    }
}
