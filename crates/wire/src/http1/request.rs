//! The head of a request (RFC 9112, sections 2 to 6). Called by the proxy each time bytes of a
//! new request arrive. Never copies: everything but flags is a range of the buffer.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

use super::Framing;
use super::fields::{Field, Fields};
use super::host;
use super::line::{self, EMPTY_LINES_MAX, LINES_MAX, Limits, Line, Parsed, Room, Span, Version};
use super::reject::{Reject, explain_request};
use super::target;

/// The methods that framing, retries or metrics care about; names are case-sensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its own name in RFC 9110 or RFC 5789")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
    Options,
    Connect,
    Trace,
    /// Any other token: see `RequestHead::method_span`.
    #[default]
    Other,
}

impl Method {
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"PATCH" => Self::Patch,
            b"OPTIONS" => Self::Options,
            b"CONNECT" => Self::Connect,
            b"TRACE" => Self::Trace,
            _ => Self::Other,
        }
    }
}

/// What the client spoke with whom a request began, however it came here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// HTTP/1.0 or HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
}

/// The head of a request as ranges of the buffer it was parsed from; reused for the next one.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The header lines in order.
    pub lines: Vec<Line>,
    /// The method.
    pub method: Method,
    /// The method as written.
    pub method_span: Span,
    /// The target as written.
    pub target: Span,
    /// Host and port of an absolute-form target; equal to `host` where both are there.
    pub authority: Option<Span>,
    /// Path and query; the whole target for `*` and for CONNECT. Of an absolute-form target it
    /// can be empty or begin with `?`: a `/` belongs before it.
    pub path: Span,
    /// The value of Host, a host with an optional port, perhaps empty. Always there in HTTP/1.1.
    pub host: Option<Span>,
    /// The version.
    pub version: Version,
    /// How the body ends; never `UntilClose`.
    pub framing: Framing,
    /// Whether the client wants to keep the connection, by version and Connection.
    pub keep_alive: bool,
    /// Whether the client of HTTP/1.1 waits for `100 Continue` before it sends its body.
    pub expect_continue: bool,
    /// Whether the client of HTTP/1.1 asks for another protocol, in Connection and in Upgrade.
    pub upgrade: bool,
    /// What the client spoke with whom the request began.
    pub origin: Origin,
    /// Whether the client of HTTP/2 takes trailers (`te: trailers`, which is no line here).
    pub te_trailers: bool,
    /// The protocol that a client of HTTP/2 (RFC 8441) or of the hop asks for; it stands behind
    /// the blank line, beyond `len`.
    pub protocol: Option<Span>,
    /// What goes on in place of `path`; empty: it does itself. No parser touches it.
    pub path_instead: Vec<u8>,
    /// Bytes of empty lines before the request line.
    pub start: usize,
    /// Bytes from the start of the buffer to the end of the blank line.
    pub len: usize,
}

impl RequestHead {
    /// Parses the head at the beginning of `buf`. Lines for this hop alone are marked as dropped:
    /// Connection and what it lists, Keep-Alive, Proxy-Connection, TE and Upgrade. Of a `Reject`
    /// and of `Partial` nothing in `self` may be used.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Parsed, Reject> {
        let mut room: Room<'_> = [const { MaybeUninit::uninit() }; LINES_MAX];
        match self.parse_into(buf, limits, &mut room[..limits.headers.min(LINES_MAX)]) {
            Err(Reject::TooManyLines) if limits.headers > LINES_MAX => {
                self.parse_into(buf, limits, &mut line::large_room(limits))
            }
            parsed => parsed,
        }
    }

    #[inline]
    fn parse_into<'b>(
        &mut self,
        buf: &'b [u8],
        limits: &Limits,
        room: &mut [MaybeUninit<Header<'b>>],
    ) -> Result<Parsed, Reject> {
        let window = limits.window(buf);
        self.start = match skip_empty_lines(window)? {
            Some(start) => start,
            None => return limits.partial(buf),
        };
        let mut request = Request::new(&mut []);
        match request.parse_with_uninit_headers(&window[self.start..], room) {
            Ok(Status::Complete(len)) => self.len = self.start + len,
            Ok(Status::Partial) => return limits.partial(buf),
            Err(error) => {
                explain_request(&window[self.start..], error)?;
                return limits.partial(buf);
            }
        }
        let fields = self.take_lines(window, request.headers)?;
        self.version = Version::from_minor(request.version);
        self.take_line(
            window,
            request.method.unwrap_or(""),
            request.path.unwrap_or(""),
        );
        self.finish(window, &fields)?;
        Ok(Parsed::Complete)
    }

    /// As `parse`, after it said `Partial` when only `seen` bytes were there: looks at the new
    /// ones first, so that a head that trickles in costs linear time.
    pub fn parse_more(
        &mut self,
        buf: &[u8],
        seen: usize,
        limits: &Limits,
    ) -> Result<Parsed, Reject> {
        match line::worth_parsing(buf, seen) || buf.len() >= limits.head_bytes {
            true => self.parse(buf, limits),
            false => Ok(Parsed::Partial),
        }
    }

    /// The first line with this name, in any case, be it dropped or not.
    pub fn find(&self, buf: &[u8], name: &str) -> Option<&Line> {
        line::find(&self.lines, buf, name)
    }

    /// Lets the Upgrade lines pass to the next hop, which needs a `Connection: upgrade` of ours
    /// beside them.
    pub fn keep_upgrade(&mut self, buf: &[u8]) {
        for line in &mut self.lines {
            line.dropped &= Field::of(line.name.of(buf)) != Some(Field::Upgrade);
        }
    }

    fn take_line(&mut self, window: &[u8], method: &str, path: &str) {
        self.method_span = Span::at(self.start, method.len());
        self.method = Method::of(self.method_span.of(window));
        self.target = Span::at(self.method_span.end as usize + 1, path.len());
    }

    #[inline]
    fn take_lines(
        &mut self,
        window: &[u8],
        headers: &[httparse::Header<'_>],
    ) -> Result<Fields, Reject> {
        let mut fields = Fields::default();
        line::take(&mut self.lines, &mut fields, &window[..self.len], headers)?;
        Ok(fields)
    }

    /// Checks what the lines say about each other and about the request line.
    fn finish(&mut self, window: &[u8], fields: &Fields) -> Result<(), Reject> {
        let target = target::split(window, self.target, self.method)?;
        self.framing = fields.framing(self.version)?.unwrap_or_default();
        if self.method == Method::Connect && self.framing != Framing::None {
            return Err(Reject::ConnectBody);
        }
        self.authority = target.authority;
        self.path = target.path;
        self.host = fields.host;
        self.check_host(window, target.default_port)?;
        self.keep_alive = fields.keep_alive(self.version);
        self.upgrade = fields.upgrade(self.version);
        (self.origin, self.te_trailers, self.protocol) = (Origin::Http1, false, None);
        self.expect_continue = fields.expect_continue
            && self.version == Version::Http11
            && !matches!(self.framing, Framing::None | Framing::Length(0));
        fields.drop_listed(window, &mut self.lines)
    }

    #[inline]
    fn check_host(&self, window: &[u8], default_port: &[u8]) -> Result<(), Reject> {
        let Some(host) = self.host else {
            return match self.version {
                Version::Http10 => Ok(()),
                Version::Http11 => Err(Reject::MissingHost),
            };
        };
        let host = host.of(window);
        if !host::is_host_and_port(host) {
            return Err(Reject::BadHost);
        }
        match self.authority {
            Some(authority) if !host::is_same(authority.of(window), host, default_port) => {
                Err(Reject::HostMismatch)
            }
            _ => Ok(()),
        }
    }
}

/// Where the request line begins; `None` if that cannot be said yet.
#[inline]
fn skip_empty_lines(window: &[u8]) -> Result<Option<usize>, Reject> {
    let mut start = 0;
    loop {
        match &window[start..] {
            [] | [b'\r'] => return Ok(None),
            [b'\r', b'\n', ..] if start == 2 * EMPTY_LINES_MAX => return Err(Reject::EmptyLines),
            [b'\r', b'\n', ..] => start += 2,
            [b'\r', ..] => return Err(Reject::BareCr),
            [b'\n', ..] => return Err(Reject::BareLf),
            [..] => return Ok(Some(start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::runs;

    const LIMITS: Limits = Limits {
        head_bytes: 400,
        headers: 8,
    };

    /// What a head means, as a text: `METHOD path version host framing flags | dropped lines`.
    fn outcome(bytes: &[u8]) -> String {
        let mut head = RequestHead::default();
        match head.parse(bytes, &LIMITS) {
            Ok(Parsed::Complete) => render(&head, bytes),
            Ok(Parsed::Partial) => "partial".to_owned(),
            Err(reject) => format!("{}: {reject}", reject.status()),
        }
    }

    fn render(head: &RequestHead, buf: &[u8]) -> String {
        let text = |span: Span| String::from_utf8_lossy(span.of(buf)).into_owned();
        let mut out = format!(
            "{} {} {:?}",
            text(head.method_span),
            text(head.path),
            head.version
        );
        out += &head
            .authority
            .map_or_else(String::new, |a| format!(" authority={}", text(a)));
        out += &head
            .host
            .map_or_else(String::new, |h| format!(" host={}", text(h)));
        out += &format!(" {:?}", head.framing);
        let flags = [
            (head.keep_alive, " keep"),
            (head.expect_continue, " expect"),
            (head.upgrade, " upgrade"),
        ];
        out.extend(flags.iter().filter(|f| f.0).map(|f| f.1));
        let dropped = head
            .lines
            .iter()
            .filter(|l| l.dropped)
            .map(|l| text(l.name));
        out += &dropped.fold(String::new(), |out, name| out + " -" + &name);
        out
    }

    /// The outcome is the expected one, and no beginning of the bytes says anything else.
    fn check(bytes: &[u8], expected: &str) {
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(outcome(bytes), expected, "{shown:?}");
        for end in 0..bytes.len() {
            let part = outcome(&bytes[..end]);
            assert!(
                part == "partial" || part == expected,
                "{part} at {end} of {shown:?}"
            );
        }
    }

    #[test]
    fn reads_well_formed_requests() {
        let cases: &[(&str, &str)] = &[
            (
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / Http11 host=a None keep",
            ),
            ("GET / HTTP/1.0\r\n\r\n", "GET / Http10 None"),
            (
                "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
                "GET / Http10 None keep -Connection",
            ),
            (
                "\r\n\r\nGET / HTTP/1.1\r\nhOST:\ta \t\r\n\r\nrest",
                "GET / Http11 host=a None keep",
            ),
            (
                "POST /?q HTTP/1.1\r\nHost: a:80\r\nContent-Length: 07\r\n\r\n",
                "POST /?q Http11 host=a:80 Length(7) keep",
            ),
            (
                "PUT / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: CHUNKED\r\n\r\n",
                "PUT / Http11 host= Chunked keep",
            ),
            (
                "M-SEARCH / HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
                "M-SEARCH / Http11 host=[::1]:8 None keep",
            ),
            (
                "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                "OPTIONS * Http11 host=a None -Connection",
            ),
            (
                "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
                "CONNECT a:443 Http11 host=a None keep",
            ),
            (
                "GET http://A:80/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /x?y Http11 authority=A:80 host=a None keep",
            ),
            (
                "GET https://a HTTP/1.1\r\nHost: a:443\r\n\r\n",
                "GET  Http11 authority=a host=a:443 None keep",
            ),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
                "POST / Http11 host=a Length(1) keep expect",
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
                "GET / Http11 host=a None keep",
            ),
            (
                "GET /\u{e9} HTTP/1.1\r\nHost: a\r\nx: \u{e9}\r\n\r\n",
                "GET /\u{e9} Http11 host=a None keep",
            ),
        ];
        cases
            .iter()
            .for_each(|(bytes, expected)| check(bytes.as_bytes(), expected));
    }

    #[test]
    fn drops_what_is_meant_for_this_hop_only() {
        let cases: &[(&str, &str)] = &[
            (
                "Connection: Upgrade\r\nUpgrade: websocket",
                "keep upgrade -Connection -Upgrade",
            ),
            (
                "Connection: close, x-a , ,TE\r\nx-A: 1\r\nte: trailers\r\nx-b: 1",
                "-Connection -x-A -te",
            ),
            (
                "x-a: 1\r\nconnection: x-a\r\nconnection: KEEP-alive\r\nX-A: 2",
                "keep -x-a -connection -connection -X-A",
            ),
            (
                "Keep-Alive: 5\r\nProxy-Connection: close\r\nTE: gzip\r\nTrailer: x",
                "keep -Keep-Alive -Proxy-Connection -TE",
            ),
            ("Upgrade: h2c", "keep -Upgrade"),
            ("Connection: upgrade", "keep -Connection"),
        ];
        for (lines, flags) in cases {
            let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
            check(
                bytes.as_bytes(),
                &format!("GET / Http11 host=a None {flags}"),
            );
        }
    }

    #[test]
    fn refuses_malformed_request_lines() {
        let cases: &[(&[u8], &str)] = &[
            (b"GET  / HTTP/1.1\r\n", "400: malformed request target"),
            (b"GET /\r\n", "400: malformed request target"),
            (b"GET / HTTP/1.1 \r\n", "400: malformed http version"),
            (b"GET / HTTP/1.12\r\n", "400: malformed http version"),
            (b"GET / http/1.1\r\n", "400: malformed http version"),
            (
                b"GET / HTTP/2.0\r\n",
                "505: http version is neither 1.0 nor 1.1",
            ),
            (
                b"GET / HTTP/1.2\r\n",
                "505: http version is neither 1.0 nor 1.1",
            ),
            (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                "505: http/2 preface where http/1 was expected",
            ),
            (b"G@T / HTTP/1.1\r\n", "400: malformed method"),
            (b" GET / HTTP/1.1\r\n", "400: malformed method"),
            (b"\x16\x03\x01", "400: malformed method"),
            (b"GET /\x00 HTTP/1.1\r\n", "400: malformed request target"),
            (b"GET /\x7f HTTP/1.1\r\n", "400: malformed request target"),
            (b"GET /\xff HTTP/1.1\r\n", "400: malformed request target"),
            (b"GET /\tHTTP/1.1\r\n", "400: malformed request target"),
            (
                b"GET / HTTP/1.1\rHost: a\r\n\r\n",
                "400: carriage return without a line feed",
            ),
            (
                b"GET / HTTP/1.1\nHost: a\r\n\r\n",
                "400: line feed without a carriage return",
            ),
            (
                b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
                "400: line feed without a carriage return",
            ),
            (
                b"\rGET / HTTP/1.1\r\n",
                "400: carriage return without a line feed",
            ),
            (
                b"\r\n\r\n\r\n\r\n\r\n",
                "400: empty lines before the message",
            ),
        ];
        cases
            .iter()
            .for_each(|(bytes, expected)| check(bytes, expected));
    }

    #[test]
    fn refuses_targets_that_readers_could_take_differently() {
        for target in [
            "*",
            "a",
            "a/b",
            "/a#b",
            "ftp://a/",
            "http:///x",
            "http://u@a/",
            "http://a:x/",
        ] {
            let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            check(bytes.as_bytes(), "400: malformed request target");
        }
        for target in ["/", "a", "a:", ":1", "http://a/", "a:99999", "a:1/"] {
            let bytes = format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            check(bytes.as_bytes(), "400: malformed request target");
        }
    }

    #[test]
    fn refuses_malformed_lines() {
        let cases: &[(&[u8], &str)] = &[
            (b"x: 1\r\n y", "400: folded header line"),
            (b" x: 1", "400: folded header line"),
            (b"x : 1", "400: space between header name and colon"),
            (b"x\t: 1", "400: space between header name and colon"),
            (b": 1", "400: empty header name"),
            (b"x", "400: malformed header name"),
            (b"x(: 1", "400: malformed header name"),
            (b"x\xe9: 1", "400: malformed header name"),
            (b"x: \x001", "400: nul in a header line"),
            (b"x\x00: 1", "400: nul in a header line"),
            (b"x: 1\x0b", "400: control byte in a header value"),
            (b"x: \x7f", "400: control byte in a header value"),
            (
                b"x: 1\rTransfer-Encoding: chunked",
                "400: carriage return without a line feed",
            ),
            (b"x:\r1", "400: carriage return without a line feed"),
            (b"\rx: 1", "400: carriage return without a line feed"),
            (b"x: 1\ny: 2", "400: line feed without a carriage return"),
            (b"x:\ny: 2", "400: line feed without a carriage return"),
        ];
        for (line, expected) in cases {
            let bytes = [b"GET / HTTP/1.1\r\nHost: a\r\n", *line, b"\r\n\r\n"].concat();
            check(&bytes, expected);
        }
        check(
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            "400: line feed without a carriage return",
        );
        check(
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            "400: line feed without a carriage return",
        );
        check(
            b"GET / HTTP/1.1\n\n",
            "400: line feed without a carriage return",
        );
    }

    #[test]
    fn refuses_ambiguous_framing() {
        let both = "400: both content-length and transfer-encoding";
        let bad = "400: malformed content-length";
        let list = "400: transfer-encoding is not chunked alone";
        let unknown = "501: unknown transfer-encoding";
        let cases: &[(&str, &str)] = &[
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", both),
            ("Transfer-Encoding: chunked\r\nContent-Length: 0", both),
            (
                "Content-Length: 1\r\nContent-Length: 1",
                "400: more than one content-length",
            ),
            ("Content-Length: 1, 1", bad),
            ("Content-Length: +1", bad),
            ("Content-Length: -1", bad),
            ("Content-Length: 1 1", bad),
            ("Content-Length: 0x1", bad),
            ("Content-Length: 1_0", bad),
            ("Content-Length:", bad),
            ("Content-Length: 9223372036854775808", bad),
            ("Content-Length: 99999999999999999999", bad),
            ("Transfer-Encoding: gzip, chunked", list),
            ("Transfer-Encoding: chunked, identity", list),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                list,
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                list,
            ),
            ("Transfer-Encoding: chunked;q=1", list),
            ("Transfer-Encoding: ,chunked", list),
            ("Transfer-Encoding:", list),
            ("Transfer-Encoding: identity", unknown),
            ("Transfer-Encoding: xchunked", unknown),
            ("Transfer-Encoding: \"chunked\"", unknown),
            (
                "Connection: close, Content-Length\r\nContent-Length: 1",
                "400: connection header lists a field it must not",
            ),
            (
                "Connection: transfer-encoding",
                "400: connection header lists a field it must not",
            ),
            (
                "Connection: host",
                "400: connection header lists a field it must not",
            ),
        ];
        for (lines, expected) in cases {
            let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
            check(bytes.as_bytes(), expected);
        }
        let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(old, "400: transfer-encoding in an http/1.0 message");
        let connect = b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
        check(connect, "400: connect request with a body");
    }

    #[test]
    fn refuses_ambiguous_hosts() {
        let cases: &[(&str, &str)] = &[
            ("x: 1", "400: no host header"),
            ("Host: a\r\nHost: a", "400: more than one host header"),
            ("Host: a b", "400: malformed host header"),
            ("Host: a/b", "400: malformed host header"),
            ("Host: u@a", "400: malformed host header"),
            ("Host: a, b", "400: malformed host header"),
        ];
        for (lines, expected) in cases {
            check(
                format!("GET / HTTP/1.1\r\n{lines}\r\n\r\n").as_bytes(),
                expected,
            );
        }
        let other = b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n";
        check(other, "400: host header differs from the request target");
    }

    #[test]
    fn keeps_to_its_limits() {
        let lines = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: 1\r\n".repeat(n));
        check(lines(7).as_bytes(), "GET / Http11 host=a None keep");
        check(
            lines(8).as_bytes(),
            "431: head has more lines than the limit",
        );
        let long = |n: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "y".repeat(n));
        let most = LIMITS.head_bytes - long(0).len();
        check(long(most).as_bytes(), "GET / Http11 host=a None keep");
        check(
            long(most + 1).as_bytes(),
            "431: head is larger than the limit",
        );
        let target = format!("GET /{}", "a".repeat(LIMITS.head_bytes));
        check(target.as_bytes(), "431: head is larger than the limit");
        let names = format!("Connection: {}", "x,".repeat(33));
        let listed = format!("GET / HTTP/1.1\r\nHost: a\r\n{names}\r\n\r\n");
        check(
            listed.as_bytes(),
            "400: connection header lists a field it must not",
        );
    }

    #[test]
    fn a_head_that_trickles_in_is_found_at_its_last_byte() {
        let bytes = b"\r\nGET / HTTP/1.1\r\nHost: a\r\nx: y\r\n\r\n";
        let mut head = RequestHead::default();
        for end in 1..=bytes.len() {
            let parsed = head.parse_more(&bytes[..end], end - 1, &LIMITS).unwrap();
            assert_eq!(parsed == Parsed::Complete, end == bytes.len(), "{end}");
        }
        assert_eq!(head.len, bytes.len());
    }

    #[test]
    fn an_upgrade_passes_when_it_is_kept() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUPGRADE: x\r\n\r\n";
        let mut head = RequestHead::default();
        head.parse(bytes, &LIMITS).unwrap();
        head.keep_upgrade(bytes);
        let written: Vec<u8> = runs(&head.lines, bytes, head.start, head.len)
            .flatten()
            .copied()
            .collect();
        assert_eq!(written, b"GET / HTTP/1.1\r\nHost: a\r\nUPGRADE: x\r\n");
        assert_eq!(head.find(bytes, "upgrade").unwrap().value.of(bytes), b"x");
    }
}
