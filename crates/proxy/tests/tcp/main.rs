//! What the proxy does with what it does not read: bytes pass both ways, ends and resets as well,
//! whoever speaks first; and where they go, who may send them, and what is told of it.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

mod detection;
mod header;
mod life;
mod relay;
mod routes;
mod trust;

use testkit::{ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, TestCa, TestIdentity};

/// No request begins like this.
const QUESTION: &[u8] = b"\0question";
const ANSWER: &[u8] = b"answer";

/// An upstream that answers one question and then waits for the end.
fn answering() -> ScriptedUpstream {
    ScriptedUpstream::always(vec![
        Step::ReadUntil(QUESTION.to_vec()),
        Step::send(ANSWER),
        Step::ReadEnd,
    ])
}

#[track_caller]
fn start(sidecar: &Sidecar) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &sidecar.yaml())
}

/// Asks the one question; the connection stays.
#[track_caller]
fn ask(proxy: &ProxyProcess) -> RawClient {
    let mut client = RawClient::connect(proxy.addr());
    client.send(QUESTION);
    client.expect(ANSWER);
    client
}

/// The sidecars of a client and of a server, with mutual TLS between.
struct Pair {
    // First, so that they end before their files do.
    client: ProxyProcess,
    server: ProxyProcess,
    ca: TestCa,
    caller: TestIdentity,
}

impl Pair {
    /// In front of `app`; `adapt` is for the server's sidecar.
    fn new(app: &ScriptedUpstream, adapt: impl FnOnce(Sidecar, &TestIdentity) -> Sidecar) -> Self {
        let ca = TestCa::new();
        let (caller, called) = (ca.identity("client"), ca.identity("server"));
        let inbound = Sidecar::inbound(app.addr()).identity(&called).strict();
        let server = start(&adapt(inbound, &caller));
        let outbound = Sidecar::outbound(&[server.addr()]).identity(&caller);
        let client = start(&outbound.mtls(&[called.id]));
        Self {
            client,
            server,
            ca,
            caller,
        }
    }
}

/// Everything until the other side says that this was all; ours stays open.
fn read_all(client: &mut RawClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(client.stream(), &mut bytes).unwrap();
    bytes
}
