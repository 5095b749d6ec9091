//! Two sidecars with the hop between them: application, inbound sidecar, `leno/1`, outbound
//! sidecar. Used by the tests of what passes over the hop; a test adds its client.

use std::net::SocketAddr;

use crate::ca::{TestCa, TestIdentity};
use crate::client::{MeshConnector, RawClient};
use crate::config::Sidecar;
use crate::echo::EchoServer;
use crate::h2::H2Server;
use crate::proxy::ProxyProcess;
use crate::script::ScriptedUpstream;

/// The protocol between two sidecars, as its ALPN name.
pub const HOP: &[u8] = b"leno/1";

/// Something that an inbound sidecar can stand in front of.
pub trait App {
    /// Where it listens.
    fn addr(&self) -> SocketAddr;
}

impl App for EchoServer {
    fn addr(&self) -> SocketAddr {
        self.addr()
    }
}

impl App for H2Server {
    fn addr(&self) -> SocketAddr {
        self.addr()
    }
}

impl App for ScriptedUpstream {
    fn addr(&self) -> SocketAddr {
        self.addr()
    }
}

/// The world of two sidecars. The order is that in which it ends: nobody loses a peer that it still
/// talks to.
pub struct Pair<A> {
    /// The client's sidecar, which sends to the other over the hop.
    pub outbound: ProxyProcess,
    /// The application's sidecar, which refuses plaintext.
    pub inbound: ProxyProcess,
    /// The application.
    pub app: A,
    /// Who issued both identities.
    pub ca: TestCa,
    /// Who the inbound sidecar is.
    pub server: TestIdentity,
    /// Who the outbound sidecar is.
    pub client: TestIdentity,
    /// The configurations, for changed ones.
    pub configs: Configs,
}

/// How both sidecars were started.
#[derive(Debug, Clone)]
pub struct Configs {
    /// The client's.
    pub outbound: Sidecar,
    /// The application's.
    pub inbound: Sidecar,
}

impl<A: App> Pair<A> {
    /// Starts both with the program `binary`.
    ///
    /// # Panics
    /// If one does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start(binary: &str, app: A) -> Self {
        Self::start_with(binary, app, |inbound| inbound, |outbound| outbound)
    }

    /// As [`Pair::start`], with lines of configuration for each.
    ///
    /// # Panics
    /// If one does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start_with(
        binary: &str,
        app: A,
        inbound: impl FnOnce(Sidecar) -> Sidecar,
        outbound: impl FnOnce(Sidecar) -> Sidecar,
    ) -> Self {
        let ca = TestCa::new();
        let identities = (ca.identity("server"), ca.identity("client"));
        Self::start_as(binary, (app, ca, identities), inbound, outbound)
    }

    /// As [`Pair::start_with`], with identities (server, client) that the test has issued.
    ///
    /// # Panics
    /// If one does not get ready.
    #[track_caller]
    #[must_use]
    pub fn start_as(
        binary: &str,
        (app, ca, (server, client)): (A, TestCa, (TestIdentity, TestIdentity)),
        inbound: impl FnOnce(Sidecar) -> Sidecar,
        outbound: impl FnOnce(Sidecar) -> Sidecar,
    ) -> Self {
        let configured = Sidecar::inbound(app.addr()).identity(&server).strict();
        let inbound_config = inbound(configured);
        let inbound = ProxyProcess::start(binary, &inbound_config.yaml());
        let configured = Sidecar::outbound(&[inbound.addr()]).identity(&client);
        let expected = std::slice::from_ref(&server.id);
        let mut outbound_config = outbound(configured.leno(expected));
        // Said unless the test says otherwise: a client that is silent at first would be taken
        // for one that waits to be spoken to.
        if !outbound_config.yaml().contains("\n  protocol:") {
            outbound_config = outbound_config.listener("protocol: http");
        }
        let outbound = ProxyProcess::start(binary, &outbound_config.yaml());
        Self {
            outbound,
            inbound,
            app,
            ca,
            server,
            client,
            configs: Configs {
                outbound: outbound_config,
                inbound: inbound_config,
            },
        }
    }

    /// Another connection of a client, to its sidecar.
    #[track_caller]
    #[must_use]
    pub fn client(&self) -> RawClient {
        RawClient::connect(self.outbound.addr())
    }

    /// Connects to the inbound sidecar in the place of the outbound one.
    #[must_use]
    pub fn hop(&self) -> MeshConnector {
        MeshConnector::with_alpn(&self.client.credentials(), &self.server.id, &[HOP])
    }

    /// Handshakes that the outbound sidecar has finished: connections that it made for the hop.
    ///
    /// # Panics
    /// If it does not tell.
    #[track_caller]
    #[must_use]
    pub fn hop_connections(&self) -> f64 {
        let upstream = [("side", "upstream")];
        self.outbound.metric("leno_tls_handshakes_total", &upstream)
    }
}
