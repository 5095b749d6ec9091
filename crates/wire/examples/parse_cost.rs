//! Prints what it costs to parse and plan one typical head, in nanoseconds; run under
//! `valgrind --tool=callgrind` with a small count it gives instructions instead (five times the
//! count are run). Usage: `parse_cost [COUNT [CASE]]`. A measurement for tuning, never a test.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Instant;

use wire::http1::{Body, Framing, Limits, Method, RequestHead, ResponseHead, runs};

const LIMITS: Limits = Limits {
    head_bytes: 65536,
    headers: 200,
};

const PLAIN: &[u8] = b"GET /echo?size=1024 HTTP/1.1\r\nHost: fortioserver:8080\r\n\
    User-Agent: fortio.org/fortio-1.63.7\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\
    Content-Type: application/json\r\nX-Request-Id: 5f2b1c9e-7c1d-4a57-8d3e-0f6a2b9c4d11\r\n\r\n";

const BROWSER: &[u8] = b"GET /productpage?u=normal HTTP/1.1\r\nHost: bookinfo.example.com\r\n\
    Connection: keep-alive\r\nCache-Control: max-age=0\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/126.0.0.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;\
    q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\nCookie: session=eyJ1c2VyIjoibm9ybWFsIn0.abcdefg; \
    _ga=GA1.2.123456789.1700000000\r\ntraceparent: \
    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 10:44:00 GMT\r\n\
    Content-Type: text/plain; charset=UTF-8\r\nContent-Length: 1024\r\nServer: fortio\r\n\r\n";

fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(2_000_000, |n| n.parse().expect("a count"));
    let mut head = RequestHead::default();
    for (name, bytes) in [("request, 6 lines", PLAIN), ("request, browser", BROWSER)] {
        report(name, count, || {
            head.parse(black_box(bytes), &LIMITS).expect("a good head");
            plan(&head.lines, bytes, head.len)
        });
    }
    let mut head = ResponseHead::default();
    report("response, 4 lines", count, || {
        head.parse(black_box(ANSWER), &LIMITS, Method::Get)
            .expect("a good head");
        plan(&head.lines, ANSWER, head.len)
    });
    let body = chunks();
    report("body, 16 chunks of 512", count / 8, || {
        Body::new(Framing::Chunked)
            .advance(black_box(&body))
            .expect("a good body")
    });
}

/// What the proxy does with a head that it forwards: the slices of a vectored write.
fn plan(lines: &[wire::http1::Line], buf: &[u8], len: usize) -> usize {
    let mut slices = [IoSlice::new(&[]); 8];
    let mut used = 0;
    for run in runs(lines, buf, 0, len) {
        slices[used] = IoSlice::new(run);
        used += 1;
    }
    black_box(&slices[..used]).len()
}

fn chunks() -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..16 {
        body.extend_from_slice(b"200\r\n");
        body.extend_from_slice(&[b'x'; 512]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    body
}

fn report(name: &str, count: u32, mut work: impl FnMut() -> usize) {
    if std::env::args()
        .nth(2)
        .is_some_and(|case| !name.contains(&case))
    {
        return;
    }
    let best = (0..5)
        .map(|_| time(count, &mut work))
        .fold(f64::MAX, f64::min);
    println!("{name}: {best:.1} ns");
}

fn time(count: u32, work: &mut impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        black_box(work());
    }
    start.elapsed().as_nanos() as f64 / f64::from(count.max(1))
}
