//! The header lines that a proxy adds: forwarding, request ids, and what the hop needs. Pure but
//! for the randomness it is given; called by `request` once per request.

use crate::exchange::Exchange;
use crate::snapshot::Listener;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;
use wire::http1::{Framing, Method, Version};

/// Headers by which proxies tell each other of clients. Not `x-forwarded-for`, which is a list with
/// an end of ours.
const DISTRUSTED: [&str; 6] = [
    "forwarded",
    "x-forwarded-client-cert",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
];
/// Names that belong to proxies of a mesh.
const DISTRUSTED_PREFIXES: [&str; 2] = ["x-envoy-", "x-leno-"];

/// Prepares the request's head for the upstream; `id` is 128 random bits for a request without an
/// id.
pub(crate) fn prepare_request(
    exchange: &mut Exchange,
    bytes: &[u8],
    listener: &Listener,
    peer: IpAddr,
    id: impl FnOnce() -> u128,
) {
    host(exchange, bytes);
    if let Some(edge) = &listener.edge {
        distrust(exchange, bytes);
        // What is there now is the route's own.
        if !exchange.has_request_line(bytes, "x-forwarded-proto") {
            let scheme = edge.scheme();
            let extra = &mut exchange.request_extra;
            add(extra, format_args!("x-forwarded-proto: {scheme}\r\n"));
        }
    }
    if listener.request_id && !exchange.has_request_line(bytes, "x-request-id") {
        let id = uuid::from(id());
        add(
            &mut exchange.request_extra,
            format_args!("x-request-id: {id}\r\n"),
        );
    }
    if listener.forwarded_for {
        forwarded_for(exchange, bytes, peer);
    }
}

/// An absolute-form target's authority takes the place of Host (RFC 9112 §3.2.2); an HTTP/1.0
/// request without either gets an empty one, which HTTP/1.1 demands.
fn host(exchange: &mut Exchange, bytes: &[u8]) {
    if let Some(authority) = exchange.request.authority {
        exchange.drop_request_line(bytes, "host");
        exchange.request_extra.extend_from_slice(b"host: ");
        exchange
            .request_extra
            .extend_from_slice(authority.of(bytes));
        exchange.request_extra.extend_from_slice(b"\r\n");
    } else if exchange.request.host.is_none() {
        exchange.request_extra.extend_from_slice(b"host: \r\n");
    }
}

fn forwarded_for(exchange: &mut Exchange, bytes: &[u8], peer: IpAddr) {
    const NAME: &str = "x-forwarded-for";
    let Exchange {
        request,
        request_extra: extra,
        ..
    } = exchange;
    extra.extend_from_slice(b"x-forwarded-for: ");
    for line in &mut request.lines {
        if !line.dropped && line.name.of(bytes).eq_ignore_ascii_case(NAME.as_bytes()) {
            line.dropped = true;
            extra.extend_from_slice(line.value.of(bytes));
            extra.extend_from_slice(b", ");
        }
    }
    add(extra, format_args!("{}\r\n", peer.to_canonical()));
}

/// What a client outside of the mesh says of where a request came from, or in the name of proxies,
/// is nothing that anybody behind us should believe.
fn distrust(exchange: &mut Exchange, bytes: &[u8]) {
    for line in &mut exchange.request.lines {
        let name = line.name.of(bytes);
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let begins = |with: &str| {
            let start = name.get(..with.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
        };
        line.dropped |= DISTRUSTED.iter().any(|name| is(name));
        line.dropped |= DISTRUSTED_PREFIXES.iter().any(|prefix| begins(prefix));
    }
}

/// Whether the client proves itself to the upstream's connection rather than with each request
/// (RFC 4559; NTLM likewise).
pub(crate) fn binds_connection(exchange: &Exchange, bytes: &[u8]) -> bool {
    let Some(line) = exchange.request.find(bytes, "authorization") else {
        return false;
    };
    let scheme = line.value.of(bytes).split(|byte| *byte == b' ').next();
    let is = |name: &[u8]| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(name));
    is(b"ntlm") || is(b"negotiate")
}

/// Prepares the request for another protocol, which goes on if the listener allows it. Otherwise
/// the wish is ignored, as RFC 9110 §7.8 lets a server do; `false`: it cannot be, since any
/// answer would be taken for the tunnel.
pub(crate) fn prepare_upgrade(exchange: &mut Exchange, bytes: &[u8], listener: &Listener) -> bool {
    let asked = match exchange.request.upgrade {
        true => exchange.request.protocol.or_else(|| {
            let line = exchange.request.find(bytes, "upgrade")?;
            Some(line.value)
        }),
        false => exchange.request.protocol,
    };
    // A body would have to be through before the other protocol begins.
    let is_open = matches!(exchange.request.framing, Framing::None | Framing::Length(0));
    exchange.request.protocol =
        asked.filter(|asked| is_open && listener.upgrades_to(asked.of(bytes)));
    exchange.request.protocol.is_some() || !exchange.extended
}

/// Adds to a request for another protocol what HTTP/1 needs.
pub(crate) fn ask_for_upgrade(exchange: &mut Exchange, bytes: &[u8]) {
    let Some(protocol) = exchange.request.protocol else {
        return;
    };
    let extra = &mut exchange.request_extra;
    extra.extend_from_slice(b"connection: upgrade\r\nupgrade: ");
    extra.extend_from_slice(protocol.of(bytes));
    extra.extend_from_slice(b"\r\n");
}

/// Between which protocols an answer passes, and whether the downstream may stay afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub(crate) from_http2: bool,
    pub(crate) to_http2: bool,
    pub(crate) stay: bool,
}

/// In which form an answer's body goes to a downstream of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Framing and all, as it came.
    Verbatim,
    /// Without framing: its length is known, or the connection's end is its end.
    Payload,
    Chunks,
}

/// What is to be done with an answer.
pub(crate) struct Prepared {
    pub(crate) form: Form,
    /// The downstream connection can carry another request.
    pub(crate) keep: bool,
}

/// Prepares the answer's head for the downstream.
pub(crate) fn prepare_response(exchange: &mut Exchange, bytes: &[u8], path: Path) -> Prepared {
    if path.to_http2 {
        let form = Form::Payload;
        return Prepared { form, keep: true };
    }
    let to_http10 = exchange.request.version == Version::Http10;
    let framing = exchange.response.framing;
    let mut keep = path.stay;
    let form = match framing {
        Framing::Chunked if to_http10 => {
            exchange.drop_response_line(bytes, "transfer-encoding");
            exchange.drop_response_line(bytes, "trailer");
            keep = false;
            Form::Payload
        }
        Framing::Chunked if path.from_http2 => {
            let line = b"transfer-encoding: chunked\r\n";
            exchange.response_extra.extend_from_slice(line);
            Form::Chunks
        }
        _ if !path.from_http2 => Form::Verbatim,
        Framing::None => {
            say_that_it_is_empty(exchange, bytes);
            Form::Payload
        }
        _ => Form::Payload,
    };
    if !keep {
        exchange
            .response_extra
            .extend_from_slice(b"connection: close\r\n");
    } else if to_http10 {
        exchange
            .response_extra
            .extend_from_slice(b"connection: keep-alive\r\n");
    }
    Prepared { form, keep }
}

/// Over HTTP/1 an answer without a length would last as long as its connection.
fn say_that_it_is_empty(exchange: &mut Exchange, bytes: &[u8]) {
    let head = &exchange.response;
    let bodiless = matches!(head.status, 204 | 304) || exchange.request.method == Method::Head;
    if !bodiless && head.find(bytes, "content-length").is_none() {
        exchange
            .response_extra
            .extend_from_slice(b"content-length: 0\r\n");
    }
}

/// Prepares the head that tells the downstream that another protocol begins.
pub(crate) fn prepare_switch(exchange: &mut Exchange, bytes: &[u8]) {
    if exchange.extended {
        exchange.response.status = 200;
        exchange.drop_response_line(bytes, "sec-websocket-accept");
        return;
    }
    let upgrade = exchange.response.find(bytes, "upgrade");
    let protocol = upgrade.map(|line| line.value).map(|value| value.of(bytes));
    let extra = &mut exchange.response_extra;
    extra.extend_from_slice(b"connection: upgrade\r\n");
    if let Some(protocol) = protocol {
        extra.extend_from_slice(b"upgrade: ");
        extra.extend_from_slice(protocol);
        extra.extend_from_slice(b"\r\n");
    }
}

/// How long a gRPC call may take: up to eight digits and a unit, as gRPC over HTTP/2 has it.
pub(crate) fn grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(count * 3600)),
        b'M' => Some(Duration::from_secs(count * 60)),
        b'S' => Some(Duration::from_secs(count)),
        b'm' => Some(Duration::from_millis(count)),
        b'u' => Some(Duration::from_micros(count)),
        b'n' => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

fn add(extra: &mut Vec<u8>, line: std::fmt::Arguments<'_>) {
    extra
        .write_fmt(line)
        .expect("writing to memory does not fail");
}

/// The text form of random bits as a version 4 UUID (RFC 9562 §5.4).
mod uuid {
    pub(super) struct Uuid(u128);

    pub(super) fn from(random: u128) -> Uuid {
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0x3 << 62;
        Uuid(random & !VERSION & !VARIANT | 0x4 << 76 | 0x2 << 62)
    }

    impl std::fmt::Display for Uuid {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let b = self.0;
            let part = |shift: u32, bits: u32| (b >> shift) & ((1 << bits) - 1);
            write!(f, "{:08x}-{:04x}-", part(96, 32), part(80, 16))?;
            write!(
                f,
                "{:04x}-{:04x}-{:012x}",
                part(64, 16),
                part(48, 16),
                part(0, 48)
            )
        }
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn random_bits_become_a_version_4_uuid() {
            let text = super::from(u128::MAX).to_string();
            assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        }
    }
}
