//! Peers that speak HTTP/2: a client and a server on the `h2` crate, for what works, and frames
//! written by hand, for what must not. Used by behaviour tests; shares no code with the proxy.

mod client;
mod engine;
mod frame;
mod frames;
mod io;
mod server;

pub use client::{Answer, Call, H2Client, Request};
pub use frame::{Frame, code, flag, kind, setting};
pub use frames::{Frames, RawH2Server};
pub use server::{H2Server, Received};

/// So large that a stream of which nothing is read holds nobody else up.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// What a peer says of itself first; `None`: as the protocol has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Streams that the other side may have open at once.
    pub streams: Option<u32>,
    /// Bytes of a body that the other side may send before more is asked for.
    pub window: Option<u32>,
}

/// Lines of a head or of trailers, in order.
pub type Lines = Vec<(String, String)>;

/// The first value with this name.
fn find<'l>(lines: &'l Lines, name: &str) -> Option<&'l str> {
    let line = lines.iter().find(|(known, _)| known == name);
    line.map(|(_, value)| value.as_str())
}

fn lines_of(map: &http::HeaderMap) -> Lines {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    map.iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn map_of(lines: &[(String, String)]) -> http::HeaderMap {
    let mut map = http::HeaderMap::new();
    for (name, value) in lines {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a test's name is good");
        map.append(name, value.parse().expect("a test's value is good"));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::{Frame, Request, code, kind};
    use crate::{Frames, H2Client, H2Server, MeshConnector, RawH2Server, TestCa, until};
    use identity::tls::{ALPN_H2, Tickets, server_config};

    #[test]
    fn client_and_server_understand_each_other() {
        let server = H2Server::start();
        let mut client = H2Client::connect(server.addr());
        assert_eq!(client.post("/", "hello").text(), "hello");
        assert_eq!(client.get("/bytes/70000").body.len(), 70_000);
        assert_eq!(client.get("/status/204").status, 204);
        assert_eq!(client.get("/trailers").grpc_status(), Some("0"));
        let mut call = client.call(&Request::new("GET", "/interim"), true);
        assert_eq!(call.interim(), 103);
        assert_eq!(call.answer().text(), "ok");
        let call = client.call(&Request::new("GET", "/hold"), true);
        until("it is held", || server.held() == 1);
        call.reset();
        until("it is told", || server.resets() == [code::CANCEL]);
        let lost = client
            .call(&Request::new("GET", "/reset/2"), true)
            .try_answer();
        assert_eq!(lost.unwrap_err().reason().map(u32::from), Some(2));
        assert_eq!((server.requests().len(), server.connection_count()), (5, 1));
        drop(client);
        until("the connection is gone", || server.open_connections() == 0);
    }

    #[test]
    fn both_speak_inside_mesh_tls() {
        let ca = TestCa::new();
        let (a, b) = (ca.identity("a"), ca.identity("b"));
        let config = server_config(&b.credentials(), &[ALPN_H2], &Tickets::new()).unwrap();
        let server = H2Server::start_tls(config);
        let connector = MeshConnector::with_alpn(&a.credentials(), &b.id, &[ALPN_H2]);
        let mut client = H2Client::connect_tls(server.addr(), &connector);
        let body = vec![b'x'; 1 << 20];
        assert!(client.post("/", &body).body == body);
        let mut frames = Frames::client(connector.connect(server.addr()).unwrap());
        frames.send(&[Frame::get(1, "/status/204")]);
        assert_eq!(frames.status(1), 204);
    }

    #[test]
    fn frames_by_hand_are_understood_on_both_sides() {
        let server = RawH2Server::start(&[], |_, frames| {
            let stream = frames.find_kind(kind::HEADERS).stream;
            frames.send(&[Frame::status(stream, 200, false)]);
            frames.send(&[Frame::data(stream, *b"hello", true)]);
            frames.read_to_end();
        });
        let mut client = H2Client::connect(server.addr());
        assert_eq!(client.get("/").text(), "hello");
        drop(client);
        server.finished(0);
        let mut frames = Frames::connect(server.addr());
        frames.send(&[Frame::get(1, "/")]);
        assert_eq!(frames.head(1).line(":status"), Some("200"));
        assert!(frames.find_kind(kind::DATA).is_end());
        drop(frames);
        server.finished(1);
    }

    #[test]
    #[should_panic(expected = "did not come")]
    fn play_that_goes_wrong_fails_the_test() {
        let server = RawH2Server::start(&[], |_, frames| {
            frames.head(1);
        });
        drop(Frames::connect(server.addr()));
        server.finished(0);
    }
}
