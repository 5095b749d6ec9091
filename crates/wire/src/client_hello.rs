//! What a TLS client says in the clear: the server it wants and the protocols it offers.
//! Called by the proxy's detection, once `sniff` has said TLS and again with more bytes after
//! `NeedMore`. Never judges a handshake: whoever ends the TLS does.

use std::ops::Range;

/// Largest hello that is looked at: eight times those with post-quantum keys, and what a record
/// and so a connection's buffer holds.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Longest server name: a DNS name's.
const NAME_BYTES_MAX: usize = 253;

/// `ContentType` and `HandshakeType` (RFC 8446, sections 5.1 and 4).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// `ExtensionType` (RFC 6066, section 3 and RFC 7301, section 3.1).
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// A client's first message. Reused: parsing allocates nothing once `message` has grown.
#[derive(Clone, Debug, Default)]
pub struct ClientHello {
    /// The handshake message without the records around it, as far as it is there.
    message: Vec<u8>,
    server_name: Option<Range<usize>>,
    /// The list of names, each behind its length. Invariant: well formed.
    protocols: Range<usize>,
}

/// How far a parse came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// All of the hello is there.
    Complete,
    /// The hello goes on beyond these bytes; at most [`MESSAGE_BYTES_MAX`] of it are waited for.
    NeedMore,
    /// Not a hello, one that contradicts itself, or one that is too long.
    Malformed,
}

impl ClientHello {
    /// Reads the hello at the beginning of `bytes`, the first of a connection.
    pub fn parse(&mut self, bytes: &[u8]) -> Parsed {
        (self.server_name, self.protocols) = (None, 0..0);
        match self.assemble(bytes) {
            Some(true) if self.read().is_some() => Parsed::Complete,
            Some(false) => Parsed::NeedMore,
            _ => Parsed::Malformed,
        }
    }

    /// The host that is asked for (RFC 6066, section 3), as written: ASCII, not empty, any case.
    pub fn server_name(&self) -> Option<&str> {
        let bytes = &self.message[self.server_name.clone()?];
        std::str::from_utf8(bytes).ok()
    }

    /// The protocols that are offered (RFC 7301), in the client's order.
    pub fn protocols(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.message[self.protocols.clone()];
        std::iter::from_fn(move || {
            let (length, more) = rest.split_first()?;
            let (name, more) = more.split_at_checked(usize::from(*length))?;
            rest = more;
            Some(name)
        })
    }

    /// Gathers the message from its records: whether all of it is there, `None` if it is no hello.
    fn assemble(&mut self, mut bytes: &[u8]) -> Option<bool> {
        self.message.clear();
        loop {
            if !begins_record(bytes) {
                return None;
            }
            let Some((header, rest)) = bytes.split_at_checked(5) else {
                return Some(false);
            };
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if length == 0 {
                return None;
            }
            let end = length.min(rest.len());
            self.message.extend_from_slice(&rest[..end]);
            if let Some(whole) = self.is_whole()? {
                self.message.truncate(whole);
                return Some(true);
            }
            if end < length {
                return Some(false);
            }
            bytes = &rest[end..];
        }
    }

    /// The message's length with its header, if that much has been gathered.
    #[expect(clippy::option_option, reason = "no hello, not yet whole, whole")]
    fn is_whole(&self) -> Option<Option<usize>> {
        match *self.message {
            [] => Some(None),
            [kind, ..] if kind != CLIENT_HELLO => None,
            [_, a, b, c, ..] => {
                let whole = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
                let there = (self.message.len() >= whole).then_some(whole);
                (whole <= MESSAGE_BYTES_MAX).then_some(there)
            }
            _ => Some(None),
        }
    }

    /// Walks the message (RFC 8446, section 4.1.2) down to the two extensions.
    fn read(&mut self) -> Option<()> {
        let mut at = Cursor::new(&self.message, 4..self.message.len());
        // Version and random, then session, cipher suites and compression methods.
        at.take(2 + 32)?;
        at.block8()?;
        at.block16()?;
        at.block8()?;
        if at.is_empty() {
            // Old clients send no extensions.
            return Some(());
        }
        let extensions = at.block16()?;
        let mut at_extension = Cursor::new(&self.message, extensions);
        let (mut server_name, mut protocols) = (None, None);
        while !at_extension.is_empty() {
            let kind = at_extension.u16()?;
            let body = Cursor::new(&self.message, at_extension.block16()?);
            let twice = match kind {
                SERVER_NAME => server_name.replace(read_server_name(body)?).is_some(),
                ALPN => protocols.replace(read_protocols(body)?).is_some(),
                _ => false,
            };
            if twice {
                return None;
            }
        }
        if !at.is_empty() {
            return None;
        }
        self.server_name = server_name.flatten();
        self.protocols = protocols.unwrap_or(0..0);
        Some(())
    }
}

/// A handshake record's first bytes, as far as they are there.
fn begins_record(bytes: &[u8]) -> bool {
    match *bytes {
        [] | [HANDSHAKE] | [HANDSHAKE, 3] => true,
        [HANDSHAKE, 3, minor, ..] => minor <= 4,
        _ => false,
    }
}

/// The one name of type `host_name`; other types were never made.
fn read_server_name(mut body: Cursor<'_>) -> Option<Option<Range<usize>>> {
    let mut list = Cursor::new(body.bytes, body.block16()?);
    let kind = list.take(1)?;
    let name = list.block16()?;
    let bytes = &body.bytes[name.clone()];
    let well_formed = !bytes.is_empty()
        && bytes.len() <= NAME_BYTES_MAX
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b));
    let is_host = body.bytes[kind.start] == 0;
    (is_host && well_formed && list.is_empty() && body.is_empty()).then_some(Some(name))
}

/// A list that is not empty, of names that are not empty.
fn read_protocols(mut body: Cursor<'_>) -> Option<Range<usize>> {
    let list = body.block16()?;
    let mut at = Cursor::new(body.bytes, list.clone());
    while !at.is_empty() {
        if at.block8()?.is_empty() {
            return None;
        }
    }
    (!list.is_empty() && body.is_empty()).then_some(list)
}

/// A place in the message that never leaves its block.
struct Cursor<'a> {
    bytes: &'a [u8],
    rest: Range<usize>,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], rest: Range<usize>) -> Self {
        Self { bytes, rest }
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<Range<usize>> {
        if count > self.rest.len() {
            return None;
        }
        let from = self.rest.start;
        self.rest.start += count;
        Some(from..from + count)
    }

    fn u16(&mut self) -> Option<u16> {
        let at = self.take(2)?.start;
        Some(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    /// What stands behind its length in one byte.
    fn block8(&mut self) -> Option<Range<usize>> {
        let at = self.take(1)?.start;
        self.take(usize::from(self.bytes[at]))
    }

    /// What stands behind its length in two bytes.
    fn block16(&mut self) -> Option<Range<usize>> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `body` behind its length in two bytes.
    fn block16(body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap();
        [&length.to_be_bytes()[..], body].concat()
    }

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &block16(body)].concat()
    }

    fn server_name(name: &[u8]) -> Vec<u8> {
        extension(0, &block16(&[&[0][..], &block16(name)].concat()))
    }

    fn alpn(names: &[&[u8]]) -> Vec<u8> {
        let one = |name: &&[u8]| [&[u8::try_from(name.len()).unwrap()], *name].concat();
        extension(
            16,
            &block16(&names.iter().flat_map(one).collect::<Vec<_>>()),
        )
    }

    /// A hello's message with these extensions.
    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = [
            &[3, 3][..],
            &[7; 32],
            &[2, 1, 1],
            &block16(&[0x13, 1]),
            &[1, 0],
        ]
        .concat();
        if !extensions.is_empty() {
            body.extend(block16(&extensions.concat()));
        }
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1][..], &length[1..], &body].concat()
    }

    /// In records of at most `size` bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let one = |part: &[u8]| [&[22, 3, 1][..], &block16(part)].concat();
        message.chunks(size).flat_map(one).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: Parsed) -> (Option<String>, Vec<Vec<u8>>) {
        let mut hello = ClientHello::default();
        for end in 0..bytes.len() {
            let part = hello.parse(&bytes[..end]);
            assert!(part == Parsed::NeedMore || part == expected, "{end}");
        }
        assert_eq!(hello.parse(bytes), expected);
        let protocols = hello.protocols().map(<[u8]>::to_vec).collect();
        (hello.server_name().map(str::to_owned), protocols)
    }

    #[test]
    fn name_and_protocols_are_found_however_the_hello_is_cut() {
        let other = extension(0x1234, b"other");
        let message = message(&[other, server_name(b"Db.example"), alpn(&[b"h2", b"leno/1"])]);
        for size in [1, 3, 5, 64, 4096] {
            let (name, protocols) = check(&records(&message, size), Parsed::Complete);
            assert_eq!(name.as_deref(), Some("Db.example"));
            assert_eq!(protocols, [&b"h2"[..], b"leno/1"]);
        }
    }

    #[test]
    fn hellos_without_extensions_name_nothing() {
        for extensions in [&[][..], &[extension(43, &[2, 3, 4])]] {
            let found = check(&records(&message(extensions), 4096), Parsed::Complete);
            assert_eq!(found, (None, vec![]));
        }
    }

    #[test]
    fn what_contradicts_itself_is_malformed() {
        let cut = |count: usize| {
            let mut bytes = message(&[server_name(b"a")]);
            bytes.truncate(bytes.len() - count);
            let length = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes();
            bytes[1..4].copy_from_slice(&length[1..]);
            bytes
        };
        let messages = [
            message(&[server_name(b"")]),
            message(&[server_name(b"a b")]),
            message(&[server_name(&[b'a'; 254])]),
            message(&[server_name(b"a"), server_name(b"b")]),
            message(&[alpn(&[])]),
            message(&[alpn(&[b""])]),
            message(&[alpn(&[b"h2"]), alpn(&[b"h2"])]),
            message(&[extension(0, &[0, 9, 0])]),
            cut(1),
            cut(7),
            vec![2, 0, 0, 1, 0],
            vec![1, 0, 0, 0],
            vec![1, 0, 64, 0],
        ];
        for message in messages {
            check(&records(&message, 4096), Parsed::Malformed);
        }
        check(b"\x16\x03\x01\x00\x00", Parsed::Malformed);
        check(b"\x16\x03\x01\x00\x01\x01\x17", Parsed::Malformed);
        check(b"GET / HTTP/1.1", Parsed::Malformed);
    }

    #[test]
    fn an_endless_hello_is_not_waited_for() {
        let whole = u32::try_from(MESSAGE_BYTES_MAX - 4).unwrap();
        for (length, expected) in [(whole, Parsed::NeedMore), (whole + 1, Parsed::Malformed)] {
            let length = length.to_be_bytes();
            let bytes = [&[22, 3, 1, 0, 5, 1][..], &length[1..], &[3]].concat();
            check(&bytes, expected);
        }
    }
}
