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
