//! A request's head from its fields (RFC 9113, section 8.3.1; RFC 8441; and what the hop has in
//! their place). Called when the pseudo-header fields are there, and when the block is over.

use super::super::config::Dialect;
use super::{Class, Draft, Verdict};
use crate::http1::{Framing, Line, Method, Origin, RequestHead, Span, Version, is_same, split};

/// What a request may say in public, and on the hop.
const PUBLIC: [Class; 5] = [
    Class::Method,
    Class::Scheme,
    Class::Authority,
    Class::Path,
    Class::Protocol,
];
const HOP: [Class; 4] = [Class::Method, Class::Path, Class::Version, Class::Upgrade];

impl Draft {
    /// Writes the request line and, from an authority, the host line; whether the pseudo-header
    /// fields are those of a request.
    pub(super) fn start_request(&mut self) -> bool {
        let fits = match self.dialect {
            Dialect::Public => self.is_public_request() && !self.has_others(&PUBLIC),
            Dialect::Hop => !self.has_others(&HOP),
        };
        let method = self.places[Class::Method as usize];
        let target = self.places[Class::Path as usize].or(self.places[Class::Authority as usize]);
        let (Some(method), Some(target), true) = (method, target, fits) else {
            return false;
        };
        let version: &[u8] = match self.value(Class::Version) {
            Some(b"1.0") => b" HTTP/1.0\r\n",
            _ => b" HTTP/1.1\r\n",
        };
        self.text.extend_from_slice(method.of(&self.pseudo));
        self.text.push(b' ');
        self.text.extend_from_slice(target.of(&self.pseudo));
        self.text.extend_from_slice(version);
        self.push_authority();
        true
    }

    /// Which pseudo-header fields there must be (section 8.3.1), and for CONNECT must not
    /// (section 8.5; RFC 8441, section 4).
    fn is_public_request(&self) -> bool {
        let came = |class: Class| self.places[class as usize].is_some();
        let is_connect = self.value(Class::Method) == Some(b"CONNECT");
        let is_plain = is_connect && !came(Class::Protocol);
        match is_plain {
            true => came(Class::Authority) && !came(Class::Path) && !came(Class::Scheme),
            false => {
                came(Class::Path)
                    && came(Class::Scheme)
                    && (is_connect && came(Class::Authority) || !came(Class::Protocol))
            }
        }
    }

    fn push_authority(&mut self) {
        let Some(span) = self.places[Class::Authority as usize] else {
            return;
        };
        let at = self.text.len();
        self.text.extend_from_slice(b"host: ");
        self.text.extend_from_slice(span.of(&self.pseudo));
        self.text.extend_from_slice(b"\r\n");
        let value = Span::at(at + 6, span.len());
        self.fields.host = Some(value);
        self.lines.push(Line {
            name: Span::at(at, 4),
            value,
            dropped: false,
        });
    }

    /// The block is over; `end`: nothing follows it. If it is a request, `head` is set.
    pub(in super::super) fn finish_request(
        &mut self,
        end: bool,
        head: &mut RequestHead,
    ) -> Verdict {
        if !self.close() {
            return self.verdict;
        }
        head.len = self.text.len();
        self.take_start(head);
        let fits = self.take_target(head) && self.take_host_of(head) && self.frame(end, head);
        std::mem::swap(&mut head.lines, &mut self.lines);
        match fits {
            true => Verdict::Complete,
            false => Verdict::Malformed,
        }
    }

    fn take_start(&mut self, head: &mut RequestHead) {
        let method = self.places[Class::Method as usize].map_or(0, |span| span.len());
        head.start = 0;
        head.method_span = Span::at(0, method);
        head.method = Method::of(&self.text[..method]);
        let version = self.value(Class::Version);
        head.version = match version {
            Some(b"1.0") => Version::Http10,
            _ => Version::Http11,
        };
        head.origin = match (self.dialect, version) {
            (Dialect::Public, _) | (_, Some(b"2")) => Origin::Http2,
            (Dialect::Hop, _) => Origin::Http1,
        };
        head.te_trailers = self.te_trailers;
        head.keep_alive = true;
        let asked = self.places[Class::Protocol as usize].or(self.places[Class::Upgrade as usize]);
        head.upgrade = asked.is_some();
        head.protocol = asked.map(|span| {
            let at = self.text.len();
            self.text.extend_from_slice(span.of(&self.pseudo));
            Span::at(at, span.len())
        });
    }

    fn take_target(&self, head: &mut RequestHead) -> bool {
        let target = self.places[Class::Path as usize].or(self.places[Class::Authority as usize]);
        let start = head.method_span.len() + 1;
        head.target = Span::at(start, target.map_or(0, |span| span.len()));
        // An extended CONNECT has a path where a plain one has an authority.
        let is_path = self.text.get(start) == Some(&b'/');
        let method = match head.method {
            Method::Connect if head.upgrade && is_path => Method::Other,
            method => method,
        };
        let Ok(target) = split(&self.text, head.target, method) else {
            return false;
        };
        (head.authority, head.path) = (target.authority, target.path);
        let host = self.fields.host.map(|host| host.of(&self.text));
        match (target.authority, host) {
            (Some(authority), Some(host)) => {
                is_same(authority.of(&self.text), host, target.default_port)
            }
            _ => true,
        }
    }

    /// A request has a host, which is not empty in public (section 8.3.1); only a client of
    /// HTTP/1.0 may not know one.
    fn take_host_of(&self, head: &mut RequestHead) -> bool {
        head.host = self.fields.host;
        match head.host {
            None => head.version == Version::Http10,
            Some(host) => self.dialect == Dialect::Hop || !host.is_empty(),
        }
    }

    /// How the body ends. What follows a CONNECT or a request for another protocol is no body.
    fn frame(&self, end: bool, head: &mut RequestHead) -> bool {
        let length = self.fields.length;
        let is_tunnel = head.method == Method::Connect || head.upgrade;
        head.framing = match length {
            _ if end => Framing::None,
            Some(length) => Framing::Length(length),
            None if is_tunnel => Framing::None,
            None => Framing::Chunked,
        };
        head.expect_continue = self.fields.expect_continue
            && head.version == Version::Http11
            && !matches!(head.framing, Framing::None | Framing::Length(0));
        // A body before the other protocol's bytes could not be told from them.
        let tunnel_body = is_tunnel && length.is_some_and(|length| length > 0);
        let connect_body = head.method == Method::Connect && length.is_some();
        let cut_short = end && length.is_some_and(|length| length > 0);
        !connect_body && !tunnel_body && !cut_short
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, tests::draft};
    use super::*;
    use crate::http1::{Limits, Parsed};

    /// `text | meaning`, or the verdict. What HTTP/1 reads in the text is the same.
    fn outcome(dialect: Dialect, fields: &str, end: bool) -> String {
        let mut draft = draft(Kind::Request, dialect, fields);
        let mut head = RequestHead::default();
        match draft.finish_request(end, &mut head) {
            Verdict::Complete => render(&head, &draft.text),
            verdict => format!("{verdict:?}"),
        }
    }

    fn render(head: &RequestHead, text: &[u8]) -> String {
        let shown = |span: Span| String::from_utf8_lossy(span.of(text)).into_owned();
        let whole = shown(Span::at(0, head.len)).replace("\r\n", ",");
        let mut out = format!("{whole} {:?}", head.framing);
        if let Some(host) = head.host {
            out += &format!(" host={}", shown(host));
        }
        if let Some(protocol) = head.protocol {
            out += &format!(" protocol={}", shown(protocol));
        }
        let flags = [
            (head.origin == Origin::Http2, " http2"),
            (head.te_trailers, " te"),
            (head.expect_continue, " expect"),
        ];
        out.extend(flags.iter().filter(|flag| flag.0).map(|flag| flag.1));
        check_as_http1(head, text);
        out
    }

    /// HTTP/1 finds the same lines and the same parts in the text.
    fn check_as_http1(head: &RequestHead, text: &[u8]) {
        if head.method == Method::Connect {
            return;
        }
        let limits = Limits {
            head_bytes: 4096,
            headers: 64,
        };
        let mut again = RequestHead::default();
        assert_eq!(again.parse(text, &limits), Ok(Parsed::Complete));
        assert_eq!((&again.lines, again.host), (&head.lines, head.host));
        assert_eq!((again.target, again.path), (head.target, head.path));
        assert_eq!((again.len, again.method), (head.len, head.method));
        assert_eq!(
            (again.version, again.authority),
            (head.version, head.authority)
        );
    }

    #[track_caller]
    fn check(dialect: Dialect, end: bool, cases: &[(&str, &str)]) {
        for (fields, expected) in cases {
            assert_eq!(outcome(dialect, fields, end), *expected, "{fields}");
        }
    }

    /// As `check`, with the pseudo-header fields of `GET /` to `a` before each.
    #[track_caller]
    fn check_lines(end: bool, cases: &[(&str, &str)]) {
        for (lines, expected) in cases {
            let start = ":method: GET | :scheme: https | :path: / | :authority: a | ";
            let fields = format!("{start}{lines}");
            let expected = expected.replace('^', "GET / HTTP/1.1,host: a,");
            assert_eq!(outcome(Dialect::Public, &fields, end), expected, "{lines}");
        }
    }

    #[test]
    fn public_requests_become_text() {
        check_lines(
            true,
            &[
                ("", "^, None host=a http2"),
                ("x: 1 | y: ", "^x: 1,y: ,, None host=a http2"),
                ("host: A:443 | x: 1", "^x: 1,, None host=a http2"),
                ("te: trailers | x: 1", "^x: 1,, None host=a http2 te"),
                (
                    "content-length: 0",
                    "^content-length: 0,, None host=a http2",
                ),
                ("cookie: a | cookie: ", "^cookie: a,, None host=a http2"),
                ("cookie:  | cookie: a", "^cookie: a,, None host=a http2"),
                (
                    "a: 1 | cookie: b | c: 1 | cookie: d | cookie: e | f: 1",
                    "^a: 1,cookie: b; d; e,c: 1,f: 1,, None host=a http2",
                ),
            ],
        );
        check_lines(
            false,
            &[
                ("", "^, Chunked host=a http2"),
                (
                    "content-length: 5",
                    "^content-length: 5,, Length(5) host=a http2",
                ),
                (
                    "expect: 100-continue",
                    "^expect: 100-continue,, Chunked host=a http2 expect",
                ),
            ],
        );
        check(
            Dialect::Public,
            true,
            &[
                (
                    ":path: /x?y | :scheme: http | :method: M | cookie: a | cookie: b | host: h",
                    "M /x?y HTTP/1.1,cookie: a; b,host: h,, None host=h http2",
                ),
                (
                    ":method: OPTIONS | :scheme: http | :path: * | :authority: a",
                    "OPTIONS * HTTP/1.1,host: a,, None host=a http2",
                ),
            ],
        );
    }

    #[test]
    fn connect_asks_for_a_tunnel() {
        let extended = ":method: CONNECT | :protocol: websocket | :scheme: http | :path: /c | ";
        let extended = format!("{extended}:authority: a | x: 1");
        check(
            Dialect::Public,
            false,
            &[
                (
                    ":method: CONNECT | :authority: a:80",
                    "CONNECT a:80 HTTP/1.1,host: a:80,, None host=a:80 http2",
                ),
                (
                    &extended,
                    "CONNECT /c HTTP/1.1,host: a,x: 1,, None host=a protocol=websocket http2",
                ),
                (":method: CONNECT | :authority: a", "Malformed"),
                (
                    ":method: CONNECT | :authority: a:80 | :path: /",
                    "Malformed",
                ),
                (
                    ":method: CONNECT | :authority: a:80 | :scheme: http",
                    "Malformed",
                ),
                (":method: CONNECT | host: a:80", "Malformed"),
                (
                    ":method: CONNECT | :authority: a:80 | content-length: 5",
                    "Malformed",
                ),
                (
                    ":method: GET | :protocol: x | :scheme: http | :path: / | :authority: a",
                    "Malformed",
                ),
            ],
        );
    }

    #[test]
    fn malformed_public_requests_are_refused() {
        check_lines(
            true,
            &[
                ("host: b", "Malformed"),
                ("host: a | host: a", "Malformed"),
                ("x: 1 | :path: /", "Malformed"),
                (":path: /", "Malformed"),
                (":status: 200", "Malformed"),
                (":version: 2", "Malformed"),
                ("content-length: 5", "Malformed"),
                ("content-length: 0 | content-length: 0", "Malformed"),
                ("content-length: x", "Malformed"),
                ("te: gzip", "Malformed"),
                ("transfer-encoding: chunked", "Malformed"),
                ("X: 1", "Malformed"),
            ],
        );
        check(
            Dialect::Public,
            true,
            &[
                ("", "Malformed"),
                (":method: GET | :path: / | :authority: a", "Malformed"),
                (":method: GET | :scheme: http | :authority: a", "Malformed"),
                (":scheme: http | :path: / | :authority: a", "Malformed"),
                (":method: GET | :scheme: http | :path: /", "Malformed"),
                (
                    ":method: GET | :scheme: http | :path: / | host: ",
                    "Malformed",
                ),
                (
                    ":method: GET | :scheme: http | :path: * | :authority: a",
                    "Malformed",
                ),
            ],
        );
    }

    #[test]
    fn the_hop_keeps_what_was_written() {
        check(
            Dialect::Hop,
            true,
            &[
                (
                    ":method: GET | :path: / | X-A: 1 | Host: B | x: 2",
                    "GET / HTTP/1.1,X-A: 1,Host: B,x: 2,, None host=B",
                ),
                (
                    ":method: GET | :path: / | :version: 2 | host: a",
                    "GET / HTTP/1.1,host: a,, None host=a http2",
                ),
                (
                    ":method: GET | :path: / | :version: 1.0 | x: 1",
                    "GET / HTTP/1.0,x: 1,, None",
                ),
                (
                    ":method: GET | :path: / | Host: ",
                    "GET / HTTP/1.1,Host: ,, None host=",
                ),
                (
                    ":method: GET | :path: http://a/b | host: a",
                    "GET http://a/b HTTP/1.1,host: a,, None host=a",
                ),
                (":method: GET | :path: http://a/b | host: c", "Malformed"),
                (":method: GET | :path: /", "Malformed"),
                (
                    ":method: GET | :path: / | :authority: a | host: a",
                    "Malformed",
                ),
                (
                    ":method: GET | :scheme: http | :path: / | host: a",
                    "Malformed",
                ),
                (":method: GET | :path: a | host: a", "Malformed"),
            ],
        );
        check(
            Dialect::Hop,
            false,
            &[
                (
                    ":method: GET | :path: / | Cookie: a | Host: b | cookie: c",
                    "GET / HTTP/1.1,Cookie: a,Host: b,cookie: c,, Chunked host=b",
                ),
                (
                    ":method: GET | :path: /c | :upgrade: websocket | Host: a",
                    "GET /c HTTP/1.1,Host: a,, None host=a protocol=websocket",
                ),
                (
                    ":method: CONNECT | :path: /c | :version: 2 | :upgrade: websocket | host: a",
                    "CONNECT /c HTTP/1.1,host: a,, None host=a protocol=websocket http2",
                ),
                (
                    ":method: CONNECT | :path: a:80 | host: a",
                    "CONNECT a:80 HTTP/1.1,host: a,, None host=a",
                ),
                // Behind a body the other protocol's bytes could not be told from it.
                (
                    ":method: GET | :path: /c | :upgrade: websocket | host: a | content-length: 5",
                    "Malformed",
                ),
                (
                    ":method: POST | :path: /c | :upgrade: foo | host: a | content-length: 5",
                    "Malformed",
                ),
            ],
        );
    }

    #[test]
    fn a_head_over_the_limits_is_too_large() {
        let many = ["x: 1"; 13].join(" | ");
        check_lines(true, &[(&many, "TooLarge")]);
        let long = format!("x: {}", "y".repeat(1000));
        check_lines(true, &[(&long, "TooLarge")]);
    }
}
