//! PROXY headers: believed where that is asked for, and written.

use testkit::client::End;
use testkit::{EchoServer, RawClient, ScriptedUpstream, Sidecar, Step};

use super::{ANSWER, QUESTION, ask, start};

const FROM_ELSEWHERE: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 5555 443\r\n";

#[test]
fn header_says_whose_request_it_is() {
    let app = EchoServer::start();
    let sidecar = Sidecar::inbound(app.addr())
        .listener("proxyProtocol: true")
        .listener("forwardedFor: true");
    let proxy = start(&sidecar);
    let binary = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..],
        &[203, 0, 113, 9, 10, 0, 0, 1, 0, 80, 1, 187],
    ];
    for (header, source) in [
        (FROM_ELSEWHERE.as_bytes().to_vec(), "192.0.2.7"),
        (binary.concat(), "203.0.113.9"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
    ] {
        let mut client = RawClient::connect(proxy.addr());
        client.send_in_pieces(7, header);
        assert_eq!(client.get("/").status(), 200);
        let requests = app.requests();
        assert_eq!(
            requests.last().unwrap().header("x-forwarded-for"),
            Some(source)
        );
    }
}

#[test]
fn connection_without_a_header_is_closed() {
    let app = EchoServer::start();
    let sidecar = Sidecar::inbound(app.addr()).listener("proxyProtocol: true");
    let proxy = start(&sidecar);
    for bytes in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "PROXY TCP4 a b 1 2\r\n",
    ] {
        let mut client = RawClient::connect(proxy.addr());
        client.send(bytes);
        assert_eq!(client.read_to_end().0, b"");
    }
    assert_eq!(app.connection_count(), 0);
}

#[test]
fn headers_are_written_with_the_address_of_the_client() {
    for version in ["v1", "v2"] {
        let app = super::answering();
        let sidecar = Sidecar::outbound(&[app.addr()]);
        let proxy = start(&sidecar.cluster(&format!("proxyProtocol: {version}")));
        let mut client = ask(&proxy);
        let (from, to) = (client.stream().local_addr().unwrap(), proxy.addr());
        let mut expected = Vec::new();
        match version {
            "v1" => wire::proxy_protocol::write_v1(from, to, &mut expected),
            _ => wire::proxy_protocol::write_v2(from, to, &mut expected),
        }
        expected.extend(QUESTION);
        assert_eq!(app.received(0), expected);
    }
}

#[test]
fn what_a_header_said_is_said_again() {
    let app =
        ScriptedUpstream::always(vec![Step::ReadUntil(QUESTION.to_vec()), Step::send(ANSWER)]);
    let sidecar = Sidecar::inbound(app.addr())
        .listener("proxyProtocol: true")
        .cluster("proxyProtocol: v1");
    let proxy = start(&sidecar);
    let mut client = RawClient::connect(proxy.addr());
    client.send([FROM_ELSEWHERE.as_bytes(), QUESTION].concat());
    assert_eq!(client.read_to_end(), (ANSWER.to_vec(), End::Closed));
    let received = [FROM_ELSEWHERE.as_bytes(), QUESTION].concat();
    assert_eq!(app.received(0), received);
}
