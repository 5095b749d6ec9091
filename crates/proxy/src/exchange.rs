//! What a worker keeps for one request while it lasts: both heads as ranges, and the lines that we
//! add. Reused, so that a request allocates nothing. Filled by `http1`, `headers` and `filter`.

use std::io::IoSlice;
use wire::http1::{Line, Method, RequestHead, ResponseHead, Version, runs};

/// Slices of one vectored write; more runs than this are rare and are copied together.
const SLICES: usize = 12;

/// The storage of one request.
pub(crate) struct Exchange {
    pub(crate) request: RequestHead,
    pub(crate) response: ResponseHead,
    /// Lines added to the request's head, each with its CRLF.
    pub(crate) request_extra: Vec<u8>,
    /// Lines added to the answer's head.
    pub(crate) response_extra: Vec<u8>,
    /// The request no longer stands at the front of its inbox: what does is something else.
    pub(crate) gone: bool,
    /// When the request has to be answered in full, in ms of the reactor's clock.
    pub(crate) until_ms: u64,
    /// When a certificate of one of its two connections ends, in ms of the reactor's clock.
    pub(crate) expires_ms: u64,
    /// The request was an extended CONNECT: 200 says what 101 does.
    pub(crate) extended: bool,
    /// Storage for the heads of HTTP/2, lent to the two streams.
    pub(crate) text: Vec<u8>,
    pub(crate) answer_text: Vec<u8>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            request: RequestHead::default(),
            response: ResponseHead::default(),
            request_extra: Vec::new(),
            response_extra: Vec::new(),
            gone: false,
            until_ms: u64::MAX,
            expires_ms: u64::MAX,
            extended: false,
            text: Vec::new(),
            answer_text: Vec::new(),
        }
    }
}

impl Exchange {
    /// Forgets the last request.
    pub(crate) fn clear(&mut self) {
        self.request_extra.clear();
        self.response_extra.clear();
        self.gone = false;
        (self.until_ms, self.expires_ms) = (u64::MAX, u64::MAX);
        self.extended = false;
        self.request.protocol = None;
        self.request.path_instead.clear();
        // An answer of our own asks for it even where no head could be read.
        self.request.method = Method::default();
    }

    /// Whether the request calls a gRPC method.
    pub(crate) fn is_grpc(&self, bytes: &[u8]) -> bool {
        const TYPE: &[u8] = b"application/grpc";
        let of = |line: &Line| line.value.of(bytes).starts_with(TYPE);
        self.request.find(bytes, "content-type").is_some_and(of)
    }

    /// Whether the request goes on with a line called `name`.
    pub(crate) fn has_request_line(&self, bytes: &[u8], name: &str) -> bool {
        let fits = |line: &Line| line.name.of(bytes).eq_ignore_ascii_case(name.as_bytes());
        let mut added = self.request_extra.split_inclusive(|byte| *byte == b'\n');
        let mut lines = self.request.lines.iter().filter(|line| !line.dropped);
        lines.any(fits) || added.any(|line| is_called(line, name))
    }

    pub(crate) fn drop_request_line(&mut self, bytes: &[u8], name: &str) {
        drop_line(&mut self.request.lines, bytes, name);
        drop_extra(&mut self.request_extra, name);
    }

    pub(crate) fn drop_response_line(&mut self, bytes: &[u8], name: &str) {
        drop_line(&mut self.response.lines, bytes, name);
        drop_extra(&mut self.response_extra, name);
    }

    /// Calls `write` with the request's head as it goes upstream over HTTP/1, the
    /// `body` bytes that stand behind it in `bytes`, and `payload`.
    pub(crate) fn with_request<T>(
        &self,
        bytes: &[u8],
        body: usize,
        payload: &[u8],
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let head = &self.request;
        let instead = head.path_instead.as_slice();
        let is_http11 =
            head.version == Version::Http11 && head.authority.is_none() && instead.is_empty();
        if is_http11 && is_unchanged(&head.lines, &self.request_extra) {
            return write_two(&bytes[head.start..head.len + body], payload, write);
        }
        let mut slices = Slices::new();
        if is_http11 {
            slices.extend(runs(&head.lines, bytes, head.start, head.len));
        } else {
            // Towards the upstream every request is HTTP/1.1 in origin form.
            slices.push(head.method_span.of(bytes));
            slices.push(b" ");
            if instead.is_empty() {
                if head.authority.is_some() {
                    slices.push(missing_path(head, bytes));
                }
                slices.push(head.path.of(bytes));
            } else {
                slices.push(instead);
            }
            slices.push(b" HTTP/1.1\r\n");
            let first = head
                .lines
                .first()
                .map_or(head.len - 2, |line| line.name.start as usize);
            slices.extend(runs(&head.lines, bytes, first, head.len));
        }
        slices.finish(
            &self.request_extra,
            [&bytes[head.len - 2..head.len + body], payload],
            write,
        )
    }

    /// Calls `write` with the answer's head as it goes downstream over HTTP/1, the
    /// `body` bytes that stand behind it in `bytes`, and `payload`.
    pub(crate) fn with_response<T>(
        &self,
        bytes: &[u8],
        body: usize,
        payload: &[u8],
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let head = &self.response;
        if head.version == Version::Http11 && is_unchanged(&head.lines, &self.response_extra) {
            return write_two(&bytes[..head.len + body], payload, write);
        }
        let mut slices = Slices::new();
        let mut first = 0;
        if head.version == Version::Http10 {
            first = "HTTP/1.0".len();
            slices.push(b"HTTP/1.1");
        }
        slices.extend(runs(&head.lines, bytes, first, head.len));
        slices.finish(
            &self.response_extra,
            [&bytes[head.len - 2..head.len + body], payload],
            write,
        )
    }
}

fn write_two<T>(one: &[u8], other: &[u8], write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
    match other {
        [] => write(&[IoSlice::new(one)]),
        other => write(&[IoSlice::new(one), IoSlice::new(other)]),
    }
}

/// What an absolute-form target without a path lacks in origin form (RFC 9112 §3.2.1, §3.2.4).
fn missing_path(head: &RequestHead, bytes: &[u8]) -> &'static [u8] {
    match head.path.of(bytes) {
        [b'/', ..] => b"",
        [] if head.method == Method::Options => b"*",
        _ => b"/",
    }
}

/// Whether a head goes on as it came: one slice, together with its body.
fn is_unchanged(lines: &[Line], extra: &[u8]) -> bool {
    extra.is_empty() && !lines.iter().any(|line| line.dropped)
}

/// Marks every line called `name` as dropped.
fn drop_line(lines: &mut [Line], bytes: &[u8], name: &str) {
    for line in lines {
        line.dropped |= line.name.of(bytes).eq_ignore_ascii_case(name.as_bytes());
    }
}

/// Takes a line that we added ourselves away again.
fn drop_extra(extra: &mut Vec<u8>, name: &str) {
    if extra.is_empty() {
        return;
    }
    let mut kept = Vec::with_capacity(extra.len());
    for line in extra.split_inclusive(|byte| *byte == b'\n') {
        if !is_called(line, name) {
            kept.extend_from_slice(line);
        }
    }
    *extra = kept;
}

/// Whether a line of ours has this name.
fn is_called(line: &[u8], name: &str) -> bool {
    let end = line.iter().position(|byte| *byte == b':');
    line[..end.unwrap_or(line.len())].eq_ignore_ascii_case(name.as_bytes())
}

/// The slices of one write, on the stack.
struct Slices<'a> {
    parts: [&'a [u8]; SLICES],
    used: usize,
    /// Everything, copied, once the parts do not suffice.
    copied: Vec<u8>,
}

impl<'a> Slices<'a> {
    fn new() -> Self {
        Self {
            parts: [&[]; SLICES],
            used: 0,
            copied: Vec::new(),
        }
    }

    fn extend(&mut self, parts: impl Iterator<Item = &'a [u8]>) {
        parts.for_each(|part| self.push(part));
    }

    fn push(&mut self, part: &'a [u8]) {
        if self.used == SLICES {
            self.parts
                .iter()
                .for_each(|part| self.copied.extend_from_slice(part));
            self.used = 0;
        }
        if self.copied.is_empty() {
            self.parts[self.used] = part;
            self.used += 1;
        } else {
            self.copied.extend_from_slice(part);
        }
    }

    /// The lines we add, then `tail`: the blank line with what of the body stands behind it, and
    /// what of the body stands elsewhere.
    fn finish<T>(
        self,
        extra: &'a [u8],
        tail: [&'a [u8]; 2],
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let mut slices = [IoSlice::new(&[]); SLICES + 4];
        let mut used = 0;
        let copied = (!self.copied.is_empty()).then_some(&*self.copied);
        for part in copied
            .into_iter()
            .chain(self.parts[..self.used].iter().copied())
        {
            slices[used] = IoSlice::new(part);
            used += 1;
        }
        for part in [extra, tail[0], tail[1]] {
            if !part.is_empty() {
                slices[used] = IoSlice::new(part);
                used += 1;
            }
        }
        write(&slices[..used])
    }
}

#[cfg(test)]
mod tests;
