//! The echo server as its clients see it.

use crate::world::echo;
use load::serve::Server;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).unwrap()
}

/// Sends the text and reads until the server closes.
fn exchange(text: &str) -> String {
    let server = echo();
    let mut stream = connect(&server);
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn check(request: &str, status: &str, body: &str) {
    let answer = exchange(request);
    assert!(answer.starts_with(status), "{answer}");
    assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
}

#[test]
fn echoes_the_body_on_any_path() {
    let head = "Connection: close\r\nContent-Length: 5\r\n\r\n";
    check(
        &format!("POST /any/path HTTP/1.1\r\n{head}hello"),
        "HTTP/1.1 200 OK\r\n",
        "hello",
    );
}

#[test]
fn echoes_a_chunked_body() {
    let head = "POST / HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(
        &format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        "HTTP/1.1 200",
        "abcde",
    );
}

#[test]
fn answers_what_the_query_asks_for() {
    let request = "GET /echo?size=100&status=503 HTTP/1.1\r\nConnection: close\r\n\r\n";
    let answer = exchange(request);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("Content-Length: 100\r\n"), "{answer}");
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), 100);
}

#[test]
fn an_old_client_gets_a_close() {
    check("GET /?size=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200", "a");
}

#[test]
fn a_head_request_gets_no_body() {
    let answer = exchange("HEAD /?size=7 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(
        answer.contains("Content-Length: 7\r\n") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
}

#[test]
fn garbage_gets_a_400_and_a_close() {
    check("\u{1}\u{2}\u{3}\r\n\r\n", "HTTP/1.1 400", "");
}

#[test]
fn a_wrong_parameter_is_explained() {
    let request = "GET /?delay=ten HTTP/1.1\r\nConnection: close\r\n\r\n";
    let hint = "delay=ten: a delay is a number with ns, us, ms, s, m or h\n";
    check(request, "HTTP/1.1 400", hint);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let request = |size: usize, close: &str| format!("GET /?size={size} HTTP/1.1\r\n{close}\r\n");
    let delayed = "GET /?size=2&delay=1ms HTTP/1.1\r\n\r\n";
    let text = format!(
        "{}{delayed}{}",
        request(1, ""),
        request(3, "Connection: close\r\n")
    );
    let answer = exchange(&text);
    let lengths: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("Content-Length: "))
        .collect();
    assert_eq!(lengths, ["1", "2", "3"]);
}

#[test]
fn a_client_that_expects_is_told_to_continue() {
    let server = echo();
    let mut stream = connect(&server);
    let head = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n";
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hi").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nhi"),
        "{answer}"
    );
}

#[test]
fn a_half_closed_client_still_gets_its_answer() {
    let server = echo();
    let mut stream = connect(&server);
    stream
        .write_all(b"GET /?size=3&delay=1ms HTTP/1.1\r\n\r\n")
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Content-Length: 3\r\n"), "{answer}");
}

#[test]
fn delays_are_counted_and_written_as_asked() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["delays.json", "delays.hlog"] {
        let path = directory.path().join(name);
        let mut options = load::serve::Options::new(crate::world::local());
        options.delay_log = Some(path.clone());
        let server = load::serve::start(&options).unwrap();
        let mut stream = connect(&server);
        let request = "GET /?delay=20ms HTTP/1.1\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        server.stop();
        let served = server.join().unwrap();
        assert_eq!((served.answers, served.connections), (1, 1));
        assert!(served.delays.min() >= 19_990_000, "{}", served.delays.min());
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(log.contains(if name.ends_with("json") {
            "\"Count\": 1"
        } else {
            "HISTF"
        }));
    }
}
