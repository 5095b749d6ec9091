//! The configuration files of the contestants: minimal, one worker, logs off, keep-alive kept.
//! Pure text from addresses and certificate paths; `subject` writes the files and starts the programs.

mod envoy;
mod haproxy;
mod leno;
mod nginx;

use std::net::SocketAddr;
use std::path::Path;

use super::contestant::Contestant;

/// Which end of a mesh hop a process is; `Plain` is a proxy alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// Takes plaintext, speaks mutual TLS to the other sidecar.
    ClientSide,
    /// Takes mutual TLS, speaks plaintext to the application.
    ServerSide,
}

/// All that a configuration depends on.
pub(crate) struct Place<'a> {
    pub(crate) role: Role,
    pub(crate) listen: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Downstream connections to be ready for: some set memory aside for each.
    pub(crate) connections_max: usize,
    /// Holds `ca.pem` and for each side `NAME.pem`, `NAME.key` and `NAME.both` (chain and key).
    pub(crate) folder: &'a Path,
}

impl Place<'_> {
    /// The file stem of the certificate that this side shows.
    fn certificate(&self) -> &'static str {
        match self.role {
            Role::ServerSide => "server",
            Role::Plain | Role::ClientSide => "client",
        }
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// The configuration of `contestant` in `place`; the floor has none.
pub(crate) fn text(contestant: Contestant, place: &Place<'_>) -> String {
    match contestant {
        Contestant::Floor => String::new(),
        Contestant::Leno => leno::text(place),
        Contestant::Haproxy => haproxy::text(place),
        Contestant::Nginx => nginx::text(place),
        Contestant::Envoy => envoy::text(place),
    }
}
