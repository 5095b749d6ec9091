//! The head of a response (RFC 9112, sections 4 to 6). Called by the proxy each time bytes of a
//! new response arrive. Never copies: everything but flags is a range of the buffer.

use std::mem::MaybeUninit;

use httparse::{Header, Response, Status};

use super::Framing;
use super::fields::{Field, Fields};
use super::line::{self, LINES_MAX, Limits, Line, Parsed, Room, Span, Version};
use super::reject::{Reject, explain_response};
use super::request::Method;

/// Length of `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

/// The head of a response as ranges of the buffer it was parsed from; reused for the next one.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The header lines in order.
    pub lines: Vec<Line>,
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase as written, perhaps empty.
    pub reason: Span,
    /// The version.
    pub version: Version,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the connection can carry another message after this one.
    pub keep_alive: bool,
    /// Whether the connection stops being HTTP after this head: 101, or 2xx to a CONNECT.
    pub upgrade: bool,
    /// Bytes from the start of the buffer to the end of the blank line.
    pub len: usize,
}

impl ResponseHead {
    /// Parses the head at the beginning of `buf`, the answer to a `request`. Lines for this hop
    /// alone are marked as dropped, as for requests; so is framing where there can be no body
    /// (1xx, 204, 2xx to a CONNECT). Of a `Reject` and of `Partial` nothing in `self` may be used.
    pub fn parse(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        request: Method,
    ) -> Result<Parsed, Reject> {
        let mut room: Room<'_> = [const { MaybeUninit::uninit() }; LINES_MAX];
        match self.parse_into(
            buf,
            limits,
            request,
            &mut room[..limits.headers.min(LINES_MAX)],
        ) {
            Err(Reject::TooManyLines) if limits.headers > LINES_MAX => {
                self.parse_into(buf, limits, request, &mut line::large_room(limits))
            }
            parsed => parsed,
        }
    }

    #[inline]
    fn parse_into<'b>(
        &mut self,
        buf: &'b [u8],
        limits: &Limits,
        request: Method,
        room: &mut [MaybeUninit<Header<'b>>],
    ) -> Result<Parsed, Reject> {
        let window = limits.window(buf);
        match window.first() {
            None => return limits.partial(buf),
            Some(b'\r' | b'\n') => return Err(Reject::EmptyLines),
            Some(_) => {}
        }
        let mut response = Response::new(&mut []);
        let scanned = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            window,
            room,
        );
        match scanned {
            Ok(Status::Complete(len)) => self.len = len,
            Ok(Status::Partial) => return limits.partial(buf),
            Err(error) => {
                explain_response(window, error)?;
                return limits.partial(buf);
            }
        }
        self.version = Version::from_minor(response.version);
        self.status = response.code.unwrap_or(0);
        let mut fields = Fields::default();
        line::take(
            &mut self.lines,
            &mut fields,
            &window[..self.len],
            response.headers,
        )?;
        self.finish(window, &fields, request)?;
        Ok(Parsed::Complete)
    }

    /// As `parse`, after it said `Partial` when only `seen` bytes were there: looks at the new
    /// ones first, so that a head that trickles in costs linear time.
    pub fn parse_more(
        &mut self,
        buf: &[u8],
        seen: usize,
        limits: &Limits,
        request: Method,
    ) -> Result<Parsed, Reject> {
        match line::worth_parsing(buf, seen) || buf.len() >= limits.head_bytes {
            true => self.parse(buf, limits, request),
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

    fn finish(&mut self, window: &[u8], fields: &Fields, request: Method) -> Result<(), Reject> {
        if self.status < 100 {
            return Err(Reject::BadStatusLine);
        }
        self.reason = self.reason_span();
        let asked = fields.framing(self.version)?;
        let tunnel = request == Method::Connect && matches!(self.status, 200..=299);
        let never_framed = tunnel || matches!(self.status, 100..=199 | 204);
        self.framing = match asked {
            _ if never_framed || self.status == 304 || request == Method::Head => Framing::None,
            Some(framing) => framing,
            None => Framing::UntilClose,
        };
        self.upgrade = tunnel || self.status == 101;
        self.keep_alive = fields.keep_alive(self.version) && self.framing != Framing::UntilClose;
        if never_framed && asked.is_some() {
            self.drop_framing(window);
        }
        fields.drop_listed(window, &mut self.lines)
    }

    /// From after the status and its space to the end of the line.
    fn reason_span(&self) -> Span {
        let next = self
            .lines
            .first()
            .map_or(self.len - 2, |line| line.name.start as usize);
        let end = next - 2;
        let start = (STATUS_BYTES + 1).min(end);
        Span::at(start, end - start)
    }

    /// A Content-Length of a message that has no body would mislead a careless reader.
    #[cold]
    fn drop_framing(&mut self, window: &[u8]) {
        for line in &mut self.lines {
            let field = Field::of(line.name.of(window));
            line.dropped |= matches!(field, Some(Field::ContentLength | Field::TransferEncoding));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        head_bytes: 200,
        headers: 4,
    };

    fn outcome(bytes: &[u8], request: Method) -> String {
        let mut head = ResponseHead::default();
        match head.parse(bytes, &LIMITS, request) {
            Ok(Parsed::Complete) => render(&head, bytes),
            Ok(Parsed::Partial) => "partial".to_owned(),
            Err(reject) => reject.to_string(),
        }
    }

    /// `status version framing flags (reason) | dropped lines`
    fn render(head: &ResponseHead, buf: &[u8]) -> String {
        let text = |span: Span| String::from_utf8_lossy(span.of(buf)).into_owned();
        let mut out = format!("{} {:?} {:?}", head.status, head.version, head.framing);
        let flags = [(head.keep_alive, " keep"), (head.upgrade, " upgrade")];
        out.extend(flags.iter().filter(|f| f.0).map(|f| f.1));
        out += &format!(" ({})", text(head.reason));
        let dropped = head
            .lines
            .iter()
            .filter(|l| l.dropped)
            .map(|l| text(l.name));
        out += &dropped.fold(String::new(), |out, name| out + " -" + &name);
        out
    }

    fn check(bytes: &str, request: Method, expected: &str) {
        assert_eq!(outcome(bytes.as_bytes(), request), expected, "{bytes:?}");
        for end in 0..bytes.len() {
            let part = outcome(&bytes.as_bytes()[..end], request);
            assert!(
                part == "partial" || part == expected,
                "{part} at {end} of {bytes:?}"
            );
        }
    }

    /// As `check`, for a response of HTTP/1.1 with this status line and lines.
    fn check_framing(request: Method, status: &str, lines: &str, expected: &str) {
        check(
            &format!("HTTP/1.1 {status}\r\n{lines}\r\n"),
            request,
            expected,
        );
    }

    #[test]
    fn knows_how_each_body_ends() {
        let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
        let (get, head, close) = (Method::Get, Method::Head, "Connection: close\r\n");
        check_framing(get, "200 OK", length, "200 Http11 Length(5) keep (OK)");
        check_framing(get, "200 OK", chunked, "200 Http11 Chunked keep (OK)");
        check_framing(get, "200 ", "", "200 Http11 UntilClose ()");
        check_framing(get, "200", close, "200 Http11 UntilClose () -Connection");
        check_framing(head, "200 OK", length, "200 Http11 None keep (OK)");
        check_framing(head, "200 OK", "", "200 Http11 None keep (OK)");
        check_framing(get, "304 x y", length, "304 Http11 None keep (x y)");
        check_framing(
            get,
            "200 \u{e9}",
            length,
            "200 Http11 Length(5) keep (\u{e9})",
        );
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n";
        check(old, get, "200 Http10 Length(1) (OK)");
    }

    #[test]
    fn framing_is_dropped_where_there_can_be_no_body() {
        let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
        let upgrade = "Upgrade: a\r\nConnection: Upgrade\r\n";
        let (get, connect) = (Method::Get, Method::Connect);
        check_framing(
            get,
            "204 x",
            length,
            "204 Http11 None keep (x) -Content-Length",
        );
        check_framing(get, "100 x", "", "100 Http11 None keep (x)");
        check_framing(
            get,
            "103 x",
            chunked,
            "103 Http11 None keep (x) -Transfer-Encoding",
        );
        check_framing(
            get,
            "101 x",
            upgrade,
            "101 Http11 None keep upgrade (x) -Upgrade -Connection",
        );
        check_framing(
            connect,
            "200 x",
            length,
            "200 Http11 None keep upgrade (x) -Content-Length",
        );
        check_framing(connect, "403 x", length, "403 Http11 Length(5) keep (x)");
    }

    #[test]
    fn refuses_malformed_responses() {
        let cases: &[(&str, &str)] = &[
            (
                "\r\nHTTP/1.1 200 OK\r\n\r\n",
                "empty lines before the message",
            ),
            ("HTTP/1.1 099 OK\r\n\r\n", "malformed status line"),
            ("HTTP/1.1 20 OK\r\n\r\n", "malformed status line"),
            ("HTTP/1.1  200 OK\r\n\r\n", "malformed status line"),
            ("HTTP/1.1 200OK\r\n\r\n", "malformed status line"),
            ("HTTP/1.1\t200 OK\r\n\r\n", "malformed status line"),
            ("HTTP/1.1 200 \x01\r\n\r\n", "malformed status line"),
            ("HTTP/1.1 200 a\rb\r\n\r\n", "malformed status line"),
            (
                "HTTP/2.0 200 OK\r\n\r\n",
                "http version is neither 1.0 nor 1.1",
            ),
            ("ICY 200 OK\r\n\r\n", "malformed http version"),
            (
                "HTTP/1.1 200 OK\n\r\n",
                "line feed without a carriage return",
            ),
            ("HTTP/1.1 200\n\r\n", "line feed without a carriage return"),
            (
                "HTTP/1.1 200 OK\r\n\n",
                "line feed without a carriage return",
            ),
            (
                "HTTP/1.1 200 OK\r\nx: 1\n\r\n",
                "line feed without a carriage return",
            ),
            (
                "HTTP/1.1 200 OK\r\nx : 1\r\n\r\n",
                "space between header name and colon",
            ),
            (
                "HTTP/1.1 200 OK\r\nx: 1\r\n 2\r\n\r\n",
                "folded header line",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                "more than one content-length",
            ),
            (
                "HTTP/1.1 204 x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "both content-length and transfer-encoding",
            ),
            (
                "HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n",
                "transfer-encoding in an http/1.0 message",
            ),
            (
                "HTTP/1.1 200 x\r\nTransfer-Encoding: identity\r\n\r\n",
                "unknown transfer-encoding",
            ),
            (
                "HTTP/1.1 200 x\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n",
                "head has more lines than the limit",
            ),
        ];
        cases
            .iter()
            .for_each(|(bytes, expected)| check(bytes, Method::Get, expected));
        let long = format!("HTTP/1.1 200 {}", "a".repeat(LIMITS.head_bytes));
        check(&long, Method::Get, "head is larger than the limit");
    }
}
