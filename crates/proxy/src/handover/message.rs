//! What a proxy and its successor say to each other: lines of JSON, bounded, read defensively. Used
//! by `handover`, and by its fuzz target by path: it knows nothing else of the proxy, and does no
//! I/O.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The version that is spoken here.
pub const VERSION: u32 = 1;
/// Longest line, its end included: descriptions of as many sockets as there may be.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Sockets that are given away at once; a sidecar has some ten, a gateway some hundred.
pub const SOCKETS_MAX: usize = 1024;
/// Longest name of a listener, so that all their descriptions fit into a line.
pub const NAME_BYTES_MAX: usize = 512;

/// One thing that is said. Fields that are not known are left alone, so that a version can add
/// some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// The successor asks for the sockets, in the version that it speaks.
    Take {
        /// Of the protocol.
        version: u32,
    },
    /// The answer; the sockets follow, in this order.
    Give {
        /// What they are.
        sockets: Vec<Description>,
    },
    /// The successor can serve, and has not begun to.
    Ready,
    /// The successor is to begin: nobody else accepts any more.
    Go,
    /// Nothing comes of it.
    Refuse {
        /// In words.
        why: String,
    },
}

/// What a socket is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// What is accepted from it.
    pub role: Role,
    /// The listener's; empty for what is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// As the configuration has it: the port may be 0, and the address that of another family.
    pub asked: SocketAddr,
}

/// What is accepted from a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Connections to a listener.
    Listener,
    /// The same, or nothing yet: opened by whoever started the first of all predecessors.
    Inherited,
    /// Requests for admin pages.
    Admin,
    /// Requests for metrics.
    Metrics,
    /// Queries over UDP.
    DnsUdp,
    /// Queries over TCP.
    DnsTcp,
    /// Something that only a later version knows.
    #[serde(other)]
    Unknown,
}

/// Why what was said is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nothing that a proxy says.
    #[error("it says what no proxy does")]
    NotALine,
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("a line has more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// More than [`SOCKETS_MAX`].
    #[error("it gives more than {SOCKETS_MAX} sockets")]
    TooMany,
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("a listener's name has more than {NAME_BYTES_MAX} bytes")]
    NameTooLong,
}

impl Line {
    /// With its end.
    ///
    /// # Errors
    /// When nobody would read it.
    pub fn encode(&self) -> Result<Vec<u8>, Fault> {
        self.check()?;
        let mut bytes = serde_json::to_vec(self).map_err(|_| Fault::NotALine)?;
        bytes.push(b'\n');
        match bytes.len() {
            length if length > LINE_BYTES_MAX => Err(Fault::TooLong),
            _ => Ok(bytes),
        }
    }

    /// Without its end.
    fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let line: Self = serde_json::from_slice(bytes).map_err(|_| Fault::NotALine)?;
        line.check().map(|()| line)
    }

    fn check(&self) -> Result<(), Fault> {
        let Self::Give { sockets } = self else {
            return Ok(());
        };
        let is_long = |socket: &Description| socket.name.len() > NAME_BYTES_MAX;
        match () {
            () if sockets.len() > SOCKETS_MAX => Err(Fault::TooMany),
            () if sockets.iter().any(is_long) => Err(Fault::NameTooLong),
            () => Ok(()),
        }
    }
}

/// Bytes that have come, until they are lines. Empty lines, which carry sockets, are passed over.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Adds what has come.
    ///
    /// # Errors
    /// When nobody looks at what comes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.bytes.extend_from_slice(bytes);
        match self.bytes.len() {
            held if held > 2 * LINE_BYTES_MAX => Err(Fault::TooLong),
            _ => Ok(()),
        }
    }

    /// The next line, if it is whole.
    ///
    /// # Errors
    /// When it is none, or is too long; nothing after it is to be trusted.
    pub fn next_line(&mut self) -> Result<Option<Line>, Fault> {
        let blank = self.bytes.iter().take_while(|byte| **byte == b'\n').count();
        self.bytes.drain(..blank);
        let end = self.bytes.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(self.bytes.len()) >= LINE_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        let Some(end) = end else { return Ok(None) };
        let line = Line::decode(&self.bytes[..end])?;
        self.bytes.drain(..=end);
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(count: usize, name: &str) -> Line {
        let one = Description {
            role: Role::Listener,
            name: name.to_owned(),
            asked: "[::]:15001".parse().unwrap(),
        };
        Line::Give {
            sockets: vec![one; count],
        }
    }

    /// What comes of `bytes`, in pieces of `size`.
    fn read(bytes: &[u8], size: usize) -> Result<Vec<Line>, Fault> {
        let (mut lines, mut read) = (Lines::default(), Vec::new());
        for piece in bytes.chunks(size) {
            lines.push(piece)?;
            while let Some(line) = lines.next_line()? {
                read.push(line);
            }
        }
        Ok(read)
    }

    #[test]
    fn what_is_said_is_understood_however_it_arrives() {
        let said = [
            Line::Take { version: VERSION },
            give(3, "outbound"),
            Line::Ready,
            Line::Go,
            Line::Refuse {
                why: "not\nnow".to_owned(),
            },
        ];
        let lines = said.each_ref().map(|line| line.encode().unwrap());
        let bytes = lines.join(&b"\n\n"[..]);
        for size in [1, 2, 7, bytes.len()] {
            assert_eq!(read(&bytes, size).as_deref(), Ok(&said[..]), "{size}");
        }
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        let later = br#"{"give":{"sockets":[{"role":"quic","asked":"[::]:1","x":1}],"y":2}}"#;
        let read = read(&[later, &b"\n"[..]].concat(), 9).unwrap();
        let [Line::Give { sockets }] = &read[..] else {
            panic!("{read:?}")
        };
        assert_eq!((sockets[0].role, &*sockets[0].name), (Role::Unknown, ""));
    }

    #[test]
    fn what_nobody_should_say_is_refused() {
        let check = |bytes: &[u8], fault| assert_eq!(read(bytes, 4096), Err(fault));
        check(b"GET / HTTP/1.1\r\n", Fault::NotALine);
        check(b"{\"take\":{\"version\":-1}}\n", Fault::NotALine);
        check(b"{\"give\":{\"sockets\":[{}]}}\n", Fault::NotALine);
        check(b"\"ready\" \"go\"\n", Fault::NotALine);
        check(&vec![b' '; LINE_BYTES_MAX + 1], Fault::TooLong);
        assert_eq!(give(SOCKETS_MAX + 1, "").encode(), Err(Fault::TooMany));
        let name = "n".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(give(1, &name).encode(), Err(Fault::NameTooLong));
    }

    #[test]
    fn as_many_sockets_as_there_may_be_fit_into_a_line() {
        let most = give(SOCKETS_MAX, &"n".repeat(NAME_BYTES_MAX));
        let bytes = most.encode().unwrap();
        assert_eq!(read(&bytes, 65_536).as_deref(), Ok(&[most][..]));
    }
}
