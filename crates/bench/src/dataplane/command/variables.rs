//! What a template of a user's data plane may name. Called by `command`; pure.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use crate::dataplane::certificates::{dns_name, spiffe_id};
use crate::dataplane::{Certificates, Hop, Side};

/// Ports of a sample: any that no template has by accident.
pub(super) const LISTEN: u16 = 61_231;
pub(super) const UPSTREAM: u16 = 61_232;
pub(super) const ADMIN: &str = "61233";

/// The placeholders, by name.
#[derive(Debug, Serialize)]
pub(super) struct Variables {
    side: &'static str,
    listen: String,
    listen_host: String,
    listen_port: u16,
    upstream: String,
    upstream_host: String,
    upstream_port: u16,
    admin: String,
    admin_host: String,
    admin_port: u16,
    accept_tls: bool,
    connect_tls: bool,
    ca: String,
    cert: String,
    key: String,
    pair: String,
    id: String,
    peer_id: String,
    peer_name: String,
    dir: String,
    connections: u32,
}

impl Variables {
    pub(super) fn of(hop: &Hop<'_>, listener: SocketAddr, admin: SocketAddr) -> Self {
        let (side, certificates) = (hop.side, hop.certificates);
        let peer = match side {
            Side::Server => Side::Client,
            Side::Client | Side::Gateway => Side::Server,
        };
        let text = |path: &Path| path.display().to_string();
        Self {
            side: side.name(),
            listen: listener.to_string(),
            listen_host: listener.ip().to_string(),
            listen_port: listener.port(),
            upstream: hop.upstream.to_string(),
            upstream_host: hop.upstream.ip().to_string(),
            upstream_port: hop.upstream.port(),
            admin: admin.to_string(),
            admin_host: admin.ip().to_string(),
            admin_port: admin.port(),
            accept_tls: hop.mutual_tls && side == Side::Server,
            connect_tls: hop.mutual_tls && side == Side::Client,
            ca: text(&certificates.trust_bundle()),
            cert: text(&certificates.chain(side)),
            key: text(&certificates.key(side)),
            pair: text(&certificates.pair(side)),
            id: spiffe_id(side),
            peer_id: spiffe_id(peer),
            peer_name: dns_name(peer),
            dir: text(hop.dir),
            connections: hop.connections,
        }
    }

    /// Those of a sidecar that is never started.
    pub(super) fn sample(
        side: Side,
        mutual_tls: bool,
        certificates: &Certificates,
        dir: &Path,
    ) -> Self {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let hop = Hop {
            side,
            mutual_tls,
            telemetry: crate::results::Telemetry::Metrics,
            upstream: at(UPSTREAM),
            connections: 1,
            certificates,
            dir,
        };
        Self::of(&hop, at(LISTEN), at(UPSTREAM + 1))
    }

    /// `template` with the placeholders filled in.
    ///
    /// # Errors
    /// When it is no template, or names something else.
    pub(super) fn fill(&self, template: &str) -> Result<String, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Blocks on lines of their own leave no lines behind.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()?;
        environment.set_syntax(syntax);
        environment.render_str(template, Serde(self))
    }
}
