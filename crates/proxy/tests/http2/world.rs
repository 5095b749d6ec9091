//! A proxy between clients and an upstream, of which each speaks what a test wants. Used by every
//! file of this program.

use std::net::SocketAddr;

use testkit::h2::{Lines, Request};
use testkit::proxy::Exit;
use testkit::{EchoServer, Frames, H2Client, H2Server, ProxyProcess, RawClient, RawH2Server};
use testkit::{ScriptedUpstream, Sidecar, Step};

/// Starts the proxy under test.
#[track_caller]
pub(crate) fn start(sidecar: &Sidecar) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &sidecar.yaml())
}

/// A proxy in front of an upstream.
pub(crate) struct World<U> {
    // First, so that it ends before its upstream does.
    pub(crate) proxy: ProxyProcess,
    pub(crate) upstream: U,
}

impl<U> World<U> {
    #[track_caller]
    fn new(upstream: U, addr: SocketAddr, adapt: impl FnOnce(Sidecar) -> Sidecar) -> Self {
        let sidecar = Sidecar::outbound(&[addr]).listener("protocol: http");
        let proxy = start(&adapt(sidecar));
        Self { proxy, upstream }
    }

    /// Another connection of HTTP/2.
    #[track_caller]
    pub(crate) fn client(&self) -> H2Client {
        H2Client::connect(self.proxy.addr())
    }

    /// Another connection of HTTP/2, frame by frame.
    #[track_caller]
    pub(crate) fn frames(&self) -> Frames {
        Frames::connect(self.proxy.addr())
    }

    /// Another connection of HTTP/1.
    #[track_caller]
    pub(crate) fn http1(&self) -> RawClient {
        RawClient::connect(self.proxy.addr())
    }

    /// Waits until so many requests have ended with this flag.
    #[track_caller]
    pub(crate) fn flagged(&self, flag: &str, count: f64) {
        self.proxy
            .metric_becomes("leno_requests_total", &[("flag", flag)], count);
    }

    /// Others are served, whatever happened.
    #[track_caller]
    pub(crate) fn serves_others(&self) {
        assert_eq!(self.client().get("/status/204").status, 204);
        assert!(
            !self.proxy.stderr().contains("panicked"),
            "{}",
            self.proxy.stderr()
        );
    }
}

/// In front of a server of HTTP/2, in the requests' own protocol.
#[track_caller]
pub(crate) fn http2() -> World<H2Server> {
    http2_with(|sidecar| sidecar)
}

/// As [`http2`], with some lines of configuration.
#[track_caller]
pub(crate) fn http2_with(adapt: impl FnOnce(Sidecar) -> Sidecar) -> World<H2Server> {
    let upstream = H2Server::start();
    let addr = upstream.addr();
    World::new(upstream, addr, adapt)
}

/// In front of a server of HTTP/2, whatever the requests came in.
#[track_caller]
pub(crate) fn always_http2() -> World<H2Server> {
    http2_with(|sidecar| sidecar.cluster("protocol: http2"))
}

/// In front of an upstream of HTTP/2 that does what a closure says.
#[track_caller]
pub(crate) fn played(
    settings: &[(u16, u32)],
    adapt: impl FnOnce(Sidecar) -> Sidecar,
    play: impl Fn(usize, &mut Frames) + Clone + Send + 'static,
) -> World<RawH2Server> {
    let upstream = RawH2Server::start(settings, play);
    let addr = upstream.addr();
    World::new(upstream, addr, |sidecar| {
        adapt(sidecar.cluster("protocol: http2"))
    })
}

/// In front of a server of HTTP/1.
#[track_caller]
pub(crate) fn echo1() -> World<EchoServer> {
    let upstream = EchoServer::start();
    let addr = upstream.addr();
    World::new(upstream, addr, |sidecar| sidecar.cluster("protocol: http1"))
}

/// In front of an upstream of HTTP/1 that plays a script on each connection.
#[track_caller]
pub(crate) fn scripted1(scripts: Vec<Vec<Step>>) -> World<ScriptedUpstream> {
    scripted1_with(scripts, |sidecar| sidecar)
}

/// As [`scripted1`], with some lines of configuration.
#[track_caller]
pub(crate) fn scripted1_with(
    scripts: Vec<Vec<Step>>,
    adapt: impl FnOnce(Sidecar) -> Sidecar,
) -> World<ScriptedUpstream> {
    let upstream = ScriptedUpstream::start(scripts);
    let addr = upstream.addr();
    World::new(upstream, addr, |sidecar| {
        adapt(sidecar.cluster("protocol: http1"))
    })
}

/// Limits of a configuration.
pub(crate) fn limits(limits: &str) -> impl FnOnce(Sidecar) -> Sidecar {
    let line = format!("limits: {{{limits}}}");
    move |sidecar| sidecar.with(&line)
}

/// Waits for the end of the process.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is not looked at"
)]
pub(crate) fn ended(proxy: ProxyProcess) -> Exit {
    proxy.wait(std::time::Instant::now())
}

/// The least that a request's head has.
pub(crate) const HEAD: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "test"),
    (":path", "/"),
];

pub(crate) fn get(path: &str) -> Request {
    Request::new("GET", path)
}

pub(crate) fn post(path: &str) -> Request {
    Request::new("POST", path)
}

/// Every value with this name, in order.
pub(crate) fn values<'l>(lines: &'l Lines, name: &str) -> Vec<&'l str> {
    let found = lines.iter().filter(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str()).collect()
}

/// Bytes that repeat only after a long while, so that what is lost or doubled shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / 251 + at) % 251).unwrap();
    (0..length).map(byte).collect()
}
