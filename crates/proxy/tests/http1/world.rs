//! A proxy between a client and an upstream: an echo server, or one that follows a script.
//! Used by every file of this program.

use testkit::{EchoServer, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step};

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
    /// Another connection to the proxy.
    #[track_caller]
    pub(crate) fn client(&self) -> RawClient {
        RawClient::connect(self.proxy.addr())
    }

    /// Waits until so many requests have ended with this flag.
    #[track_caller]
    pub(crate) fn flagged(&self, flag: &str, count: f64) {
        self.proxy
            .metric_becomes("leno_requests_total", &[("flag", flag)], count);
    }
}

/// In front of an echo server.
#[track_caller]
pub(crate) fn echo() -> World<EchoServer> {
    echo_with(|sidecar| sidecar)
}

/// As [`echo`], with some lines of configuration.
#[track_caller]
pub(crate) fn echo_with(adapt: impl FnOnce(Sidecar) -> Sidecar) -> World<EchoServer> {
    let upstream = EchoServer::start();
    let sidecar = Sidecar::outbound(&[upstream.addr()]).listener("protocol: http");
    let proxy = start(&adapt(sidecar));
    World { proxy, upstream }
}

/// In front of an upstream that plays a script on each connection, the last one on all further.
#[track_caller]
pub(crate) fn scripted(scripts: Vec<Vec<Step>>) -> World<ScriptedUpstream> {
    scripted_with(scripts, |sidecar| sidecar)
}

/// As [`scripted`], with some lines of configuration.
#[track_caller]
pub(crate) fn scripted_with(
    scripts: Vec<Vec<Step>>,
    adapt: impl FnOnce(Sidecar) -> Sidecar,
) -> World<ScriptedUpstream> {
    let upstream = ScriptedUpstream::start(scripts);
    let sidecar = Sidecar::outbound(&[upstream.addr()]).listener("protocol: http");
    let proxy = start(&adapt(sidecar));
    World { proxy, upstream }
}

/// In front of an upstream that reads one whole request and then sends this.
#[track_caller]
pub(crate) fn answering(answer: impl AsRef<[u8]>) -> World<ScriptedUpstream> {
    scripted(vec![vec![
        Step::ReadRequest,
        Step::send(answer),
        Step::ReadEnd,
    ]])
}

/// What the upstream receives of a request.
#[track_caller]
pub(crate) fn forwarded(request: impl AsRef<[u8]>) -> String {
    forwarded_with(request, |sidecar| sidecar)
}

/// As [`forwarded`], with some lines of configuration.
#[track_caller]
pub(crate) fn forwarded_with(
    request: impl AsRef<[u8]>,
    adapt: impl FnOnce(Sidecar) -> Sidecar,
) -> String {
    let script = vec![Step::ReadRequest, Step::answer("ok"), Step::ReadEnd];
    let world = scripted_with(vec![script], adapt);
    let answer = world.client().ask(request);
    assert_eq!(
        (answer.status(), answer.text().as_str()),
        (200, "ok"),
        "{answer:?}"
    );
    world.upstream.received_text(0)
}

/// Bytes that repeat only after a long while, so that what is lost or doubled shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / 251 + at) % 251).unwrap();
    (0..length).map(byte).collect()
}

/// A body in chunks of at most so many bytes, without trailers.
pub(crate) fn chunked(size: usize, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + body.len() / size * 8);
    for chunk in body.chunks(size) {
        out.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
    }
    out.extend(b"0\r\n\r\n");
    out
}
