//! Heads through every pair of protocols: what is kept, what is translated, what is refused.

use crate::world::{HEAD, always_http2, echo1, get, http2, http2_with, played, post};
use crate::world::{scripted1, values};
use testkit::Step;
use testkit::h2::{Frame, Request, flag, kind};

#[test]
fn head_passes_from_http2_to_http2() {
    let world = http2();
    let request = Request::new("PATCH", "/status/201?a=b&c")
        .with("x-one", "1")
        .with("cookie", "a=1")
        .with("cookie", "b=2")
        .with("x-one", "2")
        .with("te", "trailers");
    assert_eq!(world.client().ask(&request, b"").status, 201);
    let received = world.upstream.request("/status/201?a=b&c");
    assert_eq!(
        (&*received.method, received.authority.as_deref()),
        ("PATCH", Some("test"))
    );
    assert_eq!(values(&received.lines, "x-one"), ["1", "2"]);
    assert_eq!(values(&received.lines, "cookie").join("; "), "a=1; b=2");
    assert_eq!(values(&received.lines, "te"), ["trailers"]);
    assert_eq!(values(&received.lines, "host"), [""; 0]);
}

#[test]
fn head_passes_from_http2_to_http1() {
    let script = vec![Step::ReadRequest, Step::answer("ok"), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let request = get("/a?b")
        .with("x-one", "1")
        .with("cookie", "a=1")
        .with("cookie", "b=2");
    assert_eq!(
        world
            .client()
            .ask(&request.with("te", "trailers"), b"")
            .text(),
        "ok"
    );
    let received = world.upstream.received_text(0);
    assert!(
        received.starts_with("GET /a?b HTTP/1.1\r\nhost: test\r\n"),
        "{received}"
    );
    // RFC 9113, section 8.2.3: one line of cookies for everyone else.
    assert!(received.contains("\r\ncookie: a=1; b=2\r\n"), "{received}");
    for unwanted in [
        "transfer-encoding",
        "content-length",
        "\r\nte:",
        ":authority",
    ] {
        assert!(!received.contains(unwanted), "{received}");
    }
}

#[test]
fn head_passes_from_http1_to_http2() {
    let world = always_http2();
    let mut client = world.http1();
    client.send(
        "GET /status/204 HTTP/1.1\r\nHost: Example.com:80\r\nX-One: A\r\nx-One: B\r\n\
         Connection: keep-alive, x-private\r\nX-Private: 1\r\nKeep-Alive: 5\r\n\r\n",
    );
    assert_eq!(client.response().status(), 204);
    let received = world.upstream.request("/status/204");
    assert_eq!(received.authority.as_deref(), Some("Example.com:80"));
    assert_eq!(values(&received.lines, "x-one"), ["A", "B"]);
    for unwanted in ["host", "connection", "x-private", "keep-alive"] {
        assert_eq!(received.header(unwanted), None, "{unwanted}");
    }
}

#[test]
fn absolute_target_over_http1_becomes_the_authority() {
    let world = always_http2();
    let mut client = world.http1();
    client.send("GET http://other:80/status/204 HTTP/1.1\r\nHost: other:80\r\n\r\n");
    assert_eq!(client.response().status(), 204);
    let received = world.upstream.request("/status/204");
    assert_eq!(received.authority.as_deref(), Some("other:80"));
    assert_eq!(received.header("host"), None);
}

#[test]
fn host_line_takes_the_place_of_a_missing_authority() {
    for world in [http2(), always_http2()] {
        let mut frames = world.frames();
        let lines = [
            HEAD[0],
            HEAD[1],
            (":path", "/status/204"),
            ("host", "other"),
        ];
        frames.send(&[Frame::headers(1, &lines, true)]);
        assert_eq!(frames.status(1), 204);
        let received = world.upstream.request("/status/204");
        assert_eq!(received.authority.as_deref(), Some("other"));
    }
}

#[test]
fn ids_and_addresses_are_added() {
    let world = http2_with(|sidecar| {
        sidecar
            .listener("requestId: true")
            .listener("forwardedFor: true")
    });
    let request = get("/status/204").with("x-forwarded-for", "10.0.0.1");
    assert_eq!(world.client().ask(&request, b"").status, 204);
    let received = world.upstream.request("/status/204");
    assert_eq!(received.header("x-request-id").map(str::len), Some(36));
    assert_eq!(
        values(&received.lines, "x-forwarded-for"),
        ["10.0.0.1, 127.0.0.1"]
    );
}

#[test]
fn answers_without_a_body_are_whole() {
    for world in [http2(), always_http2()] {
        let mut client = world.client();
        for status in [204, 304, 200, 404, 503] {
            let answer = client.get(&format!("/status/{status}"));
            assert_eq!((answer.status, answer.body.len()), (status, 0));
        }
        let head = client.ask(&Request::new("HEAD", "/status/200"), b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
    let world = echo1();
    let mut client = world.client();
    for status in [204, 304, 200] {
        let answer = client.get(&format!("/status/{status}"));
        assert_eq!((answer.status, answer.body.len()), (status, 0));
    }
    let head = client.ask(&Request::new("HEAD", "/bytes/9"), b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("9"))
    );
    assert_eq!(client.get("/bytes/9").body.len(), 9);
}

#[test]
fn answers_without_a_body_keep_a_connection_of_http1() {
    let world = always_http2();
    let mut client = world.http1();
    for status in [204, 304, 200, 404] {
        let answer = client.get(&format!("/status/{status}"));
        assert_eq!((answer.status(), answer.body.len()), (status, 0));
        let length = (!matches!(status, 204 | 304)).then_some("0");
        assert_eq!(answer.header("content-length"), length, "{status}");
    }
    client.send("HEAD /status/200 HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.try_response("HEAD").unwrap().status(), 200);
    assert_eq!(client.get("/bytes/9").body.len(), 9);
}

#[test]
fn interim_answers_pass() {
    for world in [http2(), always_http2()] {
        let mut client = world.client();
        let mut call = client.call(&get("/interim"), true);
        assert_eq!(call.interim(), 103);
        assert_eq!(call.answer().text(), "ok");
    }
    let world = always_http2();
    let mut client = world.http1();
    client.send("GET /interim HTTP/1.1\r\nhost: a\r\n\r\n");
    let early = client.response();
    assert_eq!(
        (early.status(), early.header("x-early")),
        (103, Some("yes"))
    );
    assert_eq!(client.response().text(), "ok");
}

#[test]
fn interim_answers_over_http1_pass_to_http2() {
    let early = Step::send("HTTP/1.1 103 Early Hints\r\nX-Early: yes\r\n\r\n");
    let script = vec![Step::ReadRequest, early, Step::answer("ok"), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let mut client = world.client();
    let mut call = client.call(&get("/"), true);
    assert_eq!(call.interim(), 103);
    assert_eq!(call.answer().text(), "ok");
}

#[test]
fn continue_is_asked_for_and_given() {
    let script = vec![
        Step::ReadHead,
        Step::send("HTTP/1.1 100 Continue\r\n\r\n"),
        Step::ReadUntil(b"0\r\n\r\n".to_vec()),
        Step::answer("ok"),
        Step::ReadEnd,
    ];
    let world = scripted1(vec![script]);
    let mut client = world.client();
    let mut call = client.call(&post("/").with("expect", "100-continue"), false);
    assert_eq!(call.interim(), 100);
    call.send_all(b"body");
    assert_eq!(call.answer().text(), "ok");
    let received = world.upstream.received_text(0);
    assert!(received.contains("expect: 100-continue\r\n"), "{received}");
}

#[test]
fn answer_over_http1_is_translated() {
    let answer = "HTTP/1.1 200 Fine\r\nX-One: A\r\nSet-Cookie: a\r\nset-cookie: b\r\n\
                  Connection: x-private\r\nX-Private: 1\r\nKeep-Alive: 5\r\n\
                  Content-Length: 2\r\n\r\nok";
    let script = vec![Step::ReadRequest, Step::send(answer), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let mut frames = world.frames();
    frames.send(&[Frame::get(1, "/")]);
    let lines = frames.head(1).lines;
    let names: Vec<_> = lines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            ":status",
            "x-one",
            "set-cookie",
            "set-cookie",
            "content-length"
        ]
    );
    assert_eq!(values(&lines, "set-cookie"), ["a", "b"]);
}

#[test]
fn continue_passes_from_http2_to_http1() {
    let world = played(
        &[],
        |sidecar| sidecar,
        |_, frames| {
            let head = frames.find_kind(kind::HEADERS);
            assert_eq!(head.line("expect"), Some("100-continue"));
            frames.send(&[Frame::status(head.stream, 100, false)]);
            assert_eq!(frames.find_kind(kind::DATA).payload, b"body");
            frames.send(&[Frame::status(head.stream, 204, true)]);
            frames.read_to_end();
        },
    );
    let mut client = world.http1();
    client.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n");
    assert_eq!(client.response().status(), 100);
    client.send("body");
    assert_eq!(client.response().status(), 204);
}

#[test]
fn lengths_of_bodies_that_are_not_there_pass() {
    let world = played(
        &[],
        |sidecar| sidecar,
        |_, frames| {
            while let Ok(frame) = frames.read() {
                let status = if frame.line("x-not-modified").is_some() {
                    "304"
                } else {
                    "200"
                };
                let head = [(":status", status), ("content-length", "9")];
                if frame.kind == kind::HEADERS {
                    frames.send(&[Frame::headers(frame.stream, &head, true)]);
                }
            }
        },
    );
    let mut client = world.http1();
    for _ in 0..2 {
        client.send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n");
        let answer = client.try_response("HEAD").unwrap();
        assert_eq!(
            (answer.status(), answer.header("content-length")),
            (200, Some("9"))
        );
        let answer = client.ask("GET / HTTP/1.1\r\nhost: a\r\nx-not-modified: 1\r\n\r\n");
        assert_eq!(
            (answer.status(), answer.header("content-length")),
            (304, Some("9"))
        );
    }
    let mut client = world.client();
    let head = client.ask(&Request::new("HEAD", "/"), b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("9"))
    );
    let answer = client.ask(&get("/").with("x-not-modified", "1"), b"");
    assert_eq!(
        (answer.status, answer.header("content-length")),
        (304, Some("9"))
    );
}

#[test]
fn client_of_http10_is_served_from_http2() {
    let world = always_http2();
    for (path, length) in [("/bytes/70000", Some("70000")), ("/stream/70000", None)] {
        let mut client = world.http1();
        client.send(format!("GET {path} HTTP/1.0\r\nhost: a\r\n\r\n"));
        let answer = client.response();
        assert_eq!((answer.status(), answer.body.len()), (200, 70_000));
        assert_eq!(answer.header("content-length"), length);
        assert_eq!(answer.header("transfer-encoding"), None);
        assert_eq!(client.read_to_end().1, testkit::client::End::Closed);
    }
}

#[test]
fn wish_for_http2_by_upgrade_is_ignored() {
    let world = always_http2();
    let answer = world.http1().ask(
        "GET /status/404 HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\n\
         upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n",
    );
    assert_eq!(answer.status(), 404);
    let received = world.upstream.request("/status/404");
    for unwanted in ["upgrade", "http2-settings", "connection"] {
        assert_eq!(received.header(unwanted), None, "{unwanted}");
    }
}

#[test]
fn options_of_a_whole_server_pass() {
    let lines = [(":method", "OPTIONS"), HEAD[1], HEAD[2], (":path", "*")];
    let script = vec![Step::ReadRequest, Step::answer(""), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let mut frames = world.frames();
    frames.send(&[Frame::headers(1, &lines, true)]);
    assert_eq!(frames.status(1), 200);
    assert!(
        world
            .upstream
            .received_text(0)
            .starts_with("OPTIONS * HTTP/1.1\r\n")
    );
    let world = played(
        &[],
        |sidecar| sidecar,
        |_, frames| {
            let head = frames.find_kind(kind::HEADERS);
            let path = head.line(":path").map(str::to_owned);
            let status = if path.as_deref() == Some("*") {
                204
            } else {
                400
            };
            frames.send(&[Frame::status(head.stream, status, true)]);
            frames.read_to_end();
        },
    );
    let answer = world.http1().ask("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(answer.status(), 204);
}

#[test]
fn padding_and_priority_are_read_over() {
    let world = http2();
    let mut frames = world.frames();
    let mut head = Frame::post(1, "/");
    let padded = [&[3, 0, 0, 0, 0, 9], &*head.payload, &[0; 3]].concat();
    (head.payload, head.flags) = (padded, head.flags | flag::PADDED | 0x20);
    let data = Frame::new(
        kind::DATA,
        flag::PADDED | flag::END_STREAM,
        1,
        *b"\x02body\0\0",
    );
    let priority = Frame::new(kind::PRIORITY, 0, 1, [0, 0, 0, 0, 1]);
    frames.send(&[head, priority, data]);
    assert_eq!(frames.status(1), 200);
    let body = frames.find_kind(kind::DATA);
    assert_eq!(body.payload, b"body");
}

#[test]
fn head_in_continuations_is_one_head() {
    let world = http2();
    let mut frames = world.frames();
    let whole = Frame::get(1, "/status/204");
    let pieces: Vec<_> = whole.payload.chunks(10).collect();
    let mut sent = vec![Frame::new(kind::HEADERS, flag::END_STREAM, 1, pieces[0])];
    for (at, piece) in pieces.iter().enumerate().skip(1) {
        let end = flag::END_HEADERS * u8::from(at + 1 == pieces.len());
        sent.push(Frame::new(kind::CONTINUATION, end, 1, *piece));
    }
    frames.send(&sent);
    assert_eq!(frames.status(1), 204);
}

#[test]
fn large_heads_pass_in_both_directions() {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n",
        "y".repeat(40_000)
    );
    let script = vec![Step::ReadRequest, Step::send(answer), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let request = get("/").with("x", &"z".repeat(30_000));
    let mut frames = world.frames();
    frames.send(&[Frame::get(1, "/")]);
    assert_eq!(frames.head(1).line("x").map(str::len), Some(40_000));
    let world = http2();
    assert_eq!(world.client().ask(&request, b"").status, 200);
    assert_eq!(
        world.upstream.request("/").header("x").map(str::len),
        Some(30_000)
    );
}

#[test]
fn the_log_and_the_metrics_name_the_protocol() {
    let world = http2_with(|sidecar| sidecar.with("accessLog: {path: /dev/stdout}"));
    let mut client = world.client();
    assert_eq!(client.get("/status/204").status, 204);
    client.ask(&Request::grpc("/trailers-only"), b"x");
    for protocol in ["http2", "grpc"] {
        let labels = [("protocol", protocol)];
        world
            .proxy
            .metric_becomes("leno_requests_total", &labels, 1.0);
    }
    testkit::until("it is logged", || world.proxy.stdout_lines().len() == 2);
    let lines = world.proxy.stdout_lines();
    assert!(
        lines.iter().all(|line| line.contains("HTTP/2")),
        "{lines:?}"
    );
}
