//! Extended CONNECT (RFC 8441) as the upgrade of HTTP/1.1 that it stands for, so that the path
//! knows one way to another protocol only. Called by `serve` for requests of public HTTP/2.

use super::Link;
use crate::exchange::Exchange;
use wire::http1::{Limits, Line, Method, Origin, Parsed};

/// Rewrites an extended CONNECT; `random` makes the key that a WebSocket handshake needs. Other
/// requests stay as they are. `false`: the rewritten request cannot be.
pub(super) fn rewrite(
    link: &mut Link,
    exchange: &mut Exchange,
    limits: &Limits,
    random: impl Fn() -> u64,
) -> bool {
    let head = &exchange.request;
    let Some(protocol) = head.protocol.filter(|_| head.method == Method::Connect) else {
        return true;
    };
    let bytes = &link.text;
    let mut text = b"GET ".to_vec();
    text.extend_from_slice(head.path.of(bytes));
    text.extend_from_slice(b" HTTP/1.1\r\nconnection: upgrade\r\nupgrade: ");
    text.extend_from_slice(protocol.of(bytes));
    text.extend_from_slice(b"\r\n");
    if protocol.of(bytes).eq_ignore_ascii_case(b"websocket") {
        text.extend_from_slice(b"sec-websocket-key: ");
        text.extend_from_slice(&key([random(), random()]));
        text.extend_from_slice(b"\r\n");
    }
    let is_ours = |name: &[u8]| name.eq_ignore_ascii_case(b"sec-websocket-key");
    let kept = |line: &&Line| !line.dropped && !is_ours(line.name.of(bytes));
    for line in head.lines.iter().filter(kept) {
        text.extend_from_slice(line.name.of(bytes));
        text.extend_from_slice(b": ");
        text.extend_from_slice(line.value.of(bytes));
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    if exchange.request.parse(&text, limits) != Ok(Parsed::Complete) {
        return false;
    }
    link.text = text;
    let upgrade = exchange.request.find(&link.text, "upgrade");
    exchange.request.protocol = upgrade.map(|line| line.value);
    exchange.request.origin = Origin::Http2;
    exchange.extended = true;
    true
}

/// Sixteen random bytes in base64 (RFC 6455 §4.1).
fn key(random: [u64; 2]) -> [u8; 24] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u128::from(random[0]) << 64 | u128::from(random[1]);
    let mut text = *b"========================";
    for (place, digit) in text[..22].iter_mut().enumerate() {
        // 128 bits in groups of six; the last one is filled up with zeros.
        let shift = 122_i32 - 6 * i32::try_from(place).expect("two dozen");
        let group = match shift {
            0.. => bits >> shift,
            _ => bits << -shift,
        };
        *digit = DIGITS[(group & 63) as usize];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn keys_are_base64_of_sixteen_bytes() {
        assert_eq!(&key([0, 0]), b"AAAAAAAAAAAAAAAAAAAAAA==");
        assert_eq!(&key([u64::MAX, u64::MAX]), b"/////////////////////w==");
        let sample = u64::from_be_bytes(*b"the samp");
        let nonce = u64::from_be_bytes(*b"le nonce");
        // The example of RFC 6455, section 1.3.
        assert_eq!(&key([sample, nonce]), b"dGhlIHNhbXBsZSBub25jZQ==");
    }
}
