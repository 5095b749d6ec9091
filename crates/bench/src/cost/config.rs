//! The configuration files of the contestants: minimal, one worker, logs off, keep-alive kept.
//! Pure text from addresses and certificate paths; `subject` writes the files and starts the
//! programs.

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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(contestant: Contestant, role: Role, expected: &[&str], absent: &[&str]) {
        let place = Place {
            role,
            listen: SocketAddr::from(([127, 0, 0, 1], 1001)),
            to: SocketAddr::from(([127, 0, 0, 1], 1002)),
            connections_max: 1000,
            folder: Path::new("/certificates"),
        };
        let text = text(contestant, &place);
        for word in expected {
            assert!(text.contains(word), "no {word} in {text}");
        }
        for word in absent {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn a_plain_hop_has_both_addresses_and_no_tls() {
        for contestant in [Contestant::Leno, Contestant::Haproxy, Contestant::Nginx] {
            let both = ["127.0.0.1:1001", "127.0.0.1:1002"];
            check(contestant, Role::Plain, &both, &["ca.pem", "ssl"]);
        }
        let ports = ["port_value: 1001", "port_value: 1002"];
        check(Contestant::Envoy, Role::Plain, &ports, &["ca.pem", "tls"]);
    }

    #[test]
    fn both_sides_of_a_mesh_hop_show_and_check_certificates() {
        for (role, name) in [(Role::ClientSide, "client"), (Role::ServerSide, "server")] {
            check(
                Contestant::Leno,
                role,
                &["ca.pem", &format!("{name}.key")],
                &[],
            );
            for contestant in [Contestant::Nginx, Contestant::Envoy] {
                check(contestant, role, &["/ca.pem", &format!("/{name}.key")], &[]);
            }
            check(
                Contestant::Haproxy,
                role,
                &["verify required", &format!("/{name}.both")],
                &[],
            );
        }
    }

    #[test]
    fn yaml_configurations_parse() {
        for contestant in [Contestant::Leno, Contestant::Envoy] {
            for role in [Role::Plain, Role::ClientSide, Role::ServerSide] {
                let place = Place {
                    role,
                    listen: SocketAddr::from(([127, 0, 0, 1], 1)),
                    to: SocketAddr::from(([127, 0, 0, 1], 2)),
                    connections_max: 1,
                    folder: Path::new("/"),
                };
                let text = text(contestant, &place);
                let parsed = serde_yaml_ng::from_str::<serde_yaml_ng::Value>(&text);
                assert!(parsed.is_ok(), "{parsed:?} in {text}");
            }
        }
    }
}
