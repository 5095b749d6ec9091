//! The header lines that a proxy adds: forwarding, request ids, and what the hop needs. Pure but
//! for the randomness it is given; called by `request` once per request.

use crate::exchange::Exchange;
use crate::snapshot::Listener;
use std::io::Write;
use std::net::IpAddr;
use wire::http1::{Framing, Version};

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

/// Prepares the answer's head for the downstream, which may `stay` connected afterwards; says
/// whether its body must be taken out of its chunks.
pub(crate) fn prepare_response(exchange: &mut Exchange, bytes: &[u8], stay: bool) -> bool {
    let to_http10 = exchange.request.version == Version::Http10;
    let unchunk = to_http10 && exchange.response.framing == Framing::Chunked;
    if unchunk {
        exchange.drop_response_line(bytes, "transfer-encoding");
        exchange.drop_response_line(bytes, "trailer");
    }
    if !stay || unchunk {
        exchange
            .response_extra
            .extend_from_slice(b"connection: close\r\n");
    } else if to_http10 {
        exchange
            .response_extra
            .extend_from_slice(b"connection: keep-alive\r\n");
    }
    unchunk
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
