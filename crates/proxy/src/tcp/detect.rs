//! What a connection speaks: its first bytes say so, or its silence and what the destination then
//! says. Called by `connection` once per connection; must never wait for a peer that waits.

use super::{Answering, Opaque, check, dial, find};
use crate::body::Patience;
use crate::connection::Client;
use crate::http1::{self, Link};
use crate::record::Record;
use crate::snapshot::{Reading, Route};
use identity::HandshakeFailure;
use identity::tls::ALPN_MESH_PREFIX;
use model::TlsMode;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use wire::client_hello::{self, ClientHello};
use wire::sniff::{Sniffed, sniff};

/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a connection turned out to be.
pub(crate) enum Heard {
    /// Mesh TLS, to be answered; what is inside, its handshake says.
    Mesh,
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    Opaque(Opaque),
    /// No handshake, where nothing else is taken, or half of one.
    Refused(HandshakeFailure),
    /// Over before it began.
    Nothing,
}

/// What bytes are read by.
#[derive(Clone, Copy)]
struct Rules {
    tls: TlsMode,
    reading: Reading,
    /// Whether the route depends on the first bytes, whatever they are.
    by_name: bool,
    patience: Duration,
}

impl Rules {
    /// `None` when the listener was taken away.
    fn of(client: &Client) -> Option<Self> {
        let view = client.worker.view();
        let listener = view.snapshot.listener(client.place, &client.listener)?;
        let server_first = |route: &Route| {
            let mut backends = route.backends.iter();
            backends.any(|(cluster, _)| view.clusters[*cluster].server_first.get())
        };
        let reading = match listener.reading {
            Reading::Either if find(listener, None).is_some_and(|route| server_first(route)) => {
                Reading::Opaque
            }
            reading => reading,
        };
        Some(Self {
            tls: listener.tls,
            reading,
            by_name: listener.routes.has_hosts(),
            patience: listener.detect_timeout,
        })
    }
}

/// What the first bytes of a connection are.
#[derive(Debug, PartialEq, Eq)]
enum First {
    NeedMore,
    Mesh,
    Http1,
    Http2,
    /// Something else, perhaps TLS that asks for a server by name.
    Other(Option<String>),
    NotTls,
}

/// Finds out what a new connection speaks.
pub(crate) async fn hear(client: &Client, link: &mut Link) -> Heard {
    let Some(rules) = Rules::of(client) else {
        return Heard::Nothing;
    };
    let mut opaque = Opaque::default();
    let mut due_ms = due(client, rules.patience);
    // The destination was asked and waits as well, or cannot be asked.
    let mut asked = false;
    loop {
        let bytes = link.inbox.bytes();
        match read(bytes, rules) {
            First::Mesh => return Heard::Mesh,
            First::NotTls => return Heard::Refused(HandshakeFailure::NotTls),
            First::Http1 => return Heard::Http1,
            First::Http2 => return Heard::Http2,
            First::Other(server_name) => return Heard::Opaque(named(client, opaque, server_name)),
            First::NeedMore => {}
        }
        let must_speak = rules.reading == Reading::Http || rules.tls == TlsMode::Strict;
        let is_silent = bytes.is_empty();
        let is_request = rules.reading == Reading::Http || begins_request(bytes);
        // The rest of a hello has to come: nothing can be done without it.
        let is_hello = bytes.first() == Some(&TLS_HANDSHAKE);
        let waited = match is_hello || is_silent && (must_speak || asked) {
            true => await_head(client, link).await,
            false => await_until(client, link, due_ms).await,
        };
        match waited {
            Waited::Bytes => {
                if is_silent {
                    due_ms = start_clock(client, rules.patience);
                }
                continue;
            }
            Waited::Over if is_hello && rules.tls != TlsMode::Disabled => {
                return Heard::Refused(match client.worker.reactor.is_expired() {
                    true => HandshakeFailure::TimedOut,
                    false => HandshakeFailure::Closed,
                });
            }
            Waited::Over => return Heard::Nothing,
            // Its parser knows how long to wait for the rest, and what to say if it does not come.
            _ if !is_silent && is_request => return Heard::Http1,
            // Who leaves without a word was never spoken to.
            Waited::End if is_silent && rules.reading == Reading::Either => return Heard::Nothing,
            Waited::Silence if is_silent && rules.reading == Reading::Either => {}
            Waited::End | Waited::Silence => return Heard::Opaque(opaque),
        }
        asked = true;
        match Box::pin(ask(client, link, &mut opaque)).await {
            Asked::DownstreamSpoke => due_ms = start_clock(client, rules.patience),
            Asked::UpstreamSpoke => return Heard::Opaque(opaque),
            Asked::InVain => {}
            Asked::Over => return Heard::Nothing,
        }
    }
}

/// When patience is over, in ms of the reactor's clock.
fn due(client: &Client, patience: Duration) -> u64 {
    let limit = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    client.worker.reactor.now_ms().saturating_add(limit)
}

/// One clock for all of the first bytes, however they trickle in, as for the head of a request;
/// returns until when it may stay unclear whether they are one.
fn start_clock(client: &Client, patience: Duration) -> u64 {
    let limit = client.worker.view().snapshot.config.limits.header_timeout;
    client.worker.reactor.deadline_after(limit);
    due(client, patience)
}

/// Whether these few bytes can hardly begin anything but a request: a method that is in use, or a
/// method with the beginning of a target.
fn begins_request(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 10] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"DELETE ",
        b"PATCH ",
        b"OPTIONS ",
        b"CONNECT ",
        b"TRACE ",
        b"PRI ",
    ];
    bytes.contains(&b' ') || METHODS.iter().any(|method| method.starts_with(bytes))
}

/// A connection that was made to ask is of use only if the name leads to where it leads.
fn named(client: &Client, mut opaque: Opaque, server_name: Option<String>) -> Opaque {
    if opaque.up.is_some() && server_name.is_some() {
        let view = client.worker.view();
        let listener = view.snapshot.listener(client.place, &client.listener);
        let route = |name| listener.and_then(|listener| find(listener, name));
        let same = match (route(server_name.as_deref()), route(None)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if !same {
            opaque.up = None;
        }
    }
    Opaque {
        server_name,
        ..opaque
    }
}

/// What `bytes`, the first of a connection, are to a listener with these rules.
fn read(bytes: &[u8], rules: Rules) -> First {
    let strict = rules.tls == TlsMode::Strict;
    if strict && bytes.first().is_some_and(|byte| *byte != TLS_HANDSHAKE) {
        return First::NotTls;
    }
    if rules.reading == Reading::Opaque && !strict {
        match bytes.first() {
            None if rules.tls == TlsMode::Disabled && !rules.by_name => return First::Other(None),
            Some(byte) if *byte != TLS_HANDSHAKE => return First::Other(None),
            _ => {}
        }
    }
    match sniff(bytes) {
        Sniffed::NeedMore => First::NeedMore,
        Sniffed::Tls => read_hello(bytes, rules),
        Sniffed::Unknown if strict => First::NotTls,
        Sniffed::Http1 => First::Http1,
        Sniffed::Http2Preface => First::Http2,
        // The parser of requests has the words for it.
        Sniffed::Unknown if rules.reading == Reading::Http => First::Http1,
        Sniffed::Unknown => First::Other(None),
    }
}

/// Mesh TLS or the application's own: whoever offers a protocol of the mesh means the mesh.
fn read_hello(bytes: &[u8], rules: Rules) -> First {
    let only_requests = rules.reading == Reading::Http;
    match rules.tls {
        TlsMode::Strict => return First::Mesh,
        TlsMode::Permissive if only_requests => return First::Mesh,
        TlsMode::Disabled if only_requests => return First::Http1,
        TlsMode::Permissive | TlsMode::Disabled => {}
    }
    let mut hello = ClientHello::default();
    match hello.parse(bytes) {
        client_hello::Parsed::NeedMore => First::NeedMore,
        client_hello::Parsed::Malformed => First::Other(None),
        client_hello::Parsed::Complete => {
            let mut offered = hello.protocols();
            let mesh = rules.tls == TlsMode::Permissive
                && offered.any(|name| name.starts_with(ALPN_MESH_PREFIX));
            match mesh {
                true => First::Mesh,
                false => First::Other(hello.server_name().map(str::to_owned)),
            }
        }
    }
}

/// What came of waiting for a downstream's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    Bytes,
    /// It ended, having said what it had to say.
    End,
    Silence,
    /// It broke, or has to go.
    Over,
}

/// Waits as for the head of a request: long for its beginning, not so long for the rest.
async fn await_head(client: &Client, link: &mut Link) -> Waited {
    let reactor = &client.worker.reactor;
    let more = if link.inbox.is_empty() {
        let idle = Patience {
            idle: client.worker.view().snapshot.config.limits.idle_timeout,
            until_ms: u64::MAX,
        };
        idle.start(reactor);
        http1::await_bytes(client, link, idle).await
    } else {
        http1::read_more(link).await
    };
    match more {
        true => Waited::Bytes,
        false => Waited::Over,
    }
}

/// Waits until `due_ms` of the reactor's clock at most.
async fn await_until(client: &Client, link: &mut Link, due_ms: u64) -> Waited {
    let Link { stream, inbox, .. } = link;
    let reactor = &client.worker.reactor;
    let mut asleep = false;
    poll_fn(|_| match stream.poll_fill(inbox) {
        Poll::Ready(Ok(0)) => Poll::Ready(Waited::End),
        Poll::Ready(Ok(_)) => Poll::Ready(Waited::Bytes),
        Poll::Ready(Err(_)) => Poll::Ready(Waited::Over),
        Poll::Pending if client.worker.is_closing_idle() => Poll::Ready(Waited::Over),
        Poll::Pending if reactor.now_ms() >= due_ms => Poll::Ready(Waited::Silence),
        Poll::Pending => {
            if !std::mem::replace(&mut asleep, true) {
                reactor.wake_after(Duration::from_millis(due_ms - reactor.now_ms()));
            }
            Poll::Pending
        }
    })
    .await
}

/// What came of asking the destination of a silent downstream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    DownstreamSpoke,
    UpstreamSpoke,
    /// It waits as well, speaks HTTP, or cannot be reached: the downstream has to speak.
    InVain,
    Over,
}

/// Connects a silent downstream to where it would go if it were not HTTP, and sees which of the
/// two speaks first. A destination that does is remembered as long as this view of the mesh lasts.
async fn ask(client: &Client, link: &mut Link, opaque: &mut Opaque) -> Asked {
    let view = client.worker.view();
    let listener = view.snapshot.listener(client.place, &client.listener);
    let target = listener.and_then(|listener| Some((listener, find(listener, None)?)));
    let Some((listener, route)) = target else {
        return Asked::InVain;
    };
    // Whoever may not is told so when it has said what it wants.
    if check(client, listener, route, false).is_err() {
        return Asked::InVain;
    }
    let record = Record::begin(client.worker.reactor.now());
    let Some(cluster) = route.pick(|| client.worker.random()) else {
        return Asked::InVain;
    };
    let Ok(mut up) = dial(client, &view, cluster, &record).await else {
        return Asked::InVain;
    };
    let limit = view.snapshot.config.limits.tcp_idle_timeout;
    client.worker.reactor.deadline_after(limit);
    let spoke = await_either(client, link, &mut up).await;
    match spoke {
        Asked::UpstreamSpoke if speaks_http(up.dialled.inbox.bytes()) => return Asked::InVain,
        Asked::UpstreamSpoke => view.clusters[cluster].server_first.set(true),
        Asked::InVain => return spoke,
        _ => {}
    }
    opaque.up = Some(Box::new(up));
    spoke
}

async fn await_either(client: &Client, link: &mut Link, up: &mut Answering) -> Asked {
    // A sidecar at the other end that says nothing and goes wants to see requests.
    let ended = match up.state.endpoint.mtls {
        Some(_) => || Asked::InVain,
        None => || Asked::Over,
    };
    let (down, up) = (link, &mut up.dialled);
    poll_fn(|_| {
        match down.stream.poll_fill(&mut down.inbox) {
            Poll::Ready(Ok(1..)) => return Poll::Ready(Asked::DownstreamSpoke),
            Poll::Ready(Ok(_) | Err(_)) => return Poll::Ready(Asked::Over),
            Poll::Pending => {}
        }
        if !up.inbox.is_empty() {
            return Poll::Ready(Asked::UpstreamSpoke);
        }
        match up.stream.poll_fill(&mut up.inbox) {
            Poll::Ready(Ok(1..)) => Poll::Ready(Asked::UpstreamSpoke),
            // As it would have done with the downstream itself.
            Poll::Ready(Ok(0)) => Poll::Ready(ended()),
            Poll::Ready(Err(error)) => {
                let ended = ended();
                if error.kind() == io::ErrorKind::ConnectionReset && ended == Asked::Over {
                    down.stream.tcp.abort_on_close();
                }
                Poll::Ready(ended)
            }
            Poll::Pending if client.worker.is_closing_idle() => Poll::Ready(Asked::Over),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Whether a server that speaks first does so in HTTP: HTTP/2's settings (RFC 9113, section 6.5),
/// or HTTP/1's complaint that no request came.
fn speaks_http(bytes: &[u8]) -> bool {
    const SETTINGS_OF_CONNECTION: [u8; 6] = [4, 0, 0, 0, 0, 0];
    bytes.starts_with(b"HTTP/1.") || bytes.get(3..9) == Some(&SETTINGS_OF_CONNECTION[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], tls: TlsMode, reading: Reading, expected: &First) {
        let rules = Rules {
            tls,
            reading,
            by_name: true,
            patience: Duration::ZERO,
        };
        assert_eq!(&read(bytes, rules), expected, "{}", bytes.escape_ascii());
    }

    fn hello(file: &str) -> Vec<u8> {
        let seeds = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/seeds/client_hello/"
        );
        std::fs::read(format!("{seeds}{file}")).unwrap()
    }

    #[test]
    fn http_is_heard_and_the_rest_passed_on_where_that_is_asked_for() {
        use Reading::{Either, Http, Opaque};
        for tls in [TlsMode::Disabled, TlsMode::Permissive] {
            for (bytes, either) in [
                (&b"GET / HTTP/1.1"[..], First::Http1),
                (b"PRI * HTTP/2.0\r\n", First::Http2),
                (b"\x00\x01", First::Other(None)),
                (b"EHLO me\r\n", First::Other(None)),
                (b"ping", First::NeedMore),
                (b"", First::NeedMore),
            ] {
                check(bytes, tls, Either, &either);
            }
            check(b"EHLO me\r\n", tls, Http, &First::Http1);
            check(b"GET / HTTP/1.1", tls, Opaque, &First::Other(None));
            check(b"p", tls, Opaque, &First::Other(None));
            check(b"", tls, Opaque, &First::NeedMore);
        }
        for reading in [Either, Http, Opaque] {
            check(b"GET / HTTP/1.1", TlsMode::Strict, reading, &First::NotTls);
        }
    }

    #[test]
    fn the_mesh_is_told_from_the_application_by_what_is_offered() {
        use Reading::{Either, Http, Opaque};
        let (mesh, own) = (hello("good-full"), hello("good-plain"));
        let name = || First::Other(Some("db.example.org".to_owned()));
        for reading in [Either, Opaque] {
            check(&mesh, TlsMode::Permissive, reading, &First::Mesh);
            check(&mesh, TlsMode::Disabled, reading, &name());
            check(&own, TlsMode::Permissive, reading, &First::Other(None));
            check(&mesh[..9], TlsMode::Permissive, reading, &First::NeedMore);
        }
        check(&own, TlsMode::Permissive, Http, &First::Mesh);
        check(&own, TlsMode::Strict, Opaque, &First::Mesh);
        check(&own, TlsMode::Disabled, Http, &First::Http1);
    }

    #[test]
    fn servers_of_http_that_speak_first_are_known() {
        assert!(speaks_http(b"HTTP/1.1 408 Request Timeout\r\n"));
        assert!(speaks_http(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03"));
        assert!(!speaks_http(b"220 mail.example.org ESMTP\r\n"));
        assert!(!speaks_http(b"\x4a\x00\x00\x00\x0a8.0.36"));
    }
}
