//! What must hold of the wire codecs for any bytes, one function per fuzz target. Called by the
//! targets and, over the checked-in seeds, by wire's own tests. Each panics where it does not hold.

use wire::client_hello::{self, ClientHello, MESSAGE_BYTES_MAX};
use wire::http1::{
    Body, BodyError, Framing, Limits, Line, Method, Parsed, Reject, RequestHead, ResponseHead,
    Span, chunk_header, runs,
};
use wire::proxy_protocol;
use wire::sniff::{Sniffed, sniff};

/// Messages of the DNS.
pub mod dns;
/// Connections of HTTP/2.
pub mod h2;
/// Header compression of HTTP/2.
pub mod hpack;

/// Bounds that inputs of a few hundred bytes reach, and bounds that they do not.
const LIMITS: [Limits; 2] = [
    Limits {
        head_bytes: 96,
        headers: 4,
    },
    Limits {
        head_bytes: 4096,
        headers: 64,
    },
];

/// Beyond this, only the input as a whole and its two halves are tried: all splits take
/// quadratic time.
const SPLIT_BYTES_MAX: usize = 512;

/// Request heads: spans in bounds, nothing accepted that is not strictly a head, the same verdict
/// however the bytes arrive, and what is written means what was read.
pub fn request_head(data: &[u8]) {
    for limits in LIMITS {
        let mut head = RequestHead::default();
        let verdict = head.parse(data, &limits);
        let mut other = RequestHead::default();
        check_splits(data, verdict, |part, seen| match seen {
            None => other.parse(part, &limits),
            Some(seen) => other.parse_more(part, seen, &limits),
        });
        if verdict != Ok(Parsed::Complete) {
            continue;
        }
        assert!(head.len <= limits.head_bytes && head.lines.len() <= limits.headers);
        check_strict(&data[head.start..head.len]);
        check_lines(data, &head.lines, head.len);
        check_request_line(data, &head);
        check_rewritten_request(data, &head);
        if head.method_span.len() <= 24 {
            assert_eq!(sniff(data), Sniffed::Http1);
        }
    }
}

/// Response heads: as for requests, for each kind of request they may answer.
pub fn response_head(data: &[u8]) {
    for limits in LIMITS {
        for request in [Method::Get, Method::Head, Method::Connect] {
            let mut head = ResponseHead::default();
            let verdict = head.parse(data, &limits, request);
            let mut other = ResponseHead::default();
            check_splits(data, verdict, |part, seen| match seen {
                None => other.parse(part, &limits, request),
                Some(seen) => other.parse_more(part, seen, &limits, request),
            });
            if verdict == Ok(Parsed::Complete) {
                assert!(head.len <= limits.head_bytes && head.lines.len() <= limits.headers);
                check_strict(&data[..head.len]);
                check_lines(data, &head.lines, head.len);
                check_rewritten_response(data, &head, request);
            }
        }
    }
}

/// Bodies: the same verdict, payload and end however the bytes arrive, `advance` and `decode`
/// agree, and an independent reader finds the same in what is accepted.
pub fn body(data: &[u8]) {
    let framings = [
        Framing::None,
        Framing::Length(data.len() as u64 / 2),
        Framing::Length(u64::MAX >> 1),
        Framing::Chunked,
        Framing::UntilClose,
    ];
    for framing in framings {
        let whole = decode(framing, data, data.len());
        for step in [1, 2, 3, 7, 64] {
            assert_eq!(decode(framing, data, step), whole);
            assert_eq!(
                advance(framing, data, step),
                whole.as_ref().map(|w| w.end).map_err(|e| *e)
            );
        }
        if let (Framing::Chunked, Ok(whole)) = (framing, whole) {
            let plain = read_chunked(data).filter(|_| whole.done);
            assert_eq!(plain.is_some(), whole.done);
            if let Some((payload, end)) = plain {
                assert_eq!((payload, end), (whole.payload, whole.end));
            }
        }
    }
    check_encoded(data);
}

/// Sniffing: once it has said what some bytes are, more of them never change it.
pub fn sniffing(data: &[u8]) {
    let verdict = sniff(data);
    for end in 0..data.len().min(SPLIT_BYTES_MAX) {
        let part = sniff(&data[..end]);
        assert!(
            part == Sniffed::NeedMore || part == verdict,
            "{part:?} then {verdict:?}"
        );
    }
}

/// Hellos: names in bounds and what they may be, and the same verdict however the bytes arrive.
pub fn client_hello(data: &[u8]) {
    let mut hello = ClientHello::default();
    let verdict = hello.parse(data);
    if let Some(name) = hello.server_name() {
        assert!(verdict == client_hello::Parsed::Complete && (1..=253).contains(&name.len()));
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    let offered: usize = hello.protocols().map(|name| 1 + name.len()).sum();
    assert!(hello.protocols().all(|name| !name.is_empty()) && offered <= MESSAGE_BYTES_MAX);
    let found = (
        hello.server_name().map(str::to_owned),
        hello.protocols().map(<[u8]>::to_vec).collect::<Vec<_>>(),
    );
    let step = if data.len() <= SPLIT_BYTES_MAX {
        1
    } else {
        data.len() / 2
    };
    for end in (0..=data.len()).step_by(step) {
        let part = hello.parse(&data[..end]);
        assert!(
            part == client_hello::Parsed::NeedMore || part == verdict,
            "{part:?} then {verdict:?}"
        );
        if part == client_hello::Parsed::Complete {
            assert_eq!(hello.server_name(), found.0.as_deref());
            assert!(hello.protocols().eq(found.1.iter().map(Vec::as_slice)));
            assert_eq!(sniff(&data[..end]), Sniffed::Tls);
        }
    }
}

/// PROXY headers: in bounds, the same verdict however the bytes arrive and whatever follows, and
/// what is written of the addresses is read back.
pub fn proxy_header(data: &[u8]) {
    let verdict = proxy_protocol::parse(data);
    for end in 0..data.len().min(SPLIT_BYTES_MAX) {
        let part = proxy_protocol::parse(&data[..end]);
        assert!(
            part == Ok(None) || part == verdict,
            "{part:?} then {verdict:?}"
        );
    }
    let Ok(Some(header)) = verdict else { return };
    assert!(header.len <= data.len());
    assert_eq!(proxy_protocol::parse(&data[..header.len]), verdict);
    assert_eq!(proxy_protocol::parse(&data[..header.len - 1]), Ok(None));
    let Some((from, to)) = header.addresses else {
        return;
    };
    let mut read = [None; 2];
    for (write, read) in [proxy_protocol::write_v1, proxy_protocol::write_v2]
        .iter()
        .zip(&mut read)
    {
        let mut out = Vec::new();
        write(from, to, &mut out);
        let header = proxy_protocol::parse(&out)
            .expect("we wrote it")
            .expect("all of it");
        assert_eq!(header.len, out.len());
        *read = header.addresses;
    }
    assert_eq!(read[0], read[1]);
    let (read_from, read_to) = read[0].expect("we wrote addresses");
    let canonical = |addr: std::net::SocketAddr| (addr.ip().to_canonical(), addr.port());
    assert_eq!(canonical(read_from), canonical(from));
    assert_eq!(canonical(read_to), canonical(to));
}

/// No beginning of `data` says anything but "more" or the verdict on the whole.
fn check_splits(
    data: &[u8],
    verdict: Result<Parsed, Reject>,
    mut parse: impl FnMut(&[u8], Option<usize>) -> Result<Parsed, Reject>,
) {
    let step = if data.len() <= SPLIT_BYTES_MAX {
        1
    } else {
        data.len() / 2
    };
    let mut more = Ok(Parsed::Partial);
    for end in (0..=data.len()).step_by(step) {
        let part = parse(&data[..end], None);
        assert!(
            part == Ok(Parsed::Partial) || part == verdict,
            "{part:?} then {verdict:?}"
        );
        if more == Ok(Parsed::Partial) {
            more = parse(&data[..end], Some(end.saturating_sub(step)));
            let complete = part == Ok(Parsed::Complete);
            assert_eq!(
                more == Ok(Parsed::Complete),
                complete,
                "parse_more: {more:?}, {part:?}"
            );
        }
    }
}

/// A head in the strictest reading: lines that end in CR LF, no other control bytes but tabs, the
/// last line empty and the only one, each but the first a token, a colon and a value.
fn check_strict(head: &[u8]) {
    let text = head
        .strip_suffix(b"\r\n\r\n")
        .expect("a head ends in a blank line");
    let mut lines = text.split(|b| *b == b'\n').enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let line = match lines.peek() {
            Some(_) => line.strip_suffix(b"\r").expect("lines end in CR LF"),
            None => line,
        };
        assert!(!line.is_empty() && !line.iter().any(|b| (*b < 32 && *b != b'\t') || *b == 127));
        let name = line.split(|b| *b == b':').next().expect("one part");
        let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
        assert!(at == 0 || (name.len() < line.len() && !name.is_empty()));
        assert!(at == 0 || name.iter().all(token));
    }
}

/// The spans of lines follow each other without gaps that are not colon, white space or CR LF.
fn check_lines(data: &[u8], lines: &[Line], len: usize) {
    for (at, line) in lines.iter().enumerate() {
        let end = lines
            .get(at + 1)
            .map_or(len - 2, |next| next.name.start as usize);
        let blank = |bytes: &[u8]| bytes.iter().all(|b| matches!(b, b' ' | b'\t'));
        assert_eq!(data[line.name.end as usize], b':');
        assert!(blank(
            &data[line.name.end as usize + 1..line.value.start as usize]
        ));
        assert!(blank(&data[line.value.end as usize..end - 2]) && data[end - 2..end] == *b"\r\n");
        let value = line.value.of(data);
        assert_eq!(value, value.trim_ascii());
    }
}

fn check_request_line(data: &[u8], head: &RequestHead) {
    let line = [
        head.method_span.of(data),
        b" ",
        head.target.of(data),
        b" HTTP/1.",
    ]
    .concat();
    assert!(data[head.start..].starts_with(&line));
    let within = |span: Span| span.start >= head.target.start && span.end <= head.target.end;
    assert!(within(head.path) && head.authority.is_none_or(within));
    let path = head.path.of(data).first();
    let other = head.method == Method::Connect || head.method == Method::Options;
    assert!(head.authority.is_some() || other || path == Some(&b'/'));
    assert!(head.framing != Framing::UntilClose);
}

/// Kept lines as they are compared: name and value.
fn kept<'d>(data: &'d [u8], lines: &[Line]) -> Vec<(&'d [u8], &'d [u8])> {
    let kept = lines.iter().filter(|line| !line.dropped);
    kept.map(|line| (line.name.of(data), line.value.of(data)))
        .collect()
}

fn written(data: &[u8], lines: &[Line], start: usize, len: usize) -> Vec<u8> {
    let mut out = runs(lines, data, start, len).collect::<Vec<_>>().concat();
    out.extend_from_slice(b"\r\n");
    out
}

const WIDE: Limits = Limits {
    head_bytes: 1 << 20,
    headers: 256,
};

fn check_rewritten_request(data: &[u8], head: &RequestHead) {
    let out = written(data, &head.lines, head.start, head.len);
    let mut again = RequestHead::default();
    assert_eq!(again.parse(&out, &WIDE), Ok(Parsed::Complete));
    assert_eq!(again.len, out.len());
    assert_eq!(kept(&out, &again.lines), kept(data, &head.lines));
    assert!(again.lines.iter().all(|line| !line.dropped) && !again.upgrade);
    assert_eq!(again.target.of(&out), head.target.of(data));
    assert_eq!(
        again.host.map(|h| h.of(&out)),
        head.host.map(|h| h.of(data))
    );
    assert_eq!(
        (
            again.method,
            again.version,
            again.framing,
            again.expect_continue
        ),
        (
            head.method,
            head.version,
            head.framing,
            head.expect_continue
        )
    );
    assert_eq!(written(&out, &again.lines, 0, again.len), out);
}

fn check_rewritten_response(data: &[u8], head: &ResponseHead, request: Method) {
    let out = written(data, &head.lines, 0, head.len);
    let mut again = ResponseHead::default();
    assert_eq!(again.parse(&out, &WIDE, request), Ok(Parsed::Complete));
    assert_eq!(again.len, out.len());
    assert_eq!(kept(&out, &again.lines), kept(data, &head.lines));
    assert!(again.lines.iter().all(|line| !line.dropped));
    assert_eq!(again.reason.of(&out), head.reason.of(data));
    assert_eq!(
        (again.status, again.version, again.framing, again.upgrade),
        (head.status, head.version, head.framing, head.upgrade)
    );
}

/// How far a body was read.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    payload: Vec<u8>,
    end: usize,
    done: bool,
}

fn decode(framing: Framing, data: &[u8], step: usize) -> Result<Read, BodyError> {
    let (mut body, mut payload, mut end) = (Body::new(framing), Vec::new(), 0);
    while end < data.len() && !body.is_done() {
        let window = &data[end..data.len().min(end + step)];
        let decoded = body.decode(window)?;
        assert!(decoded.consumed > 0 && decoded.consumed <= window.len());
        payload.extend_from_slice(&window[decoded.payload]);
        end += decoded.consumed;
    }
    assert_eq!(body.payload_bytes(), payload.len() as u64);
    Ok(Read {
        payload,
        end,
        done: body.is_done(),
    })
}

fn advance(framing: Framing, data: &[u8], step: usize) -> Result<usize, BodyError> {
    let (mut body, mut end) = (Body::new(framing), 0);
    while end < data.len() && !body.is_done() {
        let window = &data[end..data.len().min(end + step)];
        let consumed = body.advance(window)?;
        assert!(consumed == window.len() || body.is_done());
        end += consumed;
    }
    Ok(end)
}

/// A reader of chunks that is as simple as can be: its payload and its end.
fn read_chunked(data: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut payload, mut at) = (Vec::new(), 0);
    loop {
        let line = line(data, &mut at)?;
        let digits = line.split(|b| *b == b';').next()?;
        let size = usize::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            while !self::line(data, &mut at)?.is_empty() {}
            return Some((payload, at));
        }
        payload.extend_from_slice(data.get(at..at + size)?);
        at += size;
        if !self::line(data, &mut at)?.is_empty() {
            return None;
        }
    }
}

fn line<'d>(data: &'d [u8], at: &mut usize) -> Option<&'d [u8]> {
    let len = data
        .get(*at..)?
        .windows(2)
        .position(|pair| pair == b"\r\n")?;
    let line = &data[*at..*at + len];
    *at += len + 2;
    Some(line)
}

/// Any payload, cut into chunks, is what comes back.
fn check_encoded(data: &[u8]) {
    let mut encoded = Vec::new();
    for part in data.chunks(1 + data.first().map_or(0, |b| *b as usize)) {
        encoded.extend_from_slice(chunk_header(part.len(), &mut [0; 18]));
        encoded.extend_from_slice(part);
        encoded.extend_from_slice(b"\r\n");
    }
    encoded.extend_from_slice(b"0\r\n\r\n");
    let read = decode(Framing::Chunked, &encoded, encoded.len()).expect("our own chunks");
    assert_eq!(
        (read.payload.as_slice(), read.end, read.done),
        (data, encoded.len(), true)
    );
}
