//! The host and port of a Host line or a target (RFC 3986, section 3.2). Called once per request.
//! Never resolves, never decodes: it only says whether readers could disagree.

/// Whether `text` is a host with an optional port. An empty one is: it says that the target has
/// no authority (RFC 9110, section 7.2).
#[inline]
pub(crate) fn is_host_and_port(text: &[u8]) -> bool {
    let name = text
        .iter()
        .position(|b| !NAME[*b as usize])
        .unwrap_or(text.len());
    match text.get(name) {
        None => true,
        Some(b':') if name > 0 => is_port(&text[name + 1..]),
        Some(b'[') if name == 0 => is_literal(text),
        Some(_) => false,
    }
}

/// Whether `text` has a host and a port, neither of them empty, as CONNECT asks for.
pub(super) fn is_authority_form(text: &[u8]) -> bool {
    let port = text
        .iter()
        .rposition(|b| *b == b':')
        .map_or(&[][..], |at| &text[at + 1..]);
    !port.is_empty() && port.iter().all(u8::is_ascii_digit) && is_host_and_port(text)
}

/// Whether two of them name the same: without case, and without the port if it is the scheme's.
pub(crate) fn is_same(a: &[u8], b: &[u8], default_port: &[u8]) -> bool {
    let strip = |text| without_port(text, default_port);
    strip(a).eq_ignore_ascii_case(strip(b))
}

fn without_port<'t>(text: &'t [u8], port: &[u8]) -> &'t [u8] {
    let bare = text.strip_suffix(port).unwrap_or(text);
    bare.strip_suffix(b":").unwrap_or(text)
}

fn is_port(text: &[u8]) -> bool {
    text.len() <= 5
        && text.iter().all(u8::is_ascii_digit)
        && text.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')) <= u32::from(u16::MAX)
}

/// An IPv6 address in brackets, perhaps with a zone, then perhaps a port.
fn is_literal(text: &[u8]) -> bool {
    let Some(end) = text.iter().position(|b| *b == b']') else {
        return false;
    };
    let inside = &text[1..end];
    let address = inside.split(|b| *b == b'%').next().unwrap_or_default();
    let is_address = std::str::from_utf8(address).is_ok_and(|a| a.parse::<IpV6>().is_ok());
    is_address
        && inside.iter().all(|b| NAME[*b as usize] || *b == b':')
        && match text.get(end + 1) {
            None => true,
            Some(b':') => is_port(&text[end + 2..]),
            Some(_) => false,
        }
}

type IpV6 = std::net::Ipv6Addr;

/// What a registered name is made of: unreserved, sub-delims and the sign of an escape.
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\''
            )
            || matches!(b, b'(' | b')' | b'*' | b'+' | b';' | b'=');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_hosts_with_ports() {
        let names = ["", "a", "a.b-c_d", "1.2.3.4:80", "a:", "a:65535", "a%20b"];
        let literals = ["[::1]", "[::1]:80", "[::1]:", "[fe80::1%25eth0]:80"];
        for text in names.iter().chain(&literals) {
            assert!(is_host_and_port(text.as_bytes()), "{text}");
        }
        let names = [
            ":80", "a:b", "a:65536", "a:000080", "a:1:2", "a@b", "a/b", "a b", "a,b",
        ];
        let others = [
            "a#", "a?", "a\\b", "::1", "[::1", "[1]", "[::1]x", "[::1]:x", "[]", "[a]:80",
        ];
        for text in names.iter().chain(&others) {
            assert!(!is_host_and_port(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_port_of_the_scheme_need_not_be_written() {
        assert!(is_same(b"A:80", b"a", b"80") && is_same(b"a:", b"a", b""));
        assert!(!is_same(b"a:81", b"a", b"80") && !is_same(b"a80", b"a", b"80"));
    }
}
