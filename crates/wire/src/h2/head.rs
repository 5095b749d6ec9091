//! Heads: the fields of a header block become HTTP/1.1 text with ranges, as if HTTP/1 had read it.
//! Called by the connection for each field that HPACK decodes. Never accepts what the HTTP/1 parser
//! would refuse, and never stops the decoder.

mod class;
pub(super) mod reason;
mod request;
mod response;

use class::Class;

use super::config::{Dialect, Limits};
use super::hpack::{self, Mark};
use crate::http1::{Field, Fields, Line, Span, is_forbidden, is_same};

/// What a header block turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A message's head, or trailers.
    Complete,
    /// Not one (RFC 9113, section 8.1.1).
    Malformed,
    /// Larger than the limits; nothing else is known.
    TooLarge,
}

/// What a header block is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
    Trailers,
    /// Nobody wants it; it is decoded to keep the tables in step.
    Nothing,
}

/// What a field counts beyond its name and value: the colon, the blank and the line's end that it
/// has as text. What HTTP/1 takes fits here as well; RFC 9113, section 6.5.2, would have a peer
/// count 32, and so send less.
const FIELD_OVERHEAD: usize = 4;

/// The head that is being read, and the last one until it is taken.
#[derive(Debug)]
pub(super) struct Draft {
    dialect: Dialect,
    head_bytes_max: usize,
    headers_max: usize,
    kind: Kind,
    verdict: Verdict,
    pub(super) text: Vec<u8>,
    lines: Vec<Line>,
    fields: Fields,
    /// Values of pseudo-header fields, which come before the first line can be written.
    pseudo: Vec<u8>,
    /// Where in `pseudo` they are, by class.
    places: [Option<Span>; 16],
    /// The start line was written, so no pseudo-header field may follow.
    started: bool,
    /// A host line came, other than the one made from the authority.
    host_came: bool,
    te_trailers: bool,
    /// Place of the first cookie line among the lines.
    cookie: Option<usize>,
    /// The values of further ones, with `; ` between them all.
    crumbs: Vec<u8>,
    size: usize,
    count: usize,
}

impl Draft {
    pub(super) fn new(dialect: Dialect, limits: &Limits) -> Self {
        Self {
            dialect,
            head_bytes_max: limits.head_bytes,
            headers_max: limits.headers,
            kind: Kind::Nothing,
            verdict: Verdict::Complete,
            text: Vec::new(),
            lines: Vec::new(),
            fields: Fields::default(),
            pseudo: Vec::new(),
            places: [None; 16],
            started: false,
            host_came: false,
            te_trailers: false,
            cookie: None,
            crumbs: Vec::new(),
            size: 0,
            count: 0,
        }
    }

    /// Begins another head.
    pub(super) fn begin(&mut self, kind: Kind) {
        self.kind = kind;
        self.verdict = Verdict::Complete;
        self.text.clear();
        self.lines.clear();
        self.pseudo.clear();
        self.crumbs.clear();
        self.places = [None; 16];
        self.fields = Fields::default();
        (self.started, self.host_came, self.te_trailers) = (false, false, false);
        (self.cookie, self.size, self.count) = (None, 0, 0);
    }

    /// Takes the next field.
    #[inline]
    pub(super) fn visit(&mut self, field: &hpack::Field<'_>) -> Mark {
        let class = match field.mark {
            Some(mark) => Class::of_mark(mark),
            None => Class::of(field.name, field.value, self.dialect),
        };
        self.size += field.name.len() + field.value.len() + FIELD_OVERHEAD;
        self.count += usize::from(!class.is_pseudo());
        if self.size > self.head_bytes_max || self.count > self.headers_max {
            self.verdict = Verdict::TooLarge;
        } else if self.verdict == Verdict::Complete {
            self.take(class, field.name, field.value);
        }
        class.mark()
    }

    #[inline]
    fn take(&mut self, class: Class, name: &[u8], value: &[u8]) {
        if class.is_pseudo() {
            return self.take_pseudo(class, value);
        }
        if !self.started {
            self.start();
        }
        match (class, self.kind) {
            (Class::Malformed, _) => self.verdict = Verdict::Malformed,
            (_, Kind::Nothing) => {}
            (_, Kind::Trailers) if is_forbidden(name) => {}
            (Class::Plain, _) | (_, Kind::Trailers) => self.push(name, value),
            (Class::Te, _) => self.te_trailers = true,
            // Between two sidecars lines stay as they were written.
            (Class::Cookie, _) if self.dialect == Dialect::Hop => self.push(name, value),
            (Class::Cookie, _) => self.push_cookie(name, value),
            (Class::Host, Kind::Request) => self.take_host(name, value),
            (Class::Host, _) => self.push_as(Field::Host, name, value),
            (Class::ContentLength, _) => self.push_as(Field::ContentLength, name, value),
            (Class::Expect, _) => self.push_as(Field::Expect, name, value),
            _ => self.verdict = Verdict::Malformed,
        }
    }

    fn take_pseudo(&mut self, class: Class, value: &[u8]) {
        let span = Span::at(self.pseudo.len(), value.len());
        self.pseudo.extend_from_slice(value);
        let before = self.places[class as usize].replace(span);
        if self.started || before.is_some() {
            self.verdict = Verdict::Malformed;
        }
    }

    /// The value of a pseudo-header field, if it came.
    #[inline]
    fn value(&self, class: Class) -> Option<&[u8]> {
        self.places[class as usize].map(|span| span.of(&self.pseudo))
    }

    /// Whether there are pseudo-header fields other than these.
    fn has_others(&self, allowed: &[Class]) -> bool {
        let came = self.places.iter().flatten().count();
        let known = |class: &&Class| self.places[**class as usize].is_some();
        came > allowed.iter().filter(known).count()
    }

    /// All pseudo-header fields that there are came: writes the start line.
    fn start(&mut self) {
        self.started = true;
        let fine = match self.kind {
            Kind::Request => self.start_request(),
            Kind::Response => self.start_response(),
            Kind::Trailers => !self.has_others(&[]),
            Kind::Nothing => true,
        };
        if !fine {
            self.verdict = Verdict::Malformed;
        }
    }

    /// Appends a line.
    #[inline]
    fn push(&mut self, name: &[u8], value: &[u8]) {
        let at = self.text.len();
        self.text.reserve(name.len() + value.len() + 4);
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(value);
        self.text.extend_from_slice(b"\r\n");
        self.lines.push(Line {
            name: Span::at(at, name.len()),
            value: Span::at(at + name.len() + 2, value.len()),
            dropped: false,
        });
    }

    /// Appends a line that the codec acts on as HTTP/1 would.
    fn push_as(&mut self, field: Field, name: &[u8], value: &[u8]) {
        self.push(name, value);
        let Some(line) = self.lines.last_mut() else {
            return;
        };
        if self.fields.take(field, value, line).is_err() {
            self.verdict = Verdict::Malformed;
        }
    }

    /// A host line beside an authority must be equal, and is then there already (section 8.3.1).
    fn take_host(&mut self, name: &[u8], value: &[u8]) {
        let twice = std::mem::replace(&mut self.host_came, true);
        let Some(authority) = self.value(Class::Authority) else {
            return self.push_as(Field::Host, name, value);
        };
        let port: &[u8] = match self.value(Class::Scheme) {
            Some(b"https") => b"443",
            _ => b"80",
        };
        if twice || !is_same(authority, value, port) {
            self.verdict = Verdict::Malformed;
        }
    }

    /// The cookies of a message are one line in HTTP/1 (section 8.2.3).
    fn push_cookie(&mut self, name: &[u8], value: &[u8]) {
        let Some(first) = self.cookie else {
            self.cookie = Some(self.lines.len());
            return self.push(name, value);
        };
        if value.is_empty() {
            return;
        }
        if !self.crumbs.is_empty() || !self.lines[first].value.is_empty() {
            self.crumbs.extend_from_slice(b"; ");
        }
        self.crumbs.extend_from_slice(value);
    }

    /// Puts further cookies behind the first one.
    fn join_cookies(&mut self) {
        let Some(at) = self.cookie.filter(|_| !self.crumbs.is_empty()) else {
            return;
        };
        let end = self.lines[at].value.end;
        let by = self.crumbs.len() as u32;
        let place = end as usize;
        self.text.splice(place..place, self.crumbs.iter().copied());
        self.lines[at].value.end += by;
        let behind = self.lines[at + 1..].iter_mut();
        let spans = behind.flat_map(|line| [&mut line.name, &mut line.value]);
        for span in spans.chain(self.fields.host.as_mut()) {
            if span.start >= end {
                (span.start, span.end) = (span.start + by, span.end + by);
            }
        }
    }

    /// The block is over: what every kind of head does before its own end. Says whether it is
    /// still worth anything.
    fn close(&mut self) -> bool {
        if !self.started && self.verdict == Verdict::Complete {
            self.start();
        }
        if self.verdict != Verdict::Complete {
            return false;
        }
        self.join_cookies();
        self.text.extend_from_slice(b"\r\n");
        true
    }

    /// Ends trailers: `text` has their lines.
    pub(super) fn finish_trailers(&mut self) -> Verdict {
        if !self.started && self.verdict == Verdict::Complete {
            self.start();
        }
        self.verdict
    }
}

/// What the tests of all heads share.
#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const LIMITS: Limits = Limits {
        streams: 1,
        head_bytes: 1000,
        headers: 12,
        stream_window: 1,
        connection_window: 1,
    };

    /// A draft that has seen these fields, written `name: value` with ` | ` between them.
    pub(super) fn draft(kind: Kind, dialect: Dialect, fields: &str) -> Draft {
        let mut draft = Draft::new(dialect, &LIMITS);
        // The second time all fields come with the marks of the first time.
        for round in 0..2 {
            draft.begin(kind);
            for field in fields.split(" | ").filter(|field| !field.is_empty()) {
                let colon = field.rfind(": ").unwrap();
                let mut field = hpack::Field {
                    name: &field.as_bytes()[..colon],
                    value: &field.as_bytes()[colon + 2..],
                    mark: None,
                    sensitive: false,
                };
                if round == 1 {
                    let class = Class::of(field.name, field.value, dialect);
                    field.mark = Some(class.mark());
                }
                draft.visit(&field);
            }
        }
        draft
    }

    #[track_caller]
    fn check(fields: &str, expected: Result<&str, Verdict>) {
        let mut draft = draft(Kind::Trailers, Dialect::Public, fields);
        let verdict = draft.finish_trailers();
        let text = str::from_utf8(&draft.text).unwrap().replace("\r\n", ",");
        match expected {
            Ok(expected) => assert_eq!((verdict, text.as_str()), (Verdict::Complete, expected)),
            Err(expected) => assert_eq!(verdict, expected),
        }
    }

    #[test]
    fn trailers_are_lines() {
        check("", Ok(""));
        check("a: 1 | grpc-status: 0", Ok("a: 1,grpc-status: 0,"));
        check(
            "cookie: a | te: trailers | content-length: 5 | b: 2",
            Ok("b: 2,"),
        );
        check("host: a | expect: x", Ok(""));
        check(":status: 200", Err(Verdict::Malformed));
        check("a: 1 | :path: /", Err(Verdict::Malformed));
        check("A: 1", Err(Verdict::Malformed));
        check("connection: close", Err(Verdict::Malformed));
        check(&["a: 1"; 13].join(" | "), Err(Verdict::TooLarge));
    }
}
