//! A response's head from its fields (RFC 9113, section 8.3.2, and the hop's reason). Called when
//! the pseudo-header fields are there, and when the block is over.

use super::super::config::Dialect;
use super::{Class, Draft, Verdict, reason};
use crate::http1::{Field, Framing, Line, Method, ResponseHead, Span, Version};

/// What a response may say: in public only the first; the last where a protocol begins.
const RESPONSE: [Class; 3] = [Class::Status, Class::Reason, Class::Upgrade];

/// Length of `HTTP/1.1 200 `.
const STATUS_BYTES: usize = 13;

impl Draft {
    /// Writes the status line; whether the pseudo-header fields are those of a response.
    pub(super) fn start_response(&mut self) -> bool {
        let Some(status) = self.places[Class::Status as usize] else {
            return false;
        };
        let agreed = self.places[Class::Upgrade as usize];
        let is_switch = self.status() == 101;
        if self.has_others(&RESPONSE) || (agreed.is_some() && !is_switch) {
            return false;
        }
        self.text.extend_from_slice(b"HTTP/1.1 ");
        self.text.extend_from_slice(status.of(&self.pseudo));
        self.text.push(b' ');
        let written = self.places[Class::Reason as usize];
        let reason = match written {
            Some(reason) => reason.of(&self.pseudo),
            None => reason::of(self.status()).as_bytes(),
        };
        self.text.extend_from_slice(reason);
        self.text.extend_from_slice(b"\r\n");
        if let Some(agreed) = agreed {
            self.push_agreed(agreed);
        }
        true
    }

    /// The protocol that begins, as the line that HTTP/1 has for it; for one hop only, as there.
    fn push_agreed(&mut self, agreed: Span) {
        const NAME: &[u8] = b"upgrade";
        let at = self.text.len();
        self.text.extend_from_slice(NAME);
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(agreed.of(&self.pseudo));
        self.text.extend_from_slice(b"\r\n");
        self.lines.push(Line {
            name: Span::at(at, NAME.len()),
            value: Span::at(at + NAME.len() + 2, agreed.len()),
            dropped: true,
        });
    }

    /// The status; zero if none came.
    fn status(&self) -> u16 {
        let digits = self.value(Class::Status).unwrap_or_default();
        let digit = |status, digit: &u8| status * 10 + u16::from(digit - b'0');
        digits.iter().fold(0, digit)
    }

    /// The block is over; `end`: nothing follows it. If it is a response to a request with
    /// `method`, which asked for another protocol if `tunnel`, `head` is set.
    pub(in super::super) fn finish_response(
        &mut self,
        end: bool,
        (method, tunnel): (Method, bool),
        head: &mut ResponseHead,
    ) -> Verdict {
        if !self.close() {
            return self.verdict;
        }
        head.status = self.status();
        let lines_start = match self.lines.first() {
            Some(line) => line.name.start as usize,
            None => self.text.len() - 2,
        };
        head.reason = Span::at(STATUS_BYTES, lines_start - 2 - STATUS_BYTES);
        head.version = Version::Http11;
        head.keep_alive = true;
        head.len = self.text.len();
        let switches = head.status == 101;
        head.upgrade = switches || (tunnel && matches!(head.status, 200..=299));
        if matches!(head.status, 100..=199 | 204) || head.upgrade {
            self.drop_length();
        }
        std::mem::swap(&mut head.lines, &mut self.lines);
        let bodiless =
            head.upgrade || method == Method::Head || matches!(head.status, 100..=199 | 204 | 304);
        head.framing = match self.fields.length {
            _ if end || bodiless => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        };
        let is_interim = head.status < 200 && !switches;
        let public_switch = switches && self.dialect == Dialect::Public;
        let cut_short = end && !bodiless && self.fields.length.is_some_and(|length| length > 0);
        match public_switch || (is_interim && end) || cut_short {
            true => Verdict::Malformed,
            false => Verdict::Complete,
        }
    }

    /// A Content-Length of a message that has no body would mislead a careless reader.
    #[cold]
    fn drop_length(&mut self) {
        for line in &mut self.lines {
            let field = Field::of(line.name.of(&self.text));
            line.dropped |= field == Some(Field::ContentLength);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, tests::draft};
    use super::*;

    /// `text framing flags -dropped`, or the verdict.
    fn outcome(dialect: Dialect, fields: &str, end: bool, asked: (Method, bool)) -> String {
        let mut draft = draft(Kind::Response, dialect, fields);
        let mut head = ResponseHead::default();
        let verdict = draft.finish_response(end, asked, &mut head);
        if verdict != Verdict::Complete {
            return format!("{verdict:?}");
        }
        let text = str::from_utf8(&draft.text).unwrap();
        assert_eq!(head.len, text.len());
        let line = format!("HTTP/1.1 {} ", head.status);
        assert!(
            text.strip_prefix(&line)
                .unwrap()
                .as_bytes()
                .starts_with(head.reason.of(text.as_bytes()))
        );
        let upgrade = if head.upgrade { " upgrade" } else { "" };
        let mut out = format!("{} {:?}{upgrade}", text.replace("\r\n", ","), head.framing);
        for line in head.lines.iter().filter(|line| line.dropped) {
            out += &format!(
                " -{}",
                str::from_utf8(line.name.of(text.as_bytes())).unwrap()
            );
        }
        out
    }

    #[track_caller]
    fn check(dialect: Dialect, end: bool, asked: (Method, bool), cases: &[(&str, &str)]) {
        for (fields, expected) in cases {
            assert_eq!(outcome(dialect, fields, end, asked), *expected, "{fields}");
        }
    }

    const GET: (Method, bool) = (Method::Get, false);

    #[test]
    fn responses_become_text() {
        check(
            Dialect::Public,
            false,
            GET,
            &[
                (":status: 200", "HTTP/1.1 200 OK,, Chunked"),
                (
                    ":status: 404 | content-length: 5 | x: 1",
                    "HTTP/1.1 404 Not Found,content-length: 5,x: 1,, Length(5)",
                ),
                (":status: 799", "HTTP/1.1 799 ,, Chunked"),
                (
                    ":status: 304 | content-length: 5",
                    "HTTP/1.1 304 Not Modified,content-length: 5,, None",
                ),
                (
                    ":status: 204 | content-length: 0",
                    "HTTP/1.1 204 No Content,content-length: 0,, None -content-length",
                ),
                (
                    ":status: 103 | link: a",
                    "HTTP/1.1 103 Early Hints,link: a,, None",
                ),
            ],
        );
        check(
            Dialect::Public,
            true,
            GET,
            &[
                (":status: 200", "HTTP/1.1 200 OK,, None"),
                (":status: 200 | content-length: 5", "Malformed"),
                (
                    ":status: 304 | content-length: 5",
                    "HTTP/1.1 304 Not Modified,content-length: 5,, None",
                ),
                (":status: 100", "Malformed"),
            ],
        );
        let length = ":status: 200 | content-length: 5";
        let text = "HTTP/1.1 200 OK,content-length: 5,, None";
        check(
            Dialect::Public,
            true,
            (Method::Head, false),
            &[(length, text)],
        );
    }

    #[test]
    fn tunnels_begin_with_an_answer() {
        let connect = (Method::Connect, true);
        check(
            Dialect::Public,
            false,
            connect,
            &[
                (":status: 200", "HTTP/1.1 200 OK,, None upgrade"),
                (":status: 403", "HTTP/1.1 403 Forbidden,, Chunked"),
                (":status: 101", "Malformed"),
            ],
        );
        check(
            Dialect::Hop,
            false,
            (Method::Get, true),
            &[
                (
                    ":status: 101 | X: 1",
                    "HTTP/1.1 101 Switching Protocols,X: 1,, None upgrade",
                ),
                (
                    ":status: 101 | :upgrade: Chat/1 | X: 1",
                    "HTTP/1.1 101 Switching Protocols,upgrade: Chat/1,X: 1,, None upgrade -upgrade",
                ),
                (":status: 200 | :upgrade: Chat/1", "Malformed"),
            ],
        );
    }

    #[test]
    fn the_hop_keeps_the_reason() {
        check(
            Dialect::Hop,
            false,
            GET,
            &[
                (
                    ":status: 200 | :reason: Fine | A: 1",
                    "HTTP/1.1 200 Fine,A: 1,, Chunked",
                ),
                (":status: 200 | :reason: ", "HTTP/1.1 200 ,, Chunked"),
            ],
        );
    }

    #[test]
    fn malformed_responses_are_refused() {
        let cases = [
            "",
            "x: 1",
            ":status: 20",
            ":status: 200 | :status: 200",
            ":status: 200 | :path: /",
            "x: 1 | :status: 200",
            ":status: 200 | :reason: a",
            ":status: 200 | X: 1",
            ":status: 200 | connection: close",
            ":status: 200 | host: a | host: a",
        ];
        let cases = cases.map(|fields| (fields, "Malformed"));
        check(Dialect::Public, false, GET, &cases);
    }
}
